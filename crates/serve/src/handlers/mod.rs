//! What the routes do.

mod about;
mod create;
mod images;
mod predict;

pub use about::{delete, health, list, metrics, models, openapi, show};
pub use create::create;
pub use predict::predict;

use crate::App;
use crate::error::Refusal;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;

type Shared = State<Arc<App>>;

/// A path of ours, with a method that it does not take.
pub async fn method_not_allowed() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method; see /openapi.json")
}

/// A path that is none of ours.
pub async fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is nothing here; see /openapi.json")
}
