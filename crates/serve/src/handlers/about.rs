//! What there is: the API's description, models, tasks, counters.

use super::{Id, Shared, id};
use crate::App;
use crate::error::Answer;
use crate::store::Entry;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use siskin_adapt::Model;

/// The description of the API.
pub async fn openapi() -> Response {
    let mut response = include_str!("../openapi.json").into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Whether it lives.
pub async fn health() -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}

/// Counters.
pub async fn metrics(State(app): Shared) -> Response {
    let mut response = app.metrics.text(app.tasks.len()).into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// All models.
pub async fn models(State(app): Shared) -> Json<Value> {
    Json(json!({ "models": app.models.iter().map(about_model).collect::<Vec<_>>() }))
}

fn about_model(model: &Model) -> Value {
    let (card, (size, channels)) = (model.card(), model.input());
    json!({
        "name": card.name,
        "hash": model.hash(),
        "image": {"size": size, "channels": channels},
        "trained_episodes": card.episodes,
        "data": card.data,
        "test": card.test,
        "validation": card.validation.iter().map(|shape| json!({
            "way": shape.way, "shot": shape.shot, "temperature": shape.temperature.value,
            "novelty_auroc": shape.novelty_auroc,
        })).collect::<Vec<_>>(),
    })
}

/// All tasks.
pub async fn list(State(app): Shared) -> Json<Value> {
    Json(json!({ "tasks": app.tasks.all().iter().map(|entry| about_task(&app, entry)).collect::<Vec<_>>() }))
}

/// One task.
pub async fn show(State(app): Shared, path: Id) -> Answer<Json<Value>> {
    Ok(Json(about_task(&app, &*app.tasks.get(&id(path)?)?)))
}

pub fn about_task(app: &App, entry: &Entry) -> Value {
    let task = &entry.task;
    let count = |c: usize| task.labels().iter().filter(|&&label| label == c).count();
    let classes = task.classes().iter().enumerate();
    json!({
        "id": entry.id,
        "name": task.title(),
        "model": app.models[entry.model].card().name,
        "kept": entry.kept,
        "created": entry.created,
        "classes": classes.map(|(c, name)| json!({"name": name, "examples": count(c)})).collect::<Vec<_>>(),
        "calibration": {
            "temperature": task.calibration().temperature,
            "origin": task.calibration().origin,
            "held_out": task.calibration().held_out.map(|(right, of)| json!({"right": right, "of": of})),
            "said": task.calibration().sentence(),
        },
    })
}

/// Forgets a task.
pub async fn delete(State(app): Shared, path: Id) -> Answer<StatusCode> {
    let (shared, id) = (app.clone(), id(path)?);
    app.work.job(0.0).turn(move |_| shared.tasks.delete(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
