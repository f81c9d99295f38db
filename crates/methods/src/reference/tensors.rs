//! Tensors in double precision, so that layers of the network are compared without the rounding of single precision.

use super::Mismatch;
use burn::module::{Param, ParamId};
use burn::tensor::{DType, Device, FloatDType, Gradients, Tensor, TensorData};

/// A tensor of double-precision numbers.
pub(super) fn tensor<const D: usize>(values: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), (device, DType::F64))
}

/// A trained tensor of double-precision numbers, whose count must be that of `shape`.
pub(super) fn parameter<const D: usize>(
    field: &str,
    values: &[f64],
    shape: [usize; D],
    device: &Device,
) -> Result<Param<Tensor<D>>, Mismatch> {
    let found = shape.iter().product();
    if found != values.len() {
        return Err(Mismatch::Length { field: field.into(), found, wanted: values.len() });
    }
    Ok(Param::initialized(ParamId::new(), tensor(values, shape, device).require_grad()))
}

/// The numbers of a tensor.
pub(super) fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let data = tensor.cast(FloatDType::F64).into_data();
    data.try_into_vec().expect("it was just made of f64 data")
}

/// The gradient of a tensor, flat; zeros where the loss does not depend on it.
pub(super) fn gradient<const D: usize>(of: &Tensor<D>, gradients: &Gradients) -> Vec<f64> {
    match of.grad(gradients) {
        Some(gradient) => host(gradient),
        None => vec![0.0; of.shape().num_elements()],
    }
}
