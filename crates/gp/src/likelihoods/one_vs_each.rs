//! The one-vs-each composite likelihood: L(y = k | f) = prod_{c != k} sigma(f_k - f_c).
//!
//! It bounds the softmax probability from below, and sum_k L(y = k | f) <= 1.

use super::{check_label, check_latent, log_normalise};
use crate::special::log_sigmoid;
use crate::{Result, linalg::sum_any_order};

/// log L(y | f) = sum_{c != y} log sigma(f_y - f_c).
pub fn log_likelihood(f: &[f64], y: usize) -> Result<f64> {
    check_latent(f)?;
    check_label(y, f.len())?;
    Ok(pairwise_sum(f, y))
}

/// The composite likelihood of every label, normalised over the labels: log of L(k) / sum_j L(j).
pub(crate) fn log_probs(f: &[f64]) -> Result<Vec<f64>> {
    check_latent(f)?;
    let scores: Vec<f64> = (0..f.len()).map(|k| pairwise_sum(f, k)).collect();
    Ok(log_normalise(&scores))
}

/// The probabilities of `log_probs`.
pub fn probs(f: &[f64]) -> Result<Vec<f64>> {
    Ok(log_probs(f)?.into_iter().map(f64::exp).collect())
}

fn pairwise_sum(f: &[f64], k: usize) -> f64 {
    let mut terms: Vec<f64> = (0..f.len()).filter(|&c| c != k).map(|c| log_sigmoid(f[k] - f[c])).collect();
    sum_any_order(&mut terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, likelihoods::softmax};

    #[test]
    fn it_bounds_softmax_from_below_and_meets_it_for_two_classes() {
        let f = [0.3, -1.2, 2.0, 0.9];
        let soft = softmax::log_probs(&f, 1.0).unwrap();
        let mut total = 0.0;
        for k in 0..f.len() {
            let ove = log_likelihood(&f, k).unwrap();
            assert!(ove < soft[k]);
            total += ove.exp();
        }
        assert!(total < 1.0);
        assert!((probs(&f).unwrap().iter().sum::<f64>() - 1.0).abs() < 1e-15);
        let two = softmax::log_probs(&f[..2], 1.0).unwrap();
        assert!((log_likelihood(&f[..2], 1).unwrap() - two[1]).abs() < 1e-15);
    }

    #[test]
    fn a_label_that_does_not_exist_is_named() {
        let want = Error::Label { row: 0, label: 7, classes: 2 };
        assert_eq!(log_likelihood(&[0.0, 1.0], 7), Err(want));
    }
}
