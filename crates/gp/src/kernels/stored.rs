//! A kernel in files: what was written by version 0.1 is read, and written again in the same bytes.

use super::{AnyForm, Kernel};
use serde::{Deserialize, Serialize};

/// The fields of a kernel as files have them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    kind: Kind,
    normalise: bool,
    raw_shape: Shape,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    raw_lengths: Vec<f64>,
    raw_scale: Vec<f64>,
}

/// The name of the form; a polynomial with its power apart.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Kind {
    Polynomial { polynomial: Power },
    Named(AnyForm),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Power {
    power: u32,
}

/// One number for a form with one shape or none, else a list.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Shape {
    One(f64),
    Many(Vec<f64>),
}

impl From<Kernel> for Stored {
    fn from(kernel: Kernel) -> Self {
        let Kernel { form, normalise, raw_shape, raw_lengths, raw_scale } = kernel;
        let power = form.name().strip_prefix("poly").and_then(|power| power.parse().ok());
        let kind = match power {
            Some(power) => Kind::Polynomial { polynomial: Power { power } },
            None => Kind::Named(form),
        };
        let raw_shape = match raw_shape[..] {
            [] => Shape::One(0.0),
            [one] => Shape::One(one),
            _ => Shape::Many(raw_shape),
        };
        Stored { kind, normalise, raw_shape, raw_lengths, raw_scale }
    }
}

impl TryFrom<Stored> for Kernel {
    type Error = crate::Error;

    fn try_from(stored: Stored) -> crate::Result<Self> {
        let Stored { kind, normalise, raw_shape, raw_lengths, raw_scale } = stored;
        let form = match kind {
            Kind::Named(form) => form,
            Kind::Polynomial { polynomial: Power { power } } => super::Polynomial::new(power)?.into(),
        };
        let raw_shape = match raw_shape {
            Shape::One(_) if form.shapes().is_empty() => Vec::new(),
            Shape::One(one) => vec![one],
            Shape::Many(many) => many,
        };
        Ok(Kernel { form, normalise, raw_shape, raw_lengths, raw_scale })
    }
}
