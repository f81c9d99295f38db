//! Where learning starts: a small grid of temperature and lengthscale.
//!
//! The prior mean lies some prior deviations below 0: with many classes a logistic-softmax model can be confident only if most
//! latent values are negative, and from there on it is the softmax model (Theorem 2).

use super::Points;
use super::parameters::{At, Parameters};
use crate::Result;
use crate::kernels::{inverse_softplus, softplus};
use crate::linalg::sum_any_order;

/// Temperatures that are tried as starts, in units of the standard deviation of the prior.
const TEMPERATURES: [f64; 3] = [0.3, 0.1, 0.03];
/// The prior mean, in units of that deviation. Lower ones change nothing (the tables of `docs/trust.md` were made with this one).
const MEAN: f64 = -6.0;
/// No temperature below this, in the same units: integrals become slow, and left-out points say little about so sure a model.
const COLDEST: f64 = 0.02;
/// Factors of the lengthscale that are tried with each.
const LENGTHS: [f64; 3] = [0.5, 1.0, 2.5];

/// Where the search stands: log temperature, asinh of the mean in units of the prior deviation, log shapes.
pub(super) type Place = Vec<f64>;

/// The given hyperparameters, and the deviation of the prior they mean.
pub(super) struct Starts<'a> {
    pub(super) given: &'a Parameters,
    deviation: f64,
}

impl<'a> Starts<'a> {
    pub(super) fn new(given: &'a Parameters, points: Points<'_>) -> Result<Self> {
        let kernel = &given.kernel;
        let own = kernel.own(&kernel.features(points.x.as_ref())?)?.own_of_classes(points.classes);
        let mut variances: Vec<f64> = own.col_iter().map(|own| own.iter().sum()).collect();
        let variance = sum_any_order(&mut variances) / (points.y.len() * points.classes) as f64;
        Ok(Starts { given, deviation: variance.sqrt().max(f64::MIN_POSITIVE) })
    }

    /// The place of some hyperparameters.
    pub(super) fn place_of(&self, at: &At) -> Place {
        let mut place = vec![at.level.ln(), (at.mean / self.deviation).asinh()];
        place.extend(at.kernel.raw_shape.iter().map(|&raw| softplus(raw).ln()));
        place
    }

    /// The hyperparameters at a place; what a place does not say is as given.
    pub(super) fn at(&self, place: &Place) -> Result<At> {
        let mut at = self.given.here();
        at.level = place[0].exp();
        at.mean = self.deviation * place[1].sinh();
        for (raw, log) in at.kernel.raw_shape.iter_mut().zip(&place[2..]) {
            *raw = inverse_softplus("kernel shape", log.exp())?;
        }
        Ok(at)
    }

    /// The middle of the grid.
    pub(super) fn centre(&self) -> Place {
        let mut place = self.place_of(&self.given.here());
        place[0] = (TEMPERATURES[1] * self.deviation).ln();
        place[1] = MEAN.asinh();
        place
    }

    /// How cold a place is: the logarithm of the prior deviation over the temperature.
    pub(super) fn coldness(&self, place: &Place) -> f64 {
        self.deviation.ln() - place[0]
    }

    /// Whether a place is within bounds.
    pub(super) fn allows(&self, place: &Place) -> bool {
        self.coldness(place) <= -COLDEST.ln()
    }

    /// The given hyperparameters and a small grid.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places = vec![self.place_of(&self.given.here())];
        let stationary = self.given.kernel.form.is_stationary();
        for temperature in TEMPERATURES {
            for length in if stationary { &LENGTHS[..] } else { &LENGTHS[1..2] } {
                let mut place = self.centre();
                place[0] += (temperature / TEMPERATURES[1]).ln();
                if stationary {
                    place[2] += length.ln();
                }
                places.push(place);
            }
        }
        places
    }
}
