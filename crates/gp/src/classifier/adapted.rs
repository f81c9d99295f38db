//! The training points of a classifier with their posterior.

use crate::Result;
use crate::hyper::Prior;
use crate::posterior::{Latent, Posterior};
use crate::quadrature::Resolution;
use crate::support::Support;
use faer::{Mat, MatRef};

/// Labelled points and their posterior, which new features ask.
#[derive(Debug, Clone)]
pub(super) struct Adapted {
    pub(super) support: Support,
    pub(super) posterior: Posterior,
}

impl Adapted {
    pub(super) fn prior(&self) -> &Prior {
        self.support.prior()
    }

    pub(super) fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    pub(super) fn similarity(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        self.support.similarity(x)
    }

    /// Latent moments and class probabilities at new features `x` [M, D].
    pub(super) fn answer(&self, x: MatRef<'_, f64>, resolution: Resolution) -> Result<(Latent, Mat<f64>)> {
        self.posterior.answer(&self.support.query(x)?, resolution)
    }
}
