//! An HTTP server for few-shot tasks, and the web page it serves.
//!
//! `POST /v1/tasks` takes labelled images and answers with a task; `POST /v1/tasks/{id}/predict` takes images and
//! answers with calibrated probabilities. `/openapi.json` describes everything.
//!
//! Memory is bounded: bodies by [`Limits::max_body`] each and [`Limits::body_budget`] together, images by their pixels,
//! tasks by their number; at most one image a core is decoded at a time. Work runs off the threads that serve connections.

mod body;
mod error;
mod guard;
mod handlers;
mod metrics;
mod options;
mod server;
mod store;
mod work;

pub use error::{Error, Result};
pub use options::{Limits, Options};
pub use server::{Ready, Server, run};

/// What every handler sees.
struct App {
    models: Vec<siskin_app::Model>,
    tasks: store::Tasks,
    limits: Limits,
    work: work::Work,
    metrics: metrics::Metrics,
    guard: guard::Guard,
}
