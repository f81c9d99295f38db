//! From labelled images to a task.

use super::Shared;
use super::about::about_task;
use super::images::{Opened, image_seconds, open, stop_if, view, warnings};
use crate::App;
use crate::body::{self, Encoded, Kind, Part, Read};
use crate::error::{Refusal, Reply};
use crate::store::Entry;
use crate::task::ServedTask;
use crate::work::Job;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use siskin_adapt::{
    Example, LabelSetTask, LabelledImages, Mismatch, Model, Shape, TaskClassifier, look_every,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Characters of an example's name that are kept.
const MOST_SHOWN: usize = 200;

/// How a task is made, beside its images.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskSettings {
    model: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default = "yes")]
    keep: bool,
    /// Whether an image that is sent in several classes has all of them.
    #[serde(default)]
    label_sets: bool,
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
    /// Whether an image that is sent in several classes has all of them.
    #[serde(default)]
    label_sets: bool,
    classes: Vec<ClassBody>,
}

/// A class within a JSON body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassBody {
    name: String,
    images: Vec<Encoded>,
}

/// A labelled image that is not decoded yet.
pub(super) struct LabelledImage {
    pub name: String,
    /// Whether the name is ours: the image came without one.
    pub made_up: bool,
    pub class: usize,
    pub bytes: Bytes,
}

/// Makes a task.
pub(crate) async fn create(
    State(app): Shared,
    settings: Result<Query<TaskSettings>, QueryRejection>,
    request: Request,
) -> Reply<Response> {
    let Query(settings) = settings.map_err(|e| Refusal::bad(e.body_text()))?;
    let read = body::read(&app, request).await?;
    let new = match body::kind(&read.headers)? {
        Kind::Image => {
            return Err(Refusal::bad("a task needs images of at least two classes: send JSON or a form"));
        }
        Kind::Json => {
            let bytes = read.bytes.clone();
            app.work.job(read.peer, body::seconds(&bytes)).turn(move |_| task_json(&bytes)).await?
        }
        Kind::Multipart(boundary) => {
            let (classes, given) = form(&app, &read, boundary).await?;
            NewTask { settings, classes, images: given }
        }
    };
    let named = new.settings.model.as_deref().map(|name| named(&app, name)).transpose()?;
    let mut job = app.work.job(read.peer, 0.0);
    let opened = open(&app, &mut job, new.images.iter().map(|g| g.bytes.clone()).collect()).await?;
    let seconds = fit_seconds(&app, &new)?;
    let model = match named {
        Some(model) => model,
        None if app.choose => suiting(&app, &mut job, &new.images, &opened).await?,
        None => 0,
    };
    job.expect(opened.iter().map(|one| image_seconds(&app.models[model], one)).sum::<f64>() + seconds);
    let (entry, mismatch) = make(&app, &mut job, new, model).await?;
    drop(read.room);
    let mut about = about_task(&app, &entry);
    about["warnings"] = warnings(mismatch);
    let mut response = (StatusCode::CREATED, Json(about)).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/tasks/{}", entry.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Seconds that the fit will take; refuses what is too large.
fn fit_seconds(app: &App, new: &NewTask) -> Reply<f64> {
    let (classes, examples, limits) = (new.classes.len(), new.images.len(), &app.limits.fit);
    if new.settings.label_sets {
        LabelSetTask::check(classes, examples, limits)?;
        return Ok(LabelSetTask::fit_seconds(classes, examples));
    }
    let shape = Shape { classes, examples };
    shape.check(limits)?;
    // The fit, and about as much again for what is left out.
    Ok(2.0 * shape.fit_seconds())
}

/// The place of the model of this name or hash.
fn named(app: &App, name: &str) -> Reply<usize> {
    let found = app.models.iter().position(|m| m.name() == name || m.hash() == name);
    found.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "there is no model of this name"))
}

/// The place of the model that suits what some of the images look like. What is no image is refused when its turn comes.
async fn suiting(
    app: &Arc<App>,
    job: &mut Job<'_>,
    images: &[LabelledImage],
    opened: &[Opened],
) -> Reply<usize> {
    let every = look_every(images.len());
    job.expect(opened.iter().step_by(every).map(|one| image_seconds(&app.models[0], one)).sum());
    let mut looks = Vec::new();
    for image in images.iter().step_by(every) {
        let (app, bytes) = (app.clone(), image.bytes.clone());
        looks.extend(job.turn(move |late| stop_if(late).map(|()| app.intake.look(&bytes).ok())).await?);
    }
    Ok(Model::suiting(&app.models, &looks))
}

/// Decodes the images one after the other, then adapts.
async fn make(
    app: &Arc<App>,
    job: &mut Job<'_>,
    new: NewTask,
    model: usize,
) -> Reply<(Arc<Entry>, Option<Mismatch>)> {
    let examples = examples(app, job, new.images, model).await?;
    let support = LabelledImages::new(new.classes, examples)?;
    let (app, settings) = (app.clone(), new.settings);
    job.turn(move |late| {
        let network = &app.models[model];
        let task = match settings.label_sets {
            true => ServedTask::Sets(Arc::new(LabelSetTask::adapt(network, &support, &settings.name, late)?)),
            false => ServedTask::OneClass(Arc::new(TaskClassifier::adapt_until(
                network,
                &support,
                &settings.name,
                late,
            )?)),
        };
        // Nobody would learn its name.
        stop_if(late)?;
        let mismatch = network.mismatch(support.examples().iter().map(|e| &e.view.look));
        Ok((app.tasks.add(task, model, settings.keep)?, mismatch))
    })
    .await
}

/// What the model sees of labelled images.
pub(super) async fn examples(
    app: &Arc<App>,
    job: &mut Job<'_>,
    images: Vec<LabelledImage>,
    model: usize,
) -> Reply<Vec<Example>> {
    let mut examples = Vec::with_capacity(images.len());
    for LabelledImage { name, class, bytes, .. } in images {
        let app = app.clone();
        let seen = job.turn(move |late| view(&app, &app.models[model], &bytes, late)).await?;
        let view = seen.map_err(|why| Refusal::bad(format!("{name}: {why}")))?;
        examples.push(Example { name, class, view });
    }
    Ok(examples)
}

/// A task that a request asks for.
struct NewTask {
    settings: TaskSettings,
    classes: Vec<String>,
    images: Vec<LabelledImage>,
}

fn task_json(bytes: &[u8]) -> Reply<NewTask> {
    let TaskBody { model, name, keep, label_sets, classes } = body::json(bytes)?;
    let (classes, given) = labelled(classes)?;
    Ok(NewTask { settings: TaskSettings { model, name, keep, label_sets }, classes, images: given })
}

/// Names of the classes, and their images.
pub(super) fn labelled(classes: Vec<ClassBody>) -> Reply<(Vec<String>, Vec<LabelledImage>)> {
    let mut given = Vec::new();
    for (class, ClassBody { name, images }) in classes.iter().enumerate() {
        for (i, image) in images.iter().enumerate() {
            given.push(LabelledImage {
                name: shown(name, i + 1),
                made_up: true,
                class,
                bytes: image.bytes()?,
            });
        }
    }
    Ok((classes.into_iter().map(|class| class.name).collect(), given))
}

/// What an image without a name is called. A class whose name is too long is refused later; it is not copied for each image.
pub(super) fn shown(class: &str, number: usize) -> String {
    let class: String = class.chars().take(MOST_SHOWN).collect();
    format!("{class} {number}")
}

/// The same from a form: the name of a field is the class of its image.
pub(super) async fn form(
    app: &App,
    read: &Read,
    boundary: String,
) -> Reply<(Vec<String>, Vec<LabelledImage>)> {
    let (bytes, most) = (read.bytes.clone(), app.limits.max_images);
    let parse = move |_: &Arc<AtomicBool>| body::parts(bytes, &boundary, most).map(labelled_parts);
    app.work.job(read.peer, body::seconds(&read.bytes)).turn(parse).await
}

fn labelled_parts(parts: Vec<Part>) -> (Vec<String>, Vec<LabelledImage>) {
    let mut classes: Vec<String> = Vec::new();
    // By hash: names may be long, and differ at their end only.
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut given = Vec::new();
    for Part { field, file, bytes } in parts {
        let class = *places.entry(field.clone()).or_insert_with(|| {
            classes.push(field.clone());
            classes.len() - 1
        });
        let made_up = file.is_none();
        let name = file.unwrap_or_else(|| format!("{field} {}", given.len() + 1));
        given.push(LabelledImage { name: name.chars().take(MOST_SHOWN).collect(), made_up, class, bytes });
    }
    (classes, given)
}

/// The images of a body, for the fuzz targets.
pub(crate) fn images_of_task(bytes: &[u8]) -> Vec<Bytes> {
    task_json(bytes).map(|new| new.images.into_iter().map(|g| g.bytes).collect()).unwrap_or_default()
}
