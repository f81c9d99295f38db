//! A network with a linear head as a function of one flat vector of its trained parameters: loss, gradient and
//! Hessian-vector product. What methods need that take steps on all weights for each task.
//!
//! Batch-norms use the statistics of the batch they see, always.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor, TensorData};

use crate::batch_norm::Pass;
use crate::dual::{Direction, Dual};
use crate::head::Body;
use crate::linear::Linear;
use crate::network::Network;
use crate::state::host;
use crate::{Error, Gradients, Images};

/// The mean cross-entropy of a batch at some parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct LossGradient {
    /// The loss.
    pub loss: f64,
    /// Scores, `[N, classes]`.
    pub scores: Vec<f64>,
    /// dloss/dparameters, in the order of [`Network::parameters`].
    pub gradient: Vec<f32>,
}

impl Network<Linear> {
    /// All trained parameters as one vector, in the module's order.
    pub fn parameters(&self) -> Vec<f32> {
        let mut flat = Flatten(Vec::new());
        self.body().visit(&mut flat);
        flat.0
    }

    /// A network of the same make at other parameters, with a fresh optimiser.
    pub fn with_parameters(&self, parameters: &[f32]) -> Result<Self, Error> {
        self.check_length(parameters)?;
        Ok(Self::of_body(self.body().clone().map(&mut Fill(parameters))))
    }

    /// The network's scores for `images` at `parameters`, `[N, classes]`.
    pub fn scores_at(&self, parameters: &[f32], images: Images<'_>) -> Result<Vec<f64>, Error> {
        let (body, images) = self.at(parameters, images)?;
        let features = body.valid().features(images.inner(), &mut Pass::Train(&mut Vec::new()))?;
        Ok(to_f64(body.valid().head.forward(features)))
    }

    /// Mean cross-entropy of `images` at `parameters`, with its gradient. `labels` count the classes of the head.
    pub fn loss_gradient_at(
        &self,
        parameters: &[f32],
        images: Images<'_>,
        labels: &[usize],
    ) -> Result<LossGradient, Error> {
        let (body, images) = self.at(parameters, images)?;
        let truth = one_hot(labels, body.head.bias.dims()[0], &images.device());
        let features = body.features(images, &mut Pass::Train(&mut Vec::new()))?;
        let scores = body.head.forward(features);
        let loss = (log_softmax(scores.clone(), 1) * truth).sum().mul_scalar(-1.0 / labels.len() as f64);
        let value = f64::from(loss.clone().into_scalar::<f32>());
        let gradient = flat(Gradients::of(&body, loss.backward()));
        Ok(LossGradient { loss: value, scores: to_f64(scores.inner()), gradient })
    }

    /// The Hessian of the mean cross-entropy of `images` at `parameters` times `direction`, exact: the gradient of the
    /// loss's derivative along `direction`, which a forward-mode pass computes.
    pub fn hessian_vector_at(
        &self,
        parameters: &[f32],
        images: Images<'_>,
        labels: &[usize],
        direction: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let (body, images) = self.at(parameters, images)?;
        let parts = self.parts(direction, &images.device().inner())?;
        let mut direction = Direction::new(&parts);
        let features = body.backbone.forward_dual(images, &mut direction)?;
        let (weight, bias) = (direction.of(&body.head.weight), direction.of(&body.head.bias));
        let Dual { value: scores, tangent } = features.linear(weight, bias);
        let truth = one_hot(labels, scores.dims()[1], &scores.device());
        // d/de mean_n CE(s_n + e s'_n) = mean_n <softmax(s_n) - y_n, s'_n>.
        let along = ((softmax(scores, 1) - truth) * tangent).sum().mul_scalar(1.0 / labels.len() as f64);
        Ok(flat(Gradients::of(&body, along.backward())))
    }

    /// A copy with `parameters` as fresh leaves of the autodiff graph, so that tasks on several threads share none, and
    /// the images beside it.
    fn at(&self, parameters: &[f32], images: Images<'_>) -> Result<(Body<Linear>, Tensor<4>), Error> {
        self.backbone().check(images)?;
        self.check_length(parameters)?;
        let body = self.body().clone().map(&mut Fill(parameters));
        let device = body.backbone.device();
        Ok((body, images.to_tensor(self.backbone().channels(), &device)))
    }
}

fn flat(gradients: Gradients) -> Vec<f32> {
    gradients.values.into_iter().flat_map(host).collect()
}

fn to_f64(scores: Tensor<2>) -> Vec<f64> {
    host(scores).into_iter().map(f64::from).collect()
}

/// `[N, classes]`.
fn one_hot(labels: &[usize], classes: usize, device: &Device) -> Tensor<2> {
    let values: Vec<f32> =
        labels.iter().flat_map(|&label| (0..classes).map(move |c| f32::from(u8::from(c == label)))).collect();
    Tensor::from_data(TensorData::new(values, [labels.len(), classes]), device)
}

struct Flatten(Vec<f32>);

impl ModuleVisitor for Flatten {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.is_require_grad() {
            self.0.extend(host(param.val()));
        }
    }
}

/// Puts a flat vector into the trained parameters.
struct Fill<'a>(&'a [f32]);

impl ModuleMapper for Fill<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !param.is_require_grad() {
            return param;
        }
        param.map(|old| {
            let (values, rest) = self.0.split_at(old.shape().num_elements());
            self.0 = rest;
            Tensor::from_data(TensorData::new(values.to_vec(), old.shape()), &old.device()).require_grad()
        })
    }
}
