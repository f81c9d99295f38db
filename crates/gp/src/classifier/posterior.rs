//! Bound, posterior and prediction of each likelihood.

use super::collapsed::{Collapsed, Effort, Marginals};
use super::{GpClassifier, Inference, Learned, Likelihood};
use crate::exact::LabelRegression;
use crate::gauss::Digits;
use crate::gibbs::{root, stream};
use crate::inference::{Ascent, NaturalOptions, Pair, ascend_from, sites_at};
use crate::kernels::{Features, Kernel};
use crate::laplace::Laplace;
use crate::likelihoods::softmax;
use crate::linalg::sum_any_order;
use crate::objective::{envelope, leave_one_out};
use crate::ove::OveMeanField;
use crate::predict::{Posterior, Sites};
use crate::quadrature::Precision;
use crate::{Gradient, Result, Task};
use faer::{Mat, Scale};
use rand::RngExt;
use rand_distr::StandardNormal;
use std::sync::atomic::AtomicBool;

/// Sweeps of mean field or Newton steps at most.
const SWEEPS: usize = 200;
/// Collapsed sweeps rest when a further one would gain less than this per point. Then the bound does not depend on where
/// they started, and its slope by the envelope rule is its own, both well within what the search for hyperparameters sees.
const REST: Effort = Effort { most: SWEEPS, rest: 1e-7 };
/// Draws for the probabilities of [`Likelihood::Softmax`].
const DRAWS: usize = 1000;

/// A bound and its slopes in the kernel matrices and the level (temperature or noise).
pub(super) struct Objective {
    pub(super) value: f64,
    pub(super) dk: Vec<Mat<f64>>,
    pub(super) dlevel: f64,
    /// In a prior mean shared by all points and classes.
    pub(super) dmean: f64,
    /// Whether the inference within came to rest: only then are the slopes those of the value.
    pub(super) converged: bool,
}

/// Where the inference of one evaluation ended: the next one starts there, which only saves sweeps and steps.
#[derive(Default)]
pub(super) struct Warm {
    marginals: Option<Marginals>,
    sites: Option<Pair>,
}

/// The bound of the log evidence; `warm` carries q(F) from one call to the next.
pub(super) fn objective(
    settings: &GpClassifier,
    k: Vec<Mat<f64>>,
    y: &[usize],
    level: f64,
    mean: f64,
    warm: &mut Warm,
) -> Result<Objective> {
    let gaussian = settings.likelihood == Likelihood::Gaussian;
    let task = task(k, y, if gaussian { 1.0 } else { level }, mean)?;
    let (g, converged) = match settings.likelihood {
        Likelihood::LogisticSoftmax => match settings.inference {
            Inference::Collapsed => collapsed_bound(&task, warm, &settings.cancelled)?,
            Inference::Direct => direct_bound(&task, warm, &settings.cancelled)?,
        },
        Likelihood::Softmax => {
            let fit = Laplace::new(&task, SWEEPS)?;
            (fit.gradient(&task)?, fit.converged)
        }
        Likelihood::OneVsEach => {
            let fit = OveMeanField::new(&task, SWEEPS, 1e-6)?;
            (fit.gradient(&task)?, fit.converged)
        }
        Likelihood::Gaussian => {
            let g = LabelRegression::new(&task, level)?.loss_gradient();
            let back = -(task.points() as f64) * task.classes() as f64;
            let dk = g.dk.into_iter().map(|d| d * Scale(back)).collect();
            let (dlevel, dmean) = (g.dnoise * back, total(&g.da) * back);
            return Ok(Objective { value: g.value * back, dk, dlevel, dmean, converged: true });
        }
    };
    Ok(Objective { value: g.value, dmean: total(&g.da), dk: g.dk, dlevel: g.dtau, converged })
}

/// The collapsed bound after sweeps from where the last evaluation ended, and its slope by the envelope rule.
fn collapsed_bound(task: &Task, warm: &mut Warm, cancelled: &AtomicBool) -> Result<(Gradient, bool)> {
    let fit = Collapsed::run(&task.standardise(), warm.marginals.take(), REST, cancelled)?;
    let gradient = fit.gradient(task);
    warm.marginals = Some((fit.mu, fit.v));
    Ok((gradient, fit.rested))
}

/// The direct bound at the end of natural-gradient ascent; its slope by the envelope rule.
fn direct_bound(task: &Task, warm: &mut Warm, cancelled: &AtomicBool) -> Result<(Gradient, bool)> {
    let options = NaturalOptions { max_steps: 60, tolerance: 1e-4, precision: Precision::Fast };
    let how = Ascent { start: warm.sites.take(), digits: Digits::Most, cancelled: Some(cancelled) };
    let fit = ascend_from(&task.standardise(), options, &how)?;
    let gradient = envelope(task, &fit);
    warm.sites = Some(fit.sites());
    Ok((gradient, fit.converged))
}

/// The leave-one-out log-loss of the logistic-softmax model at given hyperparameters.
pub(super) fn leave_one_out_loss(
    settings: &GpClassifier,
    k: Vec<Mat<f64>>,
    y: &[usize],
    tau: f64,
    mean: f64,
) -> Result<f64> {
    let task = task(k, y, tau, mean)?;
    let (sites, _) = sites(settings, &task, None)?;
    Ok(leave_one_out(&sites.posterior(&task)?, y)?.log_loss)
}

/// The sum of all entries, in an order that does not depend on the names of the classes.
fn total(m: &Mat<f64>) -> f64 {
    sum_any_order(&mut (0..m.ncols()).map(|c| m.col_as_slice(c).iter().sum()).collect::<Vec<f64>>())
}

fn task(k: Vec<Mat<f64>>, y: &[usize], tau: f64, mean: f64) -> Result<Task> {
    let a = Mat::from_fn(y.len(), k.len(), |_, _| mean);
    Task::new(k, y.to_vec(), a, tau)
}

/// The posterior given all training points.
#[derive(Debug, Clone)]
pub(super) enum Fitted {
    LogisticSoftmax { posterior: Posterior, sites: Sites },
    Softmax(Laplace),
    OneVsEach(OveMeanField),
    Gaussian(LabelRegression),
}

/// Points whose posterior, cheap to find, foretells that of all.
pub(super) struct Guess<'a> {
    pub(super) x: &'a Mat<f64>,
    pub(super) y: &'a [usize],
}

impl Fitted {
    /// The posterior, and whether its iteration came to rest.
    pub(super) fn new(
        settings: &GpClassifier,
        kernel: &Kernel,
        learned: &Learned,
        features: &Features,
        y: &[usize],
        classes: usize,
        guess: Option<Guess<'_>>,
    ) -> Result<(Self, bool)> {
        let base = kernel.within(features);
        let task = task(kernel.scaled(&base, classes), y, learned.tau, learned.prior_mean)?;
        Ok(match settings.likelihood {
            Likelihood::LogisticSoftmax => {
                let start = match guess.filter(|guess| guess.y.len() < task.points()) {
                    None => None,
                    Some(guess) => Some(guess.marginals(settings, kernel, features, &task)?),
                };
                let (sites, converged) = sites(settings, &task, start)?;
                (Self::from_sites(&task, sites)?, converged)
            }
            Likelihood::Softmax => {
                let fit = Laplace::new(&task, SWEEPS)?;
                let converged = fit.converged;
                (Self::Softmax(fit), converged)
            }
            Likelihood::OneVsEach => {
                let fit = OveMeanField::new(&task, SWEEPS, 1e-6)?;
                let converged = fit.converged;
                (Self::OneVsEach(fit), converged)
            }
            Likelihood::Gaussian => (Self::Gaussian(LabelRegression::new(&task, learned.noise)?), true),
        })
    }

    /// The logistic-softmax posterior with given sites.
    pub(super) fn rebuild(
        kernel: &Kernel,
        learned: &Learned,
        features: &Features,
        y: &[usize],
        classes: usize,
        sites: Sites,
    ) -> Result<Self> {
        let k = kernel.scaled(&kernel.within(features), classes);
        Self::from_sites(&task(k, y, learned.tau, learned.prior_mean)?, sites)
    }

    fn from_sites(task: &Task, sites: Sites) -> Result<Self> {
        Ok(Self::LogisticSoftmax { posterior: sites.posterior(task)?, sites })
    }

    /// Latent mean and variance and class probabilities at M points, [M, C] each.
    /// `ks`: C of [N, M]; `kss`, `astar`: [M, C].
    pub(super) fn predict(
        &self,
        ks: &[Mat<f64>],
        kss: &Mat<f64>,
        astar: &Mat<f64>,
    ) -> Result<(Mat<f64>, Mat<f64>, Mat<f64>)> {
        match self {
            Self::LogisticSoftmax { posterior, .. } => {
                let latent = posterior.latent(ks, kss, astar)?;
                let probs = latent.probs(Precision::Standard)?;
                Ok((latent.mean, latent.var, probs))
            }
            Self::Softmax(laplace) => {
                let at = laplace.predict(ks, kss, astar)?;
                let probs = softmax_probs(&at.mean, &at.cov, laplace.tau())?;
                Ok((at.mean, diagonals(&at.cov), probs))
            }
            Self::OneVsEach(posterior) => {
                let at = posterior.predict(ks, kss, astar)?;
                let probs = posterior.published_probabilities(&at)?;
                Ok((at.mean, diagonals(&at.cov), probs))
            }
            Self::Gaussian(regression) => {
                let at = regression.predict(ks, kss, astar)?;
                let probs = at.largest_target_probabilities(regression.noise());
                Ok((at.mean, at.var, probs))
            }
        }
    }
}

impl Guess<'_> {
    /// The posterior of the few, seen from all points: means and variances in units of x.
    fn marginals(
        &self,
        settings: &GpClassifier,
        kernel: &Kernel,
        features: &Features,
        task: &Task,
    ) -> Result<Marginals> {
        let few = kernel.features(self.x.as_ref())?;
        let few_k = kernel.scaled(&kernel.within(&few), task.classes());
        let few_task = self::task(few_k, self.y, task.tau(), task.a()[(0, 0)])?;
        let posterior = sites(settings, &few_task, None)?.0.posterior(&few_task)?;
        let ks = kernel.scaled(&kernel.between(&few, features)?, task.classes());
        let kss = Mat::from_fn(task.points(), task.classes(), |i, c| task.k()[c][(i, i)]);
        let latent = posterior.latent(&ks, &kss, task.a())?;
        let tau = task.tau();
        Ok((latent.mean * Scale(1.0 / tau), latent.var * Scale(1.0 / (tau * tau))))
    }
}

/// The sites of the logistic-softmax posterior from given marginals (the prior if none), and whether they came to rest.
fn sites(settings: &GpClassifier, task: &Task, start: Option<Marginals>) -> Result<(Sites, bool)> {
    let (x, cancelled) = (task.standardise(), &settings.cancelled);
    let (Pair { b, w }, converged) = match settings.inference {
        Inference::Collapsed => {
            let fit = Collapsed::run(&x, start, REST, cancelled)?;
            (fit.sites, fit.rested)
        }
        Inference::Direct => {
            let start = start.map(|(mu, v)| sites_at(task.y(), &mu, &v)).transpose()?;
            let how = Ascent { start, digits: Digits::Most, cancelled: Some(cancelled) };
            let options = NaturalOptions { max_steps: SWEEPS, tolerance: 1e-4, ..Default::default() };
            let fit = ascend_from(&x, options, &how)?;
            (fit.sites(), fit.converged)
        }
    };
    Ok((Sites { b, w }, converged))
}

/// `E softmax(f / tau)` over correlated Gaussians by [`DRAWS`] draws of a fixed stream, each with its mirror image. The draws
/// go by the index of a class: here alone renaming the classes permutes the probabilities only within the Monte Carlo error.
fn softmax_probs(mean: &Mat<f64>, cov: &[Mat<f64>], tau: f64) -> Result<Mat<f64>> {
    let c = mean.ncols();
    let mut probs = Mat::zeros(mean.nrows(), c);
    for (i, cov) in cov.iter().enumerate() {
        let root = root(cov)?;
        let mut rng = stream(0, "softmax", i as u64);
        for _ in 0..DRAWS / 2 {
            let z: Vec<f64> = (0..c).map(|_| rng.sample(StandardNormal)).collect();
            let shift = crate::linalg::mul_vec(&root, &z);
            for sign in [1.0, -1.0] {
                let f: Vec<f64> = (0..c).map(|j| mean[(i, j)] + sign * shift[j]).collect();
                for (j, p) in softmax::probs(&f, tau)?.into_iter().enumerate() {
                    probs[(i, j)] += p / (2 * (DRAWS / 2)) as f64;
                }
            }
        }
    }
    Ok(probs)
}

fn diagonals(cov: &[Mat<f64>]) -> Mat<f64> {
    Mat::from_fn(cov.len(), cov.first().map_or(0, Mat::ncols), |i, c| cov[i][(c, c)].max(0.0))
}
