//! Answers for images.

use super::images::{image_seconds, open, turns, view, warnings};
use super::{Id, Shared, id};
use crate::App;
use crate::answers::{LongAnswer, joined};
use crate::body::{self, Encoded, Kind, Read};
use crate::error::{Refusal, Reply};
use crate::store::Entry;
use crate::task::ServedTask;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use siskin_adapt::{Features, Look, NamedAnswer, Rules, View};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How to answer: the rules, and how many nearest examples to show.
#[derive(Deserialize, Clone, Copy)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    level: f64,
    abstain: f64,
    min_probability: f64,
    explain: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let Rules { level, abstain, min_probability } = Rules::default();
        Settings { level, abstain, min_probability, explain: 0 }
    }
}

impl Settings {
    fn rules(&self) -> Rules {
        Rules { level: self.level, abstain: self.abstain, min_probability: self.min_probability }
    }
}

/// The same within a JSON body, where each may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PredictBody {
    images: Vec<Encoded>,
    level: Option<f64>,
    abstain: Option<f64>,
    min_probability: Option<f64>,
    explain: Option<usize>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Prediction {
    Reply(NamedAnswer),
    Set(Map<String, Value>),
    Error { error: String },
}

/// Answers for images.
pub(crate) async fn predict(
    State(app): Shared,
    path: Id,
    settings: Result<Query<Settings>, QueryRejection>,
    request: Request,
) -> Reply<LongAnswer> {
    let Query(settings) = settings.map_err(|e| Refusal::bad(e.body_text()))?;
    let id = id(path)?;
    let entry = app.tasks.get(&id)?;
    let read = body::read(&app, request).await?;
    let (settings, images) = images(&app, &read, settings).await?;
    let mut job = app.work.job(read.peer, 0.0);
    let opened = open(&app, &mut job, images.clone()).await?;
    let (answering, notes) = answering(&entry, settings)?;
    let each = entry.task.shape().answer_seconds();
    let seconds = opened.iter().map(|one| each + image_seconds(&app.models[entry.model], one));
    job.expect(seconds.clone().sum());
    let room = app.answers.claim(images.len() * answer_bytes(&entry.task, settings.explain)).await?;
    let (mut parts, mut looks) =
        (vec![format!("{{\"task\":{},\"predictions\":[", json!(id)).into_bytes()], Vec::new());
    for (i, images) in turns(images, seconds).into_iter().enumerate() {
        let turn = Turn { app: app.clone(), model: entry.model, answering: answering.clone() };
        let (part, seen) = job.turn(move |late| turn.answer(&images, late)).await?;
        if i > 0 {
            parts.push(b",".to_vec());
        }
        parts.push(part);
        looks.extend(seen);
    }
    drop(read.room);
    let warnings = warnings(app.models[entry.model].mismatch(&looks));
    parts.push(format!("],\"notes\":{},\"warnings\":{warnings}}}", json!(notes)).into_bytes());
    Ok(LongAnswer { parts, room })
}

/// What answers features of images.
type Answering = Arc<dyn Fn(&Features) -> Reply<Vec<Prediction>> + Send + Sync>;

/// What answers by these settings, and what to expect of that.
fn answering(entry: &Entry, settings: Settings) -> Reply<(Answering, Vec<String>)> {
    let task = match &entry.task {
        ServedTask::OneClass(task) => task.clone(),
        ServedTask::Sets(task) => {
            if settings.rules() != Rules::default() || settings.explain > 0 {
                let why = "this task has label sets: level, abstain, min_probability and explain are for tasks with one class per image";
                return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why));
            }
            let task = task.clone();
            let sets = move |features: &Features| {
                Ok(task.answer(features)?.iter().map(|answer| Prediction::Set(answer.to_json())).collect())
            };
            return Ok((Arc::new(sets), Vec::new()));
        }
    };
    let thresholds = task.thresholds(&settings.rules())?;
    let notes = thresholds.notes().iter().map(String::as_str).chain(thresholds.expectation());
    let notes = notes.map(str::to_owned).collect();
    let one = move |features: &Features| {
        let answers = task.answer_named(features, &thresholds, settings.explain)?;
        Ok(answers.into_iter().map(Prediction::Reply).collect())
    };
    Ok((Arc::new(one), notes))
}

/// Bytes of the answer for one image, at most, as text and, for the images of a turn, before it is text: every class twice (with its
/// probability, and in the set), and the nearest examples or the sizes of label sets, of which there is one more than labels.
fn answer_bytes(task: &ServedTask, explain: usize) -> usize {
    /// Of a name beside its letters, and of the numbers beside it.
    const EACH: usize = 80;
    let classes: usize = task.classes().iter().map(|(name, _)| name.len() + EACH).sum();
    let more = match task {
        ServedTask::OneClass(task) => {
            let longest = |names: &[String]| names.iter().map(String::len).max().unwrap_or(0);
            let near = longest(task.names()) + longest(task.classes()) + 2 * EACH;
            explain.min(task.labels().len()) * near
        }
        ServedTask::Sets(task) => (task.labels().count() + 1) * EACH,
    };
    2 * (2 * classes + more + 4 * EACH)
}

/// Some images of a request.
struct Turn {
    app: Arc<App>,
    /// Index of the task's model.
    model: usize,
    answering: Answering,
}

impl Turn {
    /// Answers for the images as text, and what the good ones look like. Text at once: it may be long, and nobody but the client needs it.
    fn answer(&self, images: &[Bytes], late: &AtomicBool) -> Reply<(Vec<u8>, Vec<Look>)> {
        let Turn { app, model, answering } = self;
        let model = &app.models[*model];
        let views = images.iter().map(|bytes| view(app, model, bytes, late));
        let views = views.collect::<Reply<Vec<Result<View, String>>>>()?;
        let good: Vec<&View> = views.iter().filter_map(|view| view.as_ref().ok()).collect();
        let looks = good.iter().map(|view| view.look).collect();
        app.metrics.predictions.fetch_add(good.len() as u64, Ordering::Relaxed);
        app.metrics.bad_images.fetch_add((views.len() - good.len()) as u64, Ordering::Relaxed);
        let mut answers = match good.is_empty() {
            true => Vec::new(),
            false => answering(&model.embed_until(good, late)?)?,
        }
        .into_iter();
        let prediction = |view: Result<View, String>| match view {
            Err(error) => Prediction::Error { error },
            Ok(_) => answers.next().unwrap_or(Prediction::Error { error: "no answer came".into() }),
        };
        Ok((joined(views.into_iter().map(prediction))?, looks))
    }
}

async fn images(app: &App, read: &Read, settings: Settings) -> Reply<(Settings, Vec<Bytes>)> {
    let bytes = read.bytes.clone();
    match body::kind(&read.headers)? {
        Kind::Image => Ok((settings, vec![bytes])),
        Kind::Json => app.work.job(read.peer, body::seconds(&bytes)).turn(move |_| images_json(&bytes)).await,
        Kind::Multipart(boundary) => {
            let (most, seconds) = (app.limits.max_images, body::seconds(&bytes));
            let parts = move |_: &Arc<AtomicBool>| body::parts(bytes, &boundary, most);
            let parts = app.work.job(read.peer, seconds).turn(parts).await?;
            Ok((settings, parts.into_iter().map(|part| part.bytes).collect()))
        }
    }
}

fn images_json(bytes: &[u8]) -> Reply<(Settings, Vec<Bytes>)> {
    let body: PredictBody = body::json(bytes)?;
    let usual = Settings::default();
    let settings = Settings {
        level: body.level.unwrap_or(usual.level),
        abstain: body.abstain.unwrap_or(usual.abstain),
        min_probability: body.min_probability.unwrap_or(usual.min_probability),
        explain: body.explain.unwrap_or(usual.explain),
    };
    Ok((settings, body.images.iter().map(Encoded::bytes).collect::<Reply<_>>()?))
}

/// The images of a body, for the fuzz targets.
pub(crate) fn images_of_question(bytes: &[u8]) -> Vec<Bytes> {
    images_json(bytes).map(|(_, images)| images).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_the_defaults() {
        let api: serde_json::Value = serde_json::from_str(include_str!("../openapi.json")).unwrap();
        let parameters = &api["paths"]["/v1/tasks/{id}/predict"]["post"]["parameters"];
        let default = |name: &str| {
            let of = parameters.as_array().unwrap().iter().find(|p| p["name"] == name).unwrap();
            of["schema"]["default"].as_f64().unwrap()
        };
        let Settings { level, abstain, min_probability, explain } = Settings::default();
        let named = ["level", "abstain", "min_probability", "explain"].map(default);
        assert_eq!(named, [level, abstain, min_probability, explain as f64]);
    }
}
