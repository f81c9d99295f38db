//! From labelled images to a task.

use super::Shared;
use super::about::about_task;
use super::images::{check_images, stop_if, view, warnings};
use crate::App;
use crate::body::{self, Encoded, Kind, Part, Read};
use crate::error::{Answer, Refusal};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use siskin_adapt::{Example, Support, TaskClassifier};

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
        let task = TaskClassifier::adapt_until(network, &support, &settings.name, late)?;
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
