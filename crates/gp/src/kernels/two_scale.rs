//! `k(x, x') = exp(-d^2 / (2 l^2)) + variance exp(-d^2 / (2 L^2))`, `d = |x - x'|`: details at lengthscale l on a trend at L.

use super::{Form, Statistic};

/// Two radial basis functions: with a long second lengthscale and a large variance the second is an offset and a plane, as in a linear
/// model, but it returns to the prior mean far from all points.
#[derive(Debug, Clone, Copy)]
pub struct TwoScale;

impl Form for TwoScale {
    fn name(&self) -> String {
        "two-scale".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::SquaredDistance
    }

    fn shapes(&self) -> &[&'static str] {
        &["lengthscale", "lengthscale of the trend", "variance of the trend"]
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        let (l, long) = (shape[0], shape[1]);
        (-0.5 * s / (l * l)).exp() + shape[2] * (-0.5 * s / (long * long)).exp()
    }

    fn slopes(&self, s: f64, k: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        let (l, long, variance) = (shape[0], shape[1], shape[2]);
        let detail = (-0.5 * s / (l * l)).exp();
        let trend = k - detail;
        by_shape[0] = detail * s / (l * l * l);
        by_shape[1] = trend * s / (long * long * long);
        by_shape[2] = trend / variance;
        -0.5 * (detail / (l * l) + trend / (long * long))
    }
}
