//! The border between the network (f32, on a device) and a head (f64, on the host).
//!
//! Features go out, the loss and its gradients come back, and the network's backward pass goes on from
//! `sum(features * stop_gradient(dloss/dfeatures))`. No other place converts between f32 and f64.

use burn::tensor::{Device, Tensor, TensorData};

use crate::Error;
use crate::state::host;

/// Feature vectors on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// Row-major `[rows, dim]`.
    pub values: Vec<f64>,
    /// Number of images.
    pub rows: usize,
    /// Features of each image.
    pub dim: usize,
}

impl Features {
    /// The features of image `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.dim..(i + 1) * self.dim]
    }

    /// The features as a tensor `[rows, dim]` on `device`.
    pub fn to_tensor(&self, device: &Device) -> Tensor<2> {
        let values: Vec<f32> = self.values.iter().map(|&v| v as f32).collect();
        Tensor::from_data(TensorData::new(values, [self.rows, self.dim]), device)
    }
}

/// What an episode's head returned, after the network's part is in the [`crate::Step`].
#[derive(Clone, Debug)]
pub struct EpisodeLoss {
    /// The loss.
    pub loss: f64,
    /// dloss/d(the head's hyperparameters).
    pub dhyper: Vec<f64>,
    /// The share of queries named rightly, where the head knows it.
    pub accuracy: Option<f64>,
}

/// What a head makes of the features of one episode.
#[derive(Clone, Debug)]
pub struct HeadLoss {
    /// The loss to be minimised.
    pub loss: f64,
    /// dloss/dfeatures, row-major like [`Features::values`].
    pub dfeatures: Vec<f64>,
    /// dloss/d(the head's own hyperparameters); the network only carries it.
    pub dhyper: Vec<f64>,
    /// The share of queries named rightly, where the loss gives it without further work.
    pub accuracy: Option<f64>,
}

/// One episode's way over the border: `features` [N, D] go to the host, the head's loss comes back with the tensor from
/// which the backward pass goes on.
pub(crate) fn cross<E: From<Error>>(
    features: Tensor<2>,
    head: impl FnOnce(&Features) -> Result<HeadLoss, E>,
) -> Result<(Tensor<1>, EpisodeLoss), E> {
    let out = to_host(features.clone().inner());
    let HeadLoss { loss, dfeatures, dhyper, accuracy } = head(&out)?;
    if dfeatures.len() != out.values.len() {
        return Err(E::from(Error::FeatureGradient { rows: out.rows, dim: out.dim, found: dfeatures.len() }));
    }
    let cotangent: Vec<f32> = dfeatures.iter().map(|&d| d as f32).collect();
    let cotangent =
        Tensor::<2>::from_data(TensorData::new(cotangent, [out.rows, out.dim]), &features.device());
    Ok(((features * cotangent).sum(), EpisodeLoss { loss, dhyper, accuracy }))
}

/// A tensor `[rows, dim]` as f64 on the host.
pub fn to_host(features: Tensor<2>) -> Features {
    let [rows, dim] = features.dims();
    Features { values: host(features).into_iter().map(f64::from).collect(), rows, dim }
}
