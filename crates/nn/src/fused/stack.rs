//! A whole row of blocks as one operation of Burn's autodiff: between the images and the features nothing returns to
//! Burn's layout.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, DispatchKindConversion, Flex};
use burn::tensor::{Device, DispatchTensor, Tensor, TensorData};
use siskin_cpu::{
    Batch, BlockGrads, BlockParams, BlockSpec, Precision, RunningStats, Stack, StackGrads, StackSaved,
    Workspace,
};

use crate::Error;
use crate::batch_norm::{BatchStatistics, Pass};
use crate::conv_net::ConvBlock;
use crate::fused::conv::Engine;
use crate::fused::flex::{FlexTensor, dims, primitive, register, slice, tensor};

/// Differentiated tensors of one block: filters, bias, gain, shift.
const PER_BLOCK: usize = 4;

/// The engine of one row of blocks. Clones share their buffers.
#[derive(Clone, Debug)]
pub(crate) struct Fused {
    stack: Stack,
    workspace: Workspace,
    single: Engine,
}

impl Fused {
    /// The engine of a [`crate::ConvNet`] of these blocks.
    pub(crate) fn new(specs: &[BlockSpec]) -> Self {
        let stack = Stack::new(specs).expect("3x3 blocks that fit one another");
        Self { stack, workspace: Workspace::new(), single: Engine::default() }
    }

    /// The same engine in this precision.
    pub(crate) fn at(self, precision: Precision) -> Result<Self, Error> {
        Ok(Self { stack: self.stack.at(precision)?, ..self })
    }

    /// Convolutions outside the row. They run in single precision whatever the row does.
    pub(crate) fn single(&self) -> &Engine {
        &self.single
    }

    /// The features of `images`, or `None` where only the plain composition can compute them: on another device,
    /// with gradients through running statistics, or with a number of blocks that no backbone has.
    pub(crate) fn forward(
        &self,
        blocks: &[ConvBlock],
        images: &Tensor<4>,
        pass: &mut Pass<'_>,
    ) -> Result<Option<Tensor<2>>, Error> {
        if images.device().inner() != Device::flex() {
            return Ok(None);
        }
        match (images.is_autodiff(), pass) {
            (true, Pass::Train(statistics)) => match blocks.len() {
                4 => self.tracked::<17>(blocks, images, statistics).map(Some),
                6 => self.tracked::<25>(blocks, images, statistics).map(Some),
                _ => Ok(None),
            },
            (true, Pass::Eval) => Ok(None),
            (false, Pass::Train(statistics)) => {
                let inputs = inputs::<Flex>(blocks, images);
                let (features, saved) = self.train(&inputs)?;
                hand_out(&saved, statistics);
                Ok(Some(Tensor::from_primitive::<Flex>(features)))
            }
            (false, Pass::Eval) => self.eval(blocks, images).map(Some),
        }
    }

    /// Training with gradients: `N` = images and four tensors per block.
    fn tracked<const N: usize>(
        &self,
        blocks: &[ConvBlock],
        images: &Tensor<4>,
        statistics: &mut Vec<BatchStatistics>,
    ) -> Result<Tensor<2>, Error> {
        let parents: [_; N] = inputs::<Autodiff<Flex>>(blocks, images)
            .try_into()
            .expect("the caller matched N with the number of blocks");
        let nodes = parents.each_ref().map(|parent| parent.node());
        let inputs: Vec<FlexTensor> = parents.into_iter().map(|parent| parent.into_primitive()).collect();
        let (features, saved) = self.train(&inputs)?;
        hand_out(&saved, statistics);
        let kept = Kept { fused: self.clone(), inputs, saved };
        let features = match StackBackward.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(Arc::new(kept), features),
            OpsKind::UnTracked(prepared) => prepared.finish(features),
        };
        Ok(Tensor::from_primitive::<Autodiff<Flex>>(features))
    }

    fn train(&self, inputs: &[FlexTensor]) -> Result<(FlexTensor, StackSaved), Error> {
        let [n, _, h, w] = dims(&inputs[0]);
        let size = self.stack.output_shape(h, w)?.iter().product::<usize>();
        let mut features = vec![0.0; n * size];
        let params = params(&inputs[1..]);
        let saved = self.stack.forward_train(
            &self.workspace,
            &params,
            Batch::new(slice(&inputs[0]), [n, h, w]),
            &mut features,
        )?;
        Ok((tensor(features, [n, size]), saved))
    }

    fn eval(&self, blocks: &[ConvBlock], images: &Tensor<4>) -> Result<Tensor<2>, Error> {
        let inputs = inputs::<Flex>(blocks, images);
        let running: Vec<[FlexTensor; 2]> = blocks
            .iter()
            .map(|b| {
                [
                    primitive::<Flex, 1>(b.norm.running_mean.val()),
                    primitive::<Flex, 1>(b.norm.running_var.val()),
                ]
            })
            .collect();
        let running: Vec<RunningStats> =
            running.iter().map(|[mean, var]| RunningStats { mean: slice(mean), var: slice(var) }).collect();
        let [n, _, h, w] = dims(&inputs[0]);
        let size = self.stack.output_shape(h, w)?.iter().product::<usize>();
        let mut features = vec![0.0; n * size];
        let params = params(&inputs[1..]);
        let images = Batch::new(slice(&inputs[0]), [n, h, w]);
        self.stack.forward_eval(&self.workspace, &params, &running, images, &mut features)?;
        Ok(Tensor::from_primitive::<Flex>(tensor(features, [n, size])))
    }
}

/// What the backward pass needs: the inputs (images, then four tensors per block) and what the blocks saved.
#[derive(Debug)]
struct Kept {
    fused: Fused,
    inputs: Vec<FlexTensor>,
    saved: StackSaved,
}

#[derive(Debug)]
struct StackBackward;

impl<const N: usize> Backward<Flex, N> for StackBackward {
    type State = Arc<Kept>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dfeatures = grads.consume::<Flex>(&ops.node).to_contiguous();
        let kept = ops.state;
        let mut out: Vec<Vec<f32>> = kept.inputs[1..].iter().map(|t| vec![0.0; slice(t).len()]).collect();
        let mut dimages = ops.parents[0].as_ref().map(|_| vec![0.0; slice(&kept.inputs[0]).len()]);
        let mut block_grads: Vec<BlockGrads> = out.chunks_exact_mut(PER_BLOCK).map(block_grads).collect();
        kept.fused
            .stack
            .backward(
                &kept.fused.workspace,
                &params(&kept.inputs[1..]),
                &kept.saved,
                slice(&dfeatures),
                StackGrads { blocks: &mut block_grads, images: dimages.as_deref_mut() },
            )
            .expect("shapes were checked by the forward pass");
        let values = std::iter::once(dimages).chain(out.into_iter().map(Some));
        for ((node, value), input) in ops.parents.into_iter().zip(values).zip(&kept.inputs) {
            if let (Some(node), Some(value)) = (node, value) {
                register(grads, node.id, input, value);
            }
        }
    }
}

fn block_grads(tensors: &mut [Vec<f32>]) -> BlockGrads<'_> {
    let [weight, bias, gamma, beta] = tensors else { unreachable!("cut into fours by the caller") };
    BlockGrads { weight, bias, gamma, beta }
}

fn params(tensors: &[FlexTensor]) -> Vec<BlockParams<'_>> {
    let four = tensors.as_chunks::<PER_BLOCK>().0.iter();
    four.map(|[weight, bias, gamma, beta]| BlockParams {
        weight: slice(weight),
        bias: slice(bias),
        gamma: slice(gamma),
        beta: slice(beta),
    })
    .collect()
}

/// Hands the batch statistics of every block to the network.
fn hand_out(saved: &StackSaved, statistics: &mut Vec<BatchStatistics>) {
    let vector =
        |values: &[f32]| Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &Device::flex());
    let blocks = saved.blocks().iter();
    statistics.extend(blocks.map(|block| BatchStatistics {
        mean: vector(block.batch_mean()),
        variance: vector(block.batch_var()),
    }));
}

/// The images and the differentiated tensors of every block, as primitives of backend `B`.
fn inputs<B: Backend>(blocks: &[ConvBlock], images: &Tensor<4>) -> Vec<FloatTensor<B>>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    let mut inputs = vec![primitive::<B, 4>(images.clone())];
    for block in blocks {
        inputs.push(primitive::<B, 4>(block.conv.weight.val()));
        inputs.push(primitive::<B, 1>(block.conv.bias.val()));
        inputs.push(primitive::<B, 1>(block.norm.weight.val()));
        inputs.push(primitive::<B, 1>(block.norm.bias.val()));
    }
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv_net::ConvNet;
    use crate::init::Init;

    /// Whether the fused path, and not the plain composition, computes a pass.
    fn taken(device: &Device, pass: &mut Pass<'_>) -> bool {
        let spec = |c_in: usize| BlockSpec { c_in, c_out: 4, padding: 1, pool: true };
        let specs = [spec(1), spec(4), spec(4), spec(4)];
        let net = ConvNet::new(&specs, &mut Init::new(0, device));
        let images = Tensor::<4>::ones([3, 1, 16, 16], device);
        Fused::new(&specs).forward(&net.blocks, &images, pass).unwrap().is_some()
    }

    #[test]
    fn it_is_taken_in_training_and_in_evaluation() {
        let (plain, autodiff) = (Device::flex(), Device::flex().autodiff());
        let mut statistics = Vec::new();
        assert!(taken(&autodiff, &mut Pass::Train(&mut statistics)));
        assert_eq!(statistics.len(), 4);
        assert!(taken(&plain, &mut Pass::Train(&mut statistics)));
        assert_eq!(statistics.len(), 8);
        assert!(taken(&plain, &mut Pass::Eval));
        assert!(!taken(&autodiff, &mut Pass::Eval));
    }
}
