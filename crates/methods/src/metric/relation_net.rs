//! RelationNet (Sung et al. 2018): a small network learns how alike a class map and a query map are.
//!
//! Its backbone keeps maps: blocks 1 and 2 are unpadded, blocks 3 and 4 do not pool (64 x 19 x 19 at 84 pixels, 64 x 5 x 5
//! at 28).

use crate::error::{Error, Result};
use crate::settings::Settings;
use crate::shared::scores::Scores;
use crate::shared::tensors::{one_hot, rows, with_accuracy};
use crate::{EpisodeRows, Features, Method, OneNetwork, Place, Prediction, Setup, Share, TaskRows};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::{log_softmax, relu, sigmoid};
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;
use serde::{Deserialize, Serialize};
use siskin_nn::{Architecture, BatchNorm, Engine, Head, Init, Network, Pass, convolution, to_host};

/// Units of the layer before the relation score.
const HIDDEN: usize = 8;
/// Weight of the newest batch in the running statistics of the relation module: nothing of earlier ones stays.
const MOMENTUM: f64 = 1.0;

/// What the relation scores are trained for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationLoss {
    /// Squared distance of sigmoid scores to 1 (the right class) and 0 (the others): the published loss.
    #[default]
    Mse,
    /// Cross-entropy of the softmax over scores.
    Softmax,
}

/// How relation scores become class probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationProbabilities {
    /// What the loss trained: the softmax of the raw scores, or, for `mse`, the sigmoids divided by their sum.
    #[default]
    Trained,
    /// The softmax of the scores the released code returns, also where they are sigmoids: what its calibration errors are of. Of
    /// five sigmoids the surest answer then has 0.40.
    Softmax,
}

/// `[relation-net]` of a config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelationNetSettings {
    /// The loss.
    pub loss: RelationLoss,
    /// Class probabilities.
    pub probabilities: RelationProbabilities,
}

impl Settings for RelationNetSettings {
    const NAME: &'static str = "relation-net";
    const ABOUT: &'static str = "a learned relation between class maps and query maps (Sung et al. 2018)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(RelationNet::new(self, setup)?))
    }
}

/// Convolution, batch-norm, ReLU and 2x2 max-pool. The convolution has no bias: the batch-norm would take it out again.
#[derive(Module, Debug)]
pub struct RelationBlock {
    /// `[out, in, 3, 3]`.
    pub weight: Param<Tensor<4>>,
    /// The batch-norm.
    pub norm: BatchNorm,
}

impl RelationBlock {
    fn new(input: usize, out: usize, init: &mut Init<'_>) -> RelationBlock {
        let norm = BatchNorm::new(out, init).with_momentum(MOMENTUM);
        RelationBlock { weight: init.conv_weight(out, input, 3), norm }
    }

    /// All after the convolution.
    fn finish(&self, x: Tensor<4>, pass: &mut Pass<'_>) -> Tensor<4> {
        max_pool2d(relu(self.norm.forward(x, pass)), MaxPoolOptions::new([2, 2]))
    }
}

/// The relation module: pairs of maps in, one score each out.
#[derive(Module, Debug)]
pub struct Relation {
    /// On pairs: `2 C` channels.
    pub block1: RelationBlock,
    /// On what the first makes of them.
    pub block2: RelationBlock,
    /// `[8, features]`.
    pub fc1_weight: Param<Tensor<2>>,
    /// `[8]`.
    pub fc1_bias: Param<Tensor<1>>,
    /// `[1, 8]`.
    pub fc2_weight: Param<Tensor<2>>,
    /// `[1]`.
    pub fc2_bias: Param<Tensor<1>>,
    #[module(skip)]
    map: [usize; 3],
    #[module(skip)]
    engine: Engine,
}

/// Small maps are padded, so that something is left of them.
pub(crate) fn padding(map: [usize; 3]) -> usize {
    usize::from(map[1] < 10 && map[2] < 10)
}

impl Relation {
    /// For maps of `[channels, height, width]`.
    pub(crate) fn new(map: [usize; 3], hidden: usize, engine: Engine, init: &mut Init<'_>) -> Relation {
        let [channels, h, w] = map;
        let shrink = |side: usize| (side + 2 * padding(map) - 2) / 2;
        let features = channels * shrink(shrink(h)) * shrink(shrink(w));
        let bound = |fan_in: usize| 1.0 / (fan_in as f64).sqrt();
        Relation {
            block1: RelationBlock::new(2 * channels, channels, init),
            block2: RelationBlock::new(channels, channels, init),
            fc1_weight: init.uniform([hidden, features], bound(features)),
            fc1_bias: init.uniform([hidden], bound(features)),
            fc2_weight: init.uniform([1, hidden], bound(hidden)),
            fc2_bias: init.uniform([1], bound(hidden)),
            map,
            engine,
        }
    }

    /// Raw scores `[Q, way]` of query maps against class maps, both flat: `[Q, C H W]` and `[way, C H W]`.
    ///
    /// The first convolution is linear, so on a pair of maps it is the sum of what its two halves make of each: it runs
    /// on `Q + way` maps, not on `Q way` pairs.
    pub(crate) fn raw(
        &self,
        prototypes: Tensor<2>,
        query: Tensor<2>,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor<2>> {
        let [channels, h, w] = self.map;
        let (way, queries) = (prototypes.dims()[0], query.dims()[0]);
        let weight = self.block1.weight.val();
        let half = |maps: Tensor<2>, first: usize| {
            let (count, weight) = (maps.dims()[0], weight.clone().narrow(1, first, channels));
            convolution(maps.reshape([count, channels, h, w]), weight, padding(self.map), &self.engine)
        };
        let (p, q) = (half(prototypes, 0)?, half(query, channels)?);
        let [_, _, h, w] = p.dims();
        let p = p.reshape([1, way, channels, h, w]).expand([queries, way, channels, h, w]);
        let q = q.reshape([queries, 1, channels, h, w]).expand([queries, way, channels, h, w]);
        let x = self.block1.finish((p + q).reshape([queries * way, channels, h, w]), pass);
        let x = convolution(x, self.block2.weight.val(), padding(self.map), &self.engine)?;
        let x = self.block2.finish(x, pass).flatten::<2>(1, 3);
        let x = x.matmul(self.fc1_weight.val().transpose()) + self.fc1_bias.val().unsqueeze::<2>();
        let x = relu(x).matmul(self.fc2_weight.val().transpose()) + self.fc2_bias.val().unsqueeze::<2>();
        Ok(x.reshape([queries, way]))
    }
}

impl Head for Relation {
    fn norms_mut(&mut self) -> Vec<&mut BatchNorm> {
        vec![&mut self.block1.norm, &mut self.block2.norm]
    }
}

impl RelationLoss {
    /// The loss of raw scores, mean over queries (and classes).
    pub(crate) fn of(self, raw: Tensor<2>, truth: &[usize]) -> Tensor<1> {
        let [queries, way] = raw.dims();
        let truth = one_hot(truth, way, &raw.device());
        match self {
            RelationLoss::Mse => {
                (sigmoid(raw) - truth).powi_scalar(2).sum().mul_scalar(1.0 / (queries * way) as f64)
            }
            RelationLoss::Softmax => (log_softmax(raw, 1) * truth).sum().mul_scalar(-1.0 / queries as f64),
        }
    }

    /// Probabilities of raw scores as trained. Sigmoid scores trained by MSE estimate the probability of each class apart, so
    /// they are divided by their sum.
    fn prediction(self, raw: Scores) -> Prediction {
        match self {
            RelationLoss::Softmax => raw.prediction(),
            // log of the sigmoid, stable on both sides; its softmax is the sigmoid over the sum of sigmoids.
            RelationLoss::Mse => {
                let log_sigmoid = |x: &f64| x.min(0.0) - (-x.abs()).exp().ln_1p();
                Scores { values: raw.values.iter().map(log_sigmoid).collect(), way: raw.way }.prediction()
            }
        }
    }
}

impl RelationNetSettings {
    fn prediction(self, raw: Scores) -> Prediction {
        match (self.probabilities, self.loss) {
            (RelationProbabilities::Trained, loss) => loss.prediction(raw),
            (RelationProbabilities::Softmax, RelationLoss::Softmax) => raw.prediction(),
            (RelationProbabilities::Softmax, RelationLoss::Mse) => {
                let sigmoid = |x: &f64| 1.0 / (1.0 + (-x).exp());
                Scores { values: raw.values.iter().map(sigmoid).collect(), way: raw.way }.prediction()
            }
        }
    }
}

/// The mean map of each class, `[way, D]`, from support maps `[S, D]`.
pub(crate) fn prototypes(support: Tensor<2>, labels: &[usize], way: usize) -> Tensor<2> {
    let counts: Vec<usize> = (0..way).map(|c| labels.iter().filter(|&&l| l == c).count()).collect();
    let mut weights = vec![0.0; way * labels.len()];
    for (s, &c) in labels.iter().enumerate() {
        weights[c * labels.len() + s] = 1.0 / counts[c] as f64;
    }
    let weights = Features { values: weights, rows: way, dim: labels.len() };
    weights.to_tensor(&support.device()).matmul(support)
}

/// The method: an unpadded backbone and the relation module. Its rows are flat maps.
pub struct RelationNet {
    network: Network<Relation>,
    config: RelationNetSettings,
}

impl RelationNet {
    /// A fresh model. `conv4` and `conv4s` become their unpadded variants; other backbones keep no maps.
    pub fn new(config: &RelationNetSettings, setup: Setup) -> Result<RelationNet> {
        let architecture = match setup.architecture {
            Architecture::Conv4 | Architecture::Conv4NP => Architecture::Conv4NP,
            Architecture::Conv4S | Architecture::Conv4SNP => Architecture::Conv4SNP,
            other => {
                return Err(Error::Settings(format!(
                    "relation-net compares maps and needs backbone.name = \"conv4\" or \"conv4s\", not \"{other}\""
                )));
            }
        };
        let map = architecture.map(setup.image_size, setup.image_size)?;
        let engine = Engine::default().at(setup.device.precision())?;
        let network = Network::with_head(architecture, setup.seed, setup.device, |init| {
            Relation::new(map, HIDDEN, engine, init)
        })?;
        Ok(RelationNet { network, config: *config })
    }
}

impl OneNetwork for RelationNet {
    type Head = Relation;

    fn network(&self) -> &Network<Relation> {
        &self.network
    }

    fn network_mut(&mut self) -> &mut Network<Relation> {
        &mut self.network
    }

    fn shares(&self, episodes: &[EpisodeRows<'_>], _: Place) -> Result<Vec<Share>> {
        let share = |episode: &EpisodeRows<'_>| {
            Share::record(|step| {
                let truth = episode.labels_of(episode.query);
                let shown = episode.labels_of(episode.support);
                let (loss, accuracy) = self.network.record(episode.images, step, |body, images, pass| {
                    let features = body.features(images, pass)?;
                    let prototypes = prototypes(rows(&features, episode.support), &shown, episode.way);
                    let raw = body.head.raw(prototypes, rows(&features, episode.query), pass)?;
                    Ok::<_, Error>(with_accuracy(raw, &truth, |raw| self.config.loss.of(raw, &truth)))
                })?;
                Ok((loss, Some(accuracy)))
            })
        };
        episodes.iter().map(share).collect()
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let device = self.network.eval_device();
        let prototypes = prototypes(task.support.features()?.to_tensor(&device), task.labels, task.way);
        let head = self.network.eval().head;
        let raw = head.raw(prototypes, task.query.features()?.to_tensor(&device), &mut Pass::Eval)?;
        let raw = Scores { values: to_host(raw).values, way: task.way };
        Ok(self.config.prediction(raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::{Golden, assert_close};
    use crate::shared::tensors::scalar;
    use burn::tensor::{Device, TensorData};

    /// Two channels and four hidden units with the golden values.
    fn head(golden: &Golden, size: usize, device: &Device) -> Relation {
        fn put<const D: usize>(golden: &Golden, name: &str, into: &mut Param<Tensor<D>>) {
            let values: Vec<f32> = golden.f64s(name).iter().map(|&v| v as f32).collect();
            let device = into.val().device();
            *into = Param::from_data(TensorData::new(values, into.val().dims()), &device);
        }
        let mut head = Relation::new([2, size, size], 4, Engine::default(), &mut Init::head(0, device));
        put(golden, "block1.weight", &mut head.block1.weight);
        put(golden, "block1.norm.weight", &mut head.block1.norm.weight);
        put(golden, "block1.norm.bias", &mut head.block1.norm.bias);
        put(golden, "block2.weight", &mut head.block2.weight);
        put(golden, "block2.norm.weight", &mut head.block2.norm.weight);
        put(golden, "block2.norm.bias", &mut head.block2.norm.bias);
        put(golden, "fc1.weight", &mut head.fc1_weight);
        put(golden, "fc1.bias", &mut head.fc1_bias);
        put(golden, "fc2.weight", &mut head.fc2_weight);
        put(golden, "fc2.bias", &mut head.fc2_bias);
        head
    }

    fn equals_pytorch(text: &str, size: usize, loss: RelationLoss) {
        let golden = Golden::parse(text);
        let device = Device::flex().autodiff();
        let mut head = head(&golden, size, &device);
        let dim = 2 * size * size;
        let prototypes = golden.table("prototypes", dim).to_tensor(&device).require_grad();
        let query = golden.table("query", dim).to_tensor(&device).require_grad();
        let mut statistics = Vec::new();
        let raw = head.raw(prototypes.clone(), query.clone(), &mut Pass::Train(&mut statistics)).unwrap();
        assert_close("raw", &to_host(raw.clone().inner()).values, &golden.f64s("raw"), 1e-5);
        let loss = loss.of(raw, &golden.usizes("truth"));
        assert_close("loss", &[scalar(&loss)], &[golden.f64("loss")], 1e-5);
        let grads = loss.backward();
        let table = |x: Tensor<2>| to_host(x.grad(&grads).unwrap()).values;
        assert_close("dprototypes", &table(prototypes.clone()), &golden.f64s("dprototypes"), 1e-4);
        assert_close("dquery", &table(query.clone()), &golden.f64s("dquery"), 1e-4);
        assert_close("dfc1", &table(head.fc1_weight.val()), &golden.f64s("d_fc1"), 1e-4);
        let dconv = head.block1.weight.val().grad(&grads).unwrap().flatten::<2>(1, 3);
        assert_close("dconv", &to_host(dconv).values, &golden.f64s("d_conv1"), 1e-4);

        // At test the statistics are those of the last batch, although PyTorch's convolutions have a bias here.
        for (norm, batch) in head.norms_mut().into_iter().zip(&statistics) {
            norm.absorb(batch);
        }
        let plain = |x: Tensor<2>| x.inner();
        let raw = head.valid().raw(plain(prototypes), plain(query), &mut Pass::Eval).unwrap();
        assert_close("evaluated", &to_host(raw).values, &golden.f64s("evaluated"), 1e-4);
    }

    #[test]
    fn scores_loss_and_gradients_equal_pytorchs_with_small_padded_maps_and_mse() {
        equals_pytorch(include_str!("../../tests/golden/relation_net_mse.json"), 5, RelationLoss::Mse);
    }

    #[test]
    fn scores_loss_and_gradients_equal_pytorchs_with_unpadded_maps_and_softmax() {
        equals_pytorch(
            include_str!("../../tests/golden/relation_net_softmax.json"),
            10,
            RelationLoss::Softmax,
        );
    }

    #[test]
    fn sigmoid_scores_become_probabilities_by_their_sum() {
        let raw = Scores { values: vec![0.3, -2.0, 800.0, -800.0], way: 2 };
        let p = RelationLoss::Mse.prediction(raw).probabilities;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let wanted = sigmoid(0.3) / (sigmoid(0.3) + sigmoid(-2.0));
        assert!((p[0] - wanted).abs() < 1e-12 && (p[0] + p[1] - 1.0).abs() < 1e-12, "{p:?}");
        assert_eq!(&p[2..], &[1.0, 0.0]);
        let released =
            RelationNetSettings { probabilities: RelationProbabilities::Softmax, ..Default::default() };
        let raw = Scores { values: vec![800.0, -800.0, -800.0, -800.0, -800.0], way: 5 };
        let p = released.prediction(raw).probabilities;
        let e = std::f64::consts::E;
        assert!((p[0] - e / (e + 4.0)).abs() < 1e-12, "{p:?}");
    }

    #[test]
    fn other_backbones_are_refused_with_the_ones_that_work() {
        let setup = Setup {
            architecture: Architecture::ResNet12,
            image_size: 84,
            way: 5,
            base_classes: Some(64),
            seed: 0,
            device: siskin_nn::DeviceChoice::Cpu,
        };
        let error = RelationNet::new(&RelationNetSettings::default(), setup).err().unwrap().to_string();
        assert!(error.contains("conv4s") && error.contains("resnet12"), "{error}");
    }
}
