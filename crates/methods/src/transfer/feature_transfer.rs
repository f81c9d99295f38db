//! Feature Transfer (the baseline of Chen et al. 2019): an ordinary classifier of the base classes is pre-trained; at test
//! its features are frozen and a new linear layer is fitted to the support.

use crate::error::Result;
use crate::settings::Settings;
use crate::shared::scores::Scores;
use crate::transfer::pretraining::{BaseClassifier, Pretrained, PretrainingSettings};
use crate::transfer::support_fit::SupportClassifier;
use crate::{Features, Method, Setup};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use siskin_nn::{Head, Init};

/// The linear layer of pre-training: score = x W^T + b.
#[derive(Module, Debug)]
pub struct LinearHead {
    /// W, `[classes, dim]`.
    pub weight: Param<Tensor<2>>,
    /// b, `[classes]`.
    pub bias: Param<Tensor<1>>,
}

impl Head for LinearHead {}

impl BaseClassifier for LinearHead {
    type ForSupport = TaskLinear;

    fn new(dim: usize, classes: usize, init: &mut Init<'_>) -> Self {
        let bound = 1.0 / (dim as f64).sqrt();
        LinearHead { weight: init.uniform([classes, dim], bound), bias: init.constant(0.0, classes) }
    }

    fn scores(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.val().transpose()) + self.bias.val().unsqueeze::<2>()
    }

    fn for_support(dim: usize, way: usize, rng: &mut ChaCha8Rng) -> TaskLinear {
        let bound = 1.0 / (dim as f64).sqrt();
        let parameters = (0..way * (dim + 1)).map(|_| bound * (2.0 * rng.random::<f64>() - 1.0)).collect();
        TaskLinear { parameters, way }
    }
}

/// The linear layer of one task: W `[way, dim]` row by row, then b.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskLinear {
    pub(crate) parameters: Vec<f64>,
    pub(crate) way: usize,
}

impl SupportClassifier for TaskLinear {
    fn parameters(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    fn scores(&self, x: &Features) -> Scores {
        let (weights, bias) = self.parameters.split_at(self.way * x.dim);
        let score = |row: usize, c: usize| {
            let w = &weights[c * x.dim..(c + 1) * x.dim];
            bias[c] + x.row(row).iter().zip(w).map(|(x, w)| x * w).sum::<f64>()
        };
        let pairs = (0..x.rows).flat_map(|row| (0..self.way).map(move |c| (row, c)));
        Scores { values: pairs.map(|(row, c)| score(row, c)).collect(), way: self.way }
    }

    fn backward(&self, x: &Features, dscores: &[f64]) -> Vec<f64> {
        let mut gradient = vec![0.0; self.parameters.len()];
        let (weights, bias) = gradient.split_at_mut(self.way * x.dim);
        for row in 0..x.rows {
            for c in 0..self.way {
                let d = dscores[row * self.way + c];
                bias[c] += d;
                let w = &mut weights[c * x.dim..(c + 1) * x.dim];
                w.iter_mut().zip(x.row(row)).for_each(|(w, x)| *w += d * x);
            }
        }
        gradient
    }
}

/// `[feature-transfer]` of a config file.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeatureTransferSettings(pub PretrainingSettings);

impl Settings for FeatureTransferSettings {
    const NAME: &'static str = "feature-transfer";
    const ABOUT: &'static str =
        "pre-trained classifier; a linear layer is fitted to each support (Chen et al. 2019)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        self.0.check(Self::NAME)
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(FeatureTransfer::new(self.0, setup)?))
    }
}

/// The method. The reference gives its head 200 outputs whatever the data; this one has an output for each base class.
pub type FeatureTransfer = Pretrained<LinearHead>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::Golden;
    use crate::transfer::support_fit::tests::fits_as_pytorch;

    #[test]
    fn the_fitted_layer_and_its_probabilities_equal_pytorchs() {
        let golden = Golden::parse(include_str!("../../tests/golden/linear_head.json"));
        let parameters = [golden.f64s("weight"), golden.f64s("bias")].concat();
        fits_as_pytorch(&golden, TaskLinear { parameters, way: 3 }, ["fitted_weight", "fitted_bias"]);
    }

    #[test]
    fn loss_and_gradients_of_pretraining_equal_pytorchs() {
        crate::transfer::pretraining::tests::equals_pytorch(
            "linear",
            |golden, device| LinearHead {
                weight: crate::transfer::pretraining::tests::parameter(golden, "weight", [5, 4], device),
                bias: crate::transfer::pretraining::tests::parameter(golden, "bias", [5], device),
            },
            |head, grads| {
                let bias = head.bias.val().grad(grads).unwrap().unsqueeze::<2>();
                vec![head.weight.val().grad(grads).unwrap(), bias]
            },
        );
    }
}
