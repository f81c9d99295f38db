//! What there is: the API's description, models, tasks, counters.

use super::{Id, Shared, id};
use crate::App;
use crate::error::Reply;
use crate::store::Entry;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use siskin_adapt::Model;

/// The description of the API.
pub(crate) async fn openapi() -> Response {
    let mut response = include_str!("../openapi.json").into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Whether it lives.
pub(crate) async fn health() -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}

/// Counters.
pub(crate) async fn metrics(State(app): Shared) -> Response {
    let mut response = app.metrics.text(app.tasks.len()).into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// All models.
pub(crate) async fn models(State(app): Shared) -> Json<Value> {
    Json(json!({ "models": app.models.iter().map(about_model).collect::<Vec<_>>() }))
}

fn about_model(model: &Model) -> Value {
    let (size, channels) = model.input();
    let image = json!({"size": size, "channels": channels});
    // An added network was not trained or measured here.
    let Ok(card) = model.card() else {
        return json!({"name": model.name(), "hash": model.hash(), "image": image, "validation": [], "added": true});
    };
    json!({
        "name": card.name,
        "hash": model.hash(),
        "image": image,
        "trained_episodes": card.episodes,
        "data": card.data,
        "test": card.test,
        "temperature": card.temperature,
        "validation": card.validation.iter().map(|shape| json!({
            "way": shape.way, "shot": shape.shot, "queries": shape.queries,
            "novelty_score": shape.novelty.name, "novelty_auroc": shape.novelty.auroc,
        })).collect::<Vec<_>>(),
    })
}

/// All tasks.
pub(crate) async fn list(State(app): Shared) -> Json<Value> {
    Json(json!({ "tasks": app.tasks.all().iter().map(|entry| about_task(&app, entry)).collect::<Vec<_>>() }))
}

/// One task.
pub(crate) async fn show(State(app): Shared, path: Id) -> Reply<Json<Value>> {
    Ok(Json(about_task(&app, &*app.tasks.get(&id(path)?)?)))
}

pub(super) fn about_task(app: &App, entry: &Entry) -> Value {
    let (task, known) = (&entry.task, entry.task.calibration());
    let count = |c: usize| task.labels().iter().filter(|&&label| label == c).count();
    let classes = task.classes().iter().enumerate();
    json!({
        "id": entry.id,
        "name": task.title(),
        "model": app.models[entry.model].name(),
        "kept": entry.kept,
        "created": entry.created,
        "classes": classes.map(|(c, name)| json!({"name": name, "examples": count(c)})).collect::<Vec<_>>(),
        "calibration": {
            "temperature": known.temperature,
            "caution": known.caution,
            "validation": known.validation.as_ref().map(|shape| json!({
                "way": shape.way, "shot": shape.shot, "queries": shape.queries,
            })),
            "left_out": known.left_out.as_ref().map(|left_out| json!({
                "right": left_out.right, "of": left_out.of, "expected": left_out.expected,
            })),
            "contradicted": known.contradicted(),
            "other_kind": known.other_kind,
            "summary": known.sentence(),
        },
    })
}

/// Forgets a task.
pub(crate) async fn delete(State(app): Shared, path: Id) -> Reply<StatusCode> {
    let (shared, id) = (app.clone(), id(path)?);
    app.work.job(0.0).turn(move |_| shared.tasks.delete(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
