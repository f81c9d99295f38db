//! Many points by few: inducing points, whitened, for the logistic-softmax model and its direct bound.
//!
//! `f_c = a + sqrt(scale_c) phi(x)' v_c + rest`, `phi(x) = L^-1 k(Z, x)`, `v_c ~ N(0, I)`: all classes share Z and one factor L, and so one
//! pass over the points. `q(v_c) = N(m_c, S_c)` climbs the bound that the exact classifier climbs ([`ascent`]). A fit costs
//! `N M^2` for the features, `N M C` for each step of the means and `N R^2 C` for each step of the covariances, which are full among the R
//! leading features ([`covariance`]): linear in the number of points. [`Sizes`] keeps both work and memory within bounds.

mod ascent;
mod basis;
mod centres;
mod covariance;
mod rows;
mod sizes;
mod store;
#[cfg(test)]
mod tests;

use crate::hyper::{Hyper, Prior};
use crate::kernels::Kernel;
use crate::parallel::over_ranges;
use crate::posterior::Latent;
use crate::quadrature::lumped::Integrals;
use crate::{Error, Result};
use ascent::{Weights, ascend};
use basis::{Basis, telling};
pub(super) use centres::centres;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rows::{BLOCK, Rows, narrow};
pub(super) use rows::{Drawn, Labelled, Narrow};
pub(super) use sizes::Sizes;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A prior mean is deep below this, in units of x, and in prior deviations.
const DEEP: (f64, f64) = (5.0, 4.0);

/// A fitted classifier of many points: what it needs to predict, and nothing of the points.
#[derive(Debug, Clone)]
pub(super) struct Inducing {
    /// Inducing points, [M, D], standardised.
    pub(super) z: Mat<f64>,
    pub(super) prior: Prior,
    basis: Basis,
    /// Means of the weights, [M, C].
    pub(super) mean: Mat<f32>,
    /// Their covariances.
    pub(super) narrow: Narrow,
}

/// A fit to be done.
pub(super) struct Job<'a> {
    /// The points, in an order that does not depend on how they came.
    pub(super) points: Labelled<'a>,
    pub(super) classes: usize,
    /// Candidates for inducing points, [M, D].
    pub(super) z: &'a Mat<f64>,
    pub(super) hyper: &'a Hyper,
    /// Features whose covariance is full.
    pub(super) leading: usize,
    /// It rests when a round would gain less than this for each point.
    pub(super) rest: f64,
    pub(super) cancelled: &'a AtomicBool,
    /// Gets how many of how many rounds are done.
    pub(super) on_round: &'a dyn Fn(usize, usize),
}

/// What a fit found; another may start from it.
pub(super) struct Done {
    z: Mat<f64>,
    prior: Prior,
    basis: Basis,
    weights: Weights,
    unit: Vec<f64>,
    rows: usize,
    pub(super) bound: f64,
    pub(super) converged: bool,
}

impl Job<'_> {
    /// Climbs the bound, from where another fit ended if that has the same inducing points and the same kernel but for its scale.
    pub(super) fn run(&self, from: Option<&Done>) -> Result<Done> {
        let Hyper { kernel, mean, tau } = self.hyper;
        let prior = self.hyper.prior(self.classes);
        let order = telling(kernel, self.z.as_ref())?;
        let z = Mat::from_fn(order.len(), self.z.ncols(), |i, j| self.z[(order[i], j)]);
        let basis = Basis::new(kernel, z.as_ref())?;
        let unit: Vec<f64> = (0..self.classes).map(|c| kernel.scale(c).sqrt() / tau).collect();
        let how = (self.leading, self.integrals(&unit)?);
        let rows = Rows::new(&basis, self.points, (unit.clone(), mean / tau), how, self.cancelled)?;
        let start = match from.filter(|from| from.z == z && same_but_scale(from.basis.kernel(), kernel)) {
            Some(from) if from.weights.covariances[0].factor.nrows() == rows.sizes().0 => {
                from.weights_at(&rows)?
            }
            _ => Weights::prior(&rows),
        };
        let found = ascend(&rows, start, self.rest, self.on_round)?;
        let (weights, bound, converged) = (found.weights, found.bound, found.converged);
        Ok(Done { z, prior, basis, weights, unit, rows: self.points.drawn.points(), bound, converged })
    }
}

impl Job<'_> {
    /// Where the prior mean lies so deep that every `sigma(x)` is `e^x`, the model is a softmax, and a bound of its integrals that costs a
    /// fiftieth will do.
    fn integrals(&self, unit: &[f64]) -> Result<Integrals> {
        let kernel = &self.hyper.kernel;
        let own = kernel.own(&kernel.features(self.z.as_ref())?)?.own_before_scale();
        let deviation = (own.iter().sum::<f64>() / own.len() as f64).sqrt();
        let x = self.hyper.mean / self.hyper.tau;
        let deep = |unit: &f64| x <= -DEEP.0 && x <= -DEEP.1 * unit * deviation;
        Ok(if unit.iter().all(deep) { Integrals::Tilted } else { Integrals::Quadrature })
    }
}

/// Whether two kernels have the same features but for a factor.
fn same_but_scale(a: &Kernel, b: &Kernel) -> bool {
    let key = |k: &Kernel| (k.form.name(), k.normalise, k.raw_shape.clone(), k.raw_lengths.clone());
    key(a) == key(b)
}

impl Done {
    /// Its weights for other points of the same kind at another temperature: x stays as it is.
    fn weights_at(&self, rows: &Rows<'_>) -> Result<Weights> {
        let factor = |c: usize| self.unit[c] / rows.unit[c];
        let mean = Mat::from_fn(self.weights.mean.nrows(), self.unit.len(), |j, c| {
            self.weights.mean[(j, c)] * factor(c)
        });
        let more = rows.points as f64 / self.rows as f64;
        let covariances = self.weights.covariances.iter().enumerate();
        let covariances =
            covariances.map(|(c, s)| s.times(more / factor(c).powi(2))).collect::<Result<Vec<_>>>()?;
        Ok(Weights { mean, covariances: Arc::new(covariances) })
    }

    /// Number of inducing points.
    pub(super) fn points(&self) -> usize {
        self.z.nrows()
    }

    /// What prediction needs.
    pub(super) fn classifier(&self) -> Inducing {
        Inducing {
            z: self.z.clone(),
            prior: self.prior.clone(),
            basis: self.basis.clone(),
            mean: narrow(&self.weights.mean),
            narrow: Narrow::new(&self.weights.covariances),
        }
    }
}

impl Inducing {
    /// From its parts, as they were kept.
    pub(super) fn from_parts(z: Mat<f64>, prior: Prior, mean: Mat<f32>, narrow: Narrow) -> Result<Self> {
        let basis = Basis::new(&prior.kernel, z.as_ref())?;
        let (features, classes) = (basis.len(), prior.classes());
        narrow.check(features, classes)?;
        for (what, expected, got) in [
            ("features of the weights", features, mean.nrows()),
            ("classes of the weights", classes, mean.ncols()),
        ] {
            if expected != got {
                return Err(Error::Shape { what, expected, got });
            }
        }
        Ok(Inducing { z, prior, basis, mean, narrow })
    }

    /// Latent moments at standardised points `x` [N, D].
    pub(super) fn latent(&self, x: MatRef<'_, f64>) -> Result<Latent> {
        let (n, classes) = (x.nrows(), self.prior.classes());
        let scale: Vec<f64> = (0..classes).map(|c| self.prior.kernel.scale(c)).collect();
        let block = |b: usize| -> Result<(Mat<f32>, Mat<f64>)> {
            let count = BLOCK.min(n - b * BLOCK);
            let at = self.basis.at(x.subrows(b * BLOCK, count))?;
            let phi = narrow(&at.phi);
            let leading = self.narrow.leading();
            let squares = Mat::from_fn(count, phi.ncols() - leading, |i, j| phi[(i, leading + j)].powi(2));
            let mut mean = Mat::<f32>::zeros(count, classes);
            matmul(mean.as_mut(), Accum::Replace, phi.as_ref(), self.mean.as_ref(), 1.0, Par::Seq);
            Ok((mean, self.narrow.variances(phi.as_ref(), squares.as_ref(), &at.rest)))
        };
        let found = over_ranges(n.div_ceil(BLOCK), 1, |range| range.map(block).collect::<Vec<_>>());
        let (mut mean, mut var) = (Mat::zeros(n, classes), Mat::zeros(n, classes));
        for (b, part) in found.into_iter().flatten().enumerate() {
            let (m, v) = part?;
            for c in 0..classes {
                for i in 0..m.nrows() {
                    mean[(b * BLOCK + i, c)] = self.prior.means[c] + scale[c].sqrt() * f64::from(m[(i, c)]);
                    var[(b * BLOCK + i, c)] = scale[c] * v[(i, c)];
                }
            }
        }
        Ok(Latent::independent(mean, var, self.prior.tau))
    }
}
