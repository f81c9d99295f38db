//! The server itself: start, connections, stop.

use crate::answers::{self, AnswerMemory};
use crate::error::{Error, Result};
use crate::{
    App, connections, guard, handlers, metrics, options::Options, page, room::Room, store::Tasks, work::Work,
};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use siskin_adapt::foreign::Registry;
use siskin_adapt::{Intake, Model};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

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
    /// Checks the options, loads models and tasks, and listens. `complain` is told of what fails on our side later.
    pub async fn bind(options: &Options, complain: impl Fn(&str) + Send + Sync + 'static) -> Result<Server> {
        let address = options.address;
        if options.token.is_none() && !address.ip().is_loopback() {
            return Err(Error::TokenNeeded { address });
        }
        let models = options.models.iter().map(|name| {
            let model = Model::open_on(name, options.device)?;
            // A model that no task can be made with is refused now, not at the first task.
            model.head()?;
            Ok(model)
        });
        let mut models = models.collect::<siskin_adapt::Result<Vec<Model>>>()?;
        let mut left_out = Vec::new();
        for name in options.offered.iter().filter(|name| !options.models.contains(name)) {
            let registry = Registry::default_folder();
            match registry.map(|registry| Model::added_later(&registry, name)) {
                Some(Ok(model)) => models.push(model),
                Some(Err(why)) => left_out.push(format!("{name} is not offered: {why}")),
                None => {}
            }
        }
        let (tasks, mut notes) = Tasks::open(options.state.clone(), &options.limits, &models)?;
        notes.extend(left_out);
        notes.extend(models.iter().filter_map(Model::notice));
        let app = App {
            models,
            choose: options.choose,
            tasks,
            limits: options.limits,
            work: Work::new(&options.limits).map_err(Error::Runtime)?,
            bodies: Room::new(options.limits.body_budget.max(options.limits.max_body)),
            answers: AnswerMemory::new(options.limits.max_answer, options.limits.answer_budget),
            intake: Intake::new(options.limits.max_pixels, options.limits.decode_budget),
            metrics: metrics::Metrics::default(),
            guard: guard::Guard::new(options.token.as_deref()),
            complain: Box::new(complain),
        };
        let listener = connections::listen(address)?;
        Ok(Server { listener, app: Arc::new(app), notes })
    }

    /// What to tell people.
    pub fn ready(&self) -> Result<Ready> {
        Ok(Ready {
            address: self.listener.local_addr().map_err(Error::Runtime)?,
            models: self.app.models.iter().map(|m| m.name().to_owned()).collect(),
            tasks: self.app.tasks.len(),
            notes: self.notes.clone(),
        })
    }

    /// Answers until `stop`, then finishes what is under way, as long as the grace lasts.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let routes = routes(self.app.clone());
        connections::serve(self.listener, &self.app, routes, stop).await;
    }
}

fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page::show))
        .route("/photos.jpg", get(page::photos))
        .route("/openapi.json", get(handlers::openapi))
        .route("/health", get(handlers::health))
        .route("/metrics", get(handlers::metrics))
        .route("/v1/models", get(handlers::models))
        .route("/v1/tasks", get(handlers::list).post(handlers::create))
        .route("/v1/tasks/{id}", get(handlers::show))
        .route("/v1/tasks/{id}", delete(handlers::delete))
        .route("/v1/tasks/{id}/examples", get(handlers::examples_of).post(handlers::add))
        .route("/v1/tasks/{id}/examples/{index}", delete(handlers::remove_example))
        .route("/v1/tasks/{id}/classes/{class}", delete(handlers::remove_class))
        .route("/v1/tasks/{id}/predict", post(handlers::predict))
        .route("/v1/tasks/{id}/suggest", post(handlers::suggest))
        .fallback(handlers::not_found)
        .method_not_allowed_fallback(handlers::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), answers::layer))
        .layer(from_fn_with_state(app.clone(), metrics::layer))
        .layer(from_fn_with_state(app.clone(), guard::layer))
        .with_state(app)
}

/// Serves until `stop`. `ready` is called once the server listens, `complain` with what fails on our side later.
pub fn run<S: Future<Output = ()>>(
    options: &Options,
    stop: impl FnOnce() -> std::io::Result<S>,
    ready: impl FnOnce(&Ready),
    complain: impl Fn(&str) + Send + Sync + 'static,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    runtime.block_on(async {
        let server = Server::bind(options, complain).await?;
        let stop = stop().map_err(Error::Runtime)?;
        ready(&server.ready()?);
        server.serve(stop).await;
        Ok::<(), Error>(())
    })?;
    // Work that outlived the grace is not waited for.
    runtime.shutdown_background();
    Ok(())
}
