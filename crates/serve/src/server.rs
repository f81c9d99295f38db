//! The server itself: start, connections, stop.

use crate::error::{Error, Result};
use crate::{App, guard, handlers, metrics, options::Options, page, store::Tasks, work::Work};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use siskin_adapt::{Intake, Model};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

/// Bytes of the head of a request beyond which no more is read. The guard is stricter.
const MAX_HEAD: usize = 64 << 10;
/// Most header lines of a request.
const MAX_HEADER_LINES: usize = 64;

/// A server that listens, but does not answer yet.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
    notes: Vec<String>,
}

/// What is known once a server listens.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
    /// Names of its models.
    pub models: Vec<String>,
    /// Tasks found in its folder.
    pub tasks: usize,
    /// Task files that were left out, and why.
    pub notes: Vec<String>,
}

impl Server {
    /// Checks the options, loads models and tasks, and listens.
    pub async fn bind(options: &Options) -> Result<Server> {
        let address = options.address;
        if options.token.is_none() && !address.ip().is_loopback() {
            return Err(Error::TokenNeeded { address });
        }
        let models = options.models.iter().map(|name| Model::open(name));
        let models = models.collect::<siskin_adapt::Result<Vec<Model>>>()?;
        let (tasks, notes) = Tasks::open(options.state.clone(), options.limits.max_tasks, &models)?;
        let app = App {
            models,
            tasks,
            limits: options.limits,
            work: Work::new(&options.limits),
            intake: Intake::new(options.limits.max_pixels, options.limits.decode_budget),
            metrics: metrics::Metrics::default(),
            guard: guard::Guard::new(options.token.as_deref()),
        };
        let listen = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // A restart must not wait for connections of the last run to be forgotten.
            #[cfg(unix)]
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(4096)
        };
        let listener = listen().map_err(|source| Error::Listen { address, source })?;
        Ok(Server { listener, app: Arc::new(app), notes })
    }

    /// What to tell people.
    pub fn ready(&self) -> Result<Ready> {
        Ok(Ready {
            address: self.listener.local_addr().map_err(Error::Runtime)?,
            models: self.app.models.iter().map(|m| m.card().name.clone()).collect(),
            tasks: self.app.tasks.len(),
            notes: self.notes.clone(),
        })
    }

    /// Answers until `stop`, then finishes what is under way, as long as the grace lasts.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let limits = self.app.limits;
        let service = TowerToHyperService::new(routes(self.app));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.read_timeout)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADER_LINES);
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(limits.max_connections));
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let permit = room.clone().acquire_owned().await.ok();
                (self.listener.accept().await, permit)
            };
            let (stream, permit) = tokio::select! {
                () = &mut stop => break,
                (accepted, permit) = accepted => match accepted {
                    Ok((stream, _)) => (stream, permit),
                    Err(_) => {
                        // Out of file handles, or a connection that went away: others may do better in a moment.
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                },
            };
            // Answers are small: they must not wait for more.
            let _ = stream.set_nodelay(true);
            let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service.clone()));
            tokio::spawn(async move {
                // A connection that breaks concerns only its client.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(self.listener);
        let _ = tokio::time::timeout(limits.shutdown_grace, graceful.shutdown()).await;
    }
}

fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page::show))
        .route("/openapi.json", get(handlers::openapi))
        .route("/health", get(handlers::health))
        .route("/metrics", get(handlers::metrics))
        .route("/v1/models", get(handlers::models))
        .route("/v1/tasks", get(handlers::list).post(handlers::create))
        .route("/v1/tasks/{id}", get(handlers::show))
        .route("/v1/tasks/{id}", delete(handlers::delete))
        .route("/v1/tasks/{id}/predict", post(handlers::predict))
        .fallback(handlers::not_found)
        .method_not_allowed_fallback(handlers::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), metrics::layer))
        .layer(from_fn_with_state(app.clone(), guard::layer))
        .with_state(app)
}

/// Serves until Ctrl-C or SIGTERM. `ready` is called once the server listens.
pub fn run(options: &Options, ready: impl FnOnce(&Ready)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    runtime.block_on(async {
        let server = Server::bind(options).await?;
        let stop = stopped()?;
        ready(&server.ready()?);
        server.serve(stop).await;
        Ok::<(), Error>(())
    })?;
    // Work that outlived the grace is not waited for.
    runtime.shutdown_background();
    Ok(())
}

/// Ends with Ctrl-C, or with the signal by which systems stop services.
fn stopped() -> Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut terminate = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate()).map_err(Error::Runtime)?
    };
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    })
}
