//! What the labelled examples say of each other: each is predicted by the others of its task.
//!
//! One example alone left out would make its class smaller than the others, and the classifier would lean to them. So a fold
//! takes one of each class (as far as they go), and what is estimated is the task with one example of each class fewer. The
//! folds cost no fit: their sites are taken out of the posterior ([`Fitted::left_out`]).

use crate::error::Result;
use crate::fitted::{Fitted, Raw};
use siskin_gp::left_out::one_of_each_class;
use std::sync::atomic::AtomicBool;

/// Predictions of labelled examples, each without its fold.
pub(crate) struct HeldOut {
    pub raw: Raw,
    pub labels: Vec<usize>,
}

/// Leaves out the folds. Classes with a single example are never left out: without it they would not be there. `None` if no
/// class has two.
pub(crate) fn held_out(
    fitted: &Fitted,
    labels: &[usize],
    classes: usize,
    stop: &AtomicBool,
) -> Result<Option<HeldOut>> {
    let folds = one_of_each_class(labels, classes);
    if folds.is_empty() {
        return Ok(None);
    }
    let raw = fitted.left_out(&folds, stop)?;
    Ok(Some(HeldOut { raw, labels: folds.iter().flatten().map(|&row| labels[row]).collect() }))
}
