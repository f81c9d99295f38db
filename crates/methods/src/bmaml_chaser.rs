//! Bayesian MAML with the chaser loss (Yoon et al. 2018, Section 3.2): particles adapted on the support (the chaser)
//! are drawn towards where further steps on support and query lead them (the leader).
//!
//! chaser = SVGD(particles; support), leader = SVGD(chaser; support and query), loss = sum |chaser - stop(leader)|^2
//! over particles and coordinates. The leader is a constant of the gradient; the queries' features get none.
//!
//! As the reference code has it, the weights' prior is N(0, 1) without lambda: a distance between log lambdas would
//! outweigh all others. Kernel and step as in [`crate::bmaml`]; the leader's default rate is half the chaser's, as there.

use crate::bmaml::{Halves, scatter};
use crate::error::Result;
use crate::particles::ParticleClassifier;
use crate::state::State;
use crate::svgd::{Points, Prior, Shape, path, path_adjoint, step};
use crate::{Episode, Features, Images, Method, Prediction, Rates, Setup, StepReport, Task};
use serde::{Deserialize, Serialize};
use siskin_nn::HeadLoss;

/// `[bmaml-chaser]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BmamlChaserConfig {
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
}

impl Default for BmamlChaserConfig {
    fn default() -> Self {
        BmamlChaserConfig {
            particles: 20,
            inner_steps: 1,
            inner_learning_rate: 0.2,
            leader_steps: 1,
            leader_learning_rate: 0.1,
            test_steps: 5,
        }
    }
}

/// The method.
pub struct BmamlChaser {
    model: ParticleClassifier,
    config: BmamlChaserConfig,
}

impl BmamlChaser {
    /// A fresh model.
    pub fn new(config: &BmamlChaserConfig, setup: Setup) -> Result<BmamlChaser> {
        let model = ParticleClassifier::new(config.particles, Prior::StandardNormal, setup)?;
        Ok(BmamlChaser { model, config: config.clone() })
    }
}

/// The chaser loss of one episode.
fn loss(
    config: &BmamlChaserConfig,
    shape: &Shape,
    particles: &[f64],
    features: &Features,
    episode: &Episode<'_>,
) -> HeadLoss<f64> {
    let halves = Halves::of(features, episode);
    let support = Points { x: &halves.support, labels: &halves.support_labels };
    let all = Points { x: features, labels: episode.labels };
    let rate = config.inner_learning_rate;
    let path = path(shape, particles, support, rate, config.inner_steps);
    let chaser = &path[config.inner_steps];
    let leader = (0..config.leader_steps)
        .fold(chaser.clone(), |at, _| step(shape, &at, all, config.leader_learning_rate));
    let apart = || chaser.iter().zip(&leader).map(|(chaser, leader)| chaser - leader);
    let loss = apart().map(|d| d * d).sum();
    let mut dsupport = vec![0.0; halves.support.values.len()];
    let v = apart().map(|d| 2.0 * d).collect();
    let v = path_adjoint(shape, &path, support, rate, v, &mut dsupport);
    let mut dfeatures = vec![0.0; features.values.len()];
    scatter(&mut dfeatures, features.dim, episode.support, &dsupport);
    HeadLoss { loss, dfeatures, dhyper: v, extra: halves.accuracy(shape, chaser) }
}

impl Method for BmamlChaser {
    fn train_step(&mut self, episodes: &[Episode<'_>], rates: Rates) -> Result<StepReport> {
        self.model.train_step(episodes, rates, |shape, particles, features, episode| {
            loss(&self.config, shape, particles, features, episode)
        })
    }

    fn embed(&self, images: Images<'_>) -> Result<Features> {
        self.model.embed(images)
    }

    fn predict(&self, task: &Task<'_>) -> Result<Prediction> {
        let BmamlChaserConfig { test_steps, inner_learning_rate, .. } = self.config;
        self.model.predict(task, test_steps, inner_learning_rate, "bmaml-chaser.inner_learning_rate")
    }

    /// `extra_memory_mib`: the particles, their two Adam moments and gradient, and in a task their positions at every
    /// inner step, the leader, their energies' gradients and the two adjoints of a step.
    fn scalars(&self) -> Vec<(String, f64)> {
        vec![("extra_memory_mib".into(), self.model.memory_mib(4 + self.config.inner_steps + 2 + 3))]
    }

    fn state(&self) -> State {
        self.model.state()
    }

    fn load_state(&mut self, state: &State) -> Result<()> {
        self.model.load_state(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Golden, assert_close};
    use siskin_nn::Images;

    #[test]
    fn loss_and_gradients_are_those_of_pytorch() {
        let golden = Golden::parse(include_str!("../tests/golden/bmaml_chaser.json"));
        let count = |name: &str| golden.f64(name) as usize;
        let (dim, way, steps) = (count("dim"), count("way"), count("steps"));
        let shape = Shape { particles: count("count"), dim, way, prior: Prior::StandardNormal };
        let (features, labels) = (golden.table("x", dim), golden.usizes("labels"));
        let (support, query) = (golden.usizes("support"), golden.usizes("query"));
        let episode = Episode {
            images: Images::new(&[], [0, 1, 1, 1]).unwrap(),
            labels: &labels,
            support: &support,
            query: &query,
            way,
        };
        let config = BmamlChaserConfig {
            particles: shape.particles,
            inner_steps: steps,
            inner_learning_rate: golden.f64("rate"),
            leader_steps: steps,
            leader_learning_rate: golden.f64("leader_rate"),
            test_steps: steps,
        };
        let found = loss(&config, &shape, &golden.f64s("particles"), &features, &episode);
        assert!((found.loss - golden.f64("loss")).abs() < 1e-10 * golden.f64("loss"), "{}", found.loss);
        assert_close("particles", &found.dhyper, &golden.f64s("dparticles"), 1e-9);
        assert_close("features", &found.dfeatures, &golden.f64s("dx"), 1e-9);
    }
}
