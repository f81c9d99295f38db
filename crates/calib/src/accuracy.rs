//! How often the classifier is right, and how sure that figure is.

use serde::{Deserialize, Serialize};

use crate::error::{Error, finite};
use crate::predictions::{Predictions, top};

/// `mean_n [argmax_c p_nc = y_n]`.
pub fn accuracy(predictions: &Predictions) -> f64 {
    let right = predictions.iter().filter(|&(p, y)| top(p).0 == y).count();
    right as f64 / predictions.len() as f64
}

/// A mean and what stands behind its ± sign.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeanSpread {
    /// The mean.
    pub mean: f64,
    /// The figure after the ± sign.
    pub spread: f64,
    /// How many values were averaged.
    pub count: usize,
}

/// Mean over episodes with its 95 % interval: `mean ± 1.96 s / sqrt(n)`, `s² = sum (x - mean)² / (n - 1)`.
///
/// `values`: one accuracy (or any other measure) per episode, n ≥ 2.
pub fn mean_interval95(values: &[f64]) -> Result<MeanSpread, Error> {
    finite("episode values", values)?;
    let count = values.len();
    if count < 2 {
        return Err(Error::TooFewEpisodes { found: count });
    }
    let (mean, squares) = mean_and_squares(values);
    let s = (squares / (count - 1) as f64).sqrt();
    Ok(MeanSpread { mean, spread: 1.96 * s / (count as f64).sqrt(), count })
}

/// Mean and population standard deviation over batches: `sqrt(sum (x - mean)² / n)`, the paper's ±.
///
/// `values`: the mean of each batch of episodes, n ≥ 1.
pub fn mean_std(values: &[f64]) -> Result<MeanSpread, Error> {
    finite("batch values", values)?;
    let (mean, squares) = mean_and_squares(values);
    Ok(MeanSpread { mean, spread: (squares / values.len() as f64).sqrt(), count: values.len() })
}

/// The mean and `sum (x - mean)²`, in two passes.
fn mean_and_squares(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|x| (x - mean).powi(2)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_first_class() {
        let p = Predictions::new(vec![0.5, 0.5, 0.5, 0.5, 0.1, 0.9], vec![0, 1, 1], 2).unwrap();
        assert_eq!(accuracy(&p), 2.0 / 3.0);
    }

    #[test]
    fn spreads_match_numpy() {
        // numpy: x = [0.5, 0.75, 1.0, 0.25]; 1.96*x.std(ddof=1)/2 and x.std()
        let x = [0.5, 0.75, 1.0, 0.25];
        let interval = mean_interval95(&x).unwrap();
        assert_eq!((interval.mean, interval.count), (0.625, 4));
        assert!((interval.spread - 0.316_293_639_940_272_4).abs() < 1e-15);
        let std = mean_std(&x).unwrap();
        assert!((std.spread - 0.279_508_497_187_473_7).abs() < 1e-15);
    }

    #[test]
    fn bad_values_are_named() {
        assert_eq!(mean_interval95(&[0.5]), Err(Error::TooFewEpisodes { found: 1 }));
        assert_eq!(mean_std(&[]), Err(Error::Empty { what: "batch values" }));
        assert!(matches!(mean_std(&[0.1, f64::NAN]), Err(Error::BadValue { index: 1, .. })));
        assert_eq!(mean_std(&[0.5]).unwrap().spread, 0.0);
    }
}
