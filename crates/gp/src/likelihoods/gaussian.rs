//! Label regression: the label of class c is the target +1 where y = c and -1 elsewhere, with Gaussian noise.

use super::{check_label, check_latent};
use crate::{Error, Result, linalg::sum_any_order};

/// The regression target of class `class` at a point labelled `label`: +1 for its own class, -1 for the others.
pub(crate) fn target(label: usize, class: usize) -> f64 {
    if label == class { 1.0 } else { -1.0 }
}

/// log p(y | f) = sum_c log N(t_c | f_c, noise), t_c = +-1; `noise` is a variance.
pub fn log_likelihood(f: &[f64], y: usize, noise: f64) -> Result<f64> {
    check_latent(f)?;
    check_label(y, f.len())?;
    if !(noise > 0.0 && noise.is_finite()) {
        return Err(Error::OutOfRange { what: "noise", value: noise, must: "positive and finite" });
    }
    let log_norm = -0.5 * (2.0 * std::f64::consts::PI * noise).ln();
    let mut terms: Vec<f64> =
        (0..f.len()).map(|c| log_norm - (target(y, c) - f[c]).powi(2) / (2.0 * noise)).collect();
    Ok(sum_any_order(&mut terms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_product_of_normal_densities() {
        // N(1 | .5, .1) N(-1 | -.2, .1), densities from the definition.
        let density = |t: f64, f: f64| (-(t - f) * (t - f) / 0.2).exp() / (0.2 * std::f64::consts::PI).sqrt();
        let want = (density(1.0, 0.5) * density(-1.0, -0.2)).ln();
        assert!((log_likelihood(&[0.5, -0.2], 0, 0.1).unwrap() - want).abs() < 1e-14);
        assert!(matches!(log_likelihood(&[0.5, 0.0], 0, 0.0), Err(Error::OutOfRange { what: "noise", .. })));
    }
}
