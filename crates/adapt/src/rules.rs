//! When to answer with several classes, and when with none: what a person asks for, and the thresholds that follow from the
//! calibration of a task.

use crate::calibration::TaskCalibration;
use crate::error::{Error, Result};
use crate::none_of_these::NoneOfThese;
use crate::sets::Sets;

/// What a person asks of answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The rate at which sets of classes shall hold the truth.
    pub level: f64,
    /// "None of these" for what looks stranger than all but this share of true members; 0 never says so for that.
    pub abstain: f64,
    /// "None of these" where the most probable class has less than this.
    pub min_probability: f64,
}

impl Default for Rules {
    /// Sets at 90 %, the usual rule of "none of these".
    fn default() -> Self {
        let NoneOfThese { abstain, min_probability } = NoneOfThese::default();
        Rules { level: Sets::default().level, abstain, min_probability }
    }
}

/// Rules with their thresholds, ready to decide.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    pub(crate) sets: crate::sets::SetThreshold,
    pub(crate) none_of_these: crate::none_of_these::NoveltyThreshold,
    notes: Vec<String>,
}

impl Thresholds {
    pub(crate) fn new(rules: &Rules, calibration: &TaskCalibration) -> Result<Thresholds> {
        let mut notes = Vec::new();
        let sets = Sets { level: rules.level }.threshold(calibration, &mut notes)?;
        let rule = NoneOfThese { abstain: rules.abstain, min_probability: rules.min_probability };
        let none_of_these = rule.threshold(calibration, &mut notes)?;
        Ok(Thresholds { sets, none_of_these, notes })
    }

    /// What of the rules cannot be honoured with this calibration, and why sets are wide, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What to expect of "none of these", as a sentence; `None` where it is off, which [`Thresholds::notes`] explains.
    pub fn expectation(&self) -> Option<&str> {
        self.none_of_these.expectation.as_deref()
    }

    /// The share of strangers that "none of these" finds, where it is known: by validation classes of the model.
    pub fn strangers_found(&self) -> Option<f64> {
        self.none_of_these.detection
    }
}

/// Refuses a share that is not between 0 and 1.
pub(crate) fn share(name: &str, value: f64) -> Result<f64> {
    match value > 0.0 && value < 1.0 {
        true => Ok(value),
        false => Err(Error::Rules(format!("{name} = {value}: it must be between 0 and 1"))),
    }
}

/// A share as percent, with the digits it has: 0.9 gives 90, 0.999 gives 99.9.
pub fn percent(share: f64) -> f64 {
    (1e9 * share).round() / 1e7
}
