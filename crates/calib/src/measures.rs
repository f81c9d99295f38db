//! All measures of one set of predictions together.

use crate::{Error, PAPER_BINS, Predictions, Reliability, accuracy, adaptive_ece, brier, classwise_ece, nll};
use serde::{Deserialize, Serialize};

/// The measures of one set of predictions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Share of right predictions.
    pub accuracy: f64,
    /// Mean negative log-probability of the truth.
    pub nll: f64,
    /// Brier score.
    pub brier: f64,
    /// Expected calibration error, the paper's 15 bins.
    pub ece: f64,
    /// Maximum calibration error, the same bins.
    pub mce: f64,
    /// ECE with bins of equal mass.
    pub adaptive_ece: f64,
    /// ECE of every class's probability, averaged.
    pub classwise_ece: f64,
}

impl Measures {
    /// All measures of `predictions`.
    pub fn of(predictions: &Predictions) -> Result<Measures, Error> {
        let reliability = Reliability::new(predictions, PAPER_BINS)?;
        Ok(Measures {
            accuracy: accuracy(predictions),
            nll: nll(predictions),
            brier: brier(predictions),
            ece: reliability.ece(),
            mce: reliability.mce(),
            adaptive_ece: adaptive_ece(predictions, PAPER_BINS)?,
            classwise_ece: classwise_ece(predictions, PAPER_BINS)?,
        })
    }
}
