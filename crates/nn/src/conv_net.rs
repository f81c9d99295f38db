//! Conv4, Conv4S, Conv6 and the unpadded Conv4NP and Conv4SNP: a row of 3x3 convolution blocks.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::module::{conv2d, max_pool2d};
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};
use siskin_cpu::{BlockSpec, Precision};

use crate::Error;
use crate::batch_norm::{BatchNorm, Pass};
use crate::dual::{self, Direction, Dual};
use crate::fused::{Fused, tangent_norm};
use crate::init::Init;

/// A 3x3 convolution with bias.
#[derive(Module, Debug)]
pub struct Conv {
    /// `[out, in, 3, 3]`.
    pub weight: Param<Tensor<4>>,
    /// `[out]`.
    pub bias: Param<Tensor<1>>,
}

/// Convolution, batch-norm, ReLU and, in the pooling blocks, 2x2 max-pool.
#[derive(Module, Debug)]
pub struct ConvBlock {
    /// The convolution.
    pub conv: Conv,
    /// The batch-norm.
    pub norm: BatchNorm,
    /// Zeros around the input of the convolution: 0 or 1.
    pub padding: usize,
    /// Whether a 2x2 max-pool ends the block.
    pub pool: bool,
}

impl ConvBlock {
    fn new(spec: BlockSpec, init: &mut Init<'_>) -> Self {
        let BlockSpec { c_in: input, c_out: out, padding, pool } = spec;
        Self {
            conv: Conv { weight: init.conv_weight(out, input, 3), bias: init.conv_bias(out, input, 3) },
            norm: BatchNorm::new(out, init),
            padding,
            pool,
        }
    }

    fn forward(&self, x: Tensor<4>, pass: &mut Pass<'_>) -> Tensor<4> {
        let bias = match pass {
            // The normalisation takes any constant out again, so the gradient is 0. Backpropagation would give
            // rounding instead, of which Adam makes full steps.
            Pass::Train(_) => self.conv.bias.val().detach(),
            Pass::Eval => self.conv.bias.val(),
        };
        let options = ConvOptions::new([1, 1], [self.padding; 2], [1, 1], 1);
        let x = conv2d(x, self.conv.weight.val(), Some(bias), options);
        let x = relu(self.norm.forward(x, pass));
        if self.pool { max_pool2d(x, MaxPoolOptions::new([2, 2])) } else { x }
    }
}

/// Blocks one after the other, then flatten in (channel, row, column) order.
#[derive(Module, Debug)]
pub struct ConvNet {
    /// The blocks from the image to the features.
    pub blocks: Vec<ConvBlock>,
    #[module(skip)]
    fused: Option<Fused>,
}

impl ConvNet {
    /// Blocks of the given shapes, each reading what the one before it makes.
    pub(crate) fn new(specs: &[BlockSpec], init: &mut Init<'_>) -> Self {
        let blocks = specs.iter().map(|&spec| ConvBlock::new(spec, init)).collect();
        Self { blocks, fused: Some(Fused::new(specs)) }
    }

    /// The same network without the fused path, on the CPU too.
    pub(crate) fn unfused(self) -> Self {
        Self { fused: None, ..self }
    }

    /// The same network with the fused path in this precision.
    pub(crate) fn at(self, precision: Precision) -> Result<Self, Error> {
        let fused = self.fused.map(|fused| fused.at(precision)).transpose()?;
        Ok(Self { fused, ..self })
    }

    /// `images`: [N, C, H, W] -> features, the last map flattened.
    pub fn forward(&self, images: Tensor<4>, pass: &mut Pass<'_>) -> Result<Tensor<2>, Error> {
        if let Some(fused) = &self.fused
            && let Some(features) = fused.forward(&self.blocks, &images, pass)?
        {
            return Ok(features);
        }
        let mut x = images;
        for block in &self.blocks {
            x = block.forward(x, pass);
        }
        Ok(x.flatten(1, 3))
    }

    /// The features on batch statistics and their derivative along a direction of the parameters.
    pub(crate) fn forward_dual(
        &self,
        images: Tensor<4>,
        direction: &mut Direction<'_>,
    ) -> Result<Dual<2>, Error> {
        let engine = self.fused.as_ref().map(Fused::single);
        let mut x = Dual { tangent: images.clone(), value: images };
        for (i, block) in self.blocks.iter().enumerate() {
            let weight = direction.of(&block.conv.weight);
            // The bias has no effect before a batch-norm on batch statistics, so its tangent has none.
            direction.of(&block.conv.bias);
            let (gain, shift) = (direction.of(&block.norm.weight), direction.of(&block.norm.bias));
            let z = dual::conv(&x.value, (i > 0).then_some(&x.tangent), &weight, engine)?;
            let fused = match engine {
                Some(_) => tangent_norm(&z, &gain, &shift, block.pool)?,
                None => None,
            };
            x = match fused {
                Some(y) => y,
                None => {
                    let y = z.batch_norm(gain, shift).leaky_relu(0.0);
                    if block.pool { y.max_pool() } else { y }
                }
            };
        }
        Ok(x.flatten())
    }

    /// The batch-norms in the order in which a forward pass meets them.
    pub(crate) fn norms_mut(&mut self) -> Vec<&mut BatchNorm> {
        self.blocks.iter_mut().map(|block| &mut block.norm).collect()
    }
}
