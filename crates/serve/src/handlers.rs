//! What the routes do.

use crate::App;
use crate::body::{self, Encoded, Kind, Part, Read};
use crate::error::{Answer, Refusal};
use crate::store::Entry;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use siskin_app::{Example, Model, Row, Rules, Support, Task, View};
use siskin_data::image::decode::claim;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Shared = State<Arc<App>>;

/// The description of the API.
pub async fn openapi() -> Response {
    let mut response = include_str!("openapi.json").into_response();
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
pub async fn show(State(app): Shared, Path(id): Path<String>) -> Answer<Json<Value>> {
    Ok(Json(about_task(&app, &*app.tasks.get(&id)?)))
}

fn about_task(app: &App, entry: &Entry) -> Value {
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
            "said": task.calibration().said(),
        },
    })
}

/// Forgets a task.
pub async fn delete(State(app): Shared, Path(id): Path<String>) -> Answer<StatusCode> {
    let shared = app.clone();
    app.work.run(move |_| shared.tasks.delete(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How a task is made, beside its images.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSettings {
    model: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default = "yes")]
    keep: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskBody {
    model: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default = "yes")]
    keep: bool,
    classes: Vec<ClassBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassBody {
    name: String,
    images: Vec<Encoded>,
}

/// A labelled image that is not decoded yet.
struct Given {
    name: String,
    class: usize,
    bytes: Bytes,
}

/// Makes a task.
pub async fn create(
    State(app): Shared,
    settings: Result<Query<TaskSettings>, QueryRejection>,
    request: Request,
) -> Answer<Response> {
    let Query(settings) = settings.map_err(|e| Refusal::bad(e.body_text()))?;
    let read = body::read(&app, request).await?;
    let (settings, classes, given) = match body::kind(&read.headers)? {
        Kind::Image => {
            return Err(Refusal::bad("a task needs images of at least two classes: send JSON or a form"));
        }
        Kind::Json => task_json(&read)?,
        Kind::Multipart(boundary) => {
            let (classes, given) = task_form(&app, &read, &boundary).await?;
            (settings, classes, given)
        }
    };
    let model = match &settings.model {
        None => 0,
        Some(name) => {
            let found = app.models.iter().position(|m| m.card().name == *name || m.hash() == name);
            found.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("there is no model `{name}`")))?
        }
    };
    check_images(&app, given.iter().map(|g| &g.bytes))?;
    let shared = app.clone();
    let made = app.work.run(move |late| {
        let _room = read.room;
        let network = &shared.models[model];
        let examples = given.into_iter().map(|g| {
            let view = view(&shared, network, &g.bytes, late)?;
            let view = view.map_err(|why| Refusal::bad(format!("{}: {why}", g.name)))?;
            Ok(Example { name: g.name, class: g.class, view })
        });
        let support = Support::new(classes, examples.collect::<Answer<Vec<_>>>()?)?;
        let task = Task::adapt_until(network, &support, &settings.name, late)?;
        // Nobody would learn its name.
        stop_if(late)?;
        let mismatch = network.mismatch(support.examples().iter().map(|e| &e.view.look));
        Ok((shared.tasks.add(task, model, settings.keep)?, mismatch))
    });
    let (entry, mismatch) = made.await?;
    let mut about = about_task(&app, &entry);
    about["warnings"] = warnings(mismatch);
    let mut response = (StatusCode::CREATED, Json(about)).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/tasks/{}", entry.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

fn task_json(read: &Read) -> Answer<(TaskSettings, Vec<String>, Vec<Given>)> {
    let TaskBody { model, name, keep, classes } = body::json(&read.bytes)?;
    let mut given = Vec::new();
    for (class, ClassBody { name, images }) in classes.iter().enumerate() {
        for (i, image) in images.iter().enumerate() {
            given.push(Given { name: format!("{name} {}", i + 1), class, bytes: image.bytes()? });
        }
    }
    let names = classes.into_iter().map(|class| class.name).collect();
    Ok((TaskSettings { model, name, keep }, names, given))
}

/// The name of a field is the class of its image.
async fn task_form(app: &App, read: &Read, boundary: &str) -> Answer<(Vec<String>, Vec<Given>)> {
    let mut classes: Vec<String> = Vec::new();
    let mut given = Vec::new();
    for Part { field, file, bytes } in
        body::parts(read.bytes.clone(), boundary, app.limits.max_images).await?
    {
        let class = classes.iter().position(|name| *name == field).unwrap_or(classes.len());
        if class == classes.len() {
            classes.push(field.clone());
        }
        given.push(Given {
            name: file.unwrap_or_else(|| format!("{field} {}", given.len() + 1)),
            class,
            bytes,
        });
    }
    Ok((classes, given))
}

/// The rules of a prediction.
#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    #[serde(default = "level")]
    level: f64,
    #[serde(default = "abstain")]
    abstain: f64,
    #[serde(default)]
    min_probability: f64,
    #[serde(default)]
    explain: usize,
}

fn level() -> f64 {
    Rules::default().level
}

fn abstain() -> f64 {
    Rules::default().abstain.unwrap_or(0.0)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PredictBody {
    images: Vec<Encoded>,
    #[serde(default = "level")]
    level: f64,
    #[serde(default = "abstain")]
    abstain: f64,
    #[serde(default)]
    min_probability: f64,
    #[serde(default)]
    explain: usize,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said {
    Row(Row),
    Error { error: String },
}

/// Answers for images.
pub async fn predict(
    State(app): Shared,
    Path(id): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
    request: Request,
) -> Answer<Json<Value>> {
    let Query(asked) = asked.map_err(|e| Refusal::bad(e.body_text()))?;
    let entry = app.tasks.get(&id)?;
    let read = body::read(&app, request).await?;
    let (asked, images) = images(&app, &read.headers, read.bytes.clone(), asked).await?;
    check_images(&app, images.iter())?;
    let abstain = Some(asked.abstain).filter(|rate| *rate != 0.0);
    let rules = Rules { level: asked.level, abstain, min_probability: asked.min_probability };
    let ruling = entry.task.rules(&rules)?;
    let notes = ruling.notes().to_vec();
    let shared = app.clone();
    let answered = app.work.run(move |late| {
        let _room = read.room;
        let model = &shared.models[entry.model];
        let views = images.iter().map(|bytes| view(&shared, model, bytes, late));
        let views = views.collect::<Answer<Vec<Result<View, String>>>>()?;
        let good: Vec<&View> = views.iter().filter_map(|view| view.as_ref().ok()).collect();
        let mismatch = model.mismatch(good.iter().map(|view| &view.look));
        shared.metrics.predictions.fetch_add(good.len() as u64, Ordering::Relaxed);
        shared.metrics.bad_images.fetch_add((views.len() - good.len()) as u64, Ordering::Relaxed);
        let mut rows = match good.is_empty() {
            true => Vec::new(),
            false => entry.task.rows(&model.embed(good)?, &ruling, asked.explain)?,
        }
        .into_iter();
        let said = |view: Result<View, String>| match view {
            Err(error) => Said::Error { error },
            Ok(_) => rows.next().map_or(Said::Error { error: "no answer came".into() }, Said::Row),
        };
        Ok((views.into_iter().map(said).collect::<Vec<_>>(), mismatch))
    });
    let (predictions, mismatch) = answered.await?;
    Ok(Json(json!({
        "task": id, "predictions": predictions, "notes": notes, "warnings": warnings(mismatch),
    })))
}

async fn images(app: &App, headers: &HeaderMap, bytes: Bytes, asked: Asked) -> Answer<(Asked, Vec<Bytes>)> {
    match body::kind(headers)? {
        Kind::Image => Ok((asked, vec![bytes])),
        Kind::Json => {
            let PredictBody { images, level, abstain, min_probability, explain } = body::json(&bytes)?;
            let asked = Asked { level, abstain, min_probability, explain };
            Ok((asked, images.iter().map(Encoded::bytes).collect::<Answer<_>>()?))
        }
        Kind::Multipart(boundary) => {
            let parts = body::parts(bytes, &boundary, app.limits.max_images).await?;
            Ok((asked, parts.into_iter().map(|part| part.bytes).collect()))
        }
    }
}

/// Refuses a request with too many images, or too many pixels by what their headers claim. What is no image claims none: it
/// is refused when its turn comes.
fn check_images<'a>(app: &App, images: impl ExactSizeIterator<Item = &'a Bytes>) -> Answer<()> {
    let (count, most) = (images.len(), app.limits.max_images);
    if count == 0 {
        return Err(Refusal::bad("there is no image in the request"));
    }
    if count > most {
        return Err(Refusal::bad(format!("{count} images were sent; at most {most} are taken at a time")));
    }
    let (pixels, most) =
        (images.map(|bytes| claim(bytes).map_or(0, |c| c.pixels())).sum::<u64>(), app.limits.request_pixels);
    if pixels > most {
        let why = format!(
            "the images have {} megapixels together, at most {} are taken at a time; send fewer or smaller ones",
            pixels / 1_000_000,
            most / 1_000_000
        );
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(())
}

/// What the network sees of an image, or why nothing; an error of the request once nobody waits for its answer.
fn view(app: &App, model: &Model, bytes: &[u8], late: &AtomicBool) -> Answer<Result<View, String>> {
    stop_if(late)?;
    Ok(app.intake.view(model, bytes).map_err(|fault| format!("{fault}; {}", fault.advice())))
}

fn stop_if(late: &AtomicBool) -> Answer<()> {
    match late.load(Ordering::Relaxed) {
        true => Err(siskin_app::Error::Stopped.into()),
        false => Ok(()),
    }
}

fn warnings(mismatch: Option<siskin_app::Mismatch>) -> Value {
    mismatch.iter().map(ToString::to_string).collect()
}

/// A path of ours, but nothing that can be done with it.
pub async fn not_so() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method; see /openapi.json")
}

/// A path that is none of ours.
pub async fn nowhere() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is nothing here; see /openapi.json")
}
