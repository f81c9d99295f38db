//! The exact Gaussian process on labels as numbers, conditioned on the labelled points of one episode.

use faer::{Mat, MatRef};

use super::{Hyper, Support};
use crate::exact::{LabelRegression, Regressed};
use crate::{Query, Result};

/// Regressions of +1 and -1, one per class, conditioned on the labelled points of one episode.
#[derive(Debug, Clone)]
pub struct Regression {
    support: Support,
    exact: LabelRegression,
}

/// Conditions on the labelled points with features `x` [N, D] and labels `y` `[N]` in `0..classes`; `noise > 0` is the
/// variance of the targets around the latent functions. The temperature plays no part.
pub fn regress(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    noise: f64,
) -> Result<Regression> {
    let (support, task) = Support::new(x, y, classes, hyper)?;
    Ok(Regression { support, exact: LabelRegression::new(&task, noise)? })
}

impl Regression {
    /// Latent means and variances at new features `x` [M, D]; the class of a point is that of the largest mean.
    pub fn latent(&self, x: MatRef<'_, f64>) -> Result<Regressed> {
        let Query { ks, kss, astar } = self.support.query(x)?;
        self.exact.predict(&ks, &kss, &astar)
    }

    /// The chance of each class that its target is the largest at new features `x` [M, D]; each row sums to 1.
    pub fn probs(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        Ok(self.latent(x)?.largest_target_probabilities(self.exact.noise()))
    }

    /// `softmax` of the means at new features `x` [M, D]: the published prediction.
    pub fn published_probs(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        Ok(crate::likelihoods::softmax::rows(&self.latent(x)?.mean))
    }
}
