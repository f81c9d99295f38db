//! What both Bayesian MAMLs are: a shared backbone, and particles of the last layer that are meta-learned with it.

use crate::error::{Error, Result};
use crate::gradient::inner::{check_way, finite};
use crate::gradient::svgd::{ParticlePrior, Points, Rule, Shape, mixture, path};
use crate::shared::adam::ScalarAdam;
use crate::shared::state::State;
use crate::{
    EpisodeRows, Features, Images, Method, Place, Prediction, Rates, Rows, Setup, Share, StepReport, TaskRows,
};
use rand_distr::{Distribution, Normal};
use siskin_nn::{HeadLoss, Network, stream};

/// log lambda of a fresh particle.
const INITIAL_LOG_LAMBDA: f64 = 1.0;

/// What both have among their settings.
#[derive(Clone, Copy)]
pub struct ParticleSettings {
    /// Particles of the last layer.
    pub particles: usize,
    /// The prior of a particle.
    pub prior: ParticlePrior,
    /// The kernel and length of a step.
    pub rule: Rule,
    /// Steps on the support at test.
    pub test_steps: usize,
    /// The rate of a step.
    pub rate: f64,
}

/// What the two differ in: their settings, and the loss of an episode.
pub trait ParticleLoss {
    /// The config key of the inner rate, for errors.
    const RATE_KEY: &'static str;

    /// What both have.
    fn shared(&self) -> ParticleSettings;
    /// Copies of all particles that a task holds at once: their positions, gradients and adjoints.
    fn copies_of_a_task(&self) -> usize;
    /// The loss of one episode. `dhyper` is the gradient of the particles.
    fn loss(
        &self,
        shape: &Shape,
        at: &[f64],
        features: &Features,
        episode: &EpisodeRows<'_>,
    ) -> Result<HeadLoss>;
}

/// Backbone and particles with their optimisers.
pub struct ParticleClassifier<L> {
    config: L,
    network: Network,
    shape: Shape,
    particles: Vec<f64>,
    adam: ScalarAdam,
    setup: Setup,
}

impl<L: ParticleLoss + Clone> ParticleClassifier<L> {
    /// A fresh model: W ~ N(0, 2 / (dim + way)), b = 0, log lambda = 1.
    pub fn new(config: &L, setup: Setup) -> Result<Self> {
        let ParticleSettings { particles: count, prior, rule, .. } = config.shared();
        let dim = setup.architecture.dimension(setup.image_size, setup.image_size)?;
        let shape = Shape { particles: count, dim, way: setup.way, prior, rule };
        let normal = Normal::new(0.0, (2.0 / (dim + setup.way) as f64).sqrt())
            .map_err(|e| Error::Settings(format!("no first particles: {e}")))?;
        let mut particles = vec![0.0; count * shape.size()];
        for (m, particle) in (0..).zip(particles.chunks_exact_mut(shape.size())) {
            let mut rng = stream(setup.seed, "particles", m);
            particle[..dim * setup.way].iter_mut().for_each(|w| *w = normal.sample(&mut rng));
            if prior != ParticlePrior::StandardNormal {
                particle[shape.size() - 1] = INITIAL_LOG_LAMBDA;
            }
        }
        let adam = ScalarAdam::new(particles.len());
        let network = Network::new(setup.architecture, setup.seed, setup.device)?;
        Ok(ParticleClassifier { config: config.clone(), network, shape, particles, adam, setup })
    }
}

/// Refuses steps that ran away. The weights of a last layer are of order 1; beyond this bound every probability is 0 or 1, and
/// it is finite and wrong.
pub(crate) fn in_bounds(path: Vec<Vec<f64>>, key: &'static str) -> Result<Vec<Vec<f64>>> {
    let bound = 1e6;
    match path.last().is_none_or(|last| last.iter().all(|x| x.abs() < bound)) {
        true => Ok(path),
        false => Err(Error::Diverged { key }),
    }
}

impl<L: ParticleLoss + Send + Sync> Method for ParticleClassifier<L> {
    fn shares(&self, episodes: &[EpisodeRows<'_>], _: Place) -> Result<Vec<Share>> {
        let share = |episode: &EpisodeRows<'_>| {
            let mut numbers = Vec::new();
            let share = Share::record(|step| {
                let outcome = self.network.episode(episode.images, step, |features| {
                    self.config.loss(&self.shape, &self.particles, features, episode)
                })?;
                numbers = outcome.dhyper;
                Ok((outcome.loss, None))
            })?;
            Ok(Share { numbers, ..share })
        };
        episodes.iter().map(share).collect()
    }

    /// One step of backbone and particles on the mean loss of the episodes.
    fn take(&mut self, shares: Vec<Share>, rates: Rates) -> Result<StepReport> {
        let mut gradient = vec![0.0; self.particles.len()];
        let share = 1.0 / shares.len() as f64;
        for episode in &shares {
            gradient.iter_mut().zip(&episode.numbers).for_each(|(sum, g)| *sum += share * g);
        }
        if gradient.iter().any(|g| !g.is_finite()) {
            let (mut report, count) = (StepReport::start(), shares.len());
            shares.iter().for_each(|share| report.add(share.loss, None, count));
            return Ok(report);
        }
        let report = StepReport::of_shares(&mut self.network, shares, rates.network)?;
        if report.taken {
            self.adam.step(&mut self.particles, &gradient, |_| rates.network.learning_rate);
        }
        Ok(report)
    }

    fn embed(&self, images: Images<'_>) -> Result<Rows> {
        Ok(Rows::Features(self.network.features(images)?))
    }

    /// The mean over the particles' probabilities after the steps on the support.
    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let ParticleSettings { test_steps: steps, rate, .. } = self.config.shared();
        check_way(task.way, &self.setup)?;
        let (support, query) = (task.support.features()?, task.query.features()?);
        let points = Points { x: support, labels: task.labels };
        if support.dim != self.shape.dim {
            return Err(Error::Settings(format!(
                "the particles of this model read {} features, these rows have {}",
                self.shape.dim, support.dim
            )));
        }
        let path = in_bounds(path(&self.shape, &self.particles, points, rate, steps), L::RATE_KEY)?;
        let probabilities = finite(mixture(&self.shape, &path[steps], query), L::RATE_KEY)?;
        Ok(Prediction { probabilities, way: task.way, latent: None })
    }

    /// `extra_memory_mib`: the particles, their two Adam moments and gradient, and what a task holds.
    fn scalars(&self) -> Vec<(String, f64)> {
        let bytes = (4 + self.config.copies_of_a_task()) * self.particles.len() * size_of::<f64>();
        vec![("extra_memory_mib".into(), bytes as f64 / (1024.0 * 1024.0))]
    }

    fn state(&self) -> State {
        let mut state = State::default();
        state.push_f64("particles", &self.particles);
        self.adam.save(&mut state, "particles.adam");
        state.push_network(self.network.state());
        state
    }

    fn load_state(&mut self, state: &State) -> Result<()> {
        let particles = state.f64s("particles")?;
        if particles.len() != self.particles.len() {
            return Err(Error::State(format!(
                "`particles` has {} numbers, this model {}: the number of particles, classes or features differs",
                particles.len(),
                self.particles.len()
            )));
        }
        let mut adam = ScalarAdam::new(particles.len());
        adam.load(state, "particles.adam")?;
        self.network.load_state(state.network()?)?;
        self.particles.copy_from_slice(particles);
        self.adam = adam;
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gradient::bmaml::BmamlSettings;
    use crate::shared::golden::{Golden, assert_close};
    use siskin_nn::{Architecture, DeviceChoice};

    /// Compares the loss of a golden file's episode and its gradients; `config` makes the settings from
    /// the numbers of particles and steps.
    pub(crate) fn equals_pytorch<L: ParticleLoss>(golden: &str, config: impl Fn(usize, usize, &Golden) -> L) {
        let golden = Golden::parse(golden);
        let count = |name: &str| golden.f64(name) as usize;
        let (dim, way) = (count("dim"), count("way"));
        let ParticleSettings { prior, rule, .. } = config(1, 1, &golden).shared();
        let shape = Shape { particles: count("count"), dim, way, prior, rule };
        let (features, labels) = (golden.table("x", dim), golden.usizes("labels"));
        let (support, query) = (golden.usizes("support"), golden.usizes("query"));
        let episode = EpisodeRows {
            images: Images::new(&[], [0, 1, 1, 1]).unwrap(),
            labels: &labels,
            support: &support,
            query: &query,
            way,
        };
        let config = config(shape.particles, count("steps"), &golden);
        let found = config.loss(&shape, &golden.f64s("particles"), &features, &episode).unwrap();
        assert!((found.loss - golden.f64("loss")).abs() < 1e-10 * golden.f64("loss"), "{}", found.loss);
        assert_close("particles", &found.dhyper, &golden.f64s("dparticles"), 1e-9);
        assert_close("features", &found.dfeatures, &golden.f64s("dx"), 1e-9);
    }

    #[test]
    fn steps_that_run_away_are_an_error_and_no_confident_answer() {
        let settings =
            BmamlSettings { inner_learning_rate: 50.0, test_steps: 12, ..BmamlSettings::default() };
        let setup = Setup {
            architecture: Architecture::Conv4S,
            image_size: 28,
            way: 2,
            base_classes: Some(2),
            seed: 3,
            device: DeviceChoice::Cpu,
        };
        let method = ParticleClassifier::new(&settings, setup).unwrap();
        let features = |first: f64| {
            let values = (0..2 * 64).map(|i| first + (i % 7) as f64).collect();
            Rows::Features(Features { values, rows: 2, dim: 64 })
        };
        let (support, query) = (features(0.0), features(1.0));
        let purpose = crate::Purpose::Test;
        let task = TaskRows { support: &support, labels: &[0, 1], way: 2, query: &query, index: 0, purpose };
        let error = method.predict(&task).unwrap_err();
        assert!(error.is_not_finite() && error.to_string().contains("bmaml.inner_learning_rate"), "{error}");
    }
}
