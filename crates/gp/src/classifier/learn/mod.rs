//! Hyperparameters from labelled vectors.
//!
//! The logistic-softmax model with direct inference learns by **prediction of held-out points** ([`search`]): the best of several starts,
//! then a search of temperature, kernel shapes and spread for the least log-loss. Parameters beyond these (a scale for each class, a
//! length for each input) are learned before by the bound of the log evidence ([`evidence`]), which is also how every other likelihood
//! and inference learns.

mod evidence;
mod folds;
mod large;
mod parameters;
mod search;
mod starts;

use super::GpClassifier;
use super::inputs::spread_subset;
use crate::hyper::Hyper;
use crate::kernels::Kernel;
use crate::{Error, Result, Support};
use faer::Mat;
pub(super) use large::{HeldOut, Large, learn_large};
use parameters::At;
pub(super) use parameters::Parameters;
pub(super) use search::SPREADS;
use serde::{Deserialize, Serialize};
pub(super) use starts::Starts;

/// Learned hyperparameters (those of the kernel stand in the kernel).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learned {
    /// Temperature; 1 for [`Likelihood::Gaussian`](super::Likelihood::Gaussian).
    pub tau: f64,
    /// Prior mean of all latent functions.
    pub prior_mean: f64,
    /// Noise variance of [`Likelihood::Gaussian`](super::Likelihood::Gaussian); 0 otherwise.
    pub noise: f64,
    /// How much of the posterior deviation of the latent functions probabilities are averaged over; files from before it was learned
    /// mean 1. Less than 1: points are predicted better by the posterior mean than their variance, in many dimensions most of it the
    /// prior's, would allow.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub spread: f64,
    /// The chance that a point has any label, whatever its features: half a point among the training points. Where hyperparameters are searched for,
    /// one more point than there are may have any label; probabilities allow for it too. Files from before it was kept mean 0.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub any_label: f64,
    /// The bound of the log evidence of all training points.
    pub bound: f64,
    /// Evaluations of the bound and of the log-loss of held-out points.
    pub evaluations: usize,
    /// Whether the search came to rest; if not, the best point met is used.
    pub converged: bool,
    /// Whether the inference within came to rest in every evaluation; if not, some values and slopes that led
    /// the search were not exact. A file from before this was kept says `false`.
    #[serde(default)]
    pub inner_converged: bool,
    /// Whether the posterior given all training points came to rest within its sweeps or steps; if not, it is the one
    /// reached.
    pub posterior_converged: bool,
    /// The log-loss, in nats per point, of points that others predicted while hyperparameters were learned: by folds, or where the
    /// bound was climbed by cavities. Only [`Likelihood::LogisticSoftmax`](super::Likelihood::LogisticSoftmax) has one.
    #[serde(default, rename = "leave_one_out")]
    pub held_out: Option<f64>,
    /// Whether the hyperparameters are those of the search. `false`: by that log-loss the start was better, and it was kept.
    #[serde(default = "yes")]
    pub learned_kept: bool,
    /// The share of each class among the training points, by weight; files from before it was kept have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<f64>,
    /// Number of inducing points; 0 where the posterior is over all training points.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inducing: usize,
}

/// A prior of temperature and spread for points of one kind, such as features of pretrained networks: normal in their logarithms. Where no
/// class has two examples, nothing can be held out, and the hyperparameters are these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The temperature, in units of the deviation of the latent functions over the points.
    pub temperature: f64,
    /// [`Learned::spread`].
    pub spread: f64,
    /// The standard deviation of either logarithm.
    pub deviation: f64,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks.
fn is_one(spread: &f64) -> bool {
    *spread == 1.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks.
fn is_nothing(chance: &f64) -> bool {
    *chance == 0.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks.
fn is_zero(inducing: &usize) -> bool {
    *inducing == 0
}

/// The points hyperparameters are learned on.
#[derive(Clone, Copy)]
pub(super) struct Points<'a> {
    /// [N, D], standardised.
    pub(super) x: &'a Mat<f64>,
    pub(super) y: &'a [usize],
    pub(super) classes: usize,
    /// How often each counts; once if there are none.
    pub(super) weights: Option<&'a [f64]>,
}

/// Some of the points, in their own order.
pub(super) struct Few {
    pub(super) x: Mat<f64>,
    pub(super) y: Vec<usize>,
    classes: usize,
    weights: Option<Vec<f64>>,
}

impl Few {
    pub(super) fn points(&self) -> Points<'_> {
        Points { x: &self.x, y: &self.y, classes: self.classes, weights: self.weights.as_deref() }
    }

    /// How often a point counts.
    fn weight(&self, i: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[i])
    }
}

impl Points<'_> {
    /// The points with their prior by some hyperparameters.
    fn support(&self, at: &At) -> Result<Support> {
        Ok(Support::new(self.x.as_ref(), self.y, at.hyper.prior(self.classes))?.weighted(self.weights))
    }

    /// At most `most` points, spread over all classes and over `order`.
    pub(super) fn few(&self, order: &[usize], most: usize) -> Few {
        self.select(&spread_subset(order, self.y, self.classes, most))
    }

    /// All points, in this order.
    pub(super) fn in_order(&self, order: &[usize]) -> Few {
        self.select(order)
    }

    /// These points.
    fn select(&self, rows: &[usize]) -> Few {
        Few {
            x: Mat::from_fn(rows.len(), self.x.ncols(), |i, j| self.x[(rows[i], j)]),
            y: rows.iter().map(|&i| self.y[i]).collect(),
            classes: self.classes,
            weights: self.weights.map(|weights| rows.iter().map(|&i| weights[i]).collect()),
        }
    }
}

/// What a search found: the hyperparameters and how it went.
struct Found {
    at: At,
    spread: f64,
    loss: Option<f64>,
    evaluations: usize,
    converged: bool,
    inner_converged: bool,
    kept: bool,
}

/// The hyperparameters that the points say, or those given if nothing is to be learned. `order` lists all points in an
/// order that does not depend on the order of the rows.
pub(super) fn learn(
    settings: &GpClassifier,
    kernel: Kernel,
    points: Points<'_>,
    order: &[usize],
) -> Result<(Kernel, Learned)> {
    let few = points.few(order, settings.learn_points);
    let given = Parameters::new(settings, kernel);
    let found = match (settings.learn, settings.searches()) {
        (true, true) => search::search(settings, &given, points, order, true)?,
        (true, false) => evidence::climb(settings, given, few.points())?,
        (false, _) => evidence::stay(settings, given, few.points())?,
    };
    let At { hyper: Hyper { kernel, mean, tau }, noise } = found.at;
    let learned = Learned {
        prior_mean: mean,
        tau,
        noise,
        spread: found.spread,
        any_label: any_label(settings, points.y.len()),
        bound: f64::NAN,
        evaluations: found.evaluations,
        converged: found.converged,
        inner_converged: found.inner_converged,
        posterior_converged: false,
        held_out: found.loss,
        learned_kept: found.kept,
        shares: Vec::new(),
        inducing: 0,
    };
    Ok((kernel, learned))
}

/// [`Learned::any_label`] where hyperparameters are searched for with no prior that says how sure they make the classifier.
fn any_label(settings: &GpClassifier, points: usize) -> f64 {
    let searched = settings.learn && settings.searches() && settings.expected.is_none();
    if searched { 0.5 / points as f64 } else { 0.0 }
}

impl Learned {
    /// `(1 - e) p + e / C` with `e` = [`Learned::any_label`].
    pub(super) fn allow_any_label(&self, mut probs: Mat<f64>) -> Mat<f64> {
        let (kept, given) = (1.0 - self.any_label, self.any_label / probs.ncols() as f64);
        if self.any_label > 0.0 {
            for c in 0..probs.ncols() {
                probs.col_as_slice_mut(c).iter_mut().for_each(|p| *p = kept * *p + given);
            }
        }
        probs
    }
}

/// What an empty search is refused with.
pub(super) fn nothing_evaluated() -> Error {
    Error::Empty { what: "evaluations of the search", needed: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_inner_convergence_says_it_did_not() {
        let json = r#"{"tau":0.5,"prior_mean":-1.0,"noise":0.0,"bound":-3.0,"evaluations":4,"converged":true,"posterior_converged":true}"#;
        let learned: Learned = serde_json::from_str(json).unwrap();
        assert!(!learned.inner_converged && learned.converged);
        assert!(learned.learned_kept && learned.held_out.is_none() && learned.spread == 1.0);
    }
}
