//! Connections: how many there may be, who must leave when there are too many, and how long they may keep us waiting.

mod body;
mod door;
mod registry;
mod stream;

use crate::App;
use crate::error::Error;
use axum::Router;
use axum::http::{HeaderValue, header};
use body::Watched;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use registry::{Connection, Registry, Seat};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stream::Stream;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
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
/// File handles for everything that is no connection.
const OTHER_FILES: u64 = 128;
/// When to look again.
const SOON: Duration = Duration::from_millis(10);
/// How often a seat is looked for before a connection is refused.
const SEAT_TRIES: usize = 20;
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
    let hall = Hall { app, host: &host, registry: &registry, graceful: &graceful };
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => hall.take(accepted).await,
        }
    }
    host.closing.store(true, Ordering::Relaxed);
    hall.take_for(LINGER, &listener).await;
    door::shut(&listener);
    hall.take_for(HANDSHAKE, &listener).await;
    // Those that the system has taken for us already, asked of the system itself: the runtime may not know of them yet.
    if let Ok(listener) = listener.into_std() {
        while let Ok((stream, peer)) = listener.accept() {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            hall.take(stream.map(|stream| (stream, peer))).await;
        }
    }
    // Nobody whose request may be on its way is closed: it is looked for first.
    let since = Instant::now();
    while registry.someone_is_new() && since.elapsed() < limits.shutdown_grace {
        tokio::time::sleep(SOON).await;
    }
    // What outlives the grace is given up.
    let _ = tokio::time::timeout(limits.shutdown_grace, graceful.shutdown()).await;
}

/// Where connections come in.
struct Hall<'a> {
    app: &'a App,
    host: &'a Host,
    registry: &'a Arc<Registry>,
    graceful: &'a GracefulShutdown,
}

impl Hall<'_> {
    async fn take_for(&self, time: Duration, listener: &TcpListener) {
        let mut last = std::pin::pin!(tokio::time::sleep(time));
        loop {
            tokio::select! {
                () = &mut last => break,
                accepted = listener.accept() => self.take(accepted).await,
            }
        }
    }

    async fn take(&self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        let Ok((stream, peer)) = accepted else {
            // Out of file handles, or a connection that went away: others may do better in a moment.
            self.registry.make_room();
            return tokio::time::sleep(SOON).await;
        };
        for _ in 0..SEAT_TRIES {
            if let Some(seat) = self.registry.admit(peer.ip()) {
                return self.host.open(stream, seat, self.graceful);
            }
            // Many came at once, and nobody has looked for their requests yet.
            tokio::time::sleep(SOON).await;
        }
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
        let request = request.map(|body| axum::body::Body::new(Watched::new(body, connection.clone())));
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
