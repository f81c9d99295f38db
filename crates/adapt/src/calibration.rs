//! Calibration with almost no data: by held-out examples of the task where there are enough, else by the model's
//! validation classes.

use crate::error::Result;
use crate::fitted::Raw;
use crate::held_out::HeldOut;
use crate::none_of_these::novelty;
use crate::sets;
use serde::{Deserialize, Serialize};
use siskin_calib::{Optimum, Predictions, Temperature};
use siskin_model::Card;

/// Held-out predictions needed before they decide the temperature; below, that of validation classes is used. Chosen, not
/// measured.
pub(crate) const ENOUGH: usize = 40;
/// Scores kept of a large calibration set: sets up to 99.5 % can be promised.
const KEPT: usize = 199;

/// How a task's probabilities are calibrated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskCalibration {
    /// What it rests on.
    pub origin: Origin,
    /// The temperature of the probabilities.
    pub temperature: f64,
    /// Scores `1 - p` of true classes at that temperature: for conformal sets.
    pub set_scores: Vec<f64>,
    /// How strange true members look: for "none of these".
    pub novelty: Vec<f64>,
    /// Of the examples that could be left out and predicted by the others: how many were right, of how many.
    pub held_out: Option<(usize, usize)>,
}

/// What a calibration rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Examples of the task itself, each predicted by the others.
    HeldOut {
        /// How many predictions.
        predictions: usize,
        /// By how many classifiers; as many if each example was left out alone.
        folds: usize,
    },
    /// Episodes of the model's validation classes.
    Validation {
        /// Classes of these episodes.
        way: usize,
        /// Labelled images of each class.
        shot: usize,
        /// Queries of these episodes.
        queries: usize,
    },
    /// Nothing: the probabilities are as the Gaussian process gives them.
    Nothing {
        /// Held-out predictions there were.
        predictions: usize,
    },
}

impl TaskCalibration {
    /// The best calibration there is. `shot`: mean number of examples of a class.
    pub(crate) fn choose(
        held: Option<&HeldOut>,
        card: Option<&Card>,
        classes: usize,
        shot: f64,
    ) -> Result<TaskCalibration> {
        let held_out = held.map(|held| (held.right(classes), held.labels.len()));
        let held = match held {
            Some(held) => Some((held, fit(&held.raw, &held.labels, classes)?)),
            None => None,
        };
        if let Some((held, found)) = &held
            && held.labels.len() >= ENOUGH
            && found.temperature.optimum == Optimum::Interior
        {
            let origin = Origin::HeldOut { predictions: held.labels.len(), folds: held.folds };
            let Found { temperature, set_scores, novelty } = found.clone();
            return Ok(TaskCalibration {
                origin,
                temperature: temperature.value,
                set_scores,
                novelty,
                held_out,
            });
        }
        if let Some(shape) = card.and_then(|card| card.nearest(classes, shot)) {
            return Ok(TaskCalibration {
                origin: Origin::Validation { way: shape.way, shot: shape.shot, queries: shape.queries },
                temperature: shape.temperature.value,
                set_scores: shape.set_scores.clone(),
                novelty: shape.novelty.clone(),
                held_out,
            });
        }
        // Held-out scores without a temperature of their own still carry sets and "none of these".
        let predictions = held.as_ref().map_or(0, |(held, _)| held.labels.len());
        let (set_scores, strange) = match held {
            Some((held, _)) => {
                let raw = Predictions::new(held.raw.probabilities.clone(), held.labels.clone(), classes)?;
                (thinned(sets::scores(&raw)), thinned(novelty(&held.raw)))
            }
            None => (Vec::new(), Vec::new()),
        };
        Ok(TaskCalibration {
            origin: Origin::Nothing { predictions },
            temperature: 1.0,
            set_scores,
            novelty: strange,
            held_out,
        })
    }

    /// What the probabilities rest on, as a sentence.
    pub fn sentence(&self) -> String {
        match self.origin {
            Origin::HeldOut { predictions, folds } => format!(
                "Calibrated on the examples themselves: {predictions} of them, {}, give the temperature {:.3}.",
                if folds == predictions {
                    "each left out in turn".into()
                } else {
                    format!("left out in {folds} parts")
                },
                self.temperature
            ),
            Origin::Validation { way, shot, .. } => format!(
                "Calibrated on the model's validation classes ({way} classes, {shot} {} each): the temperature is {:.3}. \
                 The examples are too few, too many or too easy to calibrate on them.",
                if shot == 1 { "example" } else { "examples" },
                self.temperature
            ),
            Origin::Nothing { predictions } => format!(
                "Not calibrated: {}. Take the probabilities with care.",
                match self.held_out {
                    _ if predictions < ENOUGH =>
                        format!("{predictions} held-out predictions are too few ({ENOUGH} are needed)"),
                    Some((right, of)) if right == of => format!(
                        "all {of} held-out predictions are right, which says nothing of how sure to be"
                    ),
                    _ => format!("no temperature suits the {predictions} held-out predictions"),
                }
            ),
        }
    }
}

/// What predictions whose truth is known say.
#[derive(Clone)]
pub(crate) struct Found {
    pub temperature: Temperature,
    pub set_scores: Vec<f64>,
    pub novelty: Vec<f64>,
}

/// Temperature and scores of predictions whose truth is known.
pub(crate) fn fit(raw: &Raw, labels: &[usize], classes: usize) -> Result<Found> {
    let predictions = Predictions::new(raw.probabilities.clone(), labels.to_vec(), classes)?;
    let temperature = Temperature::fit_predictions(&predictions)?;
    let tuned = predictions.sharpened(temperature.value)?;
    Ok(Found { temperature, set_scores: thinned(sets::scores(&tuned)), novelty: thinned(novelty(raw)) })
}

/// At most [`KEPT`] of the scores, sorted: the order statistics that a set of that size would ask for, each rounded up to
/// one that is there, so that what is promised with them holds.
pub(crate) fn thinned(mut scores: Vec<f64>) -> Vec<f64> {
    scores.sort_by(f64::total_cmp);
    let n = scores.len();
    if n <= KEPT {
        return scores;
    }
    let at = |k: usize| ((k * (n + 1)).div_ceil(KEPT + 1)).min(n) - 1;
    // Six digits are plenty, and rounding up keeps the promise.
    (1..=KEPT).map(|k| (scores[at(k)] * 1e6).ceil() / 1e6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_calib::{Conformal, SetRule};

    #[test]
    fn thinned_scores_promise_no_less() {
        let scores: Vec<f64> = (0..10_007u32).map(|i| f64::from(i * 7919 % 10_007) / 10_007.0).collect();
        let thin = thinned(scores.clone());
        assert_eq!(thin.len(), KEPT);
        for alpha in [0.5, 0.1, 0.05, 0.01] {
            let full = Conformal::of_scores(SetRule::Lac, &scores, alpha).unwrap().threshold.unwrap();
            let few = Conformal::of_scores(SetRule::Lac, &thin, alpha).unwrap().threshold.unwrap();
            assert!(few >= full && few < full + 0.006, "{alpha}: {few} {full}");
        }
        assert_eq!(thinned(vec![3.0, 1.0]), [1.0, 3.0]);
    }
}
