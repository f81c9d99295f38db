//! MatchingNet (Vinyals et al. 2016) with full-context embeddings: every support image is seen in the light of the whole
//! support set (a bidirectional LSTM), every query in the light of the support (an LSTM with attention), and a query takes
//! the labels of the support images it is close to.

use crate::error::Result;
use crate::settings::Settings;
use crate::shared::scores::Scores;
use crate::shared::tensors::{one_hot, rows, with_accuracy};
use crate::{EpisodeRows, Method, OneNetwork, Place, Prediction, Setup, Share, TaskRows};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::{relu, sigmoid, softmax};
use serde::{Deserialize, Serialize};
use siskin_nn::{Head, Init, Network, to_host};

/// Cosines are in 0 to 1; this factor makes the softmax over them sharp.
const SHARPNESS: f64 = 100.0;
/// Added to norms.
const NORM_FLOOR: f64 = 1e-5;
/// Added to probabilities before the logarithm.
const PROBABILITY_FLOOR: f64 = 1e-6;

/// One LSTM layer with PyTorch's gates (input, forget, cell, output) and first values.
#[derive(Module, Debug)]
pub struct Lstm {
    /// `[4 size, input]`.
    pub input_weight: Param<Tensor<2>>,
    /// `[4 size, size]`.
    pub hidden_weight: Param<Tensor<2>>,
    /// `[4 size]`.
    pub input_bias: Param<Tensor<1>>,
    /// `[4 size]`.
    pub hidden_bias: Param<Tensor<1>>,
}

impl Lstm {
    fn new(input: usize, size: usize, init: &mut Init<'_>) -> Lstm {
        let bound = 1.0 / (size as f64).sqrt();
        Lstm {
            input_weight: init.uniform([4 * size, input], bound),
            hidden_weight: init.uniform([4 * size, size], bound),
            input_bias: init.uniform([4 * size], bound),
            hidden_bias: init.uniform([4 * size], bound),
        }
    }

    /// One step: `x` [N, input], hidden `h` and cell `c` [N, size] -> the next (h, c).
    fn step(&self, x: Tensor<2>, h: Tensor<2>, c: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let bias = (self.input_bias.val() + self.hidden_bias.val()).unsqueeze::<2>();
        let gates = x.matmul(self.input_weight.val().transpose())
            + h.matmul(self.hidden_weight.val().transpose())
            + bias;
        let mut gates = gates.chunk(4, 1).into_iter();
        let mut next = || gates.next().expect("cut into four");
        let (input, forget, cell, output) =
            (sigmoid(next()), sigmoid(next()), next().tanh(), sigmoid(next()));
        let c = forget * c + input * cell;
        (output * c.clone().tanh(), c)
    }
}

/// The layers of the full-context embeddings.
#[derive(Module, Debug)]
pub struct FullContext {
    /// Along the support.
    pub forward: Lstm,
    /// Against it.
    pub backward: Lstm,
    /// From a query and what it reads of the support.
    pub attention: Lstm,
}

impl Head for FullContext {}

impl FullContext {
    fn new(dim: usize, init: &mut Init<'_>) -> FullContext {
        FullContext {
            forward: Lstm::new(dim, dim, init),
            backward: Lstm::new(dim, dim, init),
            attention: Lstm::new(2 * dim, dim, init),
        }
    }

    /// g_i = s_i + forward_i + backward_i, for the support `s` [S, D] in class order.
    pub(crate) fn support(&self, s: Tensor<2>) -> Tensor<2> {
        let count = s.dims()[0];
        let run = |lstm: &Lstm, order: &mut dyn Iterator<Item = usize>| {
            let zero = s.clone().narrow(0, 0, 1).zeros_like();
            let (mut h, mut c) = (zero.clone(), zero);
            let mut out = vec![None; count];
            for i in order {
                (h, c) = lstm.step(s.clone().narrow(0, i, 1), h, c);
                out[i] = Some(h.clone());
            }
            Tensor::cat(out.into_iter().flatten().collect(), 0)
        };
        let along = run(&self.forward, &mut (0..count));
        let against = run(&self.backward, &mut (0..count).rev());
        s + along + against
    }

    /// The queries `f` [Q, D] after as many attention steps as there are support rows `g` [S, D]: r = softmax(h g^T) g,
    /// then (h, c) <- LSTM([f, r], h, c) and h <- h + f. They begin at h = f, c = 0.
    pub(crate) fn query(&self, f: Tensor<2>, g: &Tensor<2>) -> Tensor<2> {
        let (mut h, mut c) = (f.clone(), f.zeros_like());
        for _ in 0..g.dims()[0] {
            let attention = softmax(h.clone().matmul(g.clone().transpose()), 1);
            let read = attention.matmul(g.clone());
            let (next, cell) = self.attention.step(Tensor::cat(vec![f.clone(), read], 1), h, c);
            h = next + f.clone();
            c = cell;
        }
        h
    }

    /// log(softmax_i(100 relu(cos(f_q, g_i))) labels + 1e-6), `[Q, way]`. `labels`: [S, way], one-hot.
    pub(crate) fn log_probabilities(
        &self,
        support: Tensor<2>,
        labels: Tensor<2>,
        query: Tensor<2>,
    ) -> Tensor<2> {
        let g = self.support(support);
        let f = self.query(query, &g);
        let scores = relu(unit(f).matmul(unit(g).transpose())).mul_scalar(SHARPNESS);
        softmax(scores, 1).matmul(labels).add_scalar(PROBABILITY_FLOOR).log()
    }
}

/// x / (|x| + 1e-5), row by row.
fn unit(x: Tensor<2>) -> Tensor<2> {
    let norm = x.clone().powi_scalar(2).sum_dim(1).sqrt();
    x / norm.add_scalar(NORM_FLOOR)
}

/// `[matching-net]` of a config file: there is nothing to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatchingNetSettings {}

impl Settings for MatchingNetSettings {
    const NAME: &'static str = "matching-net";
    const ABOUT: &'static str = "attention over full-context embeddings by LSTMs (Vinyals et al. 2016)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(MatchingNet::new(setup)?))
    }
}

/// -mean of the truths' log-probabilities.
pub(crate) fn nll(log_p: Tensor<2>, truth: &[usize]) -> Tensor<1> {
    let (way, device) = (log_p.dims()[1], log_p.device());
    let truths = one_hot(truth, way, &device).cast(log_p.dtype());
    (log_p * truths).sum().mul_scalar(-1.0 / truth.len() as f64)
}

/// The method: a backbone and its full-context embeddings.
pub struct MatchingNet {
    network: Network<FullContext>,
}

impl MatchingNet {
    /// A fresh model.
    pub fn new(setup: Setup) -> Result<MatchingNet> {
        let dim = setup.architecture.dimension(setup.image_size, setup.image_size)?;
        let network = Network::with_head(setup.architecture, setup.seed, setup.device, |init| {
            FullContext::new(dim, init)
        })?;
        Ok(MatchingNet { network })
    }
}

impl OneNetwork for MatchingNet {
    type Head = FullContext;

    fn network(&self) -> &Network<FullContext> {
        &self.network
    }

    fn network_mut(&mut self) -> &mut Network<FullContext> {
        &mut self.network
    }

    fn shares(&self, episodes: &[EpisodeRows<'_>], _: Place) -> Result<Vec<Share>> {
        let share = |episode: &EpisodeRows<'_>| {
            Share::record(|step| {
                let truth = episode.labels_of(episode.query);
                let shown = episode.labels_of(episode.support);
                let (loss, accuracy) = self.network.record(episode.images, step, |body, images, pass| {
                    let features = body.features(images, pass)?;
                    let device = features.device();
                    let support = rows(&features, episode.support);
                    let query = rows(&features, episode.query);
                    let log_p =
                        body.head.log_probabilities(support, one_hot(&shown, episode.way, &device), query);
                    Ok::<_, crate::Error>(with_accuracy(log_p, &truth, |log_p| nll(log_p, &truth)))
                })?;
                Ok((loss, Some(accuracy)))
            })
        };
        episodes.iter().map(share).collect()
    }

    /// The probabilities of the loss: with 1e-6 added to each, and so never 0.
    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let device = self.network.eval_device();
        let labels = one_hot(task.labels, task.way, &device);
        let (support, query) =
            (task.support.features()?.to_tensor(&device), task.query.features()?.to_tensor(&device));
        let log_p = self.network.eval().head.log_probabilities(support, labels, query);
        Ok(Scores { values: to_host(log_p).values, way: task.way }.prediction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::{Golden, assert_close};
    use crate::shared::tensors::scalar;
    use burn::tensor::{Device, TensorData};

    fn golden() -> Golden {
        Golden::parse(include_str!("../../tests/golden/matching_net.json"))
    }

    fn lstm(golden: &Golden, part: &str, input: usize, device: &Device) -> Lstm {
        let values = |name: &str| -> Vec<f32> {
            golden.f64s(&format!("{part}.{name}")).iter().map(|&v| v as f32).collect()
        };
        let matrix = |name: &str, columns: usize| {
            Param::from_data(TensorData::new(values(name), [12, columns]), device)
        };
        let vector = |name: &str| Param::from_data(TensorData::new(values(name), [12]), device);
        Lstm {
            input_weight: matrix("input_weight", input),
            hidden_weight: matrix("hidden_weight", 3),
            input_bias: vector("input_bias"),
            hidden_bias: vector("hidden_bias"),
        }
    }

    #[test]
    fn embeddings_loss_and_gradients_equal_pytorchs() {
        let golden = golden();
        let device = Device::flex().autodiff();
        let head = FullContext {
            forward: lstm(&golden, "forward", 3, &device),
            backward: lstm(&golden, "backward", 3, &device),
            attention: lstm(&golden, "attention", 6, &device),
        };
        let support = golden.table("support", 3).to_tensor(&device).require_grad();
        let query = golden.table("query", 3).to_tensor(&device).require_grad();
        let g = head.support(support.clone());
        assert_close("g", &to_host(g.clone().inner()).values, &golden.f64s("g"), 1e-6);
        let f = head.query(query.clone(), &g);
        assert_close("f", &to_host(f.inner()).values, &golden.f64s("f"), 1e-6);

        let labels = one_hot(&golden.usizes("labels"), 2, &device);
        let log_p = head.log_probabilities(support.clone(), labels, query.clone());
        assert_close("log p", &to_host(log_p.clone().inner()).values, &golden.f64s("log_p"), 1e-5);
        let loss = (log_p * one_hot(&golden.usizes("truth"), 2, &device)).sum().mul_scalar(-1.0 / 3.0);
        assert_close("loss", &[scalar(&loss)], &[golden.f64("loss")], 1e-5);
        let grads = loss.backward();
        let table = |x: &Tensor<2>| to_host(x.grad(&grads).unwrap()).values;
        // The sharpness of 100 multiplies the rounding of the cosines.
        assert_close("dsupport", &table(&support), &golden.f64s("dsupport"), 1e-4);
        assert_close("dquery", &table(&query), &golden.f64s("dquery"), 1e-4);
        for (part, lstm) in
            [("forward", &head.forward), ("backward", &head.backward), ("attention", &head.attention)]
        {
            let wanted = |name: &str| golden.f64s(&format!("d.{part}.{name}"));
            assert_close(part, &table(&lstm.input_weight.val()), &wanted("input_weight"), 1e-4);
            assert_close(part, &table(&lstm.hidden_weight.val()), &wanted("hidden_weight"), 1e-4);
            let bias = lstm.input_bias.val().grad(&grads).unwrap().unsqueeze::<2>();
            assert_close(part, &to_host(bias).values, &wanted("input_bias"), 1e-4);
        }
    }
}
