//! Layers after the backbone that are trained with it.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;

use crate::backbone::Backbone;
use crate::batch_norm::{BatchNorm, BatchStatistics, Pass};

/// The trained layers a method puts after the backbone. They share its optimiser, checkpoint and step.
pub trait Head: Module + ModuleDisplay {
    /// Its batch-norms in the order in which a forward pass meets them.
    fn norms_mut(&mut self) -> Vec<&mut BatchNorm> {
        Vec::new()
    }
}

/// No trained layer beside the backbone: the head is on the host, or has no parameters.
#[derive(Module, Debug)]
pub struct NoHead {}

impl Head for NoHead {}

/// A backbone and its head as one module.
#[derive(Module, Debug)]
pub struct Body<H: Head> {
    /// The backbone.
    pub backbone: Backbone,
    /// The head.
    pub head: H,
}

impl<H: Head> Body<H> {
    /// `images`: [N, C, H, W] -> the features that leave the network, [N, D].
    pub fn features(&self, images: Tensor<4>, pass: &mut Pass<'_>) -> Result<Tensor<2>, crate::Error> {
        self.backbone.forward(images, pass)
    }

    /// Takes the statistics of one training pass into the running statistics, in the order of the pass.
    pub(crate) fn absorb(&mut self, statistics: &[BatchStatistics]) {
        let norms = self.backbone.norms_mut().into_iter().chain(self.head.norms_mut());
        for (norm, batch) in norms.zip(statistics) {
            norm.absorb(batch);
        }
    }
}
