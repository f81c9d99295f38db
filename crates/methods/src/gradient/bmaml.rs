//! Bayesian MAML (Yoon et al. 2018): the last layer's posterior as particles, moved by Stein variational gradient
//! descent on a task's support.
//!
//! The backbone is shared by all tasks; the first particles are meta-learned with it by the negative log of the mean
//! probability over adapted particles, differentiated through the steps (see `svgd.rs`).
//!
//! Where the reference code departs from the published method, this follows the publication:
//!
//! | | here | reference code |
//! | --- | --- | --- |
//! | kernel | exp(-d^2 / h), h = median of d^2 over pairs / log M | exp(-d / h), median with the zero diagonal, and the gradient of another kernel |
//! | step | rate / M, default rate 0.2 | rate without 1 / M, 0.01: with 20 particles the same length |
//! | prior | variance 1 / lambda, density of log lambda with its Jacobian | standard deviation 1 / lambda |

use crate::gradient::particles::{ParticleClassifier, ParticleLoss, ParticleSettings, in_bounds};
use crate::gradient::svgd::{ParticlePrior, Points, Rule, Shape, mixture_loss, path, path_adjoint};
use crate::select;
use crate::settings::{Check, Settings};
use crate::{EpisodeRows, Features, Method, Result, Setup};
use serde::{Deserialize, Serialize};
use siskin_nn::HeadLoss;

/// `[bmaml]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BmamlSettings {
    /// Particles of the last layer.
    pub particles: usize,
    /// Steps on the support in training.
    pub inner_steps: usize,
    /// Their rate.
    pub inner_learning_rate: f64,
    /// Steps on the support at test.
    pub test_steps: usize,
    /// Kernel, prior and step of the released code; its inner rate is 0.01, without the 1 / particles of the default rule.
    pub as_released: bool,
}

impl Default for BmamlSettings {
    fn default() -> Self {
        BmamlSettings {
            particles: 20,
            inner_steps: 1,
            inner_learning_rate: 0.2,
            test_steps: 1,
            as_released: false,
        }
    }
}

impl Settings for BmamlSettings {
    const NAME: &'static str = "bmaml";
    const ABOUT: &'static str =
        "particles of the last layer, moved by Stein variational steps (Yoon et al. 2018)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        Check { method: Self::NAME }
            .at_least_one(&[("particles", self.particles), ("inner_steps", self.inner_steps)])?
            .positive(&[("inner_learning_rate", self.inner_learning_rate)])?
            .released_particles(self.as_released, self.particles)
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(Bmaml::new(self, setup)?))
    }
}

/// The method.
pub type Bmaml = ParticleClassifier<BmamlSettings>;

/// An episode's features and labels, support and query apart.
pub(crate) struct Halves {
    pub support: Features,
    pub support_labels: Vec<usize>,
    pub query: Features,
    pub query_labels: Vec<usize>,
}

impl Halves {
    pub(crate) fn of(features: &Features, episode: &EpisodeRows<'_>) -> Halves {
        let labels = |rows: &[usize]| rows.iter().map(|&r| episode.labels[r]).collect();
        Halves {
            support: select(features, episode.support),
            support_labels: labels(episode.support),
            query: select(features, episode.query),
            query_labels: labels(episode.query),
        }
    }
}

/// Adds rows of gradients to the rows of all features they belong to.
pub(crate) fn scatter(to: &mut [f64], dim: usize, rows: &[usize], gradients: &[f64]) {
    for (&row, gradient) in rows.iter().zip(gradients.chunks_exact(dim)) {
        to[row * dim..(row + 1) * dim].iter_mut().zip(gradient).for_each(|(to, g)| *to += g);
    }
}

impl ParticleLoss for BmamlSettings {
    const RATE_KEY: &'static str = "bmaml.inner_learning_rate";

    fn shared(&self) -> ParticleSettings {
        let (prior, rule) = match self.as_released {
            false => (ParticlePrior::Hierarchical, Rule::Yoon),
            true => (ParticlePrior::ReleasedHierarchical, Rule::Released),
        };
        let BmamlSettings { particles, test_steps, inner_learning_rate: rate, .. } = *self;
        ParticleSettings { particles, prior, rule, test_steps, rate }
    }

    /// Their positions at every inner step, their energies' gradients and the two adjoints of a step.
    fn copies_of_a_task(&self) -> usize {
        self.inner_steps + 1 + 3
    }

    /// The loss of one episode: -mean log probability of the queries after the steps on the support.
    fn loss(
        &self,
        shape: &Shape,
        particles: &[f64],
        features: &Features,
        episode: &EpisodeRows<'_>,
    ) -> Result<HeadLoss> {
        let halves = Halves::of(features, episode);
        let support = Points { x: &halves.support, labels: &halves.support_labels };
        let query = Points { x: &halves.query, labels: &halves.query_labels };
        let rate = self.inner_learning_rate;
        let path = in_bounds(path(shape, particles, support, rate, self.inner_steps), Self::RATE_KEY)?;
        let last = &path[self.inner_steps];
        let (loss, v, dquery) = mixture_loss(shape, last, query);
        let mut dsupport = vec![0.0; halves.support.values.len()];
        let v = path_adjoint(shape, &path, support, rate, v, &mut dsupport);
        let mut dfeatures = vec![0.0; features.values.len()];
        scatter(&mut dfeatures, features.dim, episode.support, &dsupport);
        scatter(&mut dfeatures, features.dim, episode.query, &dquery);
        Ok(HeadLoss { loss, dfeatures, dhyper: v, accuracy: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradient::particles::tests::equals_pytorch;

    #[test]
    fn loss_and_gradients_are_those_of_pytorch() {
        equals_pytorch(include_str!("../../tests/golden/bmaml.json"), |particles, steps, golden| {
            BmamlSettings {
                particles,
                inner_steps: steps,
                inner_learning_rate: golden.f64("rate"),
                test_steps: steps,
                as_released: false,
            }
        });
    }
}
