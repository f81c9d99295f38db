//! Bound and posterior of each likelihood.

use super::adapted::Adapted;
use super::{EvidenceBound, GpClassifier, Likelihood};
use crate::gaussian::{Digits, Sites};
use crate::hyper::Hyper;
use crate::inference::Inference;
use crate::inference::exact::LabelRegression;
use crate::inference::laplace::Laplace;
use crate::inference::mean_field::{Collapsed, Effort, Marginals};
use crate::inference::natural::{Ascent, NaturalOptions, ascend_from, sites_at};
use crate::inference::one_vs_each::OveMeanField;
use crate::linalg::sum_any_order;
use crate::objective::{envelope, leave_one_out};
use crate::posterior::{Approximation, Blocks, Posterior};
use crate::quadrature::Resolution;
use crate::support::Support;
use crate::{Gradient, Query, Result, Task};
use faer::{Mat, Scale};
use std::sync::atomic::AtomicBool;

/// Sweeps of mean field or Newton steps at most.
const SWEEPS: usize = 200;
/// Natural gradients rest when no site moves by more than this fraction of the largest.
const TOLERANCE: f64 = 1e-3;
/// Or when a further step would gain less than this per point.
pub(super) const GAIN: f64 = 3e-4;
/// The same where posteriors are only compared.
pub(super) const ROUGH_GAIN: f64 = 2e-3;
/// Collapsed sweeps rest when a further one would gain less than this per point. Then the bound does not depend on where
/// they started, and its slope by the envelope rule is its own, both well within what the search for hyperparameters sees.
const REST: Effort = Effort { most: SWEEPS, rest: 1e-7 };

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
    sites: Option<Sites>,
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
        Likelihood::LogisticSoftmax => match settings.bound {
            EvidenceBound::Collapsed => collapsed_bound(&task, warm, &settings.cancelled)?,
            EvidenceBound::Direct => direct_bound(&task, warm, &settings.cancelled)?,
        },
        Likelihood::Softmax => {
            let fit = Laplace::until(&task, SWEEPS, &settings.cancelled)?;
            (fit.gradient(&task)?, fit.converged)
        }
        Likelihood::OneVsEach => {
            let fit = OveMeanField::until(&task, SWEEPS, 1e-6, &settings.cancelled)?;
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
    let options = NaturalOptions { max_steps: 60, tolerance: 1e-4, resolution: Resolution::Fast };
    let how = Ascent { start: warm.sites.take(), digits: Digits::Most, rest: 0.0, cancelled };
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
    let posterior = logistic_softmax(settings, &task, None)?;
    let none = crate::Error::Empty { what: "sites of the posterior", needed: 1 };
    Ok(leave_one_out(posterior.blocks().ok_or(none)?, y)?.log_loss)
}

/// The sum of all entries, in an order that does not depend on the names of the classes.
fn total(m: &Mat<f64>) -> f64 {
    sum_any_order(&mut (0..m.ncols()).map(|c| m.col_as_slice(c).iter().sum()).collect::<Vec<f64>>())
}

fn task(k: Vec<Mat<f64>>, y: &[usize], tau: f64, mean: f64) -> Result<Task> {
    let a = Mat::from_fn(y.len(), k.len(), |_, _| mean);
    Task::new(k, y.to_vec(), a, tau)
}

/// Points whose posterior, cheap to find, foretells that of all.
pub(super) struct Guess<'a> {
    pub(super) x: &'a Mat<f64>,
    pub(super) y: &'a [usize],
}

/// The posterior given all training points, from a guess of where it lies if there is one.
pub(super) fn adapted(
    settings: &GpClassifier,
    hyper: &Hyper,
    noise: f64,
    (x, y, classes): (&Mat<f64>, &[usize], usize),
    guess: Option<Guess<'_>>,
) -> Result<Adapted> {
    let support = Support::new(x.as_ref(), y, hyper.prior(classes))?;
    let task = support.task()?;
    let by = |inference: Inference| inference.posterior_until(&task, &settings.cancelled);
    let posterior = match settings.likelihood {
        Likelihood::LogisticSoftmax => {
            let start = match guess.filter(|guess| guess.y.len() < task.points()) {
                None => None,
                Some(guess) => Some(guess.marginals(settings, &support, &task)?),
            };
            logistic_softmax(settings, &task, start)?
        }
        Likelihood::Softmax => by(Inference::Laplace { max_steps: SWEEPS })?,
        Likelihood::OneVsEach => by(Inference::OneVsEach { sweeps: SWEEPS, tolerance: 1e-6 })?,
        Likelihood::Gaussian => by(Inference::Exact { noise })?,
    };
    Ok(Adapted { support, posterior })
}

/// The posterior that was kept as its sites.
pub(super) fn restored(
    hyper: &Hyper,
    (x, y, classes): (&Mat<f64>, &[usize], usize),
    sites: &Sites,
    bound: f64,
) -> Result<Adapted> {
    let support = Support::new(x.as_ref(), y, hyper.prior(classes))?;
    let task = support.task()?;
    let blocks = Blocks::from_sites(&task, sites, Digits::Most)?;
    Ok(Adapted { support, posterior: Posterior::new(Approximation::Blocks(blocks), bound, 0, true) })
}

impl Guess<'_> {
    /// The posterior of the few, seen from all points: means and variances in units of x.
    fn marginals(&self, settings: &GpClassifier, all: &Support, task: &Task) -> Result<Marginals> {
        let few = Support::new(self.x.as_ref(), self.y, all.prior().clone())?;
        let posterior = logistic_softmax(settings, &few.task()?, None)?;
        let kernel = &all.prior().kernel;
        let query = Query {
            ks: kernel.between(few.features(), all.features())?.of_classes(task.classes()),
            kss: Mat::from_fn(task.points(), task.classes(), |i, c| task.k()[c][(i, i)]),
            astar: task.a().clone(),
        };
        let latent = posterior.latent(&query)?;
        let tau = task.tau();
        Ok((latent.mean * Scale(1.0 / tau), latent.var * Scale(1.0 / (tau * tau))))
    }
}

/// The logistic-softmax posterior from given marginals (the prior if none).
fn logistic_softmax(settings: &GpClassifier, task: &Task, start: Option<Marginals>) -> Result<Posterior> {
    let cancelled = &settings.cancelled;
    let (sites, bound, converged) = match settings.bound {
        EvidenceBound::Collapsed => {
            let fit = Collapsed::run(&task.standardise(), start, REST, cancelled)?;
            (fit.sites, fit.bound, fit.rested)
        }
        EvidenceBound::Direct => {
            let start = start.map(|(mu, v)| sites_at(task.y(), &mu, &v)).transpose()?;
            let found = direct_blocks(task, start, cancelled, GAIN)?;
            return Ok(Posterior::new(Approximation::Blocks(found.blocks), found.bound, 0, found.converged));
        }
    };
    let blocks = Blocks::from_sites(task, &sites, Digits::Most)?;
    Ok(Posterior::new(Approximation::Blocks(blocks), bound, 0, converged))
}

/// Where natural gradients end.
pub(super) struct Direct {
    pub(super) blocks: Blocks,
    pub(super) bound: f64,
    pub(super) converged: bool,
}

/// Natural-gradient ascent from given sites (the prior if none).
pub(super) fn direct_blocks(
    task: &Task,
    start: Option<Sites>,
    cancelled: &AtomicBool,
    gain: f64,
) -> Result<Direct> {
    let rest = gain * task.points() as f64;
    let how = Ascent { start, digits: Digits::Most, rest, cancelled };
    let options = NaturalOptions { max_steps: SWEEPS, tolerance: TOLERANCE, resolution: Resolution::Fast };
    let fit = ascend_from(&task.standardise(), options, &how)?;
    let (sites, bound, converged) = (fit.sites(), fit.bound(), fit.converged);
    Ok(Direct { blocks: Blocks::with_sites(fit.blocks, sites, task.tau())?, bound, converged })
}
