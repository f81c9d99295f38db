//! What a server keeps: a task with one class per image, or one of label sets.

use crate::error::{Refusal, Reply};
use axum::http::StatusCode;
use siskin_adapt::{LabelSetTask, ModelRef, Shape, TaskClassifier};
use std::path::Path;
use std::sync::Arc;

/// A task. What answers a request keeps it as long as it needs it.
pub(crate) enum ServedTask {
    OneClass(Arc<TaskClassifier>),
    Sets(Arc<LabelSetTask>),
}

impl ServedTask {
    /// Reads a task file.
    pub(crate) fn load(path: &Path) -> siskin_adapt::Result<ServedTask> {
        Ok(match LabelSetTask::load(path)? {
            Some(task) => ServedTask::Sets(Arc::new(task)),
            None => ServedTask::OneClass(Arc::new(TaskClassifier::load(path)?)),
        })
    }

    /// The task with one class per image; a refusal where it has label sets.
    pub(crate) fn one_class(&self) -> Reply<&TaskClassifier> {
        match self {
            ServedTask::OneClass(task) => Ok(task),
            ServedTask::Sets(_) => Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "this task has label sets: it answers images; it has no list of examples and no suggestions, and it is made anew, not changed",
            )),
        }
    }

    pub(crate) fn to_bytes(&self) -> siskin_adapt::Result<Vec<u8>> {
        match self {
            ServedTask::OneClass(task) => task.to_bytes(),
            ServedTask::Sets(task) => task.to_bytes(),
        }
    }

    pub(crate) fn model(&self) -> Option<&ModelRef> {
        match self {
            ServedTask::OneClass(task) => task.model(),
            ServedTask::Sets(task) => task.model(),
        }
    }

    pub(crate) fn title(&self) -> &str {
        match self {
            ServedTask::OneClass(task) => task.title(),
            ServedTask::Sets(task) => task.title(),
        }
    }

    /// What it costs.
    pub(crate) fn shape(&self) -> Shape {
        match self {
            ServedTask::OneClass(task) => task.shape(),
            ServedTask::Sets(task) => task.shape(),
        }
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        let width = match self {
            ServedTask::OneClass(task) => task.width(),
            ServedTask::Sets(task) => task.width(),
        };
        self.shape().held_bytes(width) as u64
    }

    /// Names of the classes, or of the labels, and how many examples have each.
    pub(crate) fn classes(&self) -> Vec<(&str, usize)> {
        match self {
            ServedTask::OneClass(task) => {
                let mut examples = vec![0; task.classes().len()];
                task.labels().iter().for_each(|&label| examples[label] += 1);
                task.classes().iter().map(String::as_str).zip(examples).collect()
            }
            ServedTask::Sets(task) => task.labels().collect(),
        }
    }
}
