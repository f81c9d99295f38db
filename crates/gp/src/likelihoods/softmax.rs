//! The softmax likelihood with temperature: p(y = k | f) = exp(f_k / tau) / sum_c exp(f_c / tau).

use super::{check_latent, check_tau, log_normalise};
use crate::Result;

/// log p(y = k | f) = f_k / tau - log sum_c exp(f_c / tau), for every k.
pub fn log_probs(f: &[f64], tau: f64) -> Result<Vec<f64>> {
    check_latent(f)?;
    check_tau(tau)?;
    let x: Vec<f64> = f.iter().map(|&f_c| f_c / tau).collect();
    Ok(log_normalise(&x))
}

/// The probabilities of [`log_probs`].
pub fn probs(f: &[f64], tau: f64) -> Result<Vec<f64>> {
    Ok(log_probs(f, tau)?.into_iter().map(f64::exp).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_classes_are_the_logistic_function() {
        let p = log_probs(&[3.0, -1.0], 2.0).unwrap();
        assert!((p[0] - super::super::log_sigmoid(2.0)).abs() < 1e-16);
        assert!((p[1] - super::super::log_sigmoid(-2.0)).abs() < 1e-15);
    }
}
