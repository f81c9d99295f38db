//! Calibration of every class probability, not only of the largest.

use crate::error::Error;
use crate::predictions::Predictions;
use crate::reliability::{Reliability, Tally, bin_of};

/// One reliability diagram a class: the bins of `p_nc` against how often class c came true.
///
/// Equal-width bins as in [`Reliability::new`], but the first one holds 0 too: a class ruled out with
/// probability 0 that comes true must count.
pub fn classwise_bins(predictions: &Predictions, n_bins: usize) -> Result<Vec<Reliability>, Error> {
    let mut tallies = Vec::with_capacity(predictions.classes());
    for _ in 0..predictions.classes() {
        tallies.push(Tally::new(n_bins)?);
    }
    for (p, y) in predictions.iter() {
        for (c, (&p_c, tally)) in p.iter().zip(&mut tallies).enumerate() {
            let bin = bin_of(p_c, n_bins).unwrap_or(0);
            tally.add(bin, p_c, f64::from(u8::from(c == y)));
        }
    }
    Ok(tallies.iter().map(|t| Reliability { bins: t.bins(), total: predictions.len() }).collect())
}

/// Class-wise ECE `1/C sum_c sum_b n_cb/N |freq_cb - conf_cb|` over [`classwise_bins`].
pub fn classwise_ece(predictions: &Predictions, n_bins: usize) -> Result<f64, Error> {
    let per_class = classwise_bins(predictions, n_bins)?;
    Ok(per_class.iter().map(Reliability::ece).sum::<f64>() / per_class.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_case_by_hand() {
        // Two bins. Class 0: p = 0.2 (no), 0.4 (yes), 0.9 (yes). Class 1: p = 0.8 (yes), 0.6 (no), 0.1 (no).
        let predictions = Predictions::new(vec![0.2, 0.8, 0.4, 0.6, 0.9, 0.1], vec![1, 0, 0], 2).unwrap();
        let class_0: f64 = (0.5 - 0.3) * 2.0 / 3.0 + 0.1 / 3.0;
        let class_1: f64 = (0.7 - 0.5) * 2.0 / 3.0 + 0.1 / 3.0;
        let got = classwise_ece(&predictions, 2).unwrap();
        assert!((got - (class_0 + class_1) / 2.0).abs() < 1e-15, "{got}");
    }

    #[test]
    fn a_class_ruled_out_that_comes_true_counts() {
        let predictions = Predictions::new(vec![1.0, 0.0], vec![1], 2).unwrap();
        assert_eq!(classwise_ece(&predictions, 15), Ok(1.0));
        assert_eq!(classwise_ece(&predictions, 0), Err(Error::ZeroBins));
    }
}
