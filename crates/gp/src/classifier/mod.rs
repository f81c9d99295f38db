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

mod adapted;
mod choice;
mod cost;
mod file;
mod inducing;
mod inference;
mod inputs;
mod label_sets;
mod learn;
mod progress;
mod sets;
mod store;
mod suggest;
mod weights;

use crate::hyper::Hyper;
use crate::kernels::Kernel;
use crate::left_out::LeaveOneOut;
use crate::posterior::{Latent, entropy};
use crate::quadrature::Resolution;
use crate::{Error, Result};
use adapted::Adapted;
pub use choice::{KernelByName, at_median_distance};
use faer::{Mat, MatRef};
use inducing::{Inducing, Sizes};
use inputs::{Standardiser, check_features, count_classes, order_of_values};
pub use label_sets::{LabelSetClassifier, LearnedSets, SetPredictions};
pub use learn::{Expected, Learned};
use learn::{HeldOut, Large, Points, learn, learn_large};
pub use progress::Progress;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
pub use weights::balanced;

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

/// Which bound of the evidence the inference of the logistic-softmax model climbs. The other likelihoods have one way each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvidenceBound {
    /// Coordinate ascent on the collapsed bound: faster, under-confident, and so loose that hyperparameters learned by it can
    /// be far from those that predict well.
    Collapsed,
    /// Natural-gradient ascent on the direct bound: slower, close to the exact posterior.
    #[default]
    Direct,
}

impl EvidenceBound {
    /// Every bound with its name in files and settings.
    pub const NAMED: [(&str, EvidenceBound); 2] =
        [("collapsed", EvidenceBound::Collapsed), ("direct", EvidenceBound::Direct)];
}

/// A Gaussian-process classifier: settings first, then [`GpClassifier::fit`].
///
/// The logistic-softmax model with direct inference learns temperature, kernel shapes and [`Learned::spread`] by the log-loss of
/// held-out training points, from the best of several starts; the prior mean lies six prior deviations below 0, or where it was put if
/// that predicts better. Per-class output scales and lengths of inputs, and everything of the other likelihoods and of
/// collapsed inference, are learned by the bound of the log evidence with L-BFGS; if the start then predicts left-out points better
/// than what was learned, it is kept ([`Learned::learned_kept`]). A shared output scale `s` stays as given: scale `s` at temperature `tau`
/// is the same model as scale 1 at temperature `tau / sqrt s` (for [`Likelihood::Gaussian`] the scale is learned, and the noise in
/// place of the temperature).
#[derive(Debug, Clone)]
pub struct GpClassifier {
    /// The kernel; `None` is [`crate::kernels::TwoScale`], details on a trend, both in units of the median distance between training
    /// points; for the other likelihoods and for collapsed inference RBF starting at that distance.
    pub kernel: Option<Kernel>,
    /// The likelihood.
    pub likelihood: Likelihood,
    /// Which bound inference climbs.
    pub bound: EvidenceBound,
    /// Shift and scale every input column to mean 0 and standard deviation 1 (columns that do not vary are only shifted).
    pub standardise: bool,
    /// Start of the prior mean of all latent functions; with `learn` one of several that are tried. With many classes a logistic-softmax model can be confident only if it
    /// is negative: at 0 half of every sigmoid is taken before the data speak.
    pub prior_mean: f64,
    /// Start of the temperature, with `learn` one of several; for [`Likelihood::Gaussian`] the noise starts at its square times 0.1.
    pub tau: f64,
    /// Start of [`Learned::spread`], in (0, 1]; 1 is the posterior itself. With `learn` several are tried.
    pub spread: f64,
    /// What is known of the hyperparameters before the points are seen; `None`: nothing.
    pub expected: Option<Expected>,
    /// Learn the hyperparameters; otherwise they stay where they start.
    pub learn: bool,
    /// Learn them on at most this many training points, spread over all classes. The posterior always uses all points.
    pub learn_points: usize,
    /// Inducing points: `Some(0)` is none, a posterior over all training points, which costs their number cubed; `Some(m)` is about m;
    /// `None` is none up to [`GpClassifier::EXACT_ROWS`] rows, and above as many as work and memory allow, at most 1024. Only
    /// [`Likelihood::LogisticSoftmax`] with [`EvidenceBound::Direct`] has them.
    pub inducing: Option<usize>,
    /// How far a running fit is. Clones share it.
    pub progress: Arc<Progress>,
    /// Set from another thread, it ends a running fit with [`Error::Cancelled`] at its next step. Clones share it.
    pub cancelled: Arc<AtomicBool>,
    fitted: Option<Trained>,
    /// Read from a file without a checksum.
    unsealed: bool,
}

/// All that prediction needs.
#[derive(Debug, Clone)]
struct Trained {
    standardiser: Standardiser,
    by: Knowledge,
    learned: Learned,
}

/// What the training points left behind.
#[derive(Debug, Clone)]
enum Knowledge {
    /// Themselves, after standardisation, [N, D], and a posterior over all.
    All { x: Mat<f64>, y: Vec<usize>, adapted: Box<Adapted> },
    /// Inducing points, and how points that were held out came off.
    Few(Box<Inducing>, HeldOut),
}

impl Trained {
    fn kernel(&self) -> &Kernel {
        match &self.by {
            Knowledge::All { adapted, .. } => &adapted.prior().kernel,
            Knowledge::Few(inducing, _) => &inducing.prior.kernel,
        }
    }

    /// The training points with their posterior; an error where there are inducing points instead.
    fn all(&self, what: &'static str) -> Result<(&Mat<f64>, &[usize], &Adapted)> {
        match &self.by {
            Knowledge::All { x, y, adapted } => Ok((x, y, adapted)),
            Knowledge::Few(..) => Err(Error::NeedsAllPoints { what }),
        }
    }

    /// New points, checked and standardised.
    fn standardised(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        check_features(x, x.nrows())?;
        let (expected, got) = (self.standardiser.mean.len(), x.ncols());
        if got != expected {
            return Err(Error::Shape { what: "columns of x", expected, got });
        }
        Ok(self.standardiser.apply(x))
    }

    /// The latent values at standardised points, and the probabilities that follow.
    fn answer(&self, x: MatRef<'_, f64>) -> Result<(Latent, Mat<f64>)> {
        let adapted = match &self.by {
            Knowledge::All { adapted, .. } => adapted,
            Knowledge::Few(inducing, _) => {
                let latent = inducing.latent(x)?;
                let probs = latent.clone().narrowed(self.learned.spread).probs_of_many(Resolution::Fast)?;
                return Ok((latent, probs));
            }
        };
        if self.learned.spread == 1.0 {
            let (latent, probs) = adapted.answer(x, Resolution::Standard)?;
            return Ok((latent, self.learned.allow_any_label(probs)));
        }
        let latent = adapted.posterior().latent(&adapted.support.query(x)?)?;
        let probs = latent.clone().narrowed(self.learned.spread).probs(Resolution::Standard)?;
        Ok((latent, self.learned.allow_any_label(probs)))
    }

    /// How training points came off that others predicted: log-loss, accuracy, and each one's class with its probability. By cavities,
    /// or where there are inducing points those that were held out last.
    fn left_out(&self) -> Result<Option<HeldOut>> {
        match &self.by {
            Knowledge::All { y, adapted, .. } => {
                let cavities = adapted.posterior().blocks().map(|blocks| blocks.cavities());
                let probs = |latent: Latent| -> Result<Mat<f64>> {
                    let probs = latent.narrowed(self.learned.spread).probs(Resolution::Standard)?;
                    Ok(self.learned.allow_any_label(probs))
                };
                cavities.map(|latent| sets::left_out(&probs(latent)?, y)).transpose()
            }
            Knowledge::Few(_, held) => Ok(Some(held.clone())),
        }
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
    /// Logistic-softmax, details on a trend, inputs standardised, hyperparameters learned on at most 200 points.
    fn default() -> Self {
        Self {
            kernel: None,
            likelihood: Likelihood::default(),
            bound: EvidenceBound::default(),
            standardise: true,
            prior_mean: -1.0,
            tau: 0.5,
            spread: 1.0,
            expected: None,
            learn: true,
            learn_points: 200,
            inducing: None,
            progress: Arc::default(),
            cancelled: Arc::default(),
            fitted: None,
            unsealed: false,
        }
    }
}

impl GpClassifier {
    /// Up to so many training points the posterior is over all of them, unless [`GpClassifier::inducing`] says otherwise.
    pub const EXACT_ROWS: usize = 1500;

    /// Learns from N points `x` [N, D] with labels `y` in `0..C`, every class at least once.
    pub fn fit(&mut self, x: MatRef<'_, f64>, y: &[usize]) -> Result<()> {
        self.fit_points(x, y, None)
    }

    fn fit_points(&mut self, x: MatRef<'_, f64>, y: &[usize], weights: Option<&[f64]>) -> Result<()> {
        (self.fitted, self.unsealed) = (None, false);
        let classes = count_classes(y)?;
        check_features(x, y.len())?;
        self.check_settings()?;
        let sizes = self.sizes(x, classes)?;
        if sizes.is_none() {
            cost::check_cost(y.len(), classes, self.likelihood)?;
        }
        self.progress.start();
        let order = order_of_values(x, y);
        let standardiser = match self.standardise {
            true => Standardiser::of(x, &order),
            false => Standardiser::none(x.ncols()),
        };
        let x = standardiser.apply(x);
        let kernel = self.kernel(&x, &order)?;
        kernel.check(classes)?;
        let points = Points { x: &x, y, classes, weights };
        let shares = weights::shares(y, weights, classes);
        if let Some(sizes) = sizes {
            // The rows are not kept: they go on in their order, so that there is no second copy of them at the peak.
            let ordered = points.in_order(&order);
            drop(x);
            let Large { done, mut learned, held } = learn_large(self, kernel, ordered.points(), sizes)?;
            learned.shares = shares;
            let by = Knowledge::Few(Box::new(done.classifier()), held);
            self.fitted = Some(Trained { standardiser, by, learned });
            self.progress.reach(1.0);
            return Ok(());
        }
        let (kernel, mut learned) = learn(self, kernel, points, &order)?;
        let few = points.few(&order, self.learn_points);
        let hyper = Hyper { kernel, mean: learned.prior_mean, tau: learned.tau };
        let adapted =
            inference::adapted(self, &hyper, learned.noise, points, Some(few.points()), &self.cancelled)?;
        let posterior = adapted.posterior();
        (learned.bound, learned.posterior_converged) = (posterior.bound, posterior.converged);
        learned.shares = shares;
        let by = Knowledge::All { x, y: y.to_vec(), adapted: Box::new(adapted) };
        self.fitted = Some(Trained { standardiser, by, learned });
        self.progress.reach(1.0);
        Ok(())
    }

    /// How many inducing points a fit takes, if it takes any.
    fn sizes(&self, x: MatRef<'_, f64>, classes: usize) -> Result<Option<Sizes>> {
        let rows = x.nrows();
        match self.inducing {
            Some(0) => Ok(None),
            None if rows <= Self::EXACT_ROWS || !self.searches() => Ok(None),
            Some(_) if !self.searches() => Err(Error::NoInducing),
            wished => Sizes::new(wished, rows, x.ncols(), classes).map(Some),
        }
    }

    /// Probabilities, latent moments and entropy at M points `x` [M, D].
    pub fn predictions(&self, x: MatRef<'_, f64>) -> Result<Predictions> {
        let model = self.model()?;
        let x = model.standardised(x)?;
        let (latent, probs) = model.answer(x.as_ref())?;
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

    /// The entropy of the class probabilities of M points, in nats.
    pub fn predict_entropy(&self, x: MatRef<'_, f64>) -> Result<Vec<f64>> {
        Ok(self.predictions(x)?.entropy)
    }

    /// Leave-one-out log-loss and accuracy of all training points, where there are inducing points of those that were held out last; only
    /// [`Likelihood::LogisticSoftmax`] has one.
    pub fn leave_one_out(&self) -> Result<Option<LeaveOneOut>> {
        let found = self.model()?.left_out()?;
        Ok(found.map(|HeldOut { log_loss, accuracy, .. }| LeaveOneOut { log_loss, accuracy }))
    }

    /// Sets of classes, one per point, that hold the true class with at least this chance, `level` in (0, 1): every class whose
    /// probability is not below a threshold, and at least so many of the most probable ones that their probabilities sum to `level`: a set never
    /// says more than the probabilities do, far from all training points it holds every class.
    ///
    /// The threshold is the conformal one of the training points left out: the chance is over points like these, whatever the model.
    /// With few points (`(N + 1) (1 - level) < 1`) only the set of all classes is safe. Other likelihoods than
    /// [`Likelihood::LogisticSoftmax`] have no leave-one-out, and take the fewest most probable classes that sum to `level`.
    pub fn predict_set(&self, x: MatRef<'_, f64>, level: f64) -> Result<Vec<Vec<usize>>> {
        self.sets_of(&self.predictions(x)?, level, false)
    }

    /// [`GpClassifier::predict_set`] with a threshold for each class, from its own training points (Mondrian): the chance holds for the
    /// points of every class, rare ones too, and whatever the shares of the classes are where it is used. A class with few points
    /// (`(N_c + 1) (1 - level) < 1`) is in every set.
    pub fn predict_set_by_class(&self, x: MatRef<'_, f64>, level: f64) -> Result<Vec<Vec<usize>>> {
        self.sets_of(&self.predictions(x)?, level, true)
    }

    /// [`GpClassifier::predict_set`], or with `by_class` [`GpClassifier::predict_set_by_class`], of predictions that were made.
    pub fn sets_of(&self, at: &Predictions, level: f64, by_class: bool) -> Result<Vec<Vec<usize>>> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::OutOfRange { what: "level", value: level, must: "between 0 and 1" });
        }
        let model = self.model()?;
        let found = model.left_out()?;
        let thresholds = found.map(|found| match by_class {
            true => sets::thresholds_of_classes(&found, level, at.probs.ncols()),
            false => vec![sets::threshold(&found, level); at.probs.ncols()],
        });
        Ok((0..at.probs.nrows())
            .map(|i| {
                let p: Vec<f64> = (0..at.probs.ncols()).map(|c| at.probs[(i, c)]).collect();
                sets::of(&p, level, thresholds.as_deref())
            })
            .collect())
    }

    /// Latent values at the training points, each without its fold: see [`Posterior::left_out`](crate::posterior::Posterior::left_out).
    pub fn left_out(&self, folds: &[Vec<usize>]) -> Result<Latent> {
        let model = self.model()?;
        let (_, _, adapted) = model.all("left-out values")?;
        let latent = adapted.posterior.left_out(&adapted.support.task()?, folds)?;
        Ok(latent.narrowed(model.learned.spread))
    }

    /// The hyperparameters and how they were found.
    pub fn learned(&self) -> Result<&Learned> {
        Ok(&self.model()?.learned)
    }

    /// The kernel with its learned parameters.
    pub fn fitted_kernel(&self) -> Result<&Kernel> {
        Ok(self.model()?.kernel())
    }

    /// [`Kernel::correlation`] between the N training points and M points `x` [M, D], [N, M].
    pub fn similarity(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        let model = self.model()?;
        let x = model.standardised(x)?;
        model.all("similarity to the training points")?.2.similarity(x.as_ref())
    }

    /// What people should be told who loaded it: that no checksum says it is whole.
    pub fn notice(&self) -> Option<&'static str> {
        self.unsealed.then_some(
            "The classifier is of an earlier format, without a checksum: damage to it would not be noticed. Save it again.",
        )
    }

    fn model(&self) -> Result<&Trained> {
        self.fitted.as_ref().ok_or(Error::NotFitted)
    }

    fn check_settings(&self) -> Result<()> {
        if !(self.tau > 0.0 && self.tau.is_finite()) {
            return Err(Error::OutOfRange { what: "tau", value: self.tau, must: "> 0 and finite" });
        }
        if !(self.spread > 0.0 && self.spread <= 1.0) {
            return Err(Error::OutOfRange { what: "spread", value: self.spread, must: "> 0 and at most 1" });
        }
        if !self.prior_mean.is_finite() {
            return Err(Error::OutOfRange { what: "prior mean", value: self.prior_mean, must: "finite" });
        }
        Ok(())
    }

    /// Whether hyperparameters are learned by prediction, not by a bound.
    fn searches(&self) -> bool {
        self.likelihood == Likelihood::LogisticSoftmax && self.bound == EvidenceBound::Direct
    }

    /// The kernel that was chosen, or the classifier's own.
    fn kernel(&self, x: &Mat<f64>, order: &[usize]) -> Result<Kernel> {
        match &self.kernel {
            Some(kernel) => Ok(kernel.clone()),
            None if self.searches() => inputs::details_on_a_trend(x, order),
            None => inputs::rbf_at_median_distance(x, order),
        }
    }
}
