//! What stands in a backbone's place where somebody else's network has made the features: nothing, or a small linear layer on them.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

use crate::init::Init;

/// Shortest length a feature vector is divided by.
const SHORTEST: f64 = 1e-12;

/// `x`, or `x + (x A) B` with the length 1, where A is D x r and B is r x D. B starts at 0, so that training starts from the features as they
/// are.
#[derive(Module, Debug)]
pub struct Frozen {
    /// A, `[D, r]`; none without a layer.
    pub down: Option<Param<Tensor<2>>>,
    /// B, `[r, D]`; none without a layer.
    pub up: Option<Param<Tensor<2>>>,
    /// Without a layer nothing else would say where it computes.
    #[module(skip)]
    device: Device,
}

impl Frozen {
    /// For vectors of `dim` numbers, with a layer of rank `rank` or, for 0, none.
    pub fn new(dim: usize, rank: usize, init: &mut Init<'_>, device: &Device) -> Self {
        let layer = rank > 0;
        let down = layer.then(|| init.uniform([dim, rank], 1.0 / (dim as f64).sqrt()));
        let up = layer.then(|| init.uniform([rank, dim], 0.0));
        Self { down, up, device: device.clone() }
    }

    /// Where its numbers are.
    pub fn device(&self) -> Device {
        self.down.as_ref().map_or_else(|| self.device.clone(), |down| down.val().device())
    }

    /// `x`: [N, D, 1, 1] -> [N, D].
    pub fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x: Tensor<2> = x.flatten(1, 3);
        let (Some(down), Some(up)) = (&self.down, &self.up) else { return x };
        let y = x.clone() + x.matmul(down.val()).matmul(up.val());
        let length = (y.clone() * y.clone()).sum_dim(1).clamp_min(SHORTEST).sqrt();
        y / length
    }
}

#[cfg(test)]
mod tests {
    use crate::{Architecture, DeviceChoice, HeadLoss, Images, Network, Step};

    const VECTORS: [f32; 6] = [0.6, 0.8, 0.0, 0.0, -0.28, 0.96];

    fn images() -> Images<'static> {
        Images::new(&VECTORS, [2, 3, 1, 1]).unwrap()
    }

    fn network(rank: usize) -> Network {
        Network::new(Architecture::Frozen { dim: 3, rank }, 1, DeviceChoice::Cpu).unwrap()
    }

    #[test]
    fn without_a_layer_and_before_training_vectors_stay() {
        for rank in [0, 2] {
            let features = network(rank).features(images()).unwrap();
            assert_eq!((features.rows, features.dim), (2, 3));
            let near = |(a, b): (&f64, &f32)| (a - f64::from(*b)).abs() < 1e-6;
            assert!(features.values.iter().zip(&VECTORS).all(near), "{rank}: {:?}", features.values);
        }
        let five = Images::new(&[0.0; 5], [1, 5, 1, 1]).unwrap();
        assert!(network(0).features(five).is_ok_and(|f| f.dim == 3), "the first three, as of channels");
        assert!(network(0).features(Images::new(&[0.0; 2], [1, 2, 1, 1]).unwrap()).is_err());
    }

    #[test]
    fn a_step_moves_the_layer_down_its_loss_and_lengths_stay_1() {
        let mut network = network(2);
        // The loss is the first feature of the first vector.
        let head = |features: &crate::Features| -> Result<HeadLoss, crate::Error> {
            let mut dfeatures = vec![0.0; features.values.len()];
            dfeatures[0] = 1.0;
            Ok(HeadLoss { loss: features.values[0], dfeatures, dhyper: Vec::new(), accuracy: None })
        };
        for _ in 0..20 {
            let mut step = Step::default();
            network.episode(images(), &mut step, head).unwrap();
            assert_eq!(step.non_finite(), 0);
            network.apply(step, 0.05);
        }
        let features = network.features(images()).unwrap();
        assert!(features.values[0] < 0.5, "{:?}", features.values);
        for row in features.values.chunks_exact(3) {
            assert!((row.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-5);
        }
    }
}
