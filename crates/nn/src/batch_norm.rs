//! Batch normalisation with PyTorch's statistics.
//!
//! Burn's own layer keeps the biased variance in its running statistics; PyTorch, and so every published few-shot
//! result, keeps the unbiased one. The running statistics are not touched by the forward pass: it hands out the
//! batch statistics, and the network takes them over together with the optimiser step, or drops both.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::module::{batch_norm, batch_norm_train};

use crate::init::Init;

/// Added to the variance before the root.
pub(crate) const EPSILON: f64 = 1e-5;
/// Weight of a new batch in the running statistics, unless a layer has another.
pub(crate) const MOMENTUM: f64 = 0.1;

/// Mean and unbiased variance of each channel over one batch, `[C]` each, outside the autodiff graph.
#[derive(Clone, Debug)]
pub struct BatchStatistics {
    /// Mean over images and pixels.
    pub mean: Tensor<1>,
    /// Unbiased variance over images and pixels (of one value: 0).
    pub variance: Tensor<1>,
}

/// Which statistics normalise: those of the batch, handed out in layer order, or the running ones.
#[derive(Debug)]
pub enum Pass<'a> {
    /// Training: batch statistics, pushed for a later [`BatchNorm::absorb`].
    Train(&'a mut Vec<BatchStatistics>),
    /// Evaluation: running statistics.
    Eval,
}

/// y = gamma (x - mean) / sqrt(variance + 1e-5) + beta, for each channel.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// gamma, `[C]`.
    pub weight: Param<Tensor<1>>,
    /// beta, `[C]`.
    pub bias: Param<Tensor<1>>,
    /// Running mean, `[C]`, not trained.
    pub running_mean: Param<Tensor<1>>,
    /// Running unbiased variance, `[C]`, not trained.
    pub running_var: Param<Tensor<1>>,
    /// Weight of a new batch in the running statistics.
    pub momentum: f64,
}

impl BatchNorm {
    /// gamma = 1, beta = 0, running mean 0 and variance 1.
    pub fn new(channels: usize, init: &mut Init<'_>) -> Self {
        Self {
            weight: init.constant(1.0, channels),
            bias: init.constant(0.0, channels),
            running_mean: init.buffer(0.0, channels),
            running_var: init.buffer(1.0, channels),
            momentum: MOMENTUM,
        }
    }

    /// The same layer with another weight of new batches in the running statistics.
    pub fn with_momentum(self, momentum: f64) -> Self {
        Self { momentum, ..self }
    }

    /// `x`: [N, C, H, W], normalised over N, H and W.
    pub fn forward(&self, x: Tensor<4>, pass: &mut Pass<'_>) -> Tensor<4> {
        match pass {
            Pass::Train(statistics) => {
                let [n, _, h, w] = x.dims();
                let out = batch_norm_train(x, self.weight.val(), self.bias.val(), EPSILON);
                statistics.push(BatchStatistics {
                    mean: out.mean.inner(),
                    variance: out.variance.inner().mul_scalar(unbiased(n * h * w)),
                });
                out.output
            }
            Pass::Eval => batch_norm(
                x,
                self.weight.val(),
                self.bias.val(),
                self.running_mean.val(),
                self.running_var.val(),
                EPSILON,
            ),
        }
    }

    /// running <- (1 - momentum) running + momentum batch, for mean and unbiased variance.
    pub fn absorb(&mut self, batch: &BatchStatistics) {
        for (running, new) in
            [(&mut self.running_mean, &batch.mean), (&mut self.running_var, &batch.variance)]
        {
            let old = running.val().inner();
            let mixed = old.mul_scalar(1.0 - self.momentum) + new.clone().mul_scalar(self.momentum);
            *running = running.clone().map(|_| mixed.autodiff());
        }
    }
}

/// n / (n - 1): from the biased to the unbiased variance of `n` values.
pub(crate) fn unbiased(n: usize) -> f64 {
    n as f64 / (n.max(2) - 1) as f64
}
