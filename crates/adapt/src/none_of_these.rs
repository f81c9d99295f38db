//! "None of these": how strange a query looks beside all examples of a task, and when that is too strange.
//!
//! The score is `1 - (largest similarity with an example)`. Probabilities and latent moments depend on the number of examples,
//! this hardly does: what was measured on tasks of one shape holds for others.
//! `siskin export RUN --novelty-scores` compares it with other scores.

use crate::error::{Error, Result};
use crate::fitted::Raw;
use crate::rules::{percent, share};
use siskin_calib::{Conformal, SetRule};

/// When to say so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NoneOfThese {
    /// For what looks stranger than all but this share of true members; 0 never says so for that.
    pub abstain: f64,
    /// Where the most probable class has less than this.
    pub min_probability: f64,
}

impl Default for NoneOfThese {
    /// One true member in 20 is turned away; no bound on the probability.
    fn default() -> Self {
        NoneOfThese { abstain: 0.05, min_probability: 0.0 }
    }
}

/// The score of each query.
pub(crate) fn novelty(raw: &Raw) -> Vec<f64> {
    raw.nearest.iter().map(|similarity| 1.0 - similarity).collect()
}

/// The rule with its threshold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Threshold {
    strangest: Option<f64>,
    min_probability: f64,
}

impl NoneOfThese {
    /// The threshold by the scores of true members. What cannot be promised is added to `notes`.
    pub fn threshold(self, members: &[f64], notes: &mut Vec<String>) -> Result<Threshold> {
        let NoneOfThese { abstain, min_probability } = self;
        if !(0.0..=1.0).contains(&min_probability) {
            let why = format!("the least probability = {min_probability}: it must be in 0..1");
            return Err(Error::Rules(why));
        }
        if abstain == 0.0 {
            return Ok(Threshold { strangest: None, min_probability });
        }
        // The same order statistic as for sets: of members like those, at most this share is turned away.
        let rate = share("the abstain rate", abstain)?;
        let strangest = Conformal::of_scores(SetRule::Lac, members, rate)?.threshold;
        if strangest.is_none() {
            notes.push(format!(
                "Nothing is called \"none of these\" for being strange: {} calibration predictions are too few to turn away \
                 {} % of true members.",
                members.len(),
                percent(rate)
            ));
        }
        Ok(Threshold { strangest, min_probability })
    }
}

impl Threshold {
    /// Whether a query with this score and this largest probability is none of the classes.
    pub fn applies(&self, novelty: f64, probability: f64) -> bool {
        self.strangest.is_some_and(|limit| novelty > limit) || probability < self.min_probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strange_and_the_unsure_are_turned_away() {
        let mut notes = Vec::new();
        let members: Vec<f64> = (1..100).map(|i| f64::from(i) / 100.0 - 3.0).collect();
        // The 95th novelty is -2.05.
        let usual = NoneOfThese::default().threshold(&members, &mut notes).unwrap();
        assert!(!usual.applies(-2.0501, 0.8) && usual.applies(-2.0499, 0.8));
        let unsure = NoneOfThese { abstain: 0.0, min_probability: 0.9 };
        let unsure = unsure.threshold(&members, &mut notes).unwrap();
        assert!(unsure.applies(-9.0, 0.8) && !unsure.applies(9.0, 0.91));
        assert!(notes.is_empty());
    }

    #[test]
    fn what_cannot_be_promised_is_said() {
        let mut notes = Vec::new();
        let few = NoneOfThese::default().threshold(&[0.1; 5], &mut notes).unwrap();
        assert_eq!((notes.len(), few.applies(99.0, 1.0)), (1, false));
        for (abstain, min_probability) in [(1.0, 0.0), (-0.1, 0.0), (f64::NAN, 0.0), (0.05, 1.1)] {
            assert!(NoneOfThese { abstain, min_probability }.threshold(&[0.1; 5], &mut notes).is_err());
        }
    }
}
