//! A network in training: backbone, head, optimiser and device in one.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::adam::{Adam, Pace};
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
    /// Parameters and running statistics: the model.
    pub model: Vec<NamedTensor>,
    /// The optimiser's moments (`adam.m.*`, `adam.v.*`): only training needs them.
    pub moments: Vec<NamedTensor>,
    /// Optimiser steps taken.
    pub steps: u64,
}

/// One optimiser step in the making: the sum over its episodes.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub(crate) gradients: Option<Gradients>,
    pub(crate) statistics: Vec<Vec<BatchStatistics>>,
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

    /// Adds the episodes of another step after its own.
    pub(crate) fn join(&mut self, other: Step) {
        self.gradients = match (self.gradients.take(), other.gradients) {
            (Some(sum), Some(more)) => Some(sum.plus(more)),
            (sum, more) => sum.or(more),
        };
        self.statistics.extend(other.statistics);
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

    /// Begins with a fresh optimiser at the same weights.
    pub fn forget_moments(&mut self) {
        self.adam = Adam::new(&self.body, &self.eval_device());
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
        let images = images.to_tensor(self.backbone().channels(), &self.device);
        let mut statistics = Vec::new();
        let (loss, extra) = forward(&self.body, images, &mut Pass::Train(&mut statistics))?;
        let gradients = Gradients::of(&self.body, loss.backward());
        step.add(gradients, statistics);
        Ok(extra)
    }

    /// Runs one episode through the border to a head on the host and adds its gradients to `step`.
    pub fn episode<E: From<Error>>(
        &self,
        images: Images<'_>,
        step: &mut Step,
        head: impl FnOnce(&Features) -> Result<HeadLoss, E>,
    ) -> Result<EpisodeLoss, E> {
        self.record(images, step, |body, images, pass| cross(body.features(images, pass)?, head))
    }

    /// Takes the step: Adam on the mean gradient of its episodes, and their batch statistics in order.
    /// Look at [`Step::non_finite`] before; a step without episodes changes nothing.
    pub fn apply(&mut self, step: Step, pace: impl Into<Pace>) {
        let episodes = step.episodes();
        let Some(mut gradients) = step.gradients else {
            return;
        };
        if episodes > 1 {
            gradients = gradients.scale(1.0 / episodes as f64);
        }
        let mut body = self.adam.step(self.body.clone(), gradients, pace);
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
        let channels = body.backbone.channels();
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
        let (model, moments) = (state::export(&self.body), self.adam.export());
        NetworkState { model, moments, steps: self.adam.steps() }
    }

    /// Restores [`Network::state`]; on error the network is as before.
    pub fn load_state(&mut self, state: NetworkState) -> Result<(), Error> {
        let body = state::import(self.body.clone(), state.model)?;
        self.adam.import(state.moments, state.steps)?;
        self.body = body;
        Ok(())
    }

    /// The backbone's parameters and running statistics, without head and optimiser.
    pub fn weights(&self) -> Vec<NamedTensor> {
        state::export(self.backbone())
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
mod tests;
