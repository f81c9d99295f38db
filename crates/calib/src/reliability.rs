//! Does a confidence of 80 % mean right in 80 % of the cases? Equal-width bins, ECE and MCE.

use serde::{Deserialize, Serialize};

use crate::error::{Error, same_length};
use crate::predictions::Predictions;

/// The paper's bin count.
pub const PAPER_BINS: usize = 15;

/// One bin of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Lower edge; not in the bin (equal-width bins).
    pub lower: f64,
    /// Upper edge; in the bin.
    pub upper: f64,
    /// How many predictions fell in.
    pub count: usize,
    /// Their mean confidence; 0 if there are none.
    pub confidence: f64,
    /// The share of them that was right; 0 if there are none.
    pub accuracy: f64,
}

impl Bin {
    /// `|accuracy - confidence|`; 0 for an empty bin.
    pub fn gap(&self) -> f64 {
        (self.accuracy - self.confidence).abs()
    }
}

/// A reliability diagram as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// The bins in rising order, empty ones included.
    pub bins: Vec<Bin>,
    /// The number N of predictions, those in no bin included.
    pub total: usize,
}

impl Reliability {
    /// Bins the confidence `max_c p_nc` of each prediction into `n_bins` equal bins `(i/B, (i+1)/B]`.
    pub fn new(predictions: &Predictions, n_bins: usize) -> Result<Self, Error> {
        let (confidences, correct) = predictions.confidences();
        Self::of_confidences(&confidences, &correct, n_bins)
    }

    /// The same for confidences in `[0, 1]` and whether each came true; a confidence of 0 is in no bin.
    pub fn of_confidences(confidences: &[f64], correct: &[bool], n_bins: usize) -> Result<Self, Error> {
        same_length(("confidences", confidences.len()), ("correct", correct.len()))?;
        let pairs = confidences.iter().zip(correct).map(|(&p, &hit)| (p, f64::from(u8::from(hit))));
        let mut tally = Tally::new(n_bins)?;
        for (index, (confidence, hit)) in pairs.enumerate() {
            if !(0.0..=1.0 + crate::SUM_TOLERANCE).contains(&confidence) {
                return Err(Error::BadValue { what: "confidences", index, value: confidence });
            }
            if let Some(bin) = bin_of(confidence, n_bins) {
                tally.add(bin, confidence, hit);
            }
        }
        if confidences.is_empty() {
            return Err(Error::Empty { what: "confidences" });
        }
        Ok(Self { bins: tally.bins(), total: confidences.len() })
    }

    /// Expected calibration error `sum_b n_b/N |acc_b - conf_b|`.
    pub fn ece(&self) -> f64 {
        self.bins.iter().map(|b| b.count as f64 / self.total as f64 * b.gap()).sum()
    }

    /// Maximum calibration error `max_b |acc_b - conf_b|` over non-empty bins.
    pub fn mce(&self) -> f64 {
        self.bins.iter().map(Bin::gap).fold(0.0, f64::max)
    }
}

/// Expected calibration error with `n_bins` equal-width bins: [`Reliability::ece`].
pub fn ece(predictions: &Predictions, n_bins: usize) -> Result<f64, Error> {
    Ok(Reliability::new(predictions, n_bins)?.ece())
}

/// Maximum calibration error with `n_bins` equal-width bins: [`Reliability::mce`].
pub fn mce(predictions: &Predictions, n_bins: usize) -> Result<f64, Error> {
    Ok(Reliability::new(predictions, n_bins)?.mce())
}

/// The index i with `i/B < p <= (i+1)/B`, edges rounded to f64; `None` for `p = 0`. Above 1 counts as 1.
pub(crate) fn bin_of(p: f64, n_bins: usize) -> Option<usize> {
    if p <= 0.0 {
        return None;
    }
    let edge = |i: usize| i as f64 / n_bins as f64;
    // The product is rounded, the edges are the rule: at most one step corrects the guess.
    let mut i = ((p * n_bins as f64) as usize).min(n_bins - 1);
    while i > 0 && p <= edge(i) {
        i -= 1;
    }
    while i + 1 < n_bins && p > edge(i + 1) {
        i += 1;
    }
    Some(i)
}

/// Sums of confidence and of hits for each equal-width bin.
pub(crate) struct Tally {
    sums: Vec<(usize, f64, f64)>,
}

impl Tally {
    pub(crate) fn new(n_bins: usize) -> Result<Self, Error> {
        if n_bins == 0 {
            return Err(Error::ZeroBins);
        }
        Ok(Self { sums: vec![(0, 0.0, 0.0); n_bins] })
    }

    pub(crate) fn add(&mut self, bin: usize, confidence: f64, hit: f64) {
        let (count, confidences, hits) = &mut self.sums[bin];
        *count += 1;
        *confidences += confidence;
        *hits += hit;
    }

    pub(crate) fn bins(&self) -> Vec<Bin> {
        let n_bins = self.sums.len() as f64;
        let bin = |(i, &(count, confidences, hits)): (usize, &(usize, f64, f64))| {
            let n = count.max(1) as f64;
            Bin {
                lower: i as f64 / n_bins,
                upper: (i + 1) as f64 / n_bins,
                count,
                confidence: confidences / n,
                accuracy: hits / n,
            }
        };
        self.sums.iter().enumerate().map(bin).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rule read aloud: the one bin whose two inequalities hold.
    fn bin_by_search(p: f64, n: usize) -> Option<usize> {
        (0..n).find(|&i| i as f64 / (n as f64) < p && p <= (i + 1) as f64 / n as f64)
    }

    #[test]
    fn edges_belong_to_the_bin_below() {
        for n in [1, 2, 7, 10, 15, 20, 49, 1000] {
            for i in 0..=n {
                let edge = i as f64 / n as f64;
                for p in [edge, edge.next_down(), edge.next_up()] {
                    if (0.0..=1.0).contains(&p) {
                        assert_eq!(bin_of(p, n), bin_by_search(p, n), "p = {p}, {n} bins");
                    }
                }
            }
        }
        assert_eq!(bin_of(0.0, 15), None);
        assert_eq!(bin_of(1.0 + 1e-12, 15), Some(14));
    }

    #[test]
    fn a_small_case_by_hand() {
        // Confidences 0.6 (right), 0.8 (right), 0.8 (wrong), 1.0 (wrong), five bins.
        let probs = vec![0.6, 0.4, 0.8, 0.2, 0.2, 0.8, 1.0, 0.0];
        let predictions = Predictions::new(probs, vec![0, 0, 0, 1], 2).unwrap();
        let r = Reliability::new(&predictions, 5).unwrap();
        let counts: Vec<_> = r.bins.iter().map(|b| b.count).collect();
        assert_eq!(counts, [0, 0, 1, 2, 1]);
        assert!((r.ece() - (0.25 * 0.4 + 0.5 * 0.3 + 0.25 * 1.0)).abs() < 1e-15);
        assert_eq!(r.mce(), 1.0);
        assert_eq!((ece(&predictions, 5).unwrap(), mce(&predictions, 5).unwrap()), (r.ece(), r.mce()));
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(Reliability::of_confidences(&[0.5], &[true], 0), Err(Error::ZeroBins));
        assert_eq!(Reliability::of_confidences(&[], &[], 15), Err(Error::Empty { what: "confidences" }));
        assert!(matches!(
            Reliability::of_confidences(&[0.5, f64::NAN], &[true, true], 15),
            Err(Error::BadValue { index: 1, .. })
        ));
        assert!(matches!(
            Reliability::of_confidences(&[0.5], &[true, true], 15),
            Err(Error::LengthMismatch { .. })
        ));
    }

    #[test]
    fn zero_confidence_is_in_no_bin_but_counts() {
        let r = Reliability::of_confidences(&[0.0, 1.0], &[true, true], 15).unwrap();
        assert_eq!((r.total, r.bins.iter().map(|b| b.count).sum::<usize>()), (2, 1));
    }

    proptest! {
        #[test]
        fn any_confidence_lands_where_the_rule_says(p in 0.0f64..=1.0, n in 1usize..200) {
            prop_assert_eq!(bin_of(p, n), bin_by_search(p, n));
        }

        #[test]
        fn ece_is_at_most_mce(rows in prop::collection::vec((0.0f64..=1.0, any::<bool>()), 1..60), n in 1usize..30) {
            let (confidences, correct): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
            let r = Reliability::of_confidences(&confidences, &correct, n).unwrap();
            prop_assert!(r.ece() <= r.mce() + 1e-12);
            prop_assert!(r.mce() <= 1.0);
        }
    }
}
