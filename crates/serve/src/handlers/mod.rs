//! What the routes do.

mod about;
mod change;
mod create;
mod images;
mod predict;
mod suggest;

pub(crate) use about::{delete, health, list, metrics, models, openapi, show};
pub(crate) use change::{add, examples_of, images_of_more, remove_class, remove_example};
pub(crate) use create::{create, images_of_task};
pub(crate) use predict::{images_of_question, predict};
pub(crate) use suggest::{images_of_pool, suggest};

use crate::App;
use crate::error::{Refusal, Reply};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::sync::Arc;

type Shared = State<Arc<App>>;
/// The id in a path, which may be no text.
type Id = Result<Path<String>, PathRejection>;

fn id(id: Id) -> Reply<String> {
    id.map(|Path(id)| id).map_err(|e| Refusal::bad(e.body_text()))
}

/// A path of ours, with a method that it does not take.
pub(crate) async fn method_not_allowed() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method; see /openapi.json")
}

/// A path that is none of ours.
pub(crate) async fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is nothing here; see /openapi.json")
}
