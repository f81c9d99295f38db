//! Selective prediction: how the error falls when the least sure predictions are left unanswered.

use serde::{Deserialize, Serialize};

use crate::error::{Error, finite, same_length};
use crate::predictions::Predictions;

/// Answering all predictions at least this sure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoveragePoint {
    /// The confidence at or above which an answer is given.
    pub threshold: f64,
    /// The share of predictions answered.
    pub coverage: f64,
    /// The share of answers that are wrong.
    pub risk: f64,
}

/// A risk-coverage curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RiskCoverage {
    /// One point for each distinct confidence, coverage rising to 1.
    pub points: Vec<CoveragePoint>,
    /// Area under the curve: `1/N sum_k risk of the k surest`, equal confidences in the mean over their orders.
    pub aurc: f64,
}

impl RiskCoverage {
    /// The curve of the largest probability, `conf_n = max_c p_nc`.
    pub fn new(predictions: &Predictions) -> Result<Self, Error> {
        let (confidences, correct) = predictions.confidences();
        Self::of_confidences(&confidences, &correct)
    }

    /// The curve of any score that is larger for surer answers, such as minus the entropy.
    pub fn of_confidences(confidences: &[f64], correct: &[bool]) -> Result<Self, Error> {
        same_length(("confidences", confidences.len()), ("correct", correct.len()))?;
        finite("confidences", confidences)?;
        let mut sorted: Vec<(f64, bool)> = confidences.iter().copied().zip(correct.iter().copied()).collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        let total = sorted.len() as f64;
        let (mut points, mut area) = (Vec::new(), 0.0);
        let (mut answered, mut wrong) = (0.0, 0.0);
        for tied in sorted.chunk_by(|a, b| a.0 == b.0) {
            let size = tied.len() as f64;
            let mistakes = tied.iter().filter(|t| !t.1).count() as f64;
            // In the mean over orders of the tied, j of them hold j * mistakes / size mistakes.
            area += (1..=tied.len())
                .map(|j| (wrong + j as f64 * mistakes / size) / (answered + j as f64))
                .sum::<f64>();
            answered += size;
            wrong += mistakes;
            points.push(CoveragePoint {
                threshold: tied[0].0,
                coverage: answered / total,
                risk: wrong / answered,
            });
        }
        Ok(Self { points, aurc: area / total })
    }

    /// The point of largest coverage whose risk is at most `risk`; `None` if there is none.
    pub fn at_risk(&self, risk: f64) -> Option<CoveragePoint> {
        self.points.iter().rev().find(|point| point.risk <= risk).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_case_by_hand() {
        let r = RiskCoverage::of_confidences(&[0.6, 0.9, 0.8, 0.7], &[false, true, false, true]).unwrap();
        let risks: Vec<f64> = r.points.iter().map(|p| p.risk).collect();
        assert_eq!(risks, [0.0, 0.5, 1.0 / 3.0, 0.5]);
        assert!((r.aurc - (0.0 + 0.5 + 1.0 / 3.0 + 0.5) / 4.0).abs() < 1e-15);
        assert_eq!(r.at_risk(0.34).unwrap().threshold, 0.7);
        assert_eq!(r.at_risk(0.0).unwrap().coverage, 0.25);
    }

    #[test]
    fn nothing_is_good_enough() {
        let r = RiskCoverage::of_confidences(&[0.5], &[false]).unwrap();
        assert_eq!(r.at_risk(0.5), None);
        assert!(RiskCoverage::of_confidences(&[], &[]).is_err());
        assert!(RiskCoverage::of_confidences(&[f64::NAN], &[true]).is_err());
    }

    /// The area for one order of the tied, the plain definition.
    fn plain_area(order: &[bool]) -> f64 {
        let risk = |k: usize| order[..k].iter().filter(|hit| !**hit).count() as f64 / k as f64;
        (1..=order.len()).map(risk).sum::<f64>() / order.len() as f64
    }

    #[test]
    fn ties_take_the_mean_over_their_orders() {
        let r = RiskCoverage::of_confidences(&[0.9, 0.5, 0.5, 0.5], &[true, true, false, false]).unwrap();
        let orders = [[true, true, false, false], [true, false, true, false], [true, false, false, true]];
        let mean = orders.iter().map(|o| plain_area(o)).sum::<f64>() / 3.0;
        assert!((r.aurc - mean).abs() < 1e-15, "{} {mean}", r.aurc);
        assert_eq!(r.points.len(), 2);
    }

    proptest! {
        #[test]
        fn without_ties_it_is_the_plain_area(hits in prop::collection::vec(any::<bool>(), 1..40)) {
            let falling: Vec<f64> = (0..hits.len()).map(|i| -(i as f64)).collect();
            let r = RiskCoverage::of_confidences(&falling, &hits).unwrap();
            prop_assert!((r.aurc - plain_area(&hits)).abs() < 1e-12);
            prop_assert_eq!(r.points.last().unwrap().coverage, 1.0);
        }
    }
}
