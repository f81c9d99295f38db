//! Which inference the settings mean, and the posterior of the training points by it.

use super::adapted::Adapted;
use super::learn::Points;
use super::{EvidenceBound, GpClassifier, Likelihood};
use crate::Result;
use crate::gaussian::{Digits, Sites};
use crate::hyper::Hyper;
use crate::inference::Inference;
use crate::inference::natural::NaturalOptions;
use crate::posterior::Posterior;
use crate::quadrature::Resolution;
use crate::support::Support;
use std::sync::atomic::AtomicBool;

/// Sweeps of mean field, Newton steps or natural-gradient steps at most.
const SWEEPS: usize = 200;
/// Natural gradients rest when no site moves by more than this fraction of the largest.
const TOLERANCE: f64 = 1e-3;
/// Or when a further step would gain less than this per point.
pub(super) const GAIN: f64 = 3e-4;
/// The same where posteriors are only compared.
pub(super) const ROUGH_GAIN: f64 = 2e-3;
/// Collapsed sweeps rest when a further one would gain less than this per point. Then the bound does not depend on where
/// they started, and its slope by the envelope rule is its own, both well within what the search for hyperparameters sees.
const COLLAPSED_GAIN: f64 = 1e-7;
/// One-vs-each rests when a sweep changes the bound by less.
const ONE_VS_EACH_TOLERANCE: f64 = 1e-6;

/// How near to rest an inference must come, by what its posterior is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Answers.
    Answers,
    /// Comparison with others of its kind.
    Comparison,
    /// The slope of its bound.
    Slope,
}

impl GpClassifier {
    /// The inference of the likelihood and the bound that were chosen; `noise` is read by [`Likelihood::Gaussian`].
    pub(super) fn inference(&self, effort: Effort, noise: f64) -> Inference {
        match self.likelihood {
            Likelihood::LogisticSoftmax => match self.bound {
                EvidenceBound::Collapsed => Inference::Collapsed { sweeps: SWEEPS, gain: COLLAPSED_GAIN },
                EvidenceBound::Direct => Inference::Natural(natural(effort)),
            },
            Likelihood::Softmax => Inference::Laplace { max_steps: SWEEPS },
            Likelihood::OneVsEach => {
                Inference::OneVsEach { sweeps: SWEEPS, tolerance: ONE_VS_EACH_TOLERANCE }
            }
            Likelihood::Gaussian => Inference::Exact { noise },
        }
    }
}

fn natural(effort: Effort) -> NaturalOptions {
    let (max_steps, tolerance, gain) = match effort {
        Effort::Answers => (SWEEPS, TOLERANCE, GAIN),
        Effort::Comparison => (SWEEPS, TOLERANCE, ROUGH_GAIN),
        Effort::Slope => (60, 1e-4, 0.0),
    };
    NaturalOptions { max_steps, tolerance, gain, resolution: Resolution::Fast, digits: Digits::Most }
}

/// The posterior given all training points. `few` of them, whose posterior is cheap to find, show about where it lies.
pub(super) fn adapted(
    settings: &GpClassifier,
    hyper: &Hyper,
    noise: f64,
    points: Points<'_>,
    few: Option<Points<'_>>,
    cancelled: &AtomicBool,
) -> Result<Adapted> {
    let support =
        Support::new(points.x.as_ref(), points.y, hyper.prior(points.classes))?.weighted(points.weights);
    let task = support.task()?;
    let inference = settings.inference(Effort::Answers, noise);
    let start = match few.filter(|few| few.y.len() < points.y.len()) {
        Some(few) if settings.likelihood == Likelihood::LogisticSoftmax => {
            let known = Support::new(few.x.as_ref(), few.y, support.prior().clone())?.weighted(few.weights);
            let posterior = inference.posterior_until(&known.task()?, cancelled)?;
            inference.sites_at(&task, &posterior.latent(&known.query(points.x.as_ref())?)?)?
        }
        _ => None,
    };
    let posterior = inference.posterior_from(&task, start, cancelled)?;
    Ok(Adapted { support, posterior })
}

/// The posterior that was kept as its sites.
pub(super) fn restored(hyper: &Hyper, points: Points<'_>, sites: &Sites, bound: f64) -> Result<Adapted> {
    let support = Support::new(points.x.as_ref(), points.y, hyper.prior(points.classes))?;
    let posterior = Posterior::from_sites_to(Digits::Most, &support.task()?, sites, bound)?;
    Ok(Adapted { support, posterior })
}
