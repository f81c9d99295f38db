//! The chains of either likelihood as one posterior.

use super::{Chains, LogisticSoftmaxGibbs, OneVsEachGibbs};
use crate::posterior::Latent;
use crate::quadrature::Resolution;
use crate::{Gradient, Query, QueryGradient, Result, Task};
use faer::Mat;

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
pub struct GibbsSampler {
    /// The likelihood.
    pub likelihood: SampledLikelihood,
    /// Number, length and seed of the chains; give each episode a seed of its own.
    pub chains: Chains,
    /// As the released code: for logistic-softmax its order of blocks, from `lambda = 1`; for one-vs-each the variance of a
    /// difference as its standard deviation.
    pub released: bool,
}

/// The chains of either likelihood.
#[derive(Debug, Clone)]
pub(crate) enum Samples {
    LogisticSoftmax(LogisticSoftmaxGibbs),
    OneVsEach(OneVsEachGibbs),
}

impl GibbsSampler {
    pub(crate) fn run(&self, task: &Task) -> Result<Samples> {
        Ok(match self.likelihood {
            SampledLikelihood::LogisticSoftmax => Samples::LogisticSoftmax(match self.released {
                false => LogisticSoftmaxGibbs::run(task, &self.chains)?,
                true => LogisticSoftmaxGibbs::run_released(task, &self.chains)?,
            }),
            SampledLikelihood::OneVsEach => {
                let chains = OneVsEachGibbs::run(task, &self.chains)?;
                Samples::OneVsEach(if self.released { chains.as_released() } else { chains })
            }
        })
    }
}

impl Samples {
    pub(crate) fn latent(&self, query: &Query) -> Result<Latent> {
        match self {
            Samples::LogisticSoftmax(gibbs) => gibbs.latent(query),
            Samples::OneVsEach(gibbs) => gibbs.latent(query),
        }
    }

    /// For logistic-softmax `E p(y | x)`; one-vs-each is no distribution over labels and has the published ones only.
    pub(crate) fn probs(&self, query: &Query, resolution: Resolution) -> Result<Mat<f64>> {
        match self {
            Samples::LogisticSoftmax(gibbs) => gibbs.probabilities(query, resolution),
            Samples::OneVsEach(gibbs) => gibbs.published_probabilities(query),
        }
    }

    /// `softmax` of the chains' mean score: `E log sigma(x_c)` or `sum_{j != c} E log sigma(x_c - x_j)`.
    pub(crate) fn published_probs(&self, query: &Query) -> Result<Mat<f64>> {
        match self {
            Samples::LogisticSoftmax(gibbs) => gibbs.published_probabilities(query),
            Samples::OneVsEach(gibbs) => gibbs.published_probabilities(query),
        }
    }

    /// Minus the losses, which are means over points: sums over points, larger is better.
    pub(crate) fn log_marginal(&self) -> Gradient {
        let loss = match self {
            Samples::LogisticSoftmax(gibbs) => gibbs.marginal_likelihood(),
            Samples::OneVsEach(gibbs) => gibbs.marginal_likelihood(),
        };
        let points = loss.da.nrows() as f64;
        loss.times(-points)
    }

    pub(crate) fn log_predictive(&self, query: &Query, y: &[usize]) -> Result<QueryGradient> {
        let loss = match self {
            Samples::LogisticSoftmax(gibbs) => gibbs.predictive_likelihood(query, y)?,
            Samples::OneVsEach(gibbs) => gibbs.predictive_likelihood(query, y)?,
        };
        Ok(loss.times(-(y.len() as f64)))
    }
}
