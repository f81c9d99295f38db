//! Ways from a task to a [`Posterior`], one file or folder each.
//!
//! | way | likelihood | what it finds |
//! | --- | --- | --- |
//! | [`mean_field`] | logistic-softmax | the paper's mean field and its exact and collapsed kin |
//! | [`mod@natural`] | logistic-softmax | the best Gaussian, by natural gradients |
//! | [`gibbs`] | logistic-softmax, one-vs-each | samples |
//! | [`laplace`] | softmax | the Gaussian at the mode |
//! | [`one_vs_each`] | one-vs-each | mean field over differences |
//! | [`exact`] | Gaussian | the exact posterior of labels as numbers |
//!
//! [`released`] is none of them: it reproduces the authors' code.

pub mod exact;
pub mod gibbs;
pub mod laplace;
pub mod mean_field;
pub mod natural;
pub mod one_vs_each;
pub mod released;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::linalg::sum_any_order;
use crate::posterior::{Approximation, Blocks, Posterior};
use crate::{Error, Result, Task};
use exact::LabelRegression;
use gibbs::Sampler;
use laplace::Laplace;
use mean_field::{Start, Stop, Updates, infer_until};
use natural::{NaturalOptions, natural_until};
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
    /// Natural-gradient ascent on the direct bound: close to the exact posterior.
    Natural(NaturalOptions),
    /// Gibbs sampling.
    Gibbs(Sampler),
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
        go_on(cancelled)?;
        Ok(match *self {
            Inference::MeanField { order, stop } => {
                let fit = infer_until(task, order, &Start::Prior, stop, cancelled)?;
                let fixed = matches!(stop, Stop::Steps(_));
                let blocks = Blocks::new(fit.blocks().iter().cloned(), task.tau())?;
                let bound = fit.trace[fit.trace.len() - 1];
                Posterior::new(Approximation::Blocks(blocks), bound, fit.steps, fit.converged || fixed)
            }
            Inference::Natural(options) => {
                let fit = natural_until(&task.standardise(), options, cancelled)?;
                let (bound, steps) = (fit.bound(), fit.bounds.len() - 1);
                let converged = fit.converged || options.tolerance == 0.0;
                Posterior::new(
                    Approximation::Blocks(Blocks::new(fit.blocks, task.tau())?),
                    bound,
                    steps,
                    converged,
                )
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
        let told = AtomicBool::new(true);
        assert_eq!(Laplace::until(&task, steps, &told).err(), Some(Error::Cancelled));
    }
}
