//! `k(x, x') = (1 + d^2 / (2 m l^2))^-m`, `d = |x - x'|`, lengthscale l, mixture m: RBF kernels of many lengthscales, mixed.

use super::{Form, Statistic};

/// The rational quadratic; RBF as the mixture parameter grows.
#[derive(Debug, Clone, Copy)]
pub struct RationalQuadratic;

impl Form for RationalQuadratic {
    fn name(&self) -> String {
        "rational-quadratic".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::SquaredDistance
    }

    fn shapes(&self) -> &[&'static str] {
        &["lengthscale", "mixture"]
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        let (l, m) = (shape[0], shape[1]);
        (-m * (s / (2.0 * m * l * l)).ln_1p()).exp()
    }

    /// With `r = d^2 / (2 m l^2)`: `dk/d(d^2) = -k / (2 l^2 (1 + r))`, `dk/dl = -2 d^2/l dk/d(d^2)`,
    /// `dk/dm = k (r / (1 + r) - log(1 + r))`.
    fn slopes(&self, s: f64, k: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        let (l, m) = (shape[0], shape[1]);
        let r = s / (2.0 * m * l * l);
        let by_s = -0.5 * k / (l * l * (1.0 + r));
        by_shape[0] = -2.0 * s / l * by_s;
        by_shape[1] = k * (r / (1.0 + r) - r.ln_1p());
        by_s
    }
}
