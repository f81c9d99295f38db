//! Which images to label next, and whether more labels would help.

use super::images::{image_seconds, open, stop_if, turns, view};
use super::{Id, Shared, id};
use crate::body::{self, Encoded, Kind};
use crate::error::{Refusal, Reply};
use crate::store::Entry;
use axum::Json;
use axum::extract::{Request, State};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use siskin_adapt::{Criterion, Features, View};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Fits that the advice takes, of a part of the examples each.
const FITS: f64 = 5.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuggestBody {
    images: Vec<Encoded>,
    /// How many to suggest.
    #[serde(default = "usual_count")]
    count: usize,
    #[serde(default)]
    criterion: Option<String>,
}

fn usual_count() -> usize {
    5
}

/// What a body of JSON asks for, checked: the images, how many, and by what.
struct SuggestRequest {
    images: Vec<Bytes>,
    count: usize,
    by: Criterion,
}

/// The features of the images that could be read with their places, and why others could not.
struct Seen {
    features: Option<Features>,
    places: Vec<usize>,
    errors: Vec<Value>,
}

/// Suggests images to label.
pub(crate) async fn suggest(State(app): Shared, path: Id, request: Request) -> Reply<Json<Value>> {
    let id = id(path)?;
    let entry = app.tasks.get(&id)?;
    entry.task.one_class()?;
    let read = body::read(&app, request).await?;
    if !matches!(body::kind(&read.headers)?, Kind::Json) {
        return Err(Refusal::bad("send JSON: {\"images\": [...], \"count\": 5}"));
    }
    let bytes = read.bytes.clone();
    let SuggestRequest { images, count, by } =
        app.work.job(read.peer, body::seconds(&bytes)).turn(move |_| request_of(&bytes)).await?;
    let mut job = app.work.job(read.peer, 0.0);
    let opened = open(&app, &mut job, images.clone()).await?;
    let each = entry.task.shape().answer_seconds();
    let seconds = opened.iter().map(|one| each + image_seconds(&app.models[entry.model], one));
    let fits = FITS * entry.task.shape().fit_seconds();
    job.expect(seconds.clone().sum::<f64>() + fits);
    let mut seen = Seen { features: None, places: Vec::new(), errors: Vec::new() };
    for images in turns(images, seconds) {
        let (shared, of) = (app.clone(), entry.clone());
        let embed = move |late: &Arc<AtomicBool>| {
            let model = &shared.models[of.model];
            let views = images.iter().map(|bytes| view(&shared, model, bytes, late));
            let views = views.collect::<Reply<Vec<Result<View, String>>>>()?;
            let good: Vec<&View> = views.iter().filter_map(|view| view.as_ref().ok()).collect();
            let features = if good.is_empty() { None } else { Some(model.embed_until(good, late)?) };
            Ok((views.into_iter().map(Result::err).collect::<Vec<_>>(), features))
        };
        let (faults, features) = job.turn(embed).await?;
        seen.add(faults, features);
    }
    drop(read.room);
    job.turn(move |late| answer(&id, &entry, &seen, (count, by), late).map(Json)).await
}

impl Seen {
    /// The images of one turn: why each could not be read, and the features of the others.
    fn add(&mut self, faults: Vec<Option<String>>, features: Option<Features>) {
        let first = self.places.len() + self.errors.len();
        for (place, fault) in (first..).zip(faults) {
            match fault {
                None => self.places.push(place),
                Some(error) => self.errors.push(json!({ "index": place, "error": error })),
            }
        }
        let Some(more) = features else { return };
        match &mut self.features {
            None => self.features = Some(more),
            Some(all) => {
                all.values.extend(more.values);
                all.rows += more.rows;
            }
        }
    }
}

fn answer(
    id: &str,
    entry: &Arc<Entry>,
    seen: &Seen,
    (count, by): (usize, Criterion),
    late: &AtomicBool,
) -> Reply<Value> {
    let task = entry.task.one_class()?;
    let found = match &seen.features {
        Some(features) => task.suggest(features, count, by)?,
        None => Vec::new(),
    };
    stop_if(late)?;
    let advice = task.advice_until(late)?;
    let next: Vec<Value> =
        found.iter().map(|next| json!({ "index": seen.places[next.index], "score": next.score })).collect();
    Ok(json!({ "task": id, "suggestions": next, "errors": seen.errors, "advice": advice }))
}

fn request_of(bytes: &[u8]) -> Reply<SuggestRequest> {
    let SuggestBody { images, count, criterion } = body::json(bytes)?;
    if count == 0 {
        return Err(Refusal::bad("count must be 1 or more"));
    }
    let by = match &criterion {
        None => Criterion::default(),
        Some(name) => {
            let known = || Criterion::NAMED.map(|(name, _)| name).join(", ");
            let found = Criterion::NAMED.iter().find(|(known, _)| known == name);
            found
                .ok_or_else(|| {
                    Refusal::bad(format!("there is no criterion `{name}`; there are: {}", known()))
                })?
                .1
        }
    };
    Ok(SuggestRequest { images: images.iter().map(Encoded::bytes).collect::<Reply<_>>()?, count, by })
}

/// The images of a body, for the fuzz targets.
pub(crate) fn images_of_pool(bytes: &[u8]) -> Vec<Bytes> {
    request_of(bytes).map(|request| request.images).unwrap_or_default()
}
