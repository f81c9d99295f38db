//! One convolution as an operation of Burn's autodiff: 3x3 or 1x1 filters, stride 1 or 2, padding 0 or 1.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Autodiff, Flex};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor};
use siskin_cpu::{Batch, Conv, ConvGrads, ConvSpec, Precision, Workspace};

use crate::Error;
use crate::fused::flex::{FlexTensor, dims, primitive, register, slice, tensor};

/// What our own CPU convolutions need besides their operands. Clones share their buffers.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    workspace: Workspace,
    precision: Precision,
}

impl Engine {
    /// The same engine in this precision.
    ///
    /// # Errors
    /// Instructions this CPU does not have.
    pub fn at(self, precision: Precision) -> Result<Self, Error> {
        let any = ConvSpec { c_in: 1, c_out: 1, kernel: 1, stride: 1, padding: 0 };
        Conv::new(any)?.at(precision)?;
        Ok(Self { precision, ..self })
    }
}

/// x * weight without bias, stride 1: our own kernels on the CPU, Burn's elsewhere.
///
/// `x`: [N, C, H, W], `weight`: [out, C, k, k] with k = 1 or 3.
pub fn convolution(
    x: Tensor<4>,
    weight: Tensor<4>,
    padding: usize,
    engine: &Engine,
) -> Result<Tensor<4>, Error> {
    let ours = on_cpu(&x, &weight, [1, padding], engine)?;
    Ok(ours
        .unwrap_or_else(|| conv2d(x, weight, None, ConvOptions::new([1, 1], [padding, padding], [1, 1], 1))))
}

/// x * weight without bias, or `None` on another device than the CPU.
fn on_cpu(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    [stride, padding]: [usize; 2],
    Engine { workspace, precision }: &Engine,
) -> Result<Option<Tensor<4>>, Error> {
    if x.device().inner() != Device::flex() {
        return Ok(None);
    }
    let [c_out, c_in, kernel, _] = weight.dims();
    let conv = Conv::new(ConvSpec { c_in, c_out, kernel, stride, padding })?.at(*precision)?;
    if !x.is_autodiff() && !weight.is_autodiff() {
        let inputs = [primitive::<Flex, 4>(x.clone()), primitive::<Flex, 4>(weight.clone())];
        let out = forward(&conv, workspace, &inputs.map(|t| t.to_contiguous()))?;
        return Ok(Some(Tensor::from_primitive::<Flex>(out)));
    }
    let parents = [x.clone(), weight.clone()].map(|t| primitive::<Autodiff<Flex>, 4>(t.autodiff()));
    let nodes = parents.each_ref().map(|parent| parent.node());
    let inputs = parents.map(|parent| parent.into_primitive().to_contiguous());
    let out = forward(&conv, workspace, &inputs)?;
    let out = match ConvBackward.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let kept = Kept { conv, inputs, workspace: workspace.clone() };
            prepared.finish(kept, out)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(out),
    };
    Ok(Some(Tensor::from_primitive::<Autodiff<Flex>>(out)))
}

fn forward(conv: &Conv, workspace: &Workspace, [x, weight]: &[FlexTensor; 2]) -> Result<FlexTensor, Error> {
    let [n, _, h, w] = dims(x);
    let too_small = siskin_cpu::Error::TooSmall { block: 0, h, w };
    let (out_h, out_w) = conv.output_size(h, w).ok_or(too_small)?;
    let mut out = vec![0.0; n * conv.spec().c_out * out_h * out_w];
    conv.forward(workspace, slice(weight), None, Batch::new(slice(x), [n, h, w]), &mut out)?;
    Ok(tensor(out, [n, conv.spec().c_out, out_h, out_w]))
}

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Kept {
    conv: Conv,
    inputs: [FlexTensor; 2],
    workspace: Workspace,
}

#[derive(Debug)]
struct ConvBackward;

impl Backward<Flex, 2> for ConvBackward {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dout = grads.consume::<Flex>(&ops.node).to_contiguous();
        let Kept { conv, inputs: [x, weight], workspace } = ops.state;
        let [n, _, h, w] = dims(&x);
        let mut dweight = vec![0.0; slice(&weight).len()];
        let mut dx = ops.parents[0].as_ref().map(|_| vec![0.0; slice(&x).len()]);
        conv.backward(
            &workspace,
            slice(&weight),
            Batch::new(slice(&x), [n, h, w]),
            slice(&dout),
            ConvGrads { weight: &mut dweight, bias: None, images: dx.as_deref_mut() },
        )
        .expect("shapes were checked by the forward pass");
        let [x_node, weight_node] = ops.parents;
        if let (Some(node), Some(dx)) = (x_node, dx) {
            register(grads, node.id, &x, dx);
        }
        if let Some(node) = weight_node {
            register(grads, node.id, &weight, dweight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    use crate::state::host;

    fn values(shape: [usize; 4], step: usize) -> TensorData {
        let n: usize = shape.iter().product();
        let values: Vec<f32> = (0..n).map(|i| (i * step % 101) as f32 / 50.0 - 1.0).collect();
        TensorData::new(values, shape)
    }

    #[test]
    fn values_and_gradients_equal_burns_convolution() {
        let device = Device::flex().autodiff();
        let engine = Engine::default();
        for (k, stride, padding) in [(3, 1, 1), (3, 1, 0), (3, 2, 1), (1, 1, 0), (1, 2, 0)] {
            let run = |fused: bool| {
                let x = Tensor::<4>::from_data(values([2, 5, 9, 7], 37), &device).require_grad();
                let weight = Tensor::<4>::from_data(values([6, 5, k, k], 53), &device).require_grad();
                let out = if fused {
                    on_cpu(&x, &weight, [stride, padding], &engine).unwrap().unwrap()
                } else {
                    let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], 1);
                    conv2d(x.clone(), weight.clone(), None, options)
                };
                let cotangent = Tensor::<4>::from_data(values(out.dims(), 71), &device);
                let grads = (out.clone() * cotangent).sum().backward();
                [host(out.inner()), host(x.grad(&grads).unwrap()), host(weight.grad(&grads).unwrap())]
            };
            for (ours, burns) in run(true).iter().zip(&run(false)) {
                let largest = burns.iter().fold(0f32, |m, v| m.max(v.abs()));
                assert_eq!(ours.len(), burns.len());
                for (a, b) in ours.iter().zip(burns) {
                    assert!((a - b).abs() < 1e-5 * largest, "{k} {stride} {padding}: {a} {b}");
                }
            }
        }
    }
}
