//! First values of the parameters, drawn from our own named stream.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use siskin_random::stream;

/// Draws the first values of one network: the `i`-th drawn tensor comes from stream `(seed, "init", i)`, so the values depend
/// neither on Burn's generator nor on the device, and a longer network begins with the same bytes as a shorter one.
pub struct Init<'a> {
    seed: u64,
    name: &'static str,
    next: u64,
    device: &'a Device,
}

impl<'a> Init<'a> {
    /// A fresh drawer for a network on `device`.
    pub fn new(seed: u64, device: &'a Device) -> Self {
        Self { seed, name: "init", next: 0, device }
    }

    /// A fresh drawer for the layers after the backbone: stream `(seed, "init head", i)`, so that the same seed gives
    /// every method the same backbone.
    pub fn head(seed: u64, device: &'a Device) -> Self {
        Self { seed, name: "init head", next: 0, device }
    }

    fn stream(&mut self) -> ChaCha8Rng {
        let rng = stream(self.seed, self.name, self.next);
        self.next += 1;
        rng
    }

    /// Convolution weights `[out, in, k, k]` ~ N(0, 2 / (k k out)).
    pub fn conv_weight(&mut self, out: usize, input: usize, k: usize) -> Param<Tensor<4>> {
        let std = (2.0 / (k * k * out) as f64).sqrt();
        let mut rng = self.stream();
        let values =
            (0..out * input * k * k).map(|_| (std * rng.sample::<f64, _>(StandardNormal)) as f32).collect();
        trainable(values, [out, input, k, k], self.device)
    }

    /// Convolution bias `[out]` ~ U(-1/sqrt(fan_in), 1/sqrt(fan_in)) with `fan_in = in k k`.
    pub fn conv_bias(&mut self, out: usize, input: usize, k: usize) -> Param<Tensor<1>> {
        self.uniform([out], 1.0 / ((input * k * k) as f64).sqrt())
    }

    /// A trainable tensor ~ U(-bound, bound): the first values of linear and recurrent layers in PyTorch.
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        let mut rng = self.stream();
        let count = shape.iter().product::<usize>();
        let values = (0..count).map(|_| (bound * (2.0 * rng.random::<f64>() - 1.0)) as f32).collect();
        trainable(values, shape, self.device)
    }

    /// A trainable vector of one value: the gain (1) and shift (0) of a batch-norm.
    pub fn constant(&mut self, value: f32, len: usize) -> Param<Tensor<1>> {
        trainable(vec![value; len], [len], self.device)
    }

    /// A vector that is saved with the network but not trained: running statistics.
    pub fn buffer(&mut self, value: f32, len: usize) -> Param<Tensor<1>> {
        Param::from_data(TensorData::new(vec![value; len], [len]), self.device).set_require_grad(false)
    }
}

fn trainable<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    Param::from_data(TensorData::new(values, shape), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::host;

    #[test]
    fn weights_follow_the_stated_laws() {
        let device = Device::flex();
        let mut init = Init::new(7, &device);
        let w: Vec<f32> = host(init.conv_weight(64, 64, 3).val());
        let n = w.len() as f64;
        let mean = w.iter().map(|&x| x as f64).sum::<f64>() / n;
        let var = w.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / n;
        let expected = 2.0 / (9.0 * 64.0);
        // Standard errors: mean sqrt(var/n), variance var sqrt(2/n); five of each.
        assert!(mean.abs() < 5.0 * (expected / n).sqrt(), "{mean}");
        assert!((var - expected).abs() < 5.0 * expected * (2.0 / n).sqrt(), "{var}");

        let b: Vec<f32> = host(init.conv_bias(4096, 3, 3).val());
        let bound = 1.0 / 27f32.sqrt();
        assert!(b.iter().all(|x| x.abs() <= bound));
        assert!(b.iter().cloned().fold(0.0, f32::max) > 0.99 * bound);
        assert!(b.iter().cloned().fold(0.0, f32::min) < -0.99 * bound);
    }
}
