//! Sets of classes that hold the truth at a rate asked for.

use crate::error::Result;
use crate::rules::{percent, share};
use siskin_calib::{Conformal, Predictions, SetRule};

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
pub(crate) struct Threshold(Conformal);

/// Scores of predictions whose truth is known: `1 - p` of the true classes.
pub(crate) fn scores(predictions: &Predictions) -> Vec<f64> {
    SetRule::Lac.scores(predictions)
}

impl Sets {
    /// The threshold by the scores of a calibration. What cannot be promised is added to `notes`.
    pub fn threshold(self, scores: &[f64], notes: &mut Vec<String>) -> Result<Threshold> {
        let alpha = 1.0 - share("the level of the sets", self.level)?;
        let sets = Conformal::of_scores(SetRule::Lac, scores, alpha)?;
        if sets.threshold.is_none() {
            notes.push(format!(
                "Sets at {} % hold every class: {} calibration predictions are too few for this level.",
                percent(self.level),
                scores.len()
            ));
        }
        Ok(Threshold(sets))
    }
}

impl Threshold {
    /// The classes that are possible, in rising order. The most probable one, `best`, is always among them: where nearly every
    /// answer is right, a set may miss its level by being empty, and that helps nobody.
    pub fn set(&self, probabilities: &[f64], best: usize) -> Vec<usize> {
        let set = self.0.set(probabilities);
        if set.is_empty() { vec![best] } else { set }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_follow_the_scores_and_are_never_empty() {
        let mut notes = Vec::new();
        // Scores 0.01 to 0.99: the 90th of 99 is 0.90, so classes with p >= 0.1 are in.
        let scores: Vec<f64> = (1..100).map(|i| f64::from(i) / 100.0).collect();
        let sets = Sets::default().threshold(&scores, &mut notes).unwrap();
        assert_eq!(sets.set(&[0.85, 0.11, 0.04], 0), [0, 1]);
        // Scores up to 0.099: only p >= 0.91 is in, and yet a set is never empty.
        let easy: Vec<f64> = scores.iter().map(|s| s / 10.0).collect();
        let sets = Sets::default().threshold(&easy, &mut notes).unwrap();
        assert_eq!(sets.set(&[0.1, 0.8, 0.1], 1), [1]);
        assert!(notes.is_empty());
    }

    #[test]
    fn what_cannot_be_promised_is_said() {
        let mut notes = Vec::new();
        let sets = Sets::default().threshold(&[0.1; 5], &mut notes).unwrap();
        assert_eq!((notes.len(), sets.set(&[1.0, 0.0, 0.0], 0)), (1, vec![0, 1, 2]));
        for level in [0.0, 1.0, f64::NAN] {
            assert!(Sets { level }.threshold(&[0.1; 5], &mut notes).is_err());
        }
    }
}
