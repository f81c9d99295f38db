//! Methods that are pre-trained as an ordinary classifier of the base classes and get a new head for each task.

use crate::error::{Error, Result};
use crate::settings::Check;
use crate::shared::tensors::{one_hot, with_accuracy};
use crate::transfer::support_fit::{Sgd, SupportClassifier, fit, orders};
use crate::{EpisodeRows, OneNetwork, Place, Prediction, Setup, Share, TaskRows, TrainsOn};
use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use siskin_nn::{Head, Init, Network, stream};

/// How an ordinary classifier of the base classes is trained: the settings of both methods that do it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PretrainingSettings {
    /// Images in a batch.
    pub batch_size: usize,
    /// The share of probability that the target gives to all classes alike, in place of the true class alone.
    pub label_smoothing: f64,
}

impl Default for PretrainingSettings {
    /// As Chen et al. 2019.
    fn default() -> Self {
        PretrainingSettings { batch_size: 16, label_smoothing: 0.0 }
    }
}

impl PretrainingSettings {
    /// Whether the values are in their ranges. `method` is the name of the table.
    pub(crate) fn check(&self, method: &'static str) -> Result<()> {
        Check { method }
            .at_least_one(&[("batch_size", self.batch_size)])?
            .share(&[("label_smoothing", self.label_smoothing)])
            .map(|_| ())
    }
}

/// The head of pre-training, and the classifier of a support that goes with it.
pub trait BaseClassifier: Head + Sync {
    /// The classifier of a support.
    type ForSupport: SupportClassifier;

    /// First values for `classes` outputs.
    fn new(dim: usize, classes: usize, init: &mut Init<'_>) -> Self;

    /// Scores of features, `[N, D]` -> `[N, classes]`.
    fn scores(&self, x: Tensor<2>) -> Tensor<2>;

    /// First values of the classifier of a support.
    fn for_support(dim: usize, way: usize, rng: &mut ChaCha8Rng) -> Self::ForSupport;
}

/// A backbone pre-trained with a head `H`.
pub struct Pretrained<H: BaseClassifier> {
    network: Network<H>,
    settings: PretrainingSettings,
    seed: u64,
}

impl<H: BaseClassifier> Pretrained<H> {
    /// A fresh model.
    pub(crate) fn new(settings: PretrainingSettings, setup: Setup) -> Result<Self> {
        let dim = setup.architecture.dimension(setup.image_size, setup.image_size)?;
        let base_classes = setup.base_classes.ok_or_else(|| {
            Error::Settings(
                "a classifier of the base classes needs their number, which this model does not say; export it again \
                 from its run"
                    .into(),
            )
        })?;
        let network = Network::with_head(setup.architecture, setup.seed, setup.device, |init| {
            H::new(dim, base_classes, init)
        })?;
        Ok(Pretrained { network, settings, seed: setup.seed })
    }
}

/// -mean_i sum_k target_ik log softmax(scores_i)[k] with target = (1 - smoothing) one-hot + smoothing / classes.
pub(crate) fn cross_entropy(scores: Tensor<2>, truth: &[usize], smoothing: f64) -> Tensor<1> {
    let (way, device) = (scores.dims()[1], scores.device());
    let mut target = one_hot(truth, way, &device).cast(scores.dtype());
    if smoothing > 0.0 {
        target = target.mul_scalar(1.0 - smoothing).add_scalar(smoothing / way as f64);
    }
    (log_softmax(scores, 1) * target).sum().mul_scalar(-1.0 / truth.len() as f64)
}

impl<H: BaseClassifier> OneNetwork for Pretrained<H> {
    type Head = H;

    fn network(&self) -> &Network<H> {
        &self.network
    }

    fn network_mut(&mut self) -> &mut Network<H> {
        &mut self.network
    }

    fn trains_on(&self) -> TrainsOn {
        TrainsOn::Batches { size: self.settings.batch_size }
    }

    fn shares(&self, batches: &[EpisodeRows<'_>], _: Place) -> Result<Vec<Share>> {
        let share = |batch: &EpisodeRows<'_>| {
            Share::record(|step| {
                let (loss, accuracy) = self.network.record(batch.images, step, |body, images, pass| {
                    let scores = body.head.scores(body.features(images, pass)?);
                    Ok::<_, crate::Error>(with_accuracy(scores, batch.labels, |scores| {
                        cross_entropy(scores, batch.labels, self.settings.label_smoothing)
                    }))
                })?;
                Ok((loss, Some(accuracy)))
            })
        };
        batches.iter().map(share).collect()
    }

    /// First values and orders come from the stream (seed, "task head", index of the task).
    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let (support, query) = (task.support.features()?, task.query.features()?);
        let mut rng = stream(self.seed, "task head", task.index);
        let mut head = H::for_support(support.dim, task.way, &mut rng);
        let orders = orders(support.rows, &mut rng);
        fit(&mut head, support, task.labels, &orders, &Sgd::default());
        Ok(head.scores(query).prediction())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Features;
    use crate::shared::golden::{Golden, assert_close};
    use crate::shared::tensors::scalar;
    use burn::module::Param;
    use burn::tensor::{Device, Gradients, TensorData};
    use siskin_nn::to_host;

    /// A golden table as a parameter.
    pub(crate) fn parameter<const D: usize>(
        golden: &Golden,
        name: &str,
        shape: [usize; D],
        device: &Device,
    ) -> Param<Tensor<D>> {
        let values: Vec<f32> = golden.f64s(name).iter().map(|&v| v as f32).collect();
        Param::from_data(TensorData::new(values, shape), device)
    }

    /// Loss and gradients of a head against the golden values under `name`.
    pub(crate) fn equals_pytorch<H: BaseClassifier>(
        name: &str,
        head: impl FnOnce(&Golden, &Device) -> H,
        gradients: impl FnOnce(&H, &Gradients) -> Vec<Tensor<2>>,
    ) {
        let golden = Golden::parse(include_str!("../../tests/golden/pretraining_heads.json"));
        let device = Device::flex().autodiff();
        let head = head(&golden, &device);
        let x = golden.table("features", 4).to_tensor(&device).require_grad();
        let loss = cross_entropy(head.scores(x.clone()), &golden.usizes("truth"), 0.0);
        assert_close("loss", &[scalar(&loss)], &[golden.f64(&format!("{name}.loss"))], 1e-6);
        let grads = loss.backward();
        let dx = x.grad(&grads).unwrap();
        for (i, found) in [dx].into_iter().chain(gradients(&head, &grads)).enumerate() {
            let wanted = golden.f64s(&format!("{name}.d{i}"));
            assert_close(&format!("{name} d{i}"), &to_host(found).values, &wanted, 1e-5);
        }
    }

    #[test]
    fn a_smoothed_target_shares_probability_with_all_classes() {
        let device = Device::flex();
        let scores = Features { values: vec![0.5, -1.0, 2.0], rows: 1, dim: 3 };
        let log_p = |c: usize| scores.values[c] - scores.values.iter().map(|s| s.exp()).sum::<f64>().ln();
        let found = scalar(&cross_entropy(scores.to_tensor(&device), &[1], 0.3));
        let wanted = -(0.7 * log_p(1) + 0.1 * (log_p(0) + log_p(1) + log_p(2)));
        assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    }
}
