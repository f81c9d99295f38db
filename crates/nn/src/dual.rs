//! Forward-mode derivatives: a pass that carries, beside each value, its derivative along one direction of the
//! parameters.
//!
//! The directional derivative of a loss, computed so, is itself an ordinary function of the parameters. Its gradient by
//! first-order autodiff is the Hessian times the direction: exact second order without nested autodiff, on any device.

use burn::module::Param;
use burn::tensor::Tensor;
use burn::tensor::module::{conv2d, max_pool2d_with_indices};
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};

use crate::Error;
use crate::batch_norm::EPSILON;
use crate::fused::{Engine, convolution};

/// A value and its tangent, of the same shape.
#[derive(Clone, Debug)]
pub(crate) struct Dual<const D: usize> {
    pub value: Tensor<D>,
    pub tangent: Tensor<D>,
}

/// The direction, handed out parameter by parameter in the module's order.
pub(crate) struct Direction<'a>(std::slice::Iter<'a, Tensor<1>>);

impl<'a> Direction<'a> {
    /// `parts`: one flat tensor for each trained parameter.
    pub(crate) fn new(parts: &'a [Tensor<1>]) -> Self {
        Self(parts.iter())
    }

    /// The parameter with its part of the direction.
    pub(crate) fn of<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Dual<D> {
        let value = param.val();
        let part = self.0.next().expect("one part for each trained parameter, by the caller's check");
        let tangent = part.clone().reshape(value.shape()).autodiff();
        Dual { value, tangent }
    }
}

/// x * w that keeps the size, by our CPU kernels where `engine` is given and the device is the CPU.
pub(crate) fn same_size_conv(
    x: Tensor<4>,
    weight: Tensor<4>,
    engine: Option<&Engine>,
) -> Result<Tensor<4>, Error> {
    let padding = weight.dims()[2] / 2;
    match engine {
        Some(engine) => convolution(x, weight, padding, engine),
        None => Ok(conv2d(x, weight, None, ConvOptions::new([1, 1], [padding, padding], [1, 1], 1))),
    }
}

/// (x * w, x' * w + x * w'). An input without tangent is a constant, such as the images.
pub(crate) fn conv(
    x: &Tensor<4>,
    x_tangent: Option<&Tensor<4>>,
    weight: &Dual<4>,
    engine: Option<&Engine>,
) -> Result<Dual<4>, Error> {
    let value = same_size_conv(x.clone(), weight.value.clone(), engine)?;
    let by_weight = same_size_conv(x.clone(), weight.tangent.clone(), engine)?;
    let tangent = match x_tangent {
        Some(x_tangent) => same_size_conv(x_tangent.clone(), weight.value.clone(), engine)? + by_weight,
        None => by_weight,
    };
    Ok(Dual { value, tangent })
}

impl Dual<4> {
    /// Batch-norm with batch statistics.
    pub(crate) fn batch_norm(self, gain: Dual<1>, shift: Dual<1>) -> Dual<4> {
        let mean = |t: Tensor<4>| t.mean_dim(0).mean_dim(2).mean_dim(3);
        let channels = self.value.dims()[1];
        let wide = |t: Tensor<1>| t.reshape([1, channels, 1, 1]);
        let c = self.value.clone() - mean(self.value);
        let c_dot = self.tangent.clone() - mean(self.tangent);
        let r = mean(c.clone() * c.clone()).add_scalar(EPSILON).sqrt().recip();
        let v_dot = mean(c.clone() * c_dot.clone()).mul_scalar(2.0);
        let r_dot = (r.clone() * r.clone() * r.clone() * v_dot).mul_scalar(-0.5);
        let x = c.clone() * r.clone();
        let x_dot = c_dot * r + c * r_dot;
        let gamma = wide(gain.value);
        Dual {
            value: x.clone() * gamma.clone() + wide(shift.value),
            tangent: x_dot * gamma + x * wide(gain.tangent) + wide(shift.tangent),
        }
    }

    /// x where x > 0, elsewhere `slope` x. (ReLU: slope 0.)
    pub(crate) fn leaky_relu(self, slope: f64) -> Dual<4> {
        let negative = self.value.clone().lower_equal_elem(0.0);
        let factor = self.value.clone().inner().ones_like().autodiff().mask_fill(negative, slope);
        Dual { value: self.value * factor.clone(), tangent: self.tangent * factor }
    }

    /// 2x2 max-pool.
    pub(crate) fn max_pool(self) -> Dual<4> {
        let [n, c, h, w] = self.value.dims();
        let (value, index) = max_pool2d_with_indices(self.value, MaxPoolOptions::new([2, 2]));
        let [_, _, oh, ow] = value.dims();
        let taken = self.tangent.reshape([n, c, h * w]).gather(2, index.reshape([n, c, oh * ow]));
        Dual { value, tangent: taken.reshape([n, c, oh, ow]) }
    }

    /// Flattened in (channel, row, column) order.
    pub(crate) fn flatten(self) -> Dual<2> {
        Dual { value: self.value.flatten(1, 3), tangent: self.tangent.flatten(1, 3) }
    }
}

impl Dual<2> {
    /// x W + b.
    pub(crate) fn linear(self, weight: Dual<2>, bias: Dual<1>) -> Dual<2> {
        let tangent = self.tangent.matmul(weight.value.clone())
            + self.value.clone().matmul(weight.tangent)
            + bias.tangent.unsqueeze();
        Dual { value: self.value.matmul(weight.value) + bias.value.unsqueeze(), tangent }
    }
}
