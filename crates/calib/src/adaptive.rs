//! ECE with bins of equal mass: no bin decides on a handful of predictions.

use crate::error::{Error, finite, same_length};
use crate::predictions::Predictions;
use crate::reliability::{Bin, Reliability};

/// Bins of equal mass: confidences in rising order, bin i holds those from `floor(iN/B)` to `floor((i+1)N/B)`.
///
/// Edges are the smallest and largest confidence of the bin. Where equal confidences fall on both sides of
/// a border, each side takes the mean accuracy of all of them, so the order of the rows does not matter.
/// With more bins than predictions the superfluous bins are left out.
pub fn adaptive_bins(confidences: &[f64], correct: &[bool], n_bins: usize) -> Result<Reliability, Error> {
    same_length(("confidences", confidences.len()), ("correct", correct.len()))?;
    finite("confidences", confidences)?;
    if n_bins == 0 {
        return Err(Error::ZeroBins);
    }
    let sorted = sorted_with_shared_hits(confidences, correct);
    let total = sorted.len();
    let bins = (0..n_bins.min(total)).map(|i| {
        let held = &sorted[share(i, total, n_bins)..share(i + 1, total, n_bins)];
        let n = held.len() as f64;
        Bin {
            lower: held[0].0,
            upper: held[held.len() - 1].0,
            count: held.len(),
            confidence: held.iter().map(|h| h.0).sum::<f64>() / n,
            accuracy: held.iter().map(|h| h.1).sum::<f64>() / n,
        }
    });
    Ok(Reliability { bins: bins.collect(), total })
}

/// Adaptive ECE: `sum_b n_b/N |acc_b - conf_b|` over bins of equal mass ([`adaptive_bins`]).
pub fn adaptive_ece(predictions: &Predictions, n_bins: usize) -> Result<f64, Error> {
    let (confidences, correct) = predictions.confidences();
    Ok(adaptive_bins(&confidences, &correct, n_bins)?.ece())
}

/// `floor(i N / B)`, with B cut to N so that no bin is empty.
fn share(i: usize, total: usize, n_bins: usize) -> usize {
    i * total / n_bins.min(total)
}

/// `(confidence, hit)` in rising order, the hits of equal confidences replaced by their mean.
fn sorted_with_shared_hits(confidences: &[f64], correct: &[bool]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(f64, f64)> =
        confidences.iter().zip(correct).map(|(&p, &hit)| (p, f64::from(u8::from(hit)))).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    for tied in sorted.chunk_by_mut(|a, b| a.0 == b.0) {
        let mean = tied.iter().map(|t| t.1).sum::<f64>() / tied.len() as f64;
        tied.iter_mut().for_each(|t| t.1 = mean);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_case_by_hand() {
        // Sorted: 0.5 right, 0.6 wrong | 0.8 right, 0.9 right.
        let r = adaptive_bins(&[0.9, 0.5, 0.8, 0.6], &[true, true, true, false], 2).unwrap();
        assert_eq!((r.bins[0].count, r.bins[0].lower, r.bins[0].upper), (2, 0.5, 0.6));
        assert!((r.ece() - (0.5 * (0.55 - 0.5) + 0.5 * (1.0 - 0.85))).abs() < 1e-15);
    }

    #[test]
    fn ties_across_a_border_are_shared() {
        for correct in [[true, false, true, false], [true, true, false, false]] {
            let r = adaptive_bins(&[0.7; 4], &correct, 2).unwrap();
            assert!((r.ece() - 0.2).abs() < 1e-15, "{correct:?}");
        }
    }

    #[test]
    fn more_bins_than_predictions() {
        let r = adaptive_bins(&[0.7, 0.9], &[true, false], 15).unwrap();
        assert_eq!(r.bins.len(), 2);
        assert!((r.ece() - 0.5 * (0.3 + 0.9)).abs() < 1e-15);
        assert_eq!(adaptive_bins(&[0.7], &[true], 0), Err(Error::ZeroBins));
        assert!(adaptive_bins(&[], &[], 3).is_err());
    }

    proptest! {
        #[test]
        fn masses_are_equal_and_complete(
            rows in prop::collection::vec((0.2f64..=1.0, any::<bool>()), 1..80),
            n_bins in 1usize..20,
        ) {
            let (confidences, correct): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
            let r = adaptive_bins(&confidences, &correct, n_bins).unwrap();
            let counts: Vec<_> = r.bins.iter().map(|b| b.count).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), rows.len());
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
            let (back, hits): (Vec<_>, Vec<_>) = rows.iter().rev().copied().unzip();
            prop_assert!((adaptive_bins(&back, &hits, n_bins).unwrap().ece() - r.ece()).abs() < 1e-12);
        }
    }
}
