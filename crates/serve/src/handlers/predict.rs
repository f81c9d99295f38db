//! Answers for images.

use super::Shared;
use super::images::{check_images, view, warnings};
use crate::App;
use crate::body::{self, Encoded, Kind};
use crate::error::{Answer, Refusal};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::HeaderMap;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use siskin_adapt::{NamedAnswer, Rules, View};
use std::sync::atomic::Ordering;

/// How to answer: the rules, and how many nearest examples to show.
#[derive(Deserialize, Clone, Copy)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
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
    Answer(NamedAnswer),
    Error { error: String },
}

/// Answers for images.
pub async fn predict(
    State(app): Shared,
    Path(id): Path<String>,
    settings: Result<Query<Settings>, QueryRejection>,
    request: Request,
) -> Answer<Json<Value>> {
    let Query(settings) = settings.map_err(|e| Refusal::bad(e.body_text()))?;
    let entry = app.tasks.get(&id)?;
    let read = body::read(&app, request).await?;
    let (settings, images) = images(&app, &read.headers, read.bytes.clone(), settings).await?;
    check_images(&app, images.iter())?;
    let thresholds = entry.task.thresholds(&settings.rules())?;
    let notes = thresholds.notes().to_vec();
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
        let mut answers = match good.is_empty() {
            true => Vec::new(),
            false => entry.task.answer_named(&model.embed(good)?, &thresholds, settings.explain)?,
        }
        .into_iter();
        let prediction = |view: Result<View, String>| match view {
            Err(error) => Prediction::Error { error },
            Ok(_) => answers
                .next()
                .map_or(Prediction::Error { error: "no answer came".into() }, Prediction::Answer),
        };
        Ok((views.into_iter().map(prediction).collect::<Vec<_>>(), mismatch))
    });
    let (predictions, mismatch) = answered.await?;
    Ok(Json(json!({
        "task": id, "predictions": predictions, "notes": notes, "warnings": warnings(mismatch),
    })))
}

async fn images(
    app: &App,
    headers: &HeaderMap,
    bytes: Bytes,
    settings: Settings,
) -> Answer<(Settings, Vec<Bytes>)> {
    match body::kind(headers)? {
        Kind::Image => Ok((settings, vec![bytes])),
        Kind::Json => {
            let body: PredictBody = body::json(&bytes)?;
            let usual = Settings::default();
            let settings = Settings {
                level: body.level.unwrap_or(usual.level),
                abstain: body.abstain.unwrap_or(usual.abstain),
                min_probability: body.min_probability.unwrap_or(usual.min_probability),
                explain: body.explain.unwrap_or(usual.explain),
            };
            Ok((settings, body.images.iter().map(Encoded::bytes).collect::<Answer<_>>()?))
        }
        Kind::Multipart(boundary) => {
            let parts = body::parts(bytes, &boundary, app.limits.max_images).await?;
            Ok((settings, parts.into_iter().map(|part| part.bytes).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_names_the_defaults() {
        let api: Value = serde_json::from_str(include_str!("../openapi.json")).unwrap();
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
