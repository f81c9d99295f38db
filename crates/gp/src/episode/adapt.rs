//! A classifier adapted to the labelled points of one episode.

use faer::{Mat, MatRef};

use super::{Hyper, Support};
use crate::inference::{NaturalOptions, Order, Start, Stop, infer, natural};
use crate::predict::{Latent, Posterior, Sites};
use crate::quadrature::Precision;
use crate::{Query, Result};

/// How to find q(F) from the labelled points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inference {
    /// Mean-field sweeps from the prior.
    MeanField {
        /// Order of the updates.
        order: Order,
        /// When to stop.
        stop: Stop,
    },
    /// Natural-gradient ascent on the direct bound: close to the exact posterior.
    Natural(NaturalOptions),
}

/// A classifier adapted to the labelled points of one episode.
#[derive(Debug, Clone)]
pub struct Adapted {
    support: Support,
    posterior: Posterior,
    /// The bound on log p(Y) that inference reached.
    pub bound: f64,
    /// Sweeps or steps taken.
    pub steps: usize,
    /// Whether inference met its tolerance; true if it was given a number of steps instead.
    pub converged: bool,
}

/// Finds q(F) for the labelled points with features `x` [N, D] and labels `y` `[N]` in `0..classes`.
pub fn adapt(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    inference: &Inference,
) -> Result<Adapted> {
    let (support, task) = Support::new(x, y, classes, hyper)?;
    let (posterior, bound, steps, converged) = match *inference {
        Inference::MeanField { order, stop } => {
            let fit = infer(&task, order, &Start::Prior, stop)?;
            let fixed = matches!(stop, Stop::Steps(_));
            let posterior = Posterior::new(fit.blocks().iter().cloned(), hyper.tau)?;
            (posterior, fit.trace[fit.trace.len() - 1], fit.steps, fit.converged || fixed)
        }
        Inference::Natural(options) => {
            let fit = natural(&task.standardise(), options)?;
            let (bound, steps) = (fit.bound(), fit.bounds.len() - 1);
            let converged = fit.converged || options.tolerance == 0.0;
            (Posterior::new(fit.blocks, hyper.tau)?, bound, steps, converged)
        }
    };
    Ok(Adapted { support, posterior, bound, steps, converged })
}

/// The classifier whose [`Adapted::sites`] were kept, with its labelled points and `bound`: nothing is inferred anew.
pub fn restore(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    sites: &Sites,
    bound: f64,
) -> Result<Adapted> {
    let (support, task) = Support::new(x, y, classes, hyper)?;
    let posterior = sites.posterior(&task)?;
    Ok(Adapted { support, posterior, bound, steps: 0, converged: true })
}

impl Adapted {
    /// What [`restore`] needs beside the labelled points.
    pub fn sites(&self) -> Sites {
        self.posterior.sites()
    }

    /// [`Kernel::correlation`](crate::kernels::Kernel::correlation) between the N labelled points and M new ones with features
    /// `x` [M, D], [N, M].
    pub fn similarity(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        let kernel = &self.support.hyper.kernel;
        kernel.correlation(&self.support.features, &kernel.features(x)?)
    }

    /// Kernel, prior mean and temperature.
    pub fn hyper(&self) -> &Hyper {
        &self.support.hyper
    }

    /// q(F) on the labelled points.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Latent means and variances at new features `x` [M, D], in units of f.
    pub fn latent(&self, x: MatRef<'_, f64>) -> Result<Latent> {
        let Query { ks, kss, astar } = self.support.query(x)?;
        self.posterior.latent(&ks, &kss, &astar)
    }

    /// Class probabilities at new features `x` [M, D]; each row sums to 1.
    pub fn probs(&self, x: MatRef<'_, f64>, precision: Precision) -> Result<Mat<f64>> {
        self.latent(x)?.probs(precision)
    }
}
