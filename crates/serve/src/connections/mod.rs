//! Connections: how many there may be, who must leave when there are too many, and how long they may keep us waiting.

mod body;
mod door;
mod queue;
mod registry;
mod stream;

use crate::App;
use crate::error::Error;
use crate::peer::Peer;
use axum::Router;
use axum::http::{HeaderValue, header};
use body::Watched;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use queue::Queue;
use registry::{Connection, Registry, Seat};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stream::Stream;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::MissedTickBehavior;
use tower::ServiceExt;

/// Bytes of the head of a request beyond which no more is read. The guard is stricter. As many bytes of answers may wait for
/// a client that does not read, beside [`SEND_BUFFER`].
const MAX_HEAD: usize = 48 << 10;
/// Most header lines of a request.
const MAX_HEADER_LINES: usize = 64;
/// Bytes of answers that the system keeps for a client that does not read.
const SEND_BUFFER: u32 = 256 << 10;
/// Connections that wait to be taken.
const BACKLOG: u32 = 4096;
/// Connections that wait for a seat.
const MOST_WAITING: usize = 256;
/// File handles for everything that has no seat.
const OTHER_FILES: u64 = 128 + MOST_WAITING as u64;
/// When to look again.
const SOON: Duration = Duration::from_millis(10);
/// How long a seat is looked for before a connection is refused.
const SEAT_TIME: Duration = Duration::from_millis(200);
/// How long connections are still taken after the server was told to stop: clients that were on their way get an answer.
const LINGER: Duration = Duration::from_millis(300);
/// How long those who have begun to connect may take to finish, after nobody else may begin: a way around the world and back.
const HANDSHAKE: Duration = Duration::from_millis(300);

/// Listens on an address.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for connections of the last run to be forgotten.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.set_send_buffer_size(SEND_BUFFER)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| Error::Listen { address, source })
}

/// All that serves a connection.
#[derive(Clone)]
struct Host {
    http: http1::Builder,
    routes: Router,
    write_timeout: Duration,
    /// Set when the server is about to stop: every answer is the last of its connection.
    closing: Arc<AtomicBool>,
}

/// Answers until `stop`, then finishes what is under way, as long as the grace lasts.
pub(crate) async fn serve(
    listener: TcpListener,
    app: &Arc<App>,
    routes: Router,
    stop: impl Future<Output = ()>,
) {
    let limits = app.limits;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.read_timeout)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADER_LINES);
    let closing = Arc::new(AtomicBool::new(false));
    let host = Host { http, routes, write_timeout: limits.write_timeout, closing };
    let most = limits.max_connections.min(file_handles(limits.max_connections));
    let registry = Arc::new(Registry::new(most, limits.max_peer_connections));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    let mut hall = Hall {
        app,
        host: &host,
        registry: &registry,
        graceful: &graceful,
        waiting: Queue::new(MOST_WAITING),
    };
    hall.take_until(&mut stop, &listener).await;
    host.closing.store(true, Ordering::Relaxed);
    hall.take_until(tokio::time::sleep(LINGER), &listener).await;
    door::shut(&listener);
    hall.take_until(tokio::time::sleep(HANDSHAKE), &listener).await;
    // Those that the system has taken for us already, asked of the system itself: the runtime may not know of them yet.
    if let Ok(listener) = listener.into_std() {
        while let Ok((stream, peer)) = listener.accept() {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            hall.take(stream.map(|stream| (stream, peer))).await;
        }
    }
    while !hall.waiting.is_empty() {
        tokio::time::sleep(SOON).await;
        hall.seat_waiting();
    }
    // Nobody whose request may be on its way is closed: it is looked for first.
    let since = Instant::now();
    while registry.someone_is_new() && since.elapsed() < limits.shutdown_grace {
        tokio::time::sleep(SOON).await;
    }
    // What outlives the grace is given up.
    let _ = tokio::time::timeout(limits.shutdown_grace, graceful.shutdown()).await;
}

/// Where connections come in. Who finds no seat waits here, and keeps nobody else from coming in.
struct Hall<'a> {
    app: &'a App,
    host: &'a Host,
    registry: &'a Arc<Registry>,
    graceful: &'a GracefulShutdown,
    waiting: Queue<TcpStream>,
}

impl Hall<'_> {
    /// Takes connections until `end`.
    async fn take_until(&mut self, end: impl Future<Output = ()>, listener: &TcpListener) {
        let mut end = std::pin::pin!(end);
        let mut tick = tokio::time::interval(SOON);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut end => break,
                // Where too many wait whose seats are about to be free, the system keeps those who come for this moment.
                accepted = listener.accept(), if !self.waiting.is_full() => self.take(accepted).await,
                _ = tick.tick(), if !self.waiting.is_empty() => self.seat_waiting(),
            }
        }
    }

    async fn take(&mut self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        let Ok((stream, address)) = accepted else {
            // Out of file handles, or a connection that went away: others may do better in a moment.
            self.registry.make_room();
            return tokio::time::sleep(SOON).await;
        };
        let peer = Peer::of(address.ip());
        // Those of this client who came before are first.
        if !self.waiting.has(peer)
            && let Some(seat) = self.registry.admit(peer)
        {
            return self.host.open(stream, seat, self.graceful);
        }
        // Many came at once, and nobody has looked for their requests yet.
        self.waiting.push(peer, stream, Instant::now() + SEAT_TIME);
        // A client all of whose seats are worked for gets none soon.
        if self.waiting.is_full()
            && let Some(busiest) = self.waiting.busiest()
            && self.registry.all_at_work(busiest)
            && let Some(refused) = self.waiting.pop(busiest)
        {
            self.refuse(&refused);
        }
    }

    /// Gives seats to those who wait, client by client; refuses who has waited too long.
    fn seat_waiting(&mut self) {
        for peer in self.waiting.peers() {
            while self.waiting.has(peer)
                && let Some(seat) = self.registry.admit(peer)
                && let Some(stream) = self.waiting.pop(peer)
            {
                self.host.open(stream, seat, self.graceful);
            }
        }
        for refused in self.waiting.late(Instant::now()) {
            self.refuse(&refused);
        }
    }

    fn refuse(&self, stream: &TcpStream) {
        self.app.metrics.refused.fetch_add(1, Ordering::Relaxed);
        // One attempt: who cannot take it at once gets a closed connection.
        let _ = stream.try_write(stream::BUSY);
    }
}

impl Host {
    /// Serves a connection on a task of its own.
    fn open(&self, stream: TcpStream, seat: Seat, graceful: &GracefulShutdown) {
        // Answers are small: they must not wait for more.
        let _ = stream.set_nodelay(true);
        let connection = seat.connection();
        let io = TokioIo::new(Stream::new(stream, connection.clone(), self.write_timeout));
        let (host, of) = (self.clone(), connection.clone());
        let service = service_fn(move |request| host.clone().answer(request, of.clone()));
        let served = graceful.watch(self.http.serve_connection(io, service));
        let task = tokio::spawn(async move {
            // A connection that breaks concerns only its client.
            let _ = served.await;
            drop(seat);
        });
        connection.may_be_ended_by(task.abort_handle());
    }

    async fn answer(
        self,
        request: hyper::Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Result<axum::response::Response, std::convert::Infallible> {
        let mut request = request.map(|body| axum::body::Body::new(Watched::new(body, connection.clone())));
        request.extensions_mut().insert(connection.peer());
        let mut response = self.routes.oneshot(request).await?;
        if connection.answered() > 0 {
            // Who sends many requests at once waits for others between them.
            tokio::task::yield_now().await;
        }
        if self.closing.load(Ordering::Relaxed) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

/// How many connections the system's limit on file handles allows; it is raised towards `wanted` where it may be.
#[cfg(unix)]
fn file_handles(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = wanted as u64 + OTHER_FILES;
    let raised = needed.min(maximum.unwrap_or(u64::MAX));
    let now = match current {
        None => return wanted,
        Some(now) if now >= raised => now,
        Some(now) => match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
            Ok(()) => raised,
            Err(_) => now,
        },
    };
    now.saturating_sub(OTHER_FILES).max(1) as usize
}

#[cfg(not(unix))]
fn file_handles(wanted: usize) -> usize {
    wanted
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::options::Limits;
    use crate::{answers, guard, metrics, room, store, work};
    use axum::routing::get;
    use std::io::{Read, Write};

    /// An application without models and tasks.
    fn app(limits: Limits) -> Arc<App> {
        Arc::new(App {
            models: Vec::new(),
            choose: false,
            tasks: store::Tasks::open(None, &limits, &[]).unwrap().0,
            limits,
            work: work::Work::new(&limits).unwrap(),
            bodies: room::Room::new(limits.body_budget),
            answers: answers::AnswerMemory::new(limits.max_answer, limits.answer_budget),
            intake: siskin_adapt::Intake::new(limits.max_pixels, limits.decode_budget),
            metrics: metrics::Metrics::default(),
            guard: guard::Guard::new(None),
            complain: Box::new(|_| ()),
        })
    }

    async fn connect(from: &str, to: SocketAddr) -> std::net::TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(from.parse().unwrap()).unwrap();
        let stream = socket.connect(to).await.unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream
    }

    /// Were they refused one after the other, it would take twelve seconds.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_knocks_at_a_full_house_keeps_no_other_out() {
        let app = app(Limits { max_peer_connections: 4, ..Limits::default() });
        let routes = Router::new()
            .route("/slow", get(std::future::pending::<()>))
            .route("/fast", get(async || "fast"));
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { serve(listener, &app, routes, std::future::pending()).await });
        let mut held = Vec::new();
        for _ in 0..4 {
            let mut stream = connect("127.0.0.1:0", address).await;
            stream.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            held.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begun = Instant::now();
        for _ in 0..60 {
            held.push(connect("127.0.0.1:0", address).await);
        }
        let mut other = connect("127.0.0.2:0", address).await;
        other.write_all(b"GET /fast HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("fast"), "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
        // Those that knocked are refused in words.
        let mut refused = String::new();
        held.last_mut().unwrap().read_to_string(&mut refused).unwrap();
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    }
}
