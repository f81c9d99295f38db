//! `k(x, x') = variance <x, x'>`.

use super::{Form, Statistic};

/// The inner product.
#[derive(Debug, Clone, Copy)]
pub struct Linear;

impl Form for Linear {
    fn name(&self) -> String {
        "linear".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::Product
    }

    fn shapes(&self) -> &[&'static str] {
        &["variance"]
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        shape[0] * s
    }

    fn slopes(&self, s: f64, _: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        by_shape[0] = s;
        shape[0]
    }
}
