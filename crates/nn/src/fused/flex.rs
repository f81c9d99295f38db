//! Burn tensors of the `flex` device as slices, and back.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, DispatchKindConversion, Flex};
use burn::tensor::{DispatchTensor, Tensor, TensorData};

pub(super) type FlexTensor = FloatTensor<Flex>;

/// The primitive of a tensor on the `flex` device.
pub(super) fn primitive<B: Backend, const D: usize>(tensor: Tensor<D>) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    tensor.try_into_primitive::<B>().expect("the images and the parameters are on the same device")
}

/// The values of a contiguous tensor.
pub(super) fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("made from contiguous f32 data")
}

pub(super) fn dims(tensor: &FlexTensor) -> [usize; 4] {
    tensor.layout().shape().dims()
}

pub(super) fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// Hands `gradient`, shaped as `input`, to the autodiff node of that input.
pub(super) fn register(grads: &mut Gradients, node: NodeId, input: &FlexTensor, gradient: Vec<f32>) {
    let shape = input.layout().shape().clone();
    grads.register::<Flex>(node, FlexTensor::from_data(TensorData::new(gradient, shape)));
}
