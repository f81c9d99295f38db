//! An HTTP server for few-shot tasks, and the web page it serves.
//!
//! `POST /v1/tasks` takes labelled images and answers with a task; `POST /v1/tasks/{id}/predict` takes images and
//! answers with calibrated probabilities. `/openapi.json` describes everything.
//!
//! Memory is bounded: bodies by [`Limits::max_body`] each and [`Limits::body_budget`] together, images by their pixels
//! ([`Limits::max_pixels`], [`Limits::request_pixels`]) and by [`Limits::decode_budget`] together, tasks by their number.
//! At most one image per core is decoded at a time, and only what a network sees of it is kept. Work runs off the threads that serve connections.

mod body;
mod error;
mod guard;
mod handlers;
mod metrics;
mod options;
mod page;
mod server;
mod store;
mod work;

pub use error::{Error, Result};
pub use options::{Limits, Options};
pub use server::{Ready, Server, run};

/// What every handler sees.
struct App {
    models: Vec<siskin_adapt::Model>,
    tasks: store::Tasks,
    limits: Limits,
    work: work::Work,
    intake: siskin_adapt::Intake,
    metrics: metrics::Metrics,
    guard: guard::Guard,
}
