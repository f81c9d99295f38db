//! `k(x, x') = (sin t + (pi - t) cos t) / pi`, t the angle between x and x': the arc-cosine kernel of order 1 (Cho and Saul, 2009) on unit
//! vectors, what an endless layer of rectified linear units makes of them. No shape parameter.

use super::{Form, Statistic};
use std::f64::consts::PI;

/// The arc-cosine kernel of order 1.
#[derive(Debug, Clone, Copy)]
pub struct ArcCosine;

impl Form for ArcCosine {
    fn name(&self) -> String {
        "arc-cosine".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::Cosine
    }

    fn value(&self, s: f64, _: &[f64]) -> f64 {
        // Rounding may take the cosine of equal vectors beyond 1.
        let s = s.clamp(-1.0, 1.0);
        (((1.0 - s) * (1.0 + s)).sqrt() + (PI - s.acos()) * s) / PI
    }

    /// `dk/ds = (pi - t) / pi`.
    fn slopes(&self, s: f64, _: f64, _: &[f64], _: &mut [f64]) -> f64 {
        1.0 - s.clamp(-1.0, 1.0).acos() / PI
    }
}
