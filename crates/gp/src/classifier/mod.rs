//! A classifier on plain vectors: `fit`, `predict_proba`, `predict`, `save`, `load`.
//!
//! ```
//! use siskin_gp::classifier::GpClassifier;
//! use siskin_gp::faer::Mat;
//! // Two half-moons of three points each, the classes 0 and 1.
//! let x = Mat::from_fn(6, 2, |i, j| [[0., 1.], [0.7, 0.7], [1., 0.], [1., 2.], [1.7, 1.7], [2., 1.]][i][j]);
//! let mut model = GpClassifier::default();
//! model.fit(x.as_ref(), &[0, 0, 0, 1, 1, 1])?;
//! let at = model.predictions(x.as_ref())?;
//! assert_eq!(at.classes(), [0, 0, 0, 1, 1, 1]);
//! assert!(at.entropy.iter().all(|h| *h < 2f64.ln()));
//! # Ok::<(), siskin_gp::Error>(())
//! ```

mod cost;
mod inputs;
mod learn;
mod posterior;
mod store;

use crate::episode::{Adapted, Hyper};
use crate::kernels::Kernel;
use crate::posterior::entropy;
use crate::quadrature::Precision;
use crate::{Error, Result};
use faer::{Mat, MatRef};
use inputs::{Standardiser, check_features, count_classes, order_of_values, spread_subset};
pub use learn::Learned;
use learn::{Points, learn};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How class probabilities arise from the latent functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Likelihood {
    /// `sigma(f_k / tau) / sum_c sigma(f_c / tau)`.
    #[default]
    LogisticSoftmax,
    /// `exp(f_k / tau) / sum_c exp(f_c / tau)` with Laplace's approximation; probabilities by Monte Carlo with a fixed stream,
    /// so renaming the classes permutes them up to the error of 1000 draws and not to the bit, as everywhere else.
    Softmax,
    /// `prod_{c != k} sigma((f_k - f_c) / tau)`, mean field over N (C - 1) differences: for small N C.
    OneVsEach,
    /// Regression on labels +1 and -1 with Gaussian noise; the probability of a class is the chance that its noisy target
    /// is the largest.
    Gaussian,
}

impl Likelihood {
    /// Every likelihood with its name in files and settings.
    pub const NAMED: [(&str, Likelihood); 4] = [
        ("logistic-softmax", Likelihood::LogisticSoftmax),
        ("softmax", Likelihood::Softmax),
        ("one-vs-each", Likelihood::OneVsEach),
        ("gaussian", Likelihood::Gaussian),
    ];
}

/// How the posterior of the logistic-softmax model is found. The other likelihoods have one way each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inference {
    /// Coordinate ascent on the collapsed bound: faster, under-confident, and so loose that hyperparameters learned by it can
    /// be far from those that predict well.
    Collapsed,
    /// Natural-gradient ascent on the direct bound: slower, close to the exact posterior.
    #[default]
    Direct,
}

impl Inference {
    /// Every inference with its name in files and settings.
    pub const NAMED: [(&str, Inference); 2] =
        [("collapsed", Inference::Collapsed), ("direct", Inference::Direct)];
}

/// A Gaussian-process classifier: settings first, then [`GpClassifier::fit`].
///
/// Prior mean, temperature, kernel shape and per-class output scales are learned by maximising the bound of the log evidence
/// with L-BFGS, from the best of several starts by leave-one-out log-loss ([`crate::objective::leave_one_out`]). If that start predicts better
/// than what was learned, it is kept ([`Learned::learned_kept`]). A shared output scale `s` stays as given: scale `s` at temperature `tau` is the same model as scale 1 at
/// temperature `tau / sqrt s` (for [`Likelihood::Gaussian`] the scale is learned, and the noise in place of the temperature).
#[derive(Debug, Clone)]
pub struct GpClassifier {
    /// The kernel; `None` is RBF starting at the median distance between training points.
    pub kernel: Option<Kernel>,
    /// The likelihood.
    pub likelihood: Likelihood,
    /// How the posterior is found.
    pub inference: Inference,
    /// Shift and scale every input column to mean 0 and standard deviation 1 (columns that do not vary are only shifted).
    pub standardise: bool,
    /// Start of the prior mean of all latent functions; with `learn` one of several that are tried. With many classes a logistic-softmax model can be confident only if it
    /// is negative: at 0 half of every sigmoid is taken before the data speak.
    pub prior_mean: f64,
    /// Start of the temperature, with `learn` one of several; for [`Likelihood::Gaussian`] the noise starts at its square times 0.1.
    pub tau: f64,
    /// Learn the hyperparameters; otherwise they stay where they start.
    pub learn: bool,
    /// Learn them on at most this many training points, spread over all classes. The posterior always uses all points.
    pub learn_points: usize,
    /// Set from another thread, it ends a running fit with [`Error::Cancelled`] at its next step. Clones share it.
    pub cancelled: Arc<AtomicBool>,
    fitted: Option<Model>,
}

/// All that prediction needs.
#[derive(Debug, Clone)]
struct Model {
    standardiser: Standardiser,
    /// Training points after standardisation, [N, D].
    x: Mat<f64>,
    y: Vec<usize>,
    adapted: Adapted,
    learned: Learned,
}

impl Model {
    /// New points, checked and standardised.
    fn standardised(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        check_features(x, x.nrows())?;
        let (expected, got) = (self.x.ncols(), x.ncols());
        if got != expected {
            return Err(Error::Shape { what: "columns of x", expected, got });
        }
        Ok(self.standardiser.apply(x))
    }
}

/// What is predicted at M points.
#[derive(Debug, Clone)]
pub struct Predictions {
    /// Class probabilities, [M, C].
    pub probs: Mat<f64>,
    /// Latent mean, [M, C].
    pub mean: Mat<f64>,
    /// Latent variance, [M, C]: near the prior's where the training points say nothing.
    pub var: Mat<f64>,
    /// Entropy of the probabilities in nats, `[M]`.
    pub entropy: Vec<f64>,
}

impl Predictions {
    /// The most probable class of each point (the first of equals), `[M]`.
    pub fn classes(&self) -> Vec<usize> {
        let best = |i: usize| {
            (1..self.probs.ncols())
                .fold(0, |b, c| if self.probs[(i, c)] > self.probs[(i, b)] { c } else { b })
        };
        (0..self.probs.nrows()).map(best).collect()
    }
}

impl Default for GpClassifier {
    /// Logistic-softmax, RBF kernel, inputs standardised, hyperparameters learned on at most 150 points.
    fn default() -> Self {
        Self {
            kernel: None,
            likelihood: Likelihood::default(),
            inference: Inference::default(),
            standardise: true,
            prior_mean: -1.0,
            tau: 0.5,
            learn: true,
            learn_points: 150,
            cancelled: Arc::default(),
            fitted: None,
        }
    }
}

impl GpClassifier {
    /// Learns from N points `x` [N, D] with labels `y` in `0..C`, every class at least once.
    pub fn fit(&mut self, x: MatRef<'_, f64>, y: &[usize]) -> Result<()> {
        self.fitted = None;
        let classes = count_classes(y)?;
        check_features(x, y.len())?;
        cost::check_cost(y.len(), classes)?;
        self.check_settings()?;
        let standardiser = if self.standardise { Standardiser::of(x) } else { Standardiser::none(x.ncols()) };
        let x = standardiser.apply(x);
        let order = order_of_values(&x);
        let start = self.start_kernel(&x, &order)?;
        start.check(classes)?;
        let subset = spread_subset(&order, y, classes, self.learn_points);
        let small = Mat::from_fn(subset.len(), x.ncols(), |i, j| x[(subset[i], j)]);
        let small_y: Vec<usize> = subset.iter().map(|&i| y[i]).collect();
        let (kernel, mut learned) = learn(self, start, Points { x: &small, y: &small_y, classes })?;
        let hyper = Hyper { kernel, mean: learned.prior_mean, tau: learned.tau };
        let guess = posterior::Guess { x: &small, y: &small_y };
        let adapted = posterior::adapted(self, &hyper, learned.noise, (&x, y, classes), Some(guess))?;
        learned.posterior_converged = adapted.posterior().converged;
        self.fitted = Some(Model { standardiser, x, y: y.to_vec(), adapted, learned });
        Ok(())
    }

    /// Probabilities, latent moments and entropy at M points `x` [M, D].
    pub fn predictions(&self, x: MatRef<'_, f64>) -> Result<Predictions> {
        let model = self.model()?;
        let x = model.standardised(x)?;
        let (latent, probs) = model.adapted.answer(x.as_ref(), Precision::Standard)?;
        let entropy = entropy(&probs);
        Ok(Predictions { probs, mean: latent.mean, var: latent.var, entropy })
    }

    /// Class probabilities at M points, [M, C].
    pub fn predict_proba(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        Ok(self.predictions(x)?.probs)
    }

    /// The most probable class of M points.
    pub fn predict(&self, x: MatRef<'_, f64>) -> Result<Vec<usize>> {
        Ok(self.predictions(x)?.classes())
    }

    /// The hyperparameters and how they were found.
    pub fn learned(&self) -> Result<&Learned> {
        Ok(&self.model()?.learned)
    }

    /// The kernel with its learned parameters.
    pub fn fitted_kernel(&self) -> Result<&Kernel> {
        Ok(&self.model()?.adapted.hyper().kernel)
    }

    /// [`Kernel::correlation`] between the N training points and M points `x` [M, D], [N, M].
    pub fn similarity(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        let model = self.model()?;
        let x = model.standardised(x)?;
        model.adapted.similarity(x.as_ref())
    }

    fn model(&self) -> Result<&Model> {
        self.fitted.as_ref().ok_or(Error::NotFitted)
    }

    fn check_settings(&self) -> Result<()> {
        if !(self.tau > 0.0 && self.tau.is_finite()) {
            return Err(Error::OutOfRange { what: "tau", value: self.tau, must: "> 0 and finite" });
        }
        if !self.prior_mean.is_finite() {
            return Err(Error::OutOfRange { what: "prior mean", value: self.prior_mean, must: "finite" });
        }
        Ok(())
    }

    fn start_kernel(&self, x: &Mat<f64>, order: &[usize]) -> Result<Kernel> {
        match &self.kernel {
            Some(kernel) => Ok(kernel.clone()),
            None => inputs::rbf_at_median_distance(x, order),
        }
    }
}

#[cfg(test)]
mod tests;
