//! A Gibbs sampler run on the labelled points of one episode.

use faer::{Mat, MatRef};

use super::{Hyper, Support};
use crate::gibbs::{Chains, LogisticSoftmaxGibbs, OneVsEachGibbs};
use crate::quadrature::Precision;
use crate::{Gradient, Query, QueryGradient, Result, Task};

/// The likelihoods that have a sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledLikelihood {
    /// `p(y | x) = sigma(x_y) / sum_c sigma(x_c)`.
    LogisticSoftmax,
    /// `L(y | x) = prod_{c != y} sigma(x_y - x_c)`.
    OneVsEach,
}

/// Which likelihood to sample, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// The likelihood.
    pub likelihood: SampledLikelihood,
    /// Number, length and seed of the chains; give each episode a seed of its own.
    pub chains: Chains,
}

/// The posterior of one episode as samples of the auxiliary variables.
#[derive(Debug, Clone)]
pub struct Sampled {
    support: Support,
    run: Run,
}

/// Runs the chains on the labelled points with features `x` [N, D] and labels `y` `[N]` in `0..classes`.
pub fn sample(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    sampler: &Sampler,
) -> Result<Sampled> {
    let (support, task) = Support::new(x, y, classes, hyper)?;
    Ok(Sampled { support, run: sampler.run(&task)? })
}

impl Sampled {
    /// Class probabilities at new features `x` [M, D]; each row sums to 1. For logistic-softmax these are `E p(y | x)`, by
    /// quadrature of the given precision; one-vs-each is no distribution over labels and has the published ones only.
    pub fn probs(&self, x: MatRef<'_, f64>, precision: Precision) -> Result<Mat<f64>> {
        let query = self.support.query(x)?;
        match &self.run {
            Run::LogisticSoftmax(gibbs) => gibbs.probabilities(&query, precision),
            Run::OneVsEach(gibbs) => gibbs.published_probabilities(&query),
        }
    }

    /// `softmax` of the chains' mean score at new features `x` [M, D], the prediction of the published systems:
    /// the score is `E log sigma(x_c)` or `sum_{j != c} E log sigma(x_c - x_j)`.
    pub fn published_probs(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        let query = self.support.query(x)?;
        match &self.run {
            Run::LogisticSoftmax(gibbs) => gibbs.published_probabilities(&query),
            Run::OneVsEach(gibbs) => gibbs.published_probabilities(&query),
        }
    }
}

/// The chains of either likelihood.
#[derive(Debug, Clone)]
pub(super) enum Run {
    LogisticSoftmax(LogisticSoftmaxGibbs),
    OneVsEach(OneVsEachGibbs),
}

impl Sampler {
    pub(super) fn run(&self, task: &Task) -> Result<Run> {
        Ok(match self.likelihood {
            SampledLikelihood::LogisticSoftmax => {
                Run::LogisticSoftmax(LogisticSoftmaxGibbs::run(task, &self.chains)?)
            }
            SampledLikelihood::OneVsEach => Run::OneVsEach(OneVsEachGibbs::run(task, &self.chains)?),
        })
    }
}

impl Run {
    /// Minus the losses, which are means over points: sums over points, larger is better.
    pub(super) fn log_marginal(&self) -> Gradient {
        let loss = match self {
            Run::LogisticSoftmax(gibbs) => gibbs.marginal_likelihood(),
            Run::OneVsEach(gibbs) => gibbs.marginal_likelihood(),
        };
        let points = loss.da.nrows() as f64;
        loss.times(-points)
    }

    pub(super) fn log_predictive(&self, query: &Query, y: &[usize]) -> Result<QueryGradient> {
        let loss = match self {
            Run::LogisticSoftmax(gibbs) => gibbs.predictive_likelihood(query, y)?,
            Run::OneVsEach(gibbs) => gibbs.predictive_likelihood(query, y)?,
        };
        Ok(loss.times(-(y.len() as f64)))
    }
}
