//! One training step: its rates, what it did, and whether it is taken.

use super::share::Share;
use crate::error::Result;
use siskin_nn::{Head, Network, Pace, Step};

/// Learning rates of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// For the network, with its weight decay.
    pub network: Pace,
    /// For kernel parameters, temperature and prior mean.
    pub kernel: f64,
}

/// What one training step did.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// The mean loss of the step's episodes.
    pub loss: f64,
    /// The share of queries that the support alone predicts rightly, before the step; none where the loss does not give
    /// it without further work.
    pub accuracy: Option<f64>,
    /// False where the loss or a gradient was not finite: the step was then not taken.
    pub taken: bool,
    /// How far the inference of the step's episodes was from rest, at most; none where there is no such inference.
    pub residual: Option<f64>,
}

impl StepReport {
    /// The report of a step before its first episode.
    pub fn start() -> StepReport {
        StepReport { loss: 0.0, accuracy: None, taken: false, residual: None }
    }

    /// Adds one of `count` episodes.
    pub fn add(&mut self, loss: f64, accuracy: Option<f64>, count: usize) {
        self.loss += loss / count as f64;
        if let Some(accuracy) = accuracy {
            self.accuracy = Some(self.accuracy.unwrap_or(0.0) + accuracy / count as f64);
        }
    }

    /// The step of a method that learns one network.
    pub fn of_shares<H: Head>(
        network: &mut Network<H>,
        shares: Vec<Share>,
        pace: Pace,
    ) -> Result<StepReport> {
        let (mut report, count) = (StepReport::start(), shares.len());
        shares.iter().for_each(|share| report.add(share.loss, share.accuracy, count));
        let step = network.step_of(shares.into_iter().flat_map(|share| share.parts))?;
        Ok(report.take(network, step, pace))
    }

    /// Takes the step where loss and gradient are finite, else drops it, and says which.
    pub fn take<H: Head>(mut self, network: &mut Network<H>, step: Step, pace: Pace) -> StepReport {
        self.taken = self.loss.is_finite() && step.non_finite() == 0;
        if self.taken {
            network.apply(step, pace);
        }
        self
    }
}
