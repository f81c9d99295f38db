//! What a server keeps: a task of one class an image, or one of label sets.

use crate::error::{Refusal, Reply};
use axum::http::StatusCode;
use siskin_adapt::{LabelSetTask, ModelRef, Shape, TaskClassifier};
use std::path::Path;
use std::sync::Arc;

/// A task. What answers a request keeps it as long as it needs it.
pub(crate) enum Task {
    OneClass(Arc<TaskClassifier>),
    Sets(Arc<LabelSetTask>),
}

impl Task {
    /// Reads a task file.
    pub(crate) fn load(path: &Path) -> siskin_adapt::Result<Task> {
        Ok(match LabelSetTask::load(path)? {
            Some(task) => Task::Sets(Arc::new(task)),
            None => Task::OneClass(Arc::new(TaskClassifier::load(path)?)),
        })
    }

    /// The task of one class an image; a refusal where it has label sets.
    pub(crate) fn one_class(&self) -> Reply<&TaskClassifier> {
        match self {
            Task::OneClass(task) => Ok(task),
            Task::Sets(_) => Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "this task has label sets: it answers images; it has no list of examples and no suggestions, and it is made anew, not changed",
            )),
        }
    }

    pub(crate) fn to_bytes(&self) -> siskin_adapt::Result<Vec<u8>> {
        match self {
            Task::OneClass(task) => task.to_bytes(),
            Task::Sets(task) => task.to_bytes(),
        }
    }

    pub(crate) fn model(&self) -> Option<&ModelRef> {
        match self {
            Task::OneClass(task) => task.model(),
            Task::Sets(task) => task.model(),
        }
    }

    pub(crate) fn title(&self) -> &str {
        match self {
            Task::OneClass(task) => task.title(),
            Task::Sets(task) => task.title(),
        }
    }

    /// What it costs.
    pub(crate) fn shape(&self) -> Shape {
        match self {
            Task::OneClass(task) => task.shape(),
            Task::Sets(task) => task.shape(),
        }
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        let width = match self {
            Task::OneClass(task) => task.width(),
            Task::Sets(task) => task.width(),
        };
        self.shape().held_bytes(width) as u64
    }

    /// Names of the classes, or of the labels, and how many examples have each.
    pub(crate) fn classes(&self) -> Vec<(&str, usize)> {
        match self {
            Task::OneClass(task) => {
                let mut examples = vec![0; task.classes().len()];
                task.labels().iter().for_each(|&label| examples[label] += 1);
                task.classes().iter().map(String::as_str).zip(examples).collect()
            }
            Task::Sets(task) => task.labels().collect(),
        }
    }
}
