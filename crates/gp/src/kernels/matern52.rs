//! `k(x, x') = (1 + u + u^2/3) e^-u`, `u = sqrt5 d / l`, `d = |x - x'|`: Matérn with nu = 5/2, lengthscale l.

use super::{AnyForm, Form, Statistic};

pub(super) const NAMES: &[&str] = &["matern52"];

/// `matern` is its name in configs of version 0.1.
pub(super) fn named(name: &str) -> Option<AnyForm> {
    matches!(name, "matern52" | "matern").then(|| Matern52.into())
}

/// Matérn with nu = 5/2: twice differentiable functions.
#[derive(Debug, Clone, Copy)]
pub struct Matern52;

impl Form for Matern52 {
    fn name(&self) -> String {
        "matern52".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::SquaredDistance
    }

    fn shapes(&self) -> &[&'static str] {
        &["lengthscale"]
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        let u = (5.0 * s).sqrt() / shape[0];
        (1.0 + u + u * u / 3.0) * (-u).exp()
    }

    /// `dk/d(d^2/l^2) = -5/6 (1 + u) e^-u`, finite at 0.
    fn slopes(&self, s: f64, _: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        let l = shape[0];
        let u = (5.0 * s).sqrt() / l;
        let slope = -5.0 / 6.0 * (1.0 + u) * (-u).exp();
        by_shape[0] = -2.0 * slope * s / (l * l * l);
        slope / (l * l)
    }
}
