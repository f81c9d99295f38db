//! What there is: the API's description, models, tasks, counters.

use super::{Id, Shared, id};
use crate::App;
use crate::answers::{LongAnswer, joined};
use crate::error::Reply;
use crate::peer::Peer;
use crate::store::Entry;
use crate::task::ServedTask;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use siskin_adapt::{Model, TaskCalibration};

/// Tasks of a list that are told of in a turn.
const TASKS_A_TURN: usize = 50;
/// Seconds for a byte of JSON that is made of values, roughly.
const BYTE_SECONDS: f64 = 2e-8;

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
    let models: Vec<Value> = app.models.iter().map(about_model).collect();
    Json(json!({ "models": models, "chosen_by_looks": app.choose }))
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

/// All tasks, some in a turn: there may be many, with many classes.
pub(crate) async fn list(State(app): Shared, peer: Peer) -> Reply<LongAnswer> {
    let all = app.tasks.all();
    let room = app.answers.claim(all.iter().map(|entry| about_bytes(entry)).sum()).await?;
    let mut job =
        app.work.job(peer, all.iter().map(|entry| about_bytes(entry)).sum::<usize>() as f64 * BYTE_SECONDS);
    let mut parts = vec![b"{\"tasks\":[".to_vec()];
    for (i, some) in all.chunks(TASKS_A_TURN).enumerate() {
        let (app, some) = (app.clone(), some.to_vec());
        if i > 0 {
            parts.push(b",".to_vec());
        }
        parts.push(job.turn(move |_| joined(some.iter().map(|entry| about_task(&app, entry)))).await?);
    }
    parts.push(b"]}".to_vec());
    Ok(LongAnswer { parts, room })
}

/// Bytes of what is told of a task, at most.
fn about_bytes(entry: &Entry) -> usize {
    let classes: usize = entry.task.classes().iter().map(|(name, _)| 2 * name.len() + 60).sum();
    classes + 2 * entry.task.title().len() + 2_000
}

/// One task.
pub(crate) async fn show(State(app): Shared, path: Id) -> Reply<Json<Value>> {
    Ok(Json(about_task(&app, &*app.tasks.get(&id(path)?)?)))
}

pub(super) fn about_task(app: &App, entry: &Entry) -> Value {
    let classes = entry.task.classes().into_iter();
    let mut about = json!({
        "id": entry.id,
        "name": entry.task.title(),
        "model": app.models[entry.model].name(),
        "kept": entry.kept,
        "created": entry.created,
        "classes": classes.map(|(name, count)| json!({"name": name, "examples": count})).collect::<Vec<_>>(),
    });
    match &entry.task {
        ServedTask::OneClass(task) => about["calibration"] = about_calibration(task.calibration()),
        ServedTask::Sets(task) => {
            about["label_sets"] = true.into();
            about["examples"] = task.examples().into();
        }
    }
    about
}

fn about_calibration(known: &TaskCalibration) -> Value {
    json!({
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
        "unlike": known.unlike,
        "summary": known.sentence(),
    })
}

/// Forgets a task.
pub(crate) async fn delete(State(app): Shared, peer: Peer, path: Id) -> Reply<StatusCode> {
    let (shared, id) = (app.clone(), id(path)?);
    app.work.job(peer, 0.0).turn(move |_| shared.tasks.delete(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
