//! MAML (Finn et al. 2017): weights from which a few gradient steps on a task's support solve the task.
//!
//! For each task theta_{k+1} = theta_k - rate grad L_support(theta_k) on all weights, backbone and linear head; the
//! meta-loss is the mean cross-entropy of the queries at theta_K. Its gradient with respect to theta_0 goes back
//! through the steps, v <- v - rate H_k v, with exact Hessian-vector products (`order = "second"`), or takes the
//! steps' gradients as constants (`order = "first"`). The positions theta_k are kept and their activations computed
//! again, so that memory does not grow with the activations of every step.
//!
//! Batch-norms use the statistics of the batch they see, support and query apart, also at test; so the queries of a test
//! task are answered together. As the reference does. The reference sums the losses of a step's tasks, here they are
//! averaged; for Adam it is the same.

use crate::error::Result;
use crate::gradient::inner::{
    FlatClassifier, MetaGradient, Part, check_precision, descend, finite, pull_back,
};
use crate::settings::{Check, Settings};
use crate::shared::scores::Scores;
use crate::shared::state::State;
use crate::{
    EpisodeRows, Images, Method, Pixels, Place, Prediction, Rates, Rows, Setup, Share, StepReport, TaskRows,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use siskin_nn::{Linear, Network, SentPart, StepPart};

/// `[maml]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MamlSettings {
    /// First or second order.
    pub order: MetaGradient,
    /// Gradient steps on the support in training.
    pub inner_steps: usize,
    /// Their rate.
    pub inner_learning_rate: f64,
    /// Gradient steps on the support at test.
    pub test_steps: usize,
}

impl Default for MamlSettings {
    fn default() -> Self {
        MamlSettings { order: MetaGradient::Second, inner_steps: 5, inner_learning_rate: 0.01, test_steps: 5 }
    }
}

impl Settings for MamlSettings {
    const NAME: &'static str = "maml";
    const ABOUT: &'static str = "a few gradient steps on all weights for each task (Finn et al. 2017)";
    const PAPER: &'static str = "Section 5, Table 1";

    fn check(&self) -> Result<()> {
        Check { method: Self::NAME }
            .at_least_one(&[("inner_steps", self.inner_steps)])?
            .positive(&[("inner_learning_rate", self.inner_learning_rate)])
            .map(|_| ())
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(Maml::new(self, setup)?))
    }
}

/// The method: a backbone and a linear head, all of it meta-learned.
pub struct Maml {
    network: Network<Linear>,
    config: MamlSettings,
    setup: Setup,
}

impl Maml {
    /// A fresh model.
    pub fn new(config: &MamlSettings, setup: Setup) -> Result<Maml> {
        check_precision(config.order, &setup, "maml.order")?;
        Ok(Maml { network: classifier(&setup)?, config: config.clone(), setup })
    }
}

/// A backbone with a linear head for `setup.way` classes.
pub(crate) fn classifier(setup: &Setup) -> Result<Network<Linear>> {
    let dimension = setup.architecture.dimension(setup.image_size, setup.image_size)?;
    let head = |init: &mut siskin_nn::Init<'_>| Linear::new(dimension, setup.way, init);
    Ok(Network::with_head(setup.architecture, setup.seed, setup.device, head)?)
}

/// What one task gives to a step.
pub(crate) struct TaskGradient {
    /// The meta-loss.
    pub loss: f64,
    /// Share of queries named rightly after adaptation.
    pub accuracy: f64,
    /// dloss/dtheta_0.
    pub gradient: Vec<f32>,
}

/// theta_0, ..., theta_K by steps on the support.
pub(crate) fn adapt(
    network: &impl FlatClassifier,
    support: &Part,
    steps: usize,
    rate: f64,
) -> Result<Vec<Vec<f32>>> {
    descend(network.parameters(), steps, rate, |_, theta| Ok(network.loss_gradient(theta, support)?.gradient))
}

/// The meta-loss of one task and its gradient.
pub(crate) fn task_gradient(
    network: &impl FlatClassifier,
    config: &MamlSettings,
    support: &Part,
    query: &Part,
) -> Result<TaskGradient> {
    let rate = config.inner_learning_rate;
    let positions = adapt(network, support, config.inner_steps, rate)?;
    let outer = network.loss_gradient(&positions[config.inner_steps], query)?;
    let way = outer.scores.len() / query.labels.len();
    let accuracy = Scores { values: outer.scores, way }.accuracy(&query.labels);
    let gradient = match config.order {
        MetaGradient::First => outer.gradient,
        MetaGradient::Second => pull_back(&positions, rate, outer.gradient, |_, theta, v| {
            network.hessian_vector(theta, support, v)
        })?,
    };
    Ok(TaskGradient { loss: outer.loss, accuracy, gradient })
}

impl Method for Maml {
    fn shares(&self, episodes: &[EpisodeRows<'_>], _: Place) -> Result<Vec<Share>> {
        let share = |episode: &EpisodeRows<'_>| {
            let (support, query) = (Part::of(episode, episode.support), Part::of(episode, episode.query));
            let task = task_gradient(&self.network, &self.config, &support, &query)?;
            let part = SentPart { gradient: task.gradient, statistics: Vec::new() };
            Ok(Share::of_network(task.loss, Some(task.accuracy), StepPart::Sent(part)))
        };
        episodes.par_iter().map(share).collect()
    }

    fn take(&mut self, shares: Vec<Share>, rates: Rates) -> Result<StepReport> {
        StepReport::of_shares(&mut self.network, shares, rates.network)
    }

    fn embed(&self, images: Images<'_>) -> Result<Rows> {
        Ok(Rows::Pixels(Pixels::of(images, self.setup.architecture.channels())))
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let (support, query) = Part::of_task(task, &self.setup)?;
        let steps = self.config.test_steps;
        let positions = adapt(&self.network, &support, steps, self.config.inner_learning_rate)?;
        let scores = self.network.scores(&positions[steps], &query)?;
        let values = finite(scores, "maml.inner_learning_rate")?;
        Ok(Scores { values, way: task.way }.prediction())
    }

    /// `extra_memory_mib`: what one task in work holds beside the model. That is its weights at every inner step and,
    /// in second order, the vector on its way back and its product with a Hessian.
    fn scalars(&self) -> Vec<(String, f64)> {
        let copies = self.config.inner_steps
            + match self.config.order {
                MetaGradient::First => 1,
                MetaGradient::Second => 3,
            };
        let bytes = copies * self.network.parameters().len() * size_of::<f32>();
        vec![("extra_memory_mib".into(), bytes as f64 / (1024.0 * 1024.0))]
    }

    fn state(&self) -> State {
        let mut state = State::default();
        state.push_network(self.network.state());
        state
    }

    fn load_state(&mut self, state: &State) -> Result<()> {
        Ok(self.network.load_state(state.network()?)?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::shared::golden::{Golden, assert_close};
    use siskin_nn::{Architecture, Backbone, Body, DeviceChoice, Init};

    /// The network, setup, support and query of a golden file.
    pub(crate) fn golden_task(golden: &Golden, theta: &str) -> (Network<Linear>, Setup, Part, Part) {
        let (width, side, way) =
            (golden.f64("width") as usize, golden.f64("side") as usize, golden.f64("way") as usize);
        let device = DeviceChoice::Cpu.open().unwrap().autodiff();
        let backbone = Backbone::with_width(Architecture::Conv4S, width, 0, &device);
        let head = Linear::new(width, way, &mut Init::head(0, &device));
        let network = Network::of_body(Body { backbone, head });
        let theta: Vec<f32> = golden.f64s(theta).iter().map(|&x| x as f32).collect();
        let setup = Setup {
            architecture: Architecture::Conv4S,
            image_size: side,
            way,
            base_classes: Some(way),
            seed: 0,
            device: DeviceChoice::Cpu,
        };
        let part = |name: &str| {
            let values: Vec<f32> = golden.f64s(name).iter().map(|&x| x as f32).collect();
            let rows = Pixels { rows: values.len() / (side * side), shape: [1, side, side], values };
            Part::of_pixels(&rows, &golden.usizes(&format!("{name}_labels")), &setup).unwrap()
        };
        (network.with_parameters(&theta).unwrap(), setup, part("support"), part("query"))
    }

    pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
        values.iter().map(|&x| f64::from(x)).collect()
    }

    #[test]
    fn loss_and_gradient_of_both_orders_are_those_of_pytorch() {
        let golden = Golden::parse(include_str!("../../tests/golden/maml.json"));
        let (network, _, support, query) = golden_task(&golden, "theta");
        for (order, name, other) in
            [(MetaGradient::Second, "second", "first"), (MetaGradient::First, "first", "second")]
        {
            let config = MamlSettings {
                order,
                inner_steps: golden.f64("steps") as usize,
                inner_learning_rate: golden.f64("rate"),
                test_steps: 1,
            };
            let task = task_gradient(&network, &config, &support, &query).unwrap();
            assert!((task.loss - golden.f64("loss")).abs() < 1e-5, "{}", task.loss);
            let found = wide(&task.gradient);
            assert_close(name, &found, &golden.f64s(name), 1e-4);
            // The two orders are far apart here: the test could not pass with the wrong one.
            let wrong = golden.f64s(other);
            let apart = found.iter().zip(&wrong).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
            assert!(apart > 0.05, "{apart}");
        }
    }

    #[test]
    fn the_second_order_gradient_is_the_slope_of_the_meta_loss_and_the_first_order_is_not() {
        let golden = Golden::parse(include_str!("../../tests/golden/maml.json"));
        let (network, _, support, query) = golden_task(&golden, "theta");
        let theta = network.parameters();
        let config =
            |order| MamlSettings { order, inner_steps: 3, inner_learning_rate: 0.125, test_steps: 1 };
        let gradient =
            |order| wide(&task_gradient(&network, &config(order), &support, &query).unwrap().gradient);
        let (first, second) = (gradient(MetaGradient::First), gradient(MetaGradient::Second));
        let norm = second.iter().map(|x| x * x).sum::<f64>().sqrt();
        let along = |g: &[f64]| g.iter().zip(&second).map(|(g, v)| g * v).sum::<f64>() / norm;
        let loss = |h: f64| {
            let moved = theta.iter().zip(&second).map(|(t, v)| t + (h * v / norm) as f32);
            let network = network.with_parameters(&moved.collect::<Vec<f32>>()).unwrap();
            task_gradient(&network, &config(MetaGradient::First), &support, &query).unwrap().loss
        };
        let slope = (loss(3e-4) - loss(-3e-4)) / 6e-4;
        let (of_second, of_first) = (along(&second), along(&first));
        assert!((slope - of_second).abs() < 0.003 * of_second, "{slope} {of_second}");
        assert!((slope - of_first).abs() > 0.01 * of_second, "{slope} {of_first}");
    }

    fn setup(device: DeviceChoice) -> Setup {
        Setup {
            architecture: Architecture::Conv4S,
            image_size: 28,
            way: 2,
            base_classes: Some(2),
            seed: 0,
            device,
        }
    }

    #[test]
    fn the_bias_of_the_head_starts_at_zero_and_its_weights_do_not() {
        let theta = classifier(&setup(DeviceChoice::Cpu)).unwrap().parameters();
        // The last numbers are the head: 64 features to 2 classes, then the biases.
        let (rest, bias) = theta.split_at(theta.len() - 2);
        assert_eq!(bias, [0.0, 0.0]);
        assert!(rest[rest.len() - 128..].iter().all(|&w| w != 0.0));
    }

    #[test]
    fn second_order_in_bf16_is_refused_and_first_order_is_not() {
        let setup = setup(DeviceChoice::CpuAt(siskin_nn::Precision::Bf16Emulated));
        let with = |order| Maml::new(&MamlSettings { order, ..MamlSettings::default() }, setup);
        let error = with(MetaGradient::Second).err().unwrap().to_string();
        assert!(error.contains("maml.order") && error.contains("f32"), "{error}");
        assert!(with(MetaGradient::First).is_ok());
    }
}
