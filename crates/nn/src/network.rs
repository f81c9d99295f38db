//! A network in training: backbone, head, optimiser and device in one.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::adam::{self, Adam};
use crate::backbone::{Architecture, Backbone};
use crate::batch_norm::Pass;
use crate::border::{EpisodeLoss, Features, HeadLoss, cross, to_host};
use crate::head::{Body, Head, NoHead};
use crate::init::Init;
use crate::state::{self, NamedTensor};
use crate::weights;
use crate::{BatchStatistics, DeviceChoice, Error, Gradients, Images};

/// Images of one evaluation pass: bounds the memory, changes no result.
const EVAL_BATCH: usize = 128;

/// A backbone, the trained layers after it if there are any, and their optimiser on a device.
#[derive(Clone, Debug)]
pub struct Network<H: Head = NoHead> {
    body: Body<H>,
    adam: Adam,
    device: Device,
}

/// Everything that training changes: what a checkpoint stores.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkState {
    /// Parameters, running statistics, then the optimiser's moments (`adam.m.*`, `adam.v.*`).
    pub tensors: Vec<NamedTensor>,
    /// Optimiser steps taken.
    pub steps: u64,
}

/// One optimiser step in the making: the sum over its episodes.
#[derive(Clone, Debug, Default)]
pub struct Step {
    gradients: Option<Gradients>,
    statistics: Vec<Vec<BatchStatistics>>,
}

impl Step {
    /// Adds an episode: its gradients, and the batch statistics that the running ones shall take over, if any.
    pub fn add(&mut self, gradients: Gradients, statistics: Vec<BatchStatistics>) {
        self.gradients = Some(match self.gradients.take() {
            None => gradients,
            Some(sum) => sum.plus(gradients),
        });
        self.statistics.push(statistics);
    }

    /// Number of episodes added so far.
    pub fn episodes(&self) -> usize {
        self.statistics.len()
    }

    /// Number of NaN or infinite gradient entries so far.
    pub fn non_finite(&self) -> usize {
        self.gradients.as_ref().map_or(0, Gradients::non_finite)
    }

    /// Euclidean norm of the summed gradient.
    pub fn norm(&self) -> f64 {
        self.gradients.as_ref().map_or(0.0, Gradients::norm)
    }
}

impl Network {
    /// A fresh network without a head: parameters from stream `(seed, "init")`, zero moments.
    pub fn new(architecture: Architecture, seed: u64, device: DeviceChoice) -> Result<Self, Error> {
        Ok(Self::of(Backbone::on(architecture, seed, device)?))
    }

    /// The backbone with a fresh optimiser.
    pub fn of(backbone: Backbone) -> Self {
        Self::of_body(Body { backbone, head: NoHead {} })
    }
}

impl<H: Head> Network<H> {
    /// A fresh network with a head, which `head` makes from its own first values.
    pub fn with_head(
        architecture: Architecture,
        seed: u64,
        device: DeviceChoice,
        head: impl FnOnce(&mut Init<'_>) -> H,
    ) -> Result<Self, Error> {
        let backbone = Backbone::on(architecture, seed, device)?;
        let head = head(&mut Init::head(seed, &backbone.device()));
        Ok(Self::of_body(Body { backbone, head }))
    }

    /// The backbone and head with a fresh optimiser.
    pub fn of_body(body: Body<H>) -> Self {
        let body = body.train();
        let device = body.backbone.device();
        let adam = Adam::new(&body, &device.clone().inner());
        Self { body, adam, device }
    }

    /// The backbone.
    pub fn backbone(&self) -> &Backbone {
        &self.body.backbone
    }

    /// Backbone and head.
    pub(crate) fn body(&self) -> &Body<H> {
        &self.body
    }

    /// Backbone and head for evaluation: without a graph, on [`Network::eval_device`].
    pub fn eval(&self) -> Body<H> {
        self.body.valid()
    }

    /// The device of evaluation, for tensors that go into [`Network::eval`].
    pub fn eval_device(&self) -> Device {
        self.device.clone().inner()
    }

    /// Optimiser steps taken so far.
    pub fn steps(&self) -> u64 {
        self.adam.steps()
    }

    /// Runs `forward` on the images in train mode, goes back from the scalar it returns (`[1]`) and adds the gradients to
    /// `step`. The network itself does not change, so a failing pass or a dropped step leaves no trace.
    pub fn record<X, E: From<Error>>(
        &self,
        images: Images<'_>,
        step: &mut Step,
        forward: impl FnOnce(&Body<H>, Tensor<4>, &mut Pass<'_>) -> Result<(Tensor<1>, X), E>,
    ) -> Result<X, E> {
        self.backbone().check(images)?;
        let images = images.to_tensor(self.backbone().architecture().channels(), &self.device);
        let mut statistics = Vec::new();
        let (loss, extra) = forward(&self.body, images, &mut Pass::Train(&mut statistics))?;
        let gradients = Gradients::of(&self.body, loss.backward());
        step.add(gradients, statistics);
        Ok(extra)
    }

    /// Runs one episode through the border to a head on the host and adds its gradients to `step`.
    pub fn episode<X, E: From<Error>>(
        &self,
        images: Images<'_>,
        step: &mut Step,
        head: impl FnOnce(&Features) -> Result<HeadLoss<X>, E>,
    ) -> Result<EpisodeLoss<X>, E> {
        self.record(images, step, |body, images, pass| cross(body.features(images, pass)?, head))
    }

    /// Takes the step: Adam on the mean gradient of its episodes, and their batch statistics in order.
    /// Look at [`Step::non_finite`] before; a step without episodes changes nothing.
    pub fn apply(&mut self, step: Step, learning_rate: f64) {
        let episodes = step.episodes();
        let Some(mut gradients) = step.gradients else {
            return;
        };
        if episodes > 1 {
            gradients = gradients.scale(1.0 / episodes as f64);
        }
        let mut body = self.adam.step(self.body.clone(), gradients, learning_rate);
        for statistics in &step.statistics {
            body.absorb(statistics);
        }
        self.body = body;
    }

    /// Features in eval mode (running statistics), image by image independent of the rest of the batch.
    pub fn features(&self, images: Images<'_>) -> Result<Features, Error> {
        self.backbone().check(images)?;
        let body = self.eval();
        let device = self.eval_device();
        let channels = body.backbone.architecture().channels();
        let mut values = Vec::new();
        for chunk in images.chunks(EVAL_BATCH) {
            let chunk = chunk.to_tensor(channels, &device);
            values.extend(to_host(body.features(chunk, &mut Pass::Eval)?).values);
        }
        let rows = images.shape()[0];
        let dim = values.len() / rows;
        Ok(Features { values, rows, dim })
    }

    /// Everything that training changes, exactly.
    pub fn state(&self) -> NetworkState {
        let mut tensors = state::export(&self.body);
        tensors.extend(self.adam.export());
        NetworkState { tensors, steps: self.adam.steps() }
    }

    /// Restores [`Network::state`]; on error the network is as before.
    pub fn load_state(&mut self, state: NetworkState) -> Result<(), Error> {
        let (moments, values) = state
            .tensors
            .into_iter()
            .partition(|t| t.name.starts_with(adam::FIRST) || t.name.starts_with(adam::SECOND));
        let body = state::import(self.body.clone(), values)?;
        self.adam.import(moments, state.steps)?;
        self.body = body;
        Ok(())
    }

    /// Writes the backbone's parameters and running statistics as a safetensors file, without head and optimiser.
    pub fn save_weights(&self, path: &Path) -> Result<(), Error> {
        weights::save(self.backbone(), path)
    }

    /// Takes the backbone's weights from a safetensors file, under our names or PyTorch's few-shot names, and begins with
    /// a fresh optimiser. On error the network is as before.
    pub fn load_weights(&mut self, path: &Path) -> Result<(), Error> {
        let backbone = weights::load(self.backbone().clone(), path)?;
        *self = Self::of_body(Body { backbone, head: self.body.head.clone() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 4] = [6, 3, 20, 20];

    /// Reproducible pixels without a generator.
    fn pixels(shape: [usize; 4]) -> Vec<f32> {
        let n: usize = shape.iter().product();
        (0..n).map(|i| ((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * (1.0 + (i % 5) as f32)).collect()
    }

    fn small(seed: u64) -> Network {
        let device = DeviceChoice::Cpu.open().unwrap();
        Network::of(Backbone::with_width(Architecture::Conv4, 4, seed, &device))
    }

    /// A head with loss sum(features^2) / 2.
    fn half_square(features: &Features) -> Result<HeadLoss<()>, Error> {
        Ok(HeadLoss {
            loss: features.values.iter().map(|f| f * f).sum::<f64>() / 2.0,
            dfeatures: features.values.clone(),
            dhyper: vec![1.0, 2.0],
            extra: (),
        })
    }

    fn train(network: &mut Network, steps: usize) -> Vec<f64> {
        let pixels = pixels(SHAPE);
        let images = Images::new(&pixels, SHAPE).unwrap();
        let mut losses = Vec::new();
        for _ in 0..steps {
            let mut step = Step::default();
            let out = network.episode(images, &mut step, half_square).unwrap();
            assert_eq!(out.dhyper, [1.0, 2.0]);
            assert_eq!(step.non_finite(), 0);
            network.apply(step, 1e-2);
            losses.push(out.loss);
        }
        losses
    }

    #[test]
    fn training_goes_down_and_resumes_to_the_same_bits() {
        let mut network = small(3);
        let losses = train(&mut network, 6);
        assert!(losses[5] < 0.8 * losses[0], "{losses:?}");

        let mut first = small(3);
        train(&mut first, 2);
        let state = first.state();
        let mut second = small(99);
        second.load_state(state).unwrap();
        assert_eq!(train(&mut second, 4), losses[2..]);
        assert_eq!(second.state(), network.state());
        assert_eq!(second.steps(), 6);
    }

    #[test]
    fn a_seed_fixes_the_bytes() {
        assert_eq!(small(5).state(), small(5).state());
        assert_ne!(small(5).state(), small(6).state());
    }

    #[test]
    fn several_episodes_average_and_absorb_in_order() {
        let pixels = pixels(SHAPE);
        let images = Images::new(&pixels, SHAPE).unwrap();
        let (mut once, mut twice) = (small(1), small(1));
        let mut step = Step::default();
        once.episode(images, &mut step, half_square).unwrap();
        once.apply(step, 1e-3);
        let mut step = Step::default();
        for _ in 0..2 {
            twice.episode(images, &mut step, half_square).unwrap();
        }
        assert_eq!(step.episodes(), 2);
        twice.apply(step, 1e-3);
        // The mean of two equal gradients is that gradient; the running statistics move twice.
        for (a, b) in once.state().tensors.iter().zip(&twice.state().tensors) {
            if a.name.contains("running") && !a.name.starts_with("adam") {
                assert_ne!(a.values, b.values, "{}", a.name);
            } else {
                assert_eq!(a.values, b.values, "{}", a.name);
            }
        }
    }

    #[test]
    fn a_failing_or_dropped_step_leaves_no_trace() {
        let network = small(1);
        let before = network.state();
        let pixels = pixels(SHAPE);
        let images = Images::new(&pixels, SHAPE).unwrap();
        let mut step = Step::default();
        let bad = |f: &Features| {
            Ok::<_, Error>(HeadLoss {
                loss: f64::NAN,
                dfeatures: vec![f64::NAN; f.values.len()],
                dhyper: vec![],
                extra: (),
            })
        };
        network.episode(images, &mut step, bad).unwrap();
        assert!(step.non_finite() > 0);
        drop(step);
        let short = |_: &Features| {
            Ok::<_, Error>(HeadLoss { loss: 0.0, dfeatures: vec![0.0; 3], dhyper: vec![], extra: () })
        };
        let mut step = Step::default();
        let error = network.episode(images, &mut step, short).unwrap_err();
        assert!(matches!(error, Error::FeatureGradient { rows: 6, dim: 4, found: 3 }));
        assert_eq!(step.episodes(), 0);
        assert_eq!(network.state(), before);
    }

    #[test]
    fn evaluation_does_not_depend_on_the_batch() {
        let mut network = small(2);
        train(&mut network, 2);
        let shape = [EVAL_BATCH + 3, 3, 16, 16];
        let pixels = pixels(shape);
        let all = network.features(Images::new(&pixels, shape).unwrap()).unwrap();
        assert_eq!((all.rows, all.dim), (EVAL_BATCH + 3, 4));
        let image = 3 * 16 * 16;
        for i in [0, EVAL_BATCH - 1, EVAL_BATCH, EVAL_BATCH + 2] {
            let one = &pixels[i * image..(i + 1) * image];
            let one = network.features(Images::new(one, [1, 3, 16, 16]).unwrap()).unwrap();
            for (a, b) in one.values.iter().zip(all.row(i)) {
                assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs()), "{a} {b}");
            }
        }
    }

    #[test]
    fn conv4s_reads_the_first_channel() {
        let network = Network::new(Architecture::Conv4S, 0, DeviceChoice::Cpu).unwrap();
        let shape = [2, 3, 28, 28];
        let colour = pixels(shape);
        let plane = 28 * 28;
        let first: Vec<f32> = colour.chunks(3 * plane).flat_map(|i| &i[..plane]).copied().collect();
        let a = network.features(Images::new(&colour, shape).unwrap()).unwrap();
        let b = network.features(Images::new(&first, [2, 1, 28, 28]).unwrap()).unwrap();
        assert_eq!(a, b);
        assert_eq!(a.dim, 64);
    }

    #[test]
    fn bad_batches_are_refused_with_the_facts() {
        let network = small(0);
        let pixels = pixels([2, 3, 20, 20]);
        assert!(matches!(Images::new(&pixels, [2, 3, 20, 21]), Err(Error::PixelCount { .. })));
        let gray = Images::new(&pixels, [6, 1, 20, 20]).unwrap();
        assert!(matches!(network.features(gray), Err(Error::BatchShape { .. })));
        let tiny = Images::new(&pixels, [10, 3, 8, 10]).unwrap();
        let error = network.features(tiny).unwrap_err().to_string();
        assert!(error.contains("8 x 10") && error.contains("at least 16"), "{error}");
        let none = Images::new(&[], [0, 3, 20, 20]).unwrap();
        assert!(matches!(network.features(none), Err(Error::BatchShape { .. })));
    }

    #[test]
    fn a_state_that_does_not_fit_changes_nothing() {
        let mut network = small(0);
        let before = network.state();
        let mut missing = before.clone();
        let gone = missing.tensors.remove(3);
        let error = network.load_state(missing.clone()).unwrap_err().to_string();
        assert!(error.contains(&gone.name), "{error}");
        let mut shape = before.clone();
        shape.tensors[0].shape.reverse();
        assert!(matches!(network.load_state(shape), Err(Error::TensorShape { .. })));
        let mut short = before.clone();
        short.tensors[0].values.pop();
        assert!(matches!(network.load_state(short), Err(Error::TensorLength { .. })));
        let mut extra = before.clone();
        extra.tensors.push(NamedTensor { name: "blocks.9.conv.weight".into(), ..gone.clone() });
        let error = network.load_state(extra).unwrap_err().to_string();
        assert!(error.contains("blocks.9.conv.weight"), "{error}");
        let mut twice = before.clone();
        twice.tensors.push(gone);
        assert!(matches!(network.load_state(twice), Err(Error::DuplicateTensor { .. })));
        let mut moment = before.clone();
        moment.tensors.pop();
        assert!(matches!(network.load_state(moment), Err(Error::MissingTensor { .. })));
        assert_eq!(network.state(), before);
    }

    #[test]
    fn parameters_stay_trainable_and_buffers_stay_buffers() {
        let mut network = small(0);
        train(&mut network, 2);
        let slots = crate::state::slots(network.backbone());
        for slot in slots {
            assert_eq!(slot.trained, !slot.name.contains("running"), "{}", slot.name);
        }
    }
}
