//! Sets of classes that hold the truth at a rate asked for.
//!
//! A set holds the most probable classes: at least so many that their probabilities sum to the level asked for, so that it
//! never says less than they do. Where predictions whose truth is known show that this is too few (the score of such a
//! prediction is the probability of all classes that are more probable than the true one), the sum must be larger: that is a
//! conformal threshold.

use crate::binomial::at_least;
use crate::calibration::TaskCalibration;
use crate::error::Result;
use crate::rules::{percent, share};
use siskin_calib::{Conformal, Predictions, SetRule};

/// Left-out examples contradict a threshold if they miss their sets so often that chance would do so less often than this.
const CHANCE: f64 = 0.05;

/// What is asked of the sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sets {
    /// The rate at which they shall hold the truth.
    pub level: f64,
}

impl Default for Sets {
    fn default() -> Self {
        Sets { level: 0.9 }
    }
}

/// Sets with their threshold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetThreshold {
    level: f64,
    /// Classes with a score up to this are in; `None`: every class is.
    score: Option<f64>,
}

/// The score of class `c`: the probability of all classes that are more probable.
fn score(p: &[f64], c: usize) -> f64 {
    let mut above: Vec<f64> = p.iter().copied().filter(|other| *other > p[c]).collect();
    // One order of summing for one set of numbers, whatever the classes are called.
    above.sort_by(f64::total_cmp);
    above.iter().sum()
}

/// Scores of the true classes of predictions.
pub(crate) fn scores(predictions: &Predictions) -> Vec<f64> {
    predictions.iter().map(|(p, y)| score(p, y)).collect()
}

impl Sets {
    /// The threshold by what is known. What cannot be promised, and why sets are wide, is added to `notes`.
    pub(crate) fn threshold(self, known: &TaskCalibration, notes: &mut Vec<String>) -> Result<SetThreshold> {
        let level = share("the level of the sets", self.level)?;
        let conformal = |scores: &[f64], alpha: f64| -> Result<Option<f64>> {
            Ok(Conformal::of_scores(SetRule::Lac, scores, alpha)?.threshold)
        };
        let by_validation = match &known.validation {
            None => None,
            Some(shape) => {
                let found = conformal(&shape.set_scores, 1.0 - level)?;
                if found.is_none() {
                    let few = format!(
                        "{} calibration predictions are too few for this level",
                        shape.set_scores.len()
                    );
                    notes.push(every_class(level, &few));
                    return Ok(SetThreshold { level, score: None });
                }
                found
            }
        };
        let found = SetThreshold { level, score: by_validation };
        let trusted = known.validation.is_some() && !known.other_kind;
        let Some(left_out) = &known.left_out else {
            if !trusted {
                notes.push(every_class(
                    level,
                    "no example can be left out, and nothing else speaks for these images",
                ));
                return Ok(SetThreshold { level, score: None });
            }
            return Ok(found);
        };
        let expected = known.validation.as_ref().and_then(|shape| shape.left_out.as_ref());
        let rate = expected.map_or(0.0, |facts| found.missed(&facts.set_scores)).max(1.0 - level);
        let (n, missed) = (left_out.set_scores.len(), found.missed(&left_out.set_scores));
        let contradicted = at_least((missed * n as f64).round() as usize, n, rate) < CHANCE;
        if trusted && !contradicted {
            return Ok(found);
        }
        // A model that is wrong for the images gets half the misses: the other sites have seen the left-out examples, which look a
        // little too good so.
        let alpha = if known.validation.is_some() { 0.5 * (1.0 - level) } else { 1.0 - level };
        let by_examples = conformal(&left_out.set_scores, alpha)?;
        if by_examples.is_none() {
            notes.push(every_class(level, &format!("{n} left-out examples are too few for this level")));
        } else if contradicted && trusted {
            notes.push(format!(
                "Sets are wider than the model's validation classes ask for: without that, {} % of the examples, left \
                 out, would miss theirs.",
                (100.0 * missed).round()
            ));
        }
        // Without scores of validation classes only the examples speak.
        let wider = match known.validation {
            None => by_examples,
            Some(_) => by_validation.zip(by_examples).map(|(a, b)| a.max(b)),
        };
        Ok(SetThreshold { level, score: wider })
    }
}

fn every_class(level: f64, why: &str) -> String {
    format!("Sets at {} % hold every class: {why}.", percent(level))
}

impl SetThreshold {
    fn holds(&self, score: f64) -> bool {
        score < self.level || self.score.is_none_or(|most| score <= most)
    }

    /// The share of scores of true classes that are not in their sets.
    fn missed(&self, scores: &[f64]) -> f64 {
        scores.iter().filter(|score| !self.holds(**score)).count() as f64 / scores.len().max(1) as f64
    }

    /// The classes that are possible, in rising order. The most probable one is always among them.
    pub(crate) fn set(&self, probabilities: &[f64]) -> Vec<usize> {
        (0..probabilities.len()).filter(|&c| self.holds(score(probabilities, c))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{LeftOut, testing::shape};

    fn known(validation: Option<Vec<f64>>, left_out: Option<Vec<f64>>, other_kind: bool) -> TaskCalibration {
        let mut known = TaskCalibration::nothing();
        known.validation = validation.map(|scores| shape(scores, vec![], vec![]));
        known.left_out = left_out.map(|set_scores| LeftOut { set_scores, ..LeftOut::default() });
        known.other_kind = other_kind;
        known
    }

    fn sets(known: &TaskCalibration) -> (SetThreshold, Vec<String>) {
        let mut notes = Vec::new();
        (Sets::default().threshold(known, &mut notes).unwrap(), notes)
    }

    /// Scores of a model that is right, its probabilities too: one in 20 misses.
    fn right(n: usize) -> Vec<f64> {
        (0..n).map(|i| if i % 20 == 7 { 0.95 } else { 0.0 }).collect()
    }

    #[test]
    fn a_set_sums_to_its_level_at_least() {
        let (found, notes) = sets(&known(Some(right(400)), None, false));
        assert_eq!(found.set(&[0.23, 0.2, 0.19, 0.19, 0.19]), [0, 1, 2, 3, 4], "never one class at 23 %");
        assert_eq!(found.set(&[0.05, 0.94, 0.01]), [1]);
        assert_eq!(found.set(&[0.6, 0.31, 0.09]), [0, 1]);
        assert_eq!(found.set(&[0.25; 4]), [0, 1, 2, 3], "equal probabilities enter together");
        assert!(notes.is_empty());
        // Validation with many misses: the sum must be larger.
        let sure_and_wrong = (0..400).map(|i| if i % 5 == 0 { 0.97 } else { 0.0 }).collect();
        let (found, _) = sets(&known(Some(sure_and_wrong), None, false));
        assert_eq!(found.set(&[0.02, 0.965, 0.015]), [0, 1]);
        assert_eq!(found.set(&[0.01, 0.98, 0.01]), [1]);
    }

    #[test]
    fn examples_that_contradict_the_validation_widen_the_sets() {
        let (usual, notes) = sets(&known(Some(right(400)), Some(right(25)), false));
        assert!(notes.is_empty() && usual.set(&[0.01, 0.98, 0.01]) == [1]);
        // Eight of 25 left-out examples miss their sets with certainty.
        let wrong: Vec<f64> = (0..25).map(|i| if i < 8 { 0.99 } else { 0.0 }).collect();
        let (wide, notes) = sets(&known(Some(right(400)), Some(wrong.clone()), false));
        assert!(notes[0].contains("32 % of the examples"), "{notes:?}");
        assert_eq!(wide.set(&[0.012, 0.975, 0.013]), [0, 1, 2]);
        // Few examples, all wrong: nothing can be promised but every class.
        let (all, notes) = sets(&known(Some(right(400)), Some(vec![0.99; 4]), false));
        assert_eq!((all.set(&[1.0, 0.0]), notes.len()), (vec![0, 1], 1));
        // Images of another kind: the examples decide, even where they agree.
        let (all, _) = sets(&known(Some(right(400)), Some(vec![0.0; 4]), true));
        assert_eq!(all.set(&[1.0, 0.0]), [0, 1]);
        let (all, notes) = sets(&known(Some(right(400)), None, true));
        assert!(all.set(&[1.0, 0.0]) == [0, 1] && notes[0].contains("every class"), "{notes:?}");
    }

    #[test]
    fn what_cannot_be_promised_is_said() {
        let (all, notes) = sets(&known(None, Some(vec![0.1; 5]), false));
        assert_eq!((notes.len(), all.set(&[1.0, 0.0, 0.0])), (1, vec![0, 1, 2]));
        let (some, notes) = sets(&known(None, Some(right(40)), false));
        assert!(notes.is_empty() && some.set(&[0.96, 0.04, 0.0]) == [0]);
        for level in [0.0, 1.0, f64::NAN] {
            assert!(Sets { level }.threshold(&known(None, None, false), &mut Vec::new()).is_err());
        }
    }
}
