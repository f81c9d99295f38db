//! `k(x, x') = (<x, x'> + offset)^power`, power from 1 to 1000: `poly1`, `poly2`, ...

use super::{AnyForm, Form, Statistic};
use crate::{Error, Result};

pub(super) const NAMES: &[&str] = &["poly1", "poly2"];

/// The largest power.
const MAX_POWER: u32 = 1000;

pub(super) fn named(name: &str) -> Option<AnyForm> {
    let power = name.strip_prefix("poly")?.parse().ok()?;
    Polynomial::new(power).ok().map(Into::into)
}

/// A power of the shifted inner product.
#[derive(Debug, Clone, Copy)]
pub struct Polynomial {
    power: u32,
}

impl Polynomial {
    /// The kernel of this power.
    pub fn new(power: u32) -> Result<Self> {
        if (1..=MAX_POWER).contains(&power) {
            return Ok(Polynomial { power });
        }
        Err(Error::OutOfRange { what: "power", value: power.into(), must: "between 1 and 1000" })
    }
}

impl Form for Polynomial {
    fn name(&self) -> String {
        format!("poly{}", self.power)
    }

    fn statistic(&self) -> Statistic {
        Statistic::Product
    }

    fn shapes(&self) -> &[&'static str] {
        &["offset"]
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        (s + shape[0]).powi(self.power as i32)
    }

    fn slopes(&self, s: f64, _: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        let slope = f64::from(self.power) * (s + shape[0]).powi(self.power as i32 - 1);
        by_shape[0] = slope;
        slope
    }
}
