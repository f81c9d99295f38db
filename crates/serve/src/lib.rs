//! An HTTP server for few-shot tasks, and the web page it serves.
//!
//! `POST /v1/tasks` takes labelled images and answers with a task; `POST /v1/tasks/{id}/predict` takes images and
//! answers with calibrated probabilities. `/openapi.json` describes everything.
//!
//! Memory is bounded: bodies by [`Limits::max_body`] each and [`Limits::body_budget`] together, images by their pixels
//! ([`Limits::max_pixels`], [`Limits::request_pixels`]) and by [`Limits::decode_budget`] together, fits by [`Limits::fit`], tasks by
//! their number and [`Limits::task_memory`], answers by [`Limits::max_answer`] each and [`Limits::answer_budget`] together, connections by
//! their number.
//!
//! | question | file |
//! | --- | --- |
//! | Who may connect, and who must leave? | `connections/` |
//! | Who may ask? | `guard.rs`, `origin.rs` |
//! | How does a body come in? | `body.rs`, `room.rs` |
//! | Who works when? | `work.rs`, `lanes.rs` |
//! | How much may answers take? | `answers.rs` |
//! | What is answered? | `handlers/` |
//! | Where are the tasks? | `store.rs` |

mod answers;
mod body;
mod connections;
mod error;
mod guard;
mod handlers;
mod lanes;
mod metrics;
mod options;
mod origin;
mod page;
mod peer;
mod room;
mod server;
mod store;
mod task;
mod work;

#[doc(hidden)]
pub mod fuzzing;

pub use error::{Error, Result};
pub use options::{Limits, Options};
pub use server::{Ready, Server, run};

/// What every handler sees.
struct App {
    models: Vec<siskin_adapt::Model>,
    /// Whether tasks that name no model get one by what their images look like.
    choose: bool,
    tasks: store::Tasks,
    limits: Limits,
    work: work::Work,
    bodies: std::sync::Arc<room::Room>,
    answers: answers::AnswerMemory,
    intake: siskin_adapt::Intake,
    metrics: metrics::Metrics,
    guard: guard::Guard,
    /// Told of what failed on our side, which clients are not told.
    complain: Box<dyn Fn(&str) + Send + Sync>,
}
