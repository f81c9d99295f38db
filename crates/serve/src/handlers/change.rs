//! Examples and classes of a task that come and go.

use super::about::about_task;
use super::create::{ClassBody, LabelledImage, examples, form, labelled, shown};
use super::images::{image_seconds, open, stop_if, warnings};
use super::{Id, Shared, id};
use crate::App;
use crate::answers::{LongAnswer, joined};
use crate::body::{self, Kind};
use crate::error::{Refusal, Reply};
use crate::peer::Peer;
use crate::store::Entry;
use crate::task::ServedTask;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use siskin_adapt::{LabelledImages, Model, Shape, TaskClassifier};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoreBody {
    classes: Vec<ClassBody>,
}

/// The id of a task and a part of it.
type PartOf = Result<Path<(String, String)>, PathRejection>;

/// Names and classes of a task's examples.
pub(crate) async fn examples_of(State(app): Shared, path: Id) -> Reply<LongAnswer> {
    let entry = app.tasks.get(&id(path)?)?;
    let task = entry.task.one_class()?;
    let classes = task.classes();
    let each = |(name, &label): (&String, &usize)| 2 * (name.len() + classes[label].len()) + 60;
    let room = app.answers.claim(task.names().iter().zip(task.labels()).map(each).sum()).await?;
    let of = |(i, (name, &label)): (usize, (&String, &usize))| json!({"index": i, "name": name, "class": classes[label]});
    let all = joined(task.names().iter().zip(task.labels()).enumerate().map(of))?;
    Ok(LongAnswer { parts: vec![b"{\"examples\":[".to_vec(), all, b"]}".to_vec()], room })
}

/// Adds labelled images, of classes that are there or of new ones.
pub(crate) async fn add(State(app): Shared, path: Id, request: Request) -> Reply<Json<Value>> {
    let entry = app.tasks.get(&id(path)?)?;
    let task = entry.task.one_class()?;
    let read = body::read(&app, request).await?;
    let (classes, mut given) = match body::kind(&read.headers)? {
        Kind::Image => return Err(Refusal::bad("say of which class it is: send JSON or a form")),
        Kind::Json => {
            let bytes = read.bytes.clone();
            let more = move |_: &Arc<AtomicBool>| labelled(body::json::<MoreBody>(&bytes)?.classes);
            app.work.job(read.peer, body::seconds(&read.bytes)).turn(more).await?
        }
        Kind::Multipart(boundary) => form(&app, &read, boundary).await?,
    };
    let mut job = app.work.job(read.peer, 0.0);
    let opened = open(&app, &mut job, given.iter().map(|g| g.bytes.clone()).collect()).await?;
    let known = |class: &&String| !task.classes().contains(class);
    let shape = Shape {
        classes: task.classes().len() + classes.iter().filter(known).count(),
        examples: task.labels().len() + given.len(),
    };
    shape.check(&app.limits.fit)?;
    rename(task, &classes, &mut given);
    let network = &app.models[entry.model];
    let decoding: f64 = opened.iter().map(|one| image_seconds(network, one)).sum();
    job.expect(decoding + 2.0 * shape.fit_seconds());
    let examples = examples(&app, &mut job, given, entry.model).await?;
    let more = LabelledImages::more(classes, examples)?;
    drop(read.room);
    let shared = app.clone();
    let (entry, mismatch) = job
        .turn(move |late| {
            let network = &shared.models[entry.model];
            let task = entry.task.one_class()?.with_examples(network, &more, late)?;
            stop_if(late)?;
            let mismatch = network.mismatch(more.examples().iter().map(|e| &e.view.look));
            Ok((shared.tasks.replace(&entry, ServedTask::OneClass(Arc::new(task)))?, mismatch))
        })
        .await?;
    let mut about = about_task(&app, &entry);
    about["warnings"] = warnings(mismatch);
    Ok(Json(about))
}

/// The images of a body, for the fuzz targets.
pub(crate) fn images_of_more(bytes: &[u8]) -> Vec<Bytes> {
    let more = body::json::<MoreBody>(bytes).and_then(|more| labelled(more.classes));
    more.map(|(_, given)| given.into_iter().map(|g| g.bytes).collect()).unwrap_or_default()
}

/// Gives names that were made up a number that is free: an example of the same name and class would be replaced.
fn rename(task: &TaskClassifier, classes: &[String], given: &mut [LabelledImage]) {
    let taken = |class: &str, name: &str| {
        let mut all = task.names().iter().zip(task.labels());
        all.any(|(other, &label)| other == name && task.classes()[label] == class)
    };
    let mut next = vec![1usize; classes.len()];
    for example in given.iter_mut().filter(|g| g.made_up) {
        let class = &classes[example.class];
        let number = &mut next[example.class];
        while taken(class, &shown(class, *number)) {
            *number += 1;
        }
        example.name = shown(class, *number);
        *number += 1;
    }
}

/// Forgets a class with its examples.
pub(crate) async fn remove_class(State(app): Shared, peer: Peer, path: PartOf) -> Reply<Json<Value>> {
    let (id, class) = part(path)?;
    change(&app, (peer, &id), move |task, model, late| task.without_class(model, &class, late)).await
}

/// Forgets one example, by its place in the list.
pub(crate) async fn remove_example(State(app): Shared, peer: Peer, path: PartOf) -> Reply<Json<Value>> {
    let (id, index) = part(path)?;
    let index: usize =
        index.parse().map_err(|_| Refusal::bad("an example is meant by its index, a number"))?;
    change(&app, (peer, &id), move |task, model, late| task.without_example(model, index, late)).await
}

fn part(path: PartOf) -> Reply<(String, String)> {
    path.map(|Path(parts)| parts).map_err(|e| Refusal::bad(e.body_text()))
}

async fn change(
    app: &Arc<App>,
    (peer, id): (Peer, &str),
    by: impl FnOnce(&TaskClassifier, &Model, &Arc<AtomicBool>) -> siskin_adapt::Result<TaskClassifier>
    + Send
    + 'static,
) -> Reply<Json<Value>> {
    let entry: Arc<Entry> = app.tasks.get(id)?;
    let shared = app.clone();
    entry.task.one_class()?;
    let mut job = app.work.job(peer, 2.0 * entry.task.shape().fit_seconds());
    let entry = job
        .turn(move |late| {
            let task = by(entry.task.one_class()?, &shared.models[entry.model], late)?;
            stop_if(late)?;
            shared.tasks.replace(&entry, ServedTask::OneClass(Arc::new(task)))
        })
        .await?;
    Ok(Json(about_task(app, &entry)))
}
