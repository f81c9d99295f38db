//! Ways from a task to a [`Posterior`], one file or folder each.
//!
//! | way | likelihood | what it finds |
//! | --- | --- | --- |
//! | `mean_field` | logistic-softmax | the paper's mean field, and its exact and collapsed variants |
//! | `natural` | logistic-softmax | the best Gaussian, by natural gradients |
//! | `gibbs` | logistic-softmax, one-vs-each | samples |
//! | `laplace` | softmax | the Gaussian at the mode |
//! | `one_vs_each` | one-vs-each | mean field over differences |
//! | `exact` | Gaussian | the exact posterior of labels as numbers |
//!
//! [`ReleasedPosterior`] is none of them: it reproduces the authors' code.

pub(crate) mod exact;
pub(crate) mod gibbs;
pub(crate) mod laplace;
pub(crate) mod mean_field;
pub(crate) mod natural;
pub(crate) mod one_vs_each;
pub(crate) mod released;

pub use gibbs::{Chains, GibbsSampler, SampledLikelihood};
pub use mean_field::{Stop, Updates};
pub use natural::NaturalOptions;
pub use released::{ReleasedPosterior, ReleasedStart};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::gaussian::{Digits, Sites};
use crate::linalg::sum_any_order;
use crate::posterior::{Approximation, Blocks, Latent, Posterior};
use crate::{Error, Result, Task};
use exact::LabelRegression;
use laplace::Laplace;
use mean_field::{Collapsed, Start, infer_until};
use natural::natural_from;
use one_vs_each::OveMeanField;

/// A way from a task to a posterior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inference {
    /// Mean-field sweeps from the prior.
    MeanField {
        /// Order of the updates.
        order: Updates,
        /// When to stop.
        stop: Stop,
    },
    /// Collapsed mean-field sweeps for many points, extrapolated: the fixed point of [`Updates::Collapsed`] at a lower cost.
    Collapsed {
        /// Sweeps at most.
        sweeps: usize,
        /// Stops when a further sweep would gain less than this for each point, in nats.
        gain: f64,
    },
    /// Natural-gradient ascent on the direct bound: close to the exact posterior.
    Natural(NaturalOptions),
    /// Gibbs sampling.
    Gibbs(GibbsSampler),
    /// Laplace's approximation of the softmax likelihood.
    Laplace {
        /// Newton steps at most.
        max_steps: usize,
    },
    /// Mean field of the one-vs-each likelihood.
    OneVsEach {
        /// Sweeps at most.
        sweeps: usize,
        /// Stops when a sweep changes the bound by less; 0: never.
        tolerance: f64,
    },
    /// The exact regression on labels as numbers, +1 and -1. The temperature plays no part.
    Exact {
        /// Variance of the noise of the numbers, > 0.
        noise: f64,
    },
}

impl Inference {
    /// The posterior of a task.
    pub fn posterior(&self, task: &Task) -> Result<Posterior> {
        self.posterior_until(task, &AtomicBool::new(false))
    }

    /// [`Inference::posterior`] that ends with [`Error::Cancelled`] soon after another thread sets `cancelled`: within one
    /// factorisation of one class, or one pass over the points. (Sampling and exact regression look once, at their start.)
    pub fn posterior_until(&self, task: &Task, cancelled: &AtomicBool) -> Result<Posterior> {
        self.posterior_from(task, None, cancelled)
    }

    /// [`Inference::posterior_until`] from given sites, such as those that were found for similar hyperparameters: it saves steps. Only
    /// `Collapsed` and `Natural` have such a start.
    pub(crate) fn posterior_from(
        &self,
        task: &Task,
        start: Option<Sites>,
        cancelled: &AtomicBool,
    ) -> Result<Posterior> {
        go_on(cancelled)?;
        Ok(match *self {
            Inference::MeanField { order, stop } => {
                let fit = infer_until(task, order, &Start::Prior, stop, cancelled)?;
                let fixed = matches!(stop, Stop::Steps(_));
                let blocks = Blocks::new(fit.blocks().iter().cloned(), task.tau())?;
                let bound = fit.trace[fit.trace.len() - 1];
                Posterior::new(Approximation::Blocks(blocks), bound, fit.steps, fit.converged || fixed)
            }
            Inference::Collapsed { sweeps, gain } => {
                let fit = Collapsed::run(&task.standardise(), start, (sweeps, gain), cancelled)?;
                // One sweep further than the bound, which costs nothing: blocks must be made of some sites.
                let blocks = Blocks::from_sites(task, &fit.next, Digits::Most)?;
                Posterior::new(Approximation::Blocks(blocks), fit.bound, fit.sweeps, fit.rested)
            }
            Inference::Natural(options) => {
                let fit = natural_from(&task.standardise(), options, start, cancelled)?;
                let (bound, steps) = (fit.bound(), fit.bounds.len() - 1);
                let converged = fit.converged || options.tolerance == 0.0;
                let blocks = match options.digits {
                    Digits::All => Blocks::new(fit.blocks, task.tau())?,
                    // The blocks do not give them back to all digits.
                    Digits::Most => Blocks::with_sites(fit.sites(), fit.blocks, task.tau())?,
                };
                Posterior::new(Approximation::Blocks(blocks), bound, steps, converged)
            }
            Inference::Gibbs(sampler) => {
                let samples = sampler.run(task)?;
                Posterior::new(Approximation::Samples(samples), f64::NAN, sampler.chains.sweeps, true)
            }
            Inference::Laplace { max_steps } => {
                let fit = Laplace::until(task, max_steps, cancelled)?;
                let (evidence, steps, converged) = (fit.log_marginal, fit.steps, fit.converged);
                Posterior::new(Approximation::Laplace(Box::new(fit)), evidence, steps, converged)
            }
            Inference::OneVsEach { sweeps, tolerance } => {
                let fit = OveMeanField::until(task, sweeps, tolerance, cancelled)?;
                let bound = fit.bounds.last().copied().unwrap_or(f64::NEG_INFINITY);
                let (steps, converged) = (fit.bounds.len(), fit.converged);
                Posterior::new(Approximation::OneVsEach(Box::new(fit)), bound, steps, converged)
            }
            Inference::Exact { noise } => {
                let fit = LabelRegression::new(task, noise)?;
                let evidence = sum_any_order(&mut fit.lml.clone());
                Posterior::new(Approximation::Exact(fit), evidence, 0, true)
            }
        })
    }
}

impl Inference {
    /// The sites that latent values at the points of a task lead to: a start for [`Inference::posterior_from`], where there is one.
    pub(crate) fn sites_at(&self, task: &Task, latent: &Latent) -> Result<Option<Sites>> {
        let tau = task.tau();
        let mu = &latent.mean * faer::Scale(1.0 / tau);
        let v = &latent.var * faer::Scale(1.0 / (tau * tau));
        Ok(match self {
            Inference::Collapsed { .. } => Some(Collapsed::sites_at(task.y(), &mu, &v)),
            Inference::Natural(_) => Some(natural::sites_at(task.y(), &mu, &v)?),
            _ => None,
        })
    }
}

/// `Ok` unless the work is to end.
pub(crate) fn go_on(cancelled: &AtomicBool) -> Result<()> {
    match cancelled.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Error::Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Kernel, Rbf};
    use crate::testing::normal;
    use crate::{Hyper, Support};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Each way would take minutes to hours for this task and these numbers of steps; each ends when it is told to.
    #[test]
    fn every_inference_ends_when_it_is_cancelled() {
        let x = normal(&mut ChaCha8Rng::seed_from_u64(5), 320, 4);
        let y: Vec<usize> = (0..320).map(|i| i % 8).collect();
        let hyper = Hyper { kernel: Kernel::new(Rbf), mean: -1.0, tau: 0.5 };
        let task = Support::new(x.as_ref(), &y, hyper.prior(8)).unwrap().task().unwrap();
        let steps = 1_000_000;
        let ways = [
            Inference::Natural(NaturalOptions { max_steps: steps, tolerance: 0.0, ..Default::default() }),
            Inference::MeanField { order: Updates::Joint, stop: Stop::Steps(steps) },
            Inference::Collapsed { sweeps: steps, gain: 0.0 },
            Inference::OneVsEach { sweeps: steps, tolerance: 0.0 },
        ];
        for way in ways {
            let cancelled = AtomicBool::new(false);
            let outcome = std::thread::scope(|scope| {
                let fit = scope.spawn(|| way.posterior_until(&task, &cancelled));
                std::thread::sleep(std::time::Duration::from_millis(100));
                cancelled.store(true, Ordering::Relaxed);
                fit.join().unwrap()
            });
            assert_eq!(outcome.err(), Some(Error::Cancelled), "{way:?}");
        }
        // Newton's method ends by itself before anybody could say stop.
        let cancelled = AtomicBool::new(true);
        assert_eq!(Laplace::until(&task, steps, &cancelled).err(), Some(Error::Cancelled));
    }
}
