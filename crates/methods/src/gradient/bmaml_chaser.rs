//! Bayesian MAML with the chaser loss (Yoon et al. 2018, Section 3.2): particles adapted on the support (the chaser)
//! are drawn towards where further steps on support and query lead them (the leader).
//!
//! chaser = SVGD(particles; support), leader = SVGD(chaser; support and query), loss = sum |chaser - stop(leader)|^2
//! over particles and coordinates. The leader is a constant of the gradient; the queries' features get none.
//!
//! As the reference code has it, the weights' prior is N(0, 1) without lambda: a distance between log lambdas would
//! outweigh all others. Kernel and step as in [`crate::gradient::bmaml`]; the leader's default rate is half the chaser's, as there.

use crate::gradient::bmaml::{Halves, scatter};
use crate::gradient::particles::{ParticleClassifier, ParticleLoss, ParticleSettings, in_bounds};
use crate::gradient::svgd::{ParticlePrior, Points, Rule, Shape, path, path_adjoint, step};
use crate::settings::{Check, Settings};
use crate::{EpisodeRows, Features, Method, Result, Setup};
use serde::{Deserialize, Serialize};
use siskin_nn::HeadLoss;

/// `[bmaml-chaser]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BmamlChaserSettings {
    /// Particles of the last layer.
    pub particles: usize,
    /// The chaser's steps on the support in training.
    pub inner_steps: usize,
    /// Their rate.
    pub inner_learning_rate: f64,
    /// The leader's further steps on support and query.
    pub leader_steps: usize,
    /// Their rate.
    pub leader_learning_rate: f64,
    /// Steps on the support at test.
    pub test_steps: usize,
    /// Kernel, prior and step of the released code; its inner rate is 0.01, without the 1 / particles of the default rule.
    pub as_released: bool,
}

impl Default for BmamlChaserSettings {
    fn default() -> Self {
        BmamlChaserSettings {
            particles: 20,
            inner_steps: 1,
            inner_learning_rate: 0.2,
            leader_steps: 1,
            leader_learning_rate: 0.1,
            test_steps: 5,
            as_released: false,
        }
    }
}

impl Settings for BmamlChaserSettings {
    const NAME: &'static str = "bmaml-chaser";
    const ABOUT: &'static str = "Bayesian MAML with the chaser loss (Yoon et al. 2018)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        Check { method: Self::NAME }
            .at_least_one(&[
                ("particles", self.particles),
                ("inner_steps", self.inner_steps),
                ("leader_steps", self.leader_steps),
            ])?
            .positive(&[
                ("inner_learning_rate", self.inner_learning_rate),
                ("leader_learning_rate", self.leader_learning_rate),
            ])?
            .released_particles(self.as_released, self.particles)
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(BmamlChaser::new(self, setup)?))
    }
}

/// The method.
pub type BmamlChaser = ParticleClassifier<BmamlChaserSettings>;

impl ParticleLoss for BmamlChaserSettings {
    const RATE_KEY: &'static str = "bmaml-chaser.inner_learning_rate";

    fn shared(&self) -> ParticleSettings {
        let (prior, rule) = match self.as_released {
            false => (ParticlePrior::StandardNormal, Rule::Yoon),
            true => (ParticlePrior::ReleasedStandardNormal, Rule::Released),
        };
        let BmamlChaserSettings { particles, test_steps, inner_learning_rate: rate, .. } = *self;
        ParticleSettings { particles, prior, rule, test_steps, rate }
    }

    /// Their positions at every inner step, the leader, their energies' gradients and the two adjoints of a step.
    fn copies_of_a_task(&self) -> usize {
        self.inner_steps + 2 + 3
    }

    /// The chaser loss of one episode.
    fn loss(
        &self,
        shape: &Shape,
        particles: &[f64],
        features: &Features,
        episode: &EpisodeRows<'_>,
    ) -> Result<HeadLoss> {
        let halves = Halves::of(features, episode);
        let support = Points { x: &halves.support, labels: &halves.support_labels };
        let all = Points { x: features, labels: episode.labels };
        let rate = self.inner_learning_rate;
        let path = in_bounds(path(shape, particles, support, rate, self.inner_steps), Self::RATE_KEY)?;
        let chaser = &path[self.inner_steps];
        let leader = (0..self.leader_steps)
            .fold(chaser.clone(), |at, _| step(shape, &at, all, self.leader_learning_rate));
        let apart = || chaser.iter().zip(&leader).map(|(chaser, leader)| chaser - leader);
        let loss = apart().map(|d| d * d).sum();
        let mut dsupport = vec![0.0; halves.support.values.len()];
        let v = apart().map(|d| 2.0 * d).collect();
        let v = path_adjoint(shape, &path, support, rate, v, &mut dsupport);
        let mut dfeatures = vec![0.0; features.values.len()];
        scatter(&mut dfeatures, features.dim, episode.support, &dsupport);
        Ok(HeadLoss { loss, dfeatures, dhyper: v, accuracy: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradient::particles::tests::equals_pytorch;

    #[test]
    fn loss_and_gradients_are_those_of_pytorch() {
        equals_pytorch(include_str!("../../tests/golden/bmaml_chaser.json"), |particles, steps, golden| {
            BmamlChaserSettings {
                particles,
                inner_steps: steps,
                inner_learning_rate: golden.f64("rate"),
                leader_steps: steps,
                leader_learning_rate: golden.f64("leader_rate"),
                test_steps: steps,
                as_released: false,
            }
        });
    }
}
