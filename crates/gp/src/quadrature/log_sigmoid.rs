//! E log sigma(x) for x ~ N(mu, v), with derivatives.

use super::{
    Resolution, Rule, check_marginals,
    exp::{LANES, Lanes, exp, log_1p},
    nodes::{spacing, sum},
};
use crate::Result;

/// An expectation and its derivatives in the mean and the variance of x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// The expectation.
    pub value: f64,
    /// Its derivative in the mean.
    pub dmu: f64,
    /// Its derivative in the variance.
    pub dv: f64,
}

/// E log sigma(x); d/dmu = E sigma(-x), d/dv = -E[ sigma(x) sigma(-x) ] / 2.
pub fn e_log_sigmoid(mu: f64, v: f64, resolution: Resolution) -> Result<Expectation> {
    check_marginals(&[mu], &[v])?;
    Ok(trapezoid(mu, v, &resolution.bound_rule()))
}

/// The rule itself, for arguments known to be good.
pub(super) fn trapezoid(mu: f64, v: f64, rule: &Rule) -> Expectation {
    pulp::Arch::new().dispatch(Trapezoid { mu, v, rule })
}

/// [`sum_nodes`] compiled for the instructions of the machine.
struct Trapezoid<'a> {
    mu: f64,
    v: f64,
    rule: &'a Rule,
}

impl pulp::WithSimd for Trapezoid<'_> {
    type Output = Expectation;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Expectation {
        sum_nodes(self.mu, self.v, self.rule)
    }
}

#[inline(always)]
fn sum_nodes(mu: f64, v: f64, rule: &Rule) -> Expectation {
    let (d, side) = spacing(v, rule);
    let (sd, count) = (v.sqrt(), 2 * side as usize + 1);
    let mut sums = [[0.0; LANES]; 4];
    for start in (0..count).step_by(LANES) {
        let z: Lanes = std::array::from_fn(|l| ((start + l) as f64 - side) * d);
        let x = z.map(|z| sd.mul_add(z, mu));
        let gauss = exp(z.map(|z| -0.5 * z * z));
        let e = exp(x.map(|x| -x.abs()));
        let log = log_1p(e);
        for l in 0..LANES {
            let w = if start + l < count { gauss[l] } else { 0.0 };
            // sigma(-x) = e^{-x} sigma(x), whichever is free of cancellation.
            let inv = 1.0 / (1.0 + e[l]);
            let minus = if x[l] > 0.0 { e[l] * inv } else { inv };
            sums[0][l] += w;
            sums[1][l] += w * (x[l].min(0.0) - log[l]);
            sums[2][l] += w * minus;
            sums[3][l] += w * (e[l] * inv * inv);
        }
    }
    let [total, value, dmu, dv] = sums.map(|x| sum(&x));
    Expectation { value: value / total, dmu: dmu / total, dv: -0.5 * dv / total }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn far_tails_keep_their_relative_accuracy() {
        // E log sigma = -E e^{-x} to first order, and E e^{-x} = exp(-mu + v / 2).
        let e = e_log_sigmoid(40.0, 0.25, Resolution::Golden).unwrap();
        let want = (-40.0f64 + 0.125).exp();
        assert!((e.value / -want - 1.0).abs() < 1e-13);
        assert!((e.dmu / want - 1.0).abs() < 1e-13 && (e.dv / (-0.5 * want) - 1.0).abs() < 1e-13);
        let e = e_log_sigmoid(-700.0, 0.0, Resolution::Standard).unwrap();
        assert!((e.value / -700.0 - 1.0).abs() < 1e-15 && (e.dmu - 1.0).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn derivatives_match_differences(mu in -40.0..40.0f64, log_v in -6.0..5.0f64) {
            let v = log_v.exp();
            let at = |mu, v| e_log_sigmoid(mu, v, Resolution::Golden).unwrap();
            let h = 1e-4;
            prop_assert!((at(mu, v).dmu - (at(mu + h, v).value - at(mu - h, v).value) / (2.0 * h)).abs() < 1e-8);
            let h = 1e-3 * v;
            prop_assert!((at(mu, v).dv - (at(mu, v + h).value - at(mu, v - h).value) / (2.0 * h)).abs() < 1e-6);
        }

        #[test]
        fn reflection(mu in -40.0..40.0f64, v in 0.0..50.0f64) {
            // log sigma(x) - log sigma(-x) = x.
            let (plus, minus) =
                (e_log_sigmoid(mu, v, Resolution::Standard).unwrap(), e_log_sigmoid(-mu, v, Resolution::Standard).unwrap());
            prop_assert!((plus.value - minus.value - mu).abs() < 1e-10);
        }
    }
}
