//! `k(x, x') = <x, x'> / (|x| |x'|)`: the paper's kernel. No shape parameter.

use super::{Form, Statistic};

/// The cosine of the angle between two vectors.
#[derive(Debug, Clone, Copy)]
pub struct Cosine;

impl Form for Cosine {
    fn name(&self) -> String {
        "cosine".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::Cosine
    }

    fn value(&self, s: f64, _: &[f64]) -> f64 {
        s
    }

    fn slopes(&self, _: f64, _: f64, _: &[f64], _: &mut [f64]) -> f64 {
        1.0
    }
}
