//! `k(x, x') = <x, x'> / (|x| |x'|)`: the paper's kernel. No shape parameter.

use super::{AnyForm, Form, Statistic};

pub(super) const NAMES: &[&str] = &["cosine"];

pub(super) fn named(name: &str) -> Option<AnyForm> {
    (name == "cosine").then(|| Cosine.into())
}

/// The cosine of the angle between two vectors.
#[derive(Debug, Clone, Copy)]
pub struct Cosine;

impl Form for Cosine {
    fn name(&self) -> String {
        "cosine".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::Product
    }

    fn shapes(&self) -> &[&'static str] {
        &[]
    }

    fn on_unit_vectors(&self) -> bool {
        true
    }

    fn value(&self, s: f64, _: &[f64]) -> f64 {
        s
    }

    fn slopes(&self, _: f64, _: f64, _: &[f64], _: &mut [f64]) -> f64 {
        1.0
    }
}
