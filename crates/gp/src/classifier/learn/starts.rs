//! Where the search starts, what it moves, and how far.

use super::Points;
use super::parameters::{At, Parameters, logs, put_logs};
use crate::Result;
use crate::kernels::Kernel;
use crate::linalg::sum_any_order;

/// Temperatures that are tried as starts, in units of the deviation of the latent functions over the points.
const TEMPERATURES: [f64; 4] = [0.8, 0.35, 0.15, 0.065];
/// The one of them from which lengths are tried.
const MIDDLE: usize = 1;
/// The prior mean, in units of the prior deviation: the model is close to a softmax, and lower ones change nothing.
const MEAN: f64 = -6.0;
/// No temperature outside this range, in units of the deviation over the points: colder, integrals become slow.
const RANGE: (f64, f64) = (0.03, 5.0);
/// Factors of a lengthscale that are tried.
const LENGTHS: [f64; 2] = [0.5, 2.5];

/// Where the search stands: log temperature, asinh of the mean in units of the prior deviation, log shapes.
pub(in super::super) type Place = Vec<f64>;

/// The given hyperparameters, and the deviations of the latent functions they mean.
pub(in super::super) struct Starts<'a> {
    given: &'a Parameters,
    /// The kernel is the classifier's own choice.
    own_kernel: bool,
    /// Of one value.
    prior: f64,
    /// Around their mean over the points: an offset that all points share tells no classes apart.
    over_points: f64,
}

impl<'a> Starts<'a> {
    pub(in super::super) fn new(given: &'a Parameters, points: Points<'_>, own_kernel: bool) -> Result<Self> {
        let (kernel, classes) = (&given.start.hyper.kernel, points.classes);
        let k = kernel.within(&kernel.features(points.x.as_ref())?)?.of_classes(classes);
        let n = points.y.len() as f64;
        let mean_over_classes = |of: &dyn Fn(usize) -> f64| {
            sum_any_order(&mut (0..classes).map(of).collect::<Vec<f64>>()) / classes as f64
        };
        let own = mean_over_classes(&|c| k[c].diagonal().column_vector().iter().sum::<f64>() / n);
        let shared =
            mean_over_classes(&|c| k[c].col_iter().map(|col| col.iter().sum::<f64>()).sum::<f64>() / (n * n));
        let deviation = |variance: f64| variance.max(1e-12 * own).sqrt().max(f64::MIN_POSITIVE);
        Ok(Starts { given, own_kernel, prior: deviation(own), over_points: deviation(own - shared) })
    }

    fn kernel(&self) -> &Kernel {
        &self.given.start.hyper.kernel
    }

    /// The place of some hyperparameters.
    pub(super) fn place_of(&self, at: &At) -> Place {
        let mut place = vec![at.hyper.tau.ln(), (at.hyper.mean / self.prior).asinh()];
        place.extend(logs(&at.hyper.kernel.raw_shape));
        place
    }

    /// The hyperparameters at a place; what a place does not say is as given.
    pub(in super::super) fn at(&self, place: &Place) -> Result<At> {
        let mut at = self.given.start.clone();
        at.hyper.tau = place[0].exp();
        at.hyper.mean = self.prior * place[1].sinh();
        put_logs(&mut at.hyper.kernel.raw_shape, "kernel shape", &place[2..])?;
        Ok(at)
    }

    /// The given shapes, at the middle temperature.
    pub(in super::super) fn centre(&self) -> Place {
        self.centre_at(TEMPERATURES[MIDDLE])
    }

    /// The given shapes, at a temperature in units of the deviation over the points.
    pub(super) fn centre_at(&self, temperature: f64) -> Place {
        let mut place = self.place_of(&self.given.start);
        place[0] = (temperature * self.over_points).ln();
        place[1] = MEAN.asinh();
        place
    }

    /// The temperature of a place, in units of the deviation over the points.
    pub(in super::super) fn temperature(&self, place: &Place) -> f64 {
        place[0].exp() / self.over_points
    }

    /// What the search moves. A lengthscale moves with the temperature over it held, for that is the slope of the latent functions; beside
    /// a trend, which keeps its own, alone. A shape of a kernel that is not stationary is a scale, as the temperature is.
    pub(in super::super) fn directions(&self) -> Vec<Place> {
        let along = |parts: &[(usize, f64)]| {
            let mut direction = vec![0.0; 2 + self.kernel().raw_shape.len()];
            parts.iter().for_each(|&(i, d)| direction[i] = d);
            direction
        };
        let mut directions = vec![along(&[(0, 1.0)])];
        if self.own_kernel {
            directions.push(along(&[(2, 1.0)]));
        } else if self.given.shapes_per_class() {
            // What tells the classes apart was learned by the bound; all move together.
            let all: Vec<(usize, f64)> = (2..2 + self.kernel().raw_shape.len()).map(|i| (i, 1.0)).collect();
            directions.push(along(&all));
        } else if self.kernel().form.is_stationary() {
            directions.push(along(&[(2, 1.0), (0, -1.0)]));
            directions.extend((3..2 + self.kernel().raw_shape.len()).map(|i| along(&[(i, 1.0)])));
        }
        directions
    }

    /// By how much, in logarithms, the details are finer than those of the classifier's own kernel at its start.
    pub(super) fn roughness(&self, place: &Place) -> f64 {
        if self.own_kernel { (self.centre()[2] - place[2]).max(0.0) } else { 0.0 }
    }

    /// Whether a place is within bounds.
    pub(in super::super) fn allows(&self, place: &Place) -> bool {
        (RANGE.0..RANGE.1).contains(&self.temperature(place))
    }

    /// Some temperatures, for the given shapes.
    pub(in super::super) fn hot_to_cold(&self) -> Vec<Place> {
        TEMPERATURES.iter().map(|&temperature| self.centre_at(temperature)).collect()
    }

    /// The given hyperparameters, and for a given stationary kernel some lengths.
    pub(super) fn others(&self) -> Vec<Place> {
        let mut places = vec![self.place_of(&self.given.start)];
        if self.kernel().form.is_stationary() && !self.own_kernel {
            places.extend(LENGTHS.map(|length| {
                let mut place = self.centre();
                place[2] += length.ln();
                place
            }));
        }
        places
    }
}
