//! What the labelled examples say of each other: each is predicted by the others of its task.

use crate::cost::Shape;
use crate::error::{Error, Result};
use crate::fitted::{Fitted, Raw};
use rayon::prelude::*;
use siskin_methods::{Features, select};
use std::sync::atomic::{AtomicBool, Ordering};

/// Seconds of one core allowed, as [`seconds`] estimates them.
const BUDGET: f64 = 4.0;
/// Folds at least, whatever they cost: a few times the fit itself.
const FEWEST_FOLDS: usize = 5;

/// Predictions of labelled examples that their classifier had not seen.
pub(crate) struct HeldOut {
    pub raw: Raw,
    pub labels: Vec<usize>,
    /// How many classifiers were fitted; as many as predictions if each example was left out alone.
    pub folds: usize,
}

impl HeldOut {
    /// How many were predicted rightly.
    pub fn right(&self, classes: usize) -> usize {
        let rows = self.raw.probabilities.chunks_exact(classes);
        rows.zip(&self.labels).filter(|(row, label)| siskin_calib::top(row).0 == **label).count()
    }
}

/// Leaves out one example at a time (several where the task is large) and predicts it by the rest. Classes with a single
/// example are always part of the rest: without it they would not be there. `None` if no class has two, or if the fewest
/// folds would take more than `most` seconds. Ends early, with an error, once `stop` is set.
pub(crate) fn held_out(
    features: &Features,
    labels: &[usize],
    classes: usize,
    most: f64,
    stop: &AtomicBool,
    fit: impl Fn(&Features, &[usize]) -> Result<Fitted> + Sync,
) -> Result<Option<HeldOut>> {
    let folds = assign(labels, classes);
    if folds.is_empty() || FEWEST_FOLDS as f64 * seconds(classes, labels.len()) > most {
        return Ok(None);
    }
    let parts = folds.par_iter().map(|out| {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let rest: Vec<usize> = (0..labels.len()).filter(|row| !out.contains(row)).collect();
        let rest_labels: Vec<usize> = rest.iter().map(|&row| labels[row]).collect();
        fit(&select(features, &rest), &rest_labels)?.predict(&select(features, out))
    });
    let mut raw = Raw::empty();
    parts.collect::<Result<Vec<Raw>>>()?.into_iter().for_each(|part| raw.extend(part));
    let held = folds.iter().flatten().map(|&row| labels[row]).collect();
    Ok(Some(HeldOut { raw, labels: held, folds: folds.len() }))
}

/// The rows of each fold. Members of a class go to folds one after the other, so no fold takes a whole class away.
fn assign(labels: &[usize], classes: usize) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); classes];
    labels.iter().enumerate().for_each(|(row, &label)| members[label].push(row));
    let eligible: Vec<usize> = members.into_iter().filter(|m| m.len() > 1).flatten().collect();
    let count = ((BUDGET / seconds(classes, labels.len())) as usize).max(FEWEST_FOLDS).min(eligible.len());
    let mut folds = vec![Vec::new(); count];
    eligible.into_iter().enumerate().for_each(|(i, row)| folds[i % count].push(row));
    folds
}

/// An estimate, so that the folds do not depend on the machine.
fn seconds(classes: usize, examples: usize) -> f64 {
    Shape { classes, examples }.fit_seconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_example_of_a_pair_is_left_out_once_and_no_class_vanishes() {
        let labels = [0, 1, 1, 2, 2, 2];
        let folds = assign(&labels, 3);
        assert_eq!(folds, [[1], [2], [3], [4], [5]]);
        assert!(assign(&[0, 1, 2], 3).is_empty());
        // A thousand examples are beyond the budget: five folds, each with a fifth of each class.
        let labels: Vec<usize> = (0..1000).map(|i| i % 2).collect();
        let folds = assign(&labels, 2);
        assert_eq!(folds.len(), 5);
        for fold in &folds {
            let ones = fold.iter().filter(|&&row| labels[row] == 1).count();
            assert_eq!((fold.len(), ones), (200, 100));
        }
        // Two examples never share a fold, even in the smallest task.
        assert_eq!(assign(&[0, 0, 1], 2), [[0], [1]]);
    }
}
