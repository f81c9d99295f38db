//! What both Bayesian MAMLs are: a shared backbone, and particles of the last layer that are meta-learned with it.

use crate::adam::ScalarAdam;
use crate::error::{Error, Result};
use crate::inner::{check_way, finite};
use crate::state::State;
use crate::svgd::{Points, Prior, Shape, mixture, step};
use crate::{Episode, Features, Images, Prediction, Rates, Setup, StepReport, Task};
use rand_distr::{Distribution, Normal};
use siskin_nn::{HeadLoss, Network, Step, stream};

/// log lambda of a fresh particle.
const INITIAL_LOG_LAMBDA: f64 = 1.0;

/// Backbone and particles with their optimisers.
pub struct ParticleClassifier {
    network: Network,
    shape: Shape,
    particles: Vec<f64>,
    adam: ScalarAdam,
    setup: Setup,
}

impl ParticleClassifier {
    /// A fresh model: W ~ N(0, 2 / (dim + way)), b = 0, log lambda = 1.
    pub fn new(count: usize, prior: Prior, setup: Setup) -> Result<ParticleClassifier> {
        let dim = setup.architecture.dimension(setup.image_size, setup.image_size)?;
        let shape = Shape { particles: count, dim, way: setup.way, prior };
        let normal = Normal::new(0.0, (2.0 / (dim + setup.way) as f64).sqrt())
            .map_err(|e| Error::Settings(format!("no first particles: {e}")))?;
        let mut particles = vec![0.0; count * shape.size()];
        for (m, particle) in (0..).zip(particles.chunks_exact_mut(shape.size())) {
            let mut rng = stream(setup.seed, "particles", m);
            particle[..dim * setup.way].iter_mut().for_each(|w| *w = normal.sample(&mut rng));
            if prior == Prior::Hierarchical {
                particle[shape.size() - 1] = INITIAL_LOG_LAMBDA;
            }
        }
        let adam = ScalarAdam::new(particles.len());
        let network = Network::new(setup.architecture, setup.seed, setup.device)?;
        Ok(ParticleClassifier { network, shape, particles, adam, setup })
    }

    /// One step of backbone and particles on the mean of `loss(shape, particles, features, episode)` over the episodes.
    /// Its `dhyper` is the gradient of the particles, its `extra` the share of queries named rightly.
    pub fn train_step(
        &mut self,
        episodes: &[Episode<'_>],
        rates: Rates,
        loss: impl Fn(&Shape, &[f64], &Features, &Episode<'_>) -> HeadLoss<f64>,
    ) -> Result<StepReport> {
        let mut step = Step::default();
        let mut report = StepReport::start();
        let mut gradient = vec![0.0; self.particles.len()];
        for episode in episodes {
            let outcome = self.network.episode(episode.images, &mut step, |features| {
                Ok::<_, Error>(loss(&self.shape, &self.particles, features, episode))
            })?;
            report.add(outcome.loss, outcome.extra, episodes.len());
            let share = 1.0 / episodes.len() as f64;
            gradient.iter_mut().zip(&outcome.dhyper).for_each(|(sum, g)| *sum += share * g);
        }
        if gradient.iter().any(|g| !g.is_finite()) {
            return Ok(report);
        }
        let report = report.take(&mut self.network, step, rates.network);
        if report.taken {
            self.adam.step(&mut self.particles, &gradient, |_| rates.network);
        }
        Ok(report)
    }

    /// Features on running statistics.
    pub fn embed(&self, images: Images<'_>) -> Result<Features> {
        Ok(self.network.features(images)?)
    }

    /// The mean over the particles' probabilities after `steps` on the support.
    pub fn predict(
        &self,
        task: &Task<'_>,
        steps: usize,
        rate: f64,
        rate_key: &'static str,
    ) -> Result<Prediction> {
        check_way(task.way, &self.setup)?;
        let points = Points { x: task.support, labels: task.labels };
        if task.support.dim != self.shape.dim {
            return Err(Error::Settings(format!(
                "the particles of this model read {} features, these rows have {}",
                self.shape.dim, task.support.dim
            )));
        }
        let adapted = (0..steps).fold(self.particles.clone(), |at, _| step(&self.shape, &at, points, rate));
        let probabilities = finite(mixture(&self.shape, &adapted, task.query), rate_key)?;
        Ok(Prediction { probabilities, way: task.way, latent: None })
    }

    /// MiB of `copies` of all particles.
    pub fn memory_mib(&self, copies: usize) -> f64 {
        (copies * self.particles.len() * size_of::<f64>()) as f64 / (1024.0 * 1024.0)
    }

    /// Everything a resumed training needs.
    pub fn state(&self) -> State {
        let mut state = State::default();
        state.push_f64("particles", &self.particles);
        self.adam.save(&mut state, "particles.adam");
        state.push_network(self.network.state());
        state
    }

    /// Puts a state back.
    pub fn load_state(&mut self, state: &State) -> Result<()> {
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
