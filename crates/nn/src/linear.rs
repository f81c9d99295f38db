//! A linear layer after the backbone: one score for each class.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::head::Head;
use crate::init::Init;

/// x W + b.
#[derive(Module, Debug)]
pub struct Linear {
    /// W, `[D, classes]`.
    pub weight: Param<Tensor<2>>,
    /// b, `[classes]`.
    pub bias: Param<Tensor<1>>,
}

impl Head for Linear {}

impl Linear {
    /// W ~ U(-1/sqrt(D), 1/sqrt(D)), b = 0.
    pub fn new(dimension: usize, classes: usize, init: &mut Init<'_>) -> Self {
        let bound = 1.0 / (dimension as f64).sqrt();
        Self { weight: init.uniform([dimension, classes], bound), bias: init.constant(0.0, classes) }
    }

    /// `x`: [N, D] -> [N, classes].
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.val()) + self.bias.val().unsqueeze()
    }
}
