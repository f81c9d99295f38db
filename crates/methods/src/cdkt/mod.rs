//! CDKT: a deep-kernel Gaussian process with the logistic-softmax likelihood, meta-trained by a bound or by the
//! predictive likelihood (Section 4 of the paper, Algorithm 1).

mod carried;
mod config;
mod head;
mod scalars;

pub use config::{CdktConfig, Inference, KernelName, ObjectiveName, OutputScale};

use crate::adam::ScalarAdam;
use crate::error::{Error, Result};
use crate::state::State;
use crate::{Episode, Features, Images, Latent, Method, Prediction, Rates, Setup, StepReport, Task};
use carried::Carried;
use head::Head;
use siskin_gp::episode::Hyper;
use siskin_nn::{Network, Step};

/// The method: a network for the features, a Gaussian-process head on them.
pub struct Cdkt {
    network: Network,
    head: Head,
    hyper: Hyper,
    adam: ScalarAdam,
    carried: Carried,
}

impl Cdkt {
    /// A fresh model.
    pub fn new(config: &CdktConfig, setup: Setup) -> Result<Cdkt> {
        let head = Head::new(config, setup.way, setup.seed)?;
        let hyper = head.initial_hyper()?;
        let adam = ScalarAdam::new(head.learned(&hyper).len());
        let network = Network::new(setup.architecture, setup.seed, setup.device)?;
        Ok(Cdkt { network, head, hyper, adam, carried: Carried::default() })
    }
}

impl Method for Cdkt {
    fn train_step(&mut self, episodes: &[Episode<'_>], rates: Rates) -> Result<StepReport> {
        let mut step = Step::default();
        let mut carried = self.carried.clone();
        let (mut loss, mut accuracy) = (0.0_f64, 0.0);
        let mut gradient = vec![0.0_f64; self.head.learned(&self.hyper).len()];
        for episode in episodes {
            let outcome = self.network.episode(episode.images, &mut step, |features| {
                self.head.loss(features, episode, &self.hyper, &carried)
            })?;
            let share = 1.0 / episodes.len() as f64;
            loss += share * outcome.loss;
            gradient.iter_mut().zip(&outcome.dhyper).for_each(|(sum, g)| *sum += share * g);
            accuracy += share * outcome.extra.0;
            carried.advance(outcome.extra.1);
        }
        let taken = loss.is_finite() && step.non_finite() == 0 && gradient.iter().all(|g| g.is_finite());
        if taken {
            self.network.apply(step, rates.network);
            let mut x = self.head.learned(&self.hyper);
            self.adam.step(&mut x, &gradient, rates.kernel);
            self.head.put_learned(&mut self.hyper, &x);
            self.carried = carried;
        }
        Ok(StepReport { loss, accuracy, taken })
    }

    fn embed(&self, images: Images<'_>) -> Result<Features> {
        Ok(self.network.features(images)?)
    }

    fn predict(&self, task: &Task<'_>) -> Result<Prediction> {
        self.head.predict(task, &self.hyper)
    }

    fn scalars(&self) -> Vec<(String, f64)> {
        self.head.named_scalars(&self.hyper)
    }

    fn state(&self) -> State {
        let mut state = State::default();
        state.push_f64("hyper", &self.head.learned(&self.hyper));
        self.adam.save(&mut state, "hyper.adam");
        self.carried.save(&mut state);
        state.push_network(self.network.state());
        state
    }

    fn load_state(&mut self, state: &State) -> Result<()> {
        let x = state.f64s("hyper")?;
        let expected = self.head.learned(&self.hyper).len();
        if x.len() != expected {
            return Err(Error::State(format!(
                "`hyper` has {} numbers, this model {expected}: kernel, output scale or what is learned differ",
                x.len()
            )));
        }
        let carried = Carried::load(state)?;
        self.adam.load(state, "hyper.adam")?;
        self.network.load_state(state.network()?)?;
        self.head.put_learned(&mut self.hyper, x);
        self.carried = carried;
        Ok(())
    }
}

impl Latent {
    /// Class probabilities `[queries, way]` of the logistic-softmax with another temperature.
    pub fn probabilities(&self, way: usize, tau: f64) -> Result<Vec<f64>> {
        head::probabilities(self, way, tau)
    }
}
