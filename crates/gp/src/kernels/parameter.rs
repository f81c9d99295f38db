//! Positive parameters as softplus of a real number.

use crate::{Error, Result, special::sigmoid};

/// softplus(r) = log(1 + e^r), without overflow.
pub fn softplus(r: f64) -> f64 {
    r.max(0.0) + (-r.abs()).exp().ln_1p()
}

/// d softplus / dr = sigma(r).
pub fn softplus_slope(r: f64) -> f64 {
    sigmoid(r)
}

/// The r with softplus(r) = `value`; `what` names the parameter if it is not positive.
pub fn inverse_softplus(what: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        // log(e^v - 1) = v + log(1 - e^-v)
        return Ok(value + (-(-value).exp_m1()).ln());
    }
    Err(Error::OutOfRange { what, value, must: "positive and finite" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for value in [1e-12, 1e-3, std::f64::consts::LN_2, 1.0, 40.0, 1e4] {
            let back = softplus(inverse_softplus("value", value).unwrap());
            assert!((back / value - 1.0).abs() < 1e-14, "{value} {back}");
        }
        assert_eq!(softplus(0.0), std::f64::consts::LN_2);
        assert_eq!(softplus(-800.0), 0.0);
        assert!(matches!(
            inverse_softplus("lengthscale", 0.0),
            Err(Error::OutOfRange { what: "lengthscale", .. })
        ));
    }
}
