//! The logistic-softmax likelihood with temperature: p(y = k | f) = sigma(f_k / tau) / sum_c sigma(f_c / tau).

use super::{check_latent, check_tau, log_normalise};
use crate::special::log_sigmoid;
use crate::{Result, linalg::sum_any_order};

/// Eq. (3). `log p(y = k | f) = l_k - log sum_c exp(l_c)`, `l_c = log sigma(f_c / tau)`, for every k.
///
/// Exact to rounding for tau from 1e-3 to 1e3 and latent values to 1e4 in size.
pub fn log_probs(f: &[f64], tau: f64) -> Result<Vec<f64>> {
    check_latent(f)?;
    check_tau(tau)?;
    let l: Vec<f64> = f.iter().map(|&f_c| log_sigmoid(f_c / tau)).collect();
    Ok(log_normalise(&l))
}

/// The probabilities of [`log_probs`].
pub fn probs(f: &[f64], tau: f64) -> Result<Vec<f64>> {
    Ok(log_probs(f, tau)?.into_iter().map(f64::exp).collect())
}

/// Theorem 1, with its zeros. The limit of [`probs`] as tau falls to 0.
///
/// Weight 1 where f > 0 and 1/2 where f = 0 if any f >= 0, else 1 where f is largest; then normalised.
/// The paper's statement leaves out f_c = 0 (sigma(0) = 1/2 at every temperature) and ties.
pub fn probs_at_zero_temperature(f: &[f64]) -> Result<Vec<f64>> {
    check_latent(f)?;
    let max = f.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |f_c: f64| match max >= 0.0 {
        true if f_c > 0.0 => 1.0,
        true if f_c == 0.0 => 0.5,
        false if f_c == max => 1.0,
        _ => 0.0,
    };
    let weights: Vec<f64> = f.iter().map(|&f_c| weight(f_c)).collect();
    let total = sum_any_order(&mut weights.clone());
    Ok(weights.into_iter().map(|w| w / total).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    #[test]
    fn far_logits_and_extreme_temperatures_stay_exact() {
        // l differs by 1 / tau exactly once both logits are far below zero.
        for tau in [1e-3, 1.0, 10.0] {
            let p = log_probs(&[-1e4, -1e4 - 1.0], tau).unwrap();
            let want = -(-1.0 / tau).exp().ln_1p();
            assert!((p[0] - want).abs() < 1e-12, "tau {tau}: {} {want}", p[0]);
            assert!((p[1] - (want - 1.0 / tau)).abs() <= 1e-12 * (1.0 / tau).max(1.0));
        }
        // 1e4 and -1e4 at tau = 1e-3: x = -+1e7.
        let p = log_probs(&[1e4, -1e4], 1e-3).unwrap();
        assert_eq!(p[0], 0.0);
        assert!((p[1] + 1e7).abs() < 1e-6);
        // tau = 1e3 flattens f = 1 to x = 1e-3.
        let p = probs(&[1.0, 0.0], 1e3).unwrap();
        let s = 1.0 / (1.0 + (-1e-3f64).exp());
        assert!((p[0] - s / (s + 0.5)).abs() < 1e-15);
    }

    #[test]
    fn bad_input_is_named() {
        assert!(matches!(log_probs(&[0.0, f64::NAN], 1.0), Err(Error::NotFinite { col: 1, .. })));
        assert!(matches!(log_probs(&[0.0, 1.0], 0.0), Err(Error::OutOfRange { what: "tau", .. })));
        assert!(matches!(log_probs(&[0.0, 1.0], -1.0), Err(Error::OutOfRange { .. })));
        assert!(matches!(log_probs(&[0.0], 1.0), Err(Error::Empty { needed: 2, .. })));
    }

    proptest! {
        #[test]
        fn a_distribution_that_permutes_with_the_classes(
            f in prop::collection::vec(-1e4..1e4f64, 2..9), log_tau in -3.0..3.0f64, shift in 0usize..9,
        ) {
            let tau = 10f64.powf(log_tau);
            let p = probs(&f, tau).unwrap();
            prop_assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-13);
            let mut turned = f.clone();
            turned.rotate_left(shift % f.len());
            let mut want = p;
            want.rotate_left(shift % f.len());
            prop_assert_eq!(probs(&turned, tau).unwrap(), want);
        }
    }
}
