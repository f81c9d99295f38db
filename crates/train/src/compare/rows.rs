//! The figures of every method and its differences to the reference.

use super::bootstrap::{Interval, Pooled, intervals, tallies};
use super::examine::Examined;
use crate::error::Result;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use siskin_calib::Measures;
use siskin_calib::{MeanSpread, mean_interval95};

/// The figures of one method.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The method.
    pub name: String,
    /// Training episodes its model has seen.
    pub trained_episodes: u64,
    /// Accuracy: mean and standard deviation over groups of episodes, as the paper prints it.
    pub over_groups: MeanSpread,
    /// Accuracy: mean and 95 % interval over episodes.
    pub over_episodes: MeanSpread,
    /// Accuracy minus that of the reference, episode by episode: mean and 95 % interval. None for the reference itself.
    pub difference: Option<MeanSpread>,
    /// What the method holds beside the model, in MiB, where it adapts to a task by steps.
    pub extra_memory_mib: Option<f64>,
    /// Probabilities as the method gives them.
    pub raw: Calibrations,
    /// The temperature tuned on validation episodes.
    pub temperature: f64,
    /// Probabilities with that temperature.
    pub tuned: Calibrations,
}

/// Calibration of one method.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Calibrations {
    /// The measures.
    pub measures: Measures,
    /// Their 95 % intervals.
    pub intervals: Pooled<Interval>,
    /// Differences to the reference. None for the reference itself.
    pub difference: Option<Pooled<Difference>>,
}

/// A measure minus that of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The difference.
    pub value: f64,
    /// Its 95 % interval over episodes.
    pub interval: Interval,
}

/// The rows of all methods.
pub(super) fn rows(examined: &[Examined], reference: &str) -> Result<Vec<Row>> {
    let to = examined.iter().position(|e| e.name == reference);
    let raw = calibrations(examined, to, |_| 1.0, |e| e.calibrated.measures.raw)?;
    let temperature = |e: &Examined| e.calibrated.measures.temperature.value;
    let tuned = calibrations(examined, to, temperature, |e| e.calibrated.measures.tuned)?;
    let accuracies = |e: &Examined| e.answers.iter().map(|a| a.accuracy()).collect::<Vec<f64>>();
    let of_reference = to.map(|to| accuracies(&examined[to]));
    let parts = examined.iter().zip(raw.into_iter().zip(tuned)).enumerate();
    parts
        .map(|(index, (e, (raw, tuned)))| {
            let difference = match (&of_reference, Some(index) != to) {
                (Some(theirs), true) => {
                    let own = accuracies(e);
                    let paired: Vec<f64> = own.iter().zip(theirs).map(|(a, b)| a - b).collect();
                    Some(mean_interval95(&paired)?)
                }
                _ => None,
            };
            Ok(Row {
                name: e.name.clone(),
                trained_episodes: e.test.trained_episodes,
                over_groups: e.test.over_groups,
                over_episodes: e.test.over_episodes,
                difference,
                extra_memory_mib: e.extra_memory_mib,
                raw,
                temperature: temperature(e),
                tuned,
            })
        })
        .collect()
}

fn calibrations(
    examined: &[Examined],
    reference: Option<usize>,
    temperature: impl Fn(&Examined) -> f64 + Sync,
    measures: impl Fn(&Examined) -> Measures,
) -> Result<Vec<Calibrations>> {
    let all = examined.par_iter().map(|e| tallies(&e.answers, temperature(e))).collect::<Result<Vec<_>>>()?;
    let theirs = reference.map(|to| measures(&examined[to]));
    let found = intervals(&all, reference).into_iter().enumerate().zip(examined);
    Ok(found
        .map(|((index, (intervals, paired)), e)| {
            let own = measures(e);
            let difference = match (theirs, paired) {
                (Some(theirs), Some(paired)) if reference != Some(index) => {
                    let at = |value: f64, interval| Difference { value, interval };
                    Some(Pooled {
                        ece: at(own.ece - theirs.ece, paired.ece),
                        mce: at(own.mce - theirs.mce, paired.mce),
                        nll: at(own.nll - theirs.nll, paired.nll),
                        brier: at(own.brier - theirs.brier, paired.brier),
                    })
                }
                _ => None,
            };
            Calibrations { measures: own, intervals, difference }
        })
        .collect())
}
