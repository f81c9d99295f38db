//! `k(x, x') = exp(-d^2 / (2 l^2))`, `d = |x - x'|`, lengthscale l.

use super::{Form, Statistic};

/// The radial basis function, also called squared exponential.
#[derive(Debug, Clone, Copy)]
pub struct Rbf;

impl Form for Rbf {
    fn name(&self) -> String {
        "rbf".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::SquaredDistance
    }

    fn shapes(&self) -> &[&'static str] {
        &["lengthscale"]
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        let l = shape[0];
        (-0.5 * s / (l * l)).exp()
    }

    /// `dk/d(d^2) = -k / (2 l^2)`, `dk/dl = k d^2 / l^3`.
    fn slopes(&self, s: f64, k: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        let l = shape[0];
        by_shape[0] = k * s / (l * l * l);
        -0.5 * k / (l * l)
    }
}
