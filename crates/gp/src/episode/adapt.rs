//! A classifier adapted to the labelled points of one task.

use faer::{Mat, MatRef};

use super::{Hyper, Support};
use crate::gaussian::Sites;
use crate::inference::Inference;
use crate::posterior::{Latent, Posterior};
use crate::quadrature::Precision;
use crate::{Error, Result};

/// The posterior of labelled points, asked by features.
#[derive(Debug, Clone)]
pub struct Adapted {
    pub(crate) support: Support,
    pub(crate) posterior: Posterior,
}

/// The posterior of the labelled points with features `x` [N, D] and labels `y` `[N]` in `0..classes`, by any inference.
pub fn adapt(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    inference: &Inference,
) -> Result<Adapted> {
    let (support, task) = Support::new(x, y, classes, hyper)?;
    Ok(Adapted { support, posterior: inference.posterior(&task)? })
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
    Ok(Adapted { support, posterior: Posterior::from_sites(&task, sites, bound)? })
}

impl Adapted {
    /// What [`restore`] needs beside the labelled points; an error for a posterior that is no Gaussian with sites.
    pub fn sites(&self) -> Result<Sites> {
        let none = Error::Empty { what: "sites of the posterior", needed: 1 };
        Ok(self.posterior.blocks().ok_or(none)?.sites())
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

    /// The posterior of the labelled points.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Latent means and variances at new features `x` [M, D], in units of f.
    pub fn latent(&self, x: MatRef<'_, f64>) -> Result<Latent> {
        self.posterior.latent(&self.support.query(x)?)
    }

    /// Class probabilities at new features `x` [M, D]; each row sums to 1.
    pub fn probs(&self, x: MatRef<'_, f64>, precision: Precision) -> Result<Mat<f64>> {
        self.posterior.probs(&self.support.query(x)?, precision)
    }

    /// Both of them.
    pub fn answer(&self, x: MatRef<'_, f64>, precision: Precision) -> Result<(Latent, Mat<f64>)> {
        self.posterior.answer(&self.support.query(x)?, precision)
    }

    /// The probabilities of the published systems ([`Posterior::published_probs`]) at new features `x` [M, D].
    pub fn published_probs(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        self.posterior.published_probs(&self.support.query(x)?)
    }
}
