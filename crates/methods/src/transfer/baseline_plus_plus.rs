//! Baseline++ (Chen et al. 2019): as Feature Transfer, but scores are cosines with a learned scale for each class, in
//! pre-training and at test.

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

/// Added to the norm of features.
const NORM_FLOOR: f64 = 1e-5;

/// The factor of all scores: 2 up to 200 outputs, else 10.
pub(crate) fn scale(outputs: usize) -> f64 {
    if outputs <= 200 { 2.0 } else { 10.0 }
}

/// The cosine layer of pre-training: score_k = scale g_k <x / (|x| + 1e-5), v_k / |v_k|>.
#[derive(Module, Debug)]
pub struct CosineHead {
    /// g, `[classes, 1]`.
    pub g: Param<Tensor<2>>,
    /// v, `[classes, dim]`.
    pub v: Param<Tensor<2>>,
    /// The factor of all scores.
    pub scale: f64,
}

impl Head for CosineHead {}

impl BaseClassifier for CosineHead {
    type ForSupport = TaskCosine;

    fn new(dim: usize, classes: usize, init: &mut Init<'_>) -> Self {
        let v = init.uniform([classes, dim], 1.0 / (dim as f64).sqrt());
        let g = Param::from_data(norms(v.val().inner()).into_data(), &v.val().device());
        CosineHead { g, v, scale: scale(classes) }
    }

    fn scores(&self, x: Tensor<2>) -> Tensor<2> {
        let unit = x.clone() / norms(x).add_scalar(NORM_FLOOR);
        let v = self.v.val();
        let directions = v.clone() / norms(v);
        unit.matmul((directions * self.g.val()).transpose()).mul_scalar(self.scale)
    }

    fn for_support(dim: usize, way: usize, rng: &mut ChaCha8Rng) -> TaskCosine {
        let bound = 1.0 / (dim as f64).sqrt();
        let v: Vec<f64> = (0..way * dim).map(|_| bound * (2.0 * rng.random::<f64>() - 1.0)).collect();
        TaskCosine::of(&v, way, scale(way))
    }
}

/// |row| of every row, `[rows, 1]`.
fn norms(x: Tensor<2>) -> Tensor<2> {
    x.powi_scalar(2).sum_dim(1).sqrt()
}

/// The cosine layer of one task: g `[way]`, then v `[way, dim]` row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskCosine {
    pub(crate) parameters: Vec<f64>,
    pub(crate) way: usize,
    pub(crate) scale: f64,
}

/// <a, b>.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl TaskCosine {
    /// v as given, g_k = |v_k|.
    fn of(v: &[f64], way: usize, scale: f64) -> TaskCosine {
        let g = v.chunks_exact(v.len() / way).map(|row| dot(row, row).sqrt());
        TaskCosine { parameters: g.chain(v.iter().copied()).collect(), way, scale }
    }
}

impl SupportClassifier for TaskCosine {
    fn parameters(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    fn scores(&self, x: &Features) -> Scores {
        let (g, v) = self.parameters.split_at(self.way);
        let mut values = Vec::with_capacity(x.rows * self.way);
        for row in 0..x.rows {
            let length = dot(x.row(row), x.row(row)).sqrt() + NORM_FLOOR;
            for (g, v) in g.iter().zip(v.chunks_exact(x.dim)) {
                values.push(self.scale * g * dot(x.row(row), v) / (length * dot(v, v).sqrt()));
            }
        }
        Scores { values, way: self.way }
    }

    /// With u = v / |v|: dscore/dg = scale <x^, u> and dscore/dv = scale g (x^ - <x^, u> u) / |v|.
    fn backward(&self, x: &Features, dscores: &[f64]) -> Vec<f64> {
        let (g, v) = self.parameters.split_at(self.way);
        let mut gradient = vec![0.0; self.parameters.len()];
        let (dg, dv) = gradient.split_at_mut(self.way);
        for row in 0..x.rows {
            let length = dot(x.row(row), x.row(row)).sqrt() + NORM_FLOOR;
            for c in 0..self.way {
                let v = &v[c * x.dim..(c + 1) * x.dim];
                let norm = dot(v, v).sqrt();
                let cosine = dot(x.row(row), v) / (length * norm);
                let d = self.scale * dscores[row * self.way + c];
                dg[c] += d * cosine;
                for (j, dv) in dv[c * x.dim..(c + 1) * x.dim].iter_mut().enumerate() {
                    *dv += d * g[c] * (x.row(row)[j] / length - cosine * v[j] / norm) / norm;
                }
            }
        }
        gradient
    }
}

/// `[baseline-plus-plus]` of a config file.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BaselinePlusPlusSettings(pub PretrainingSettings);

impl Settings for BaselinePlusPlusSettings {
    const NAME: &'static str = "baseline-plus-plus";
    const ABOUT: &'static str =
        "as feature-transfer, with cosines and a scale for each class (Chen et al. 2019)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        self.0.check(Self::NAME)
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(BaselinePlusPlus::new(self.0, setup)?))
    }
}

/// The method.
pub type BaselinePlusPlus = Pretrained<CosineHead>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::Golden;
    use crate::transfer::support_fit::tests::fits_as_pytorch;
    use siskin_nn::to_host;

    #[test]
    fn the_fitted_layer_and_its_probabilities_equal_pytorchs() {
        let golden = Golden::parse(include_str!("../../tests/golden/cosine_head.json"));
        let head = TaskCosine::of(&golden.f64s("weight"), 3, golden.f64("scale"));
        fits_as_pytorch(&golden, head, ["fitted_g", "fitted_v"]);
    }

    #[test]
    fn loss_and_gradients_of_pretraining_equal_pytorchs() {
        crate::transfer::pretraining::tests::equals_pytorch(
            "cosine",
            |golden, device| CosineHead {
                g: crate::transfer::pretraining::tests::parameter(golden, "cosine.g", [5, 1], device),
                v: crate::transfer::pretraining::tests::parameter(golden, "weight", [5, 4], device),
                scale: scale(4112),
            },
            |head, grads| vec![head.g.val().grad(grads).unwrap(), head.v.val().grad(grads).unwrap()],
        );
    }

    #[test]
    fn the_first_scales_are_the_norms_and_few_outputs_have_a_smaller_factor() {
        let device = burn::tensor::Device::flex();
        let head = CosineHead::new(3, 4, &mut Init::head(1, &device));
        let (g, v) = (to_host(head.g.val()), to_host(head.v.val()));
        for k in 0..4 {
            assert!((g.values[k] - dot(v.row(k), v.row(k)).sqrt()).abs() < 1e-6);
        }
        assert_eq!((head.scale, scale(200), scale(201)), (2.0, 2.0, 10.0));
    }
}
