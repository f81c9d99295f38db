//! ResNet12, the residual backbone of the few-shot literature.
//!
//! Four blocks of 64, 160, 320 and 640 channels; each three 3x3 convolutions without bias with batch-norm and leaky
//! ReLU (slope 0.1), a 1x1 shortcut with batch-norm added before the last leaky ReLU, and a 2x2 max-pool. The mean
//! over the last map gives 640 features at any image size. The variant without DropBlock.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::leaky_relu;
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;
use siskin_cpu::Precision;

use crate::Error;
use crate::batch_norm::{BatchNorm, Pass};
use crate::dual::{self, Direction, Dual, same_size_conv};
use crate::fused::Engine;
use crate::init::Init;

const SLOPE: f64 = 0.1;

/// The filters of a convolution without bias.
#[derive(Module, Debug)]
pub struct Filters {
    /// `[out, in, k, k]`.
    pub weight: Param<Tensor<4>>,
}

/// A convolution that keeps the size, and its batch-norm.
#[derive(Module, Debug)]
pub struct Unit {
    /// The convolution.
    pub conv: Filters,
    /// The batch-norm.
    pub norm: BatchNorm,
}

impl Unit {
    fn new(input: usize, out: usize, k: usize, init: &mut Init<'_>) -> Self {
        Self { conv: Filters { weight: init.conv_weight(out, input, k) }, norm: BatchNorm::new(out, init) }
    }

    fn forward(
        &self,
        x: Tensor<4>,
        pass: &mut Pass<'_>,
        engine: Option<&Engine>,
    ) -> Result<Tensor<4>, Error> {
        let x = same_size_conv(x, self.conv.weight.val(), engine)?;
        Ok(self.norm.forward(x, pass))
    }

    fn forward_dual(
        &self,
        x: &Tensor<4>,
        tangent: Option<&Tensor<4>>,
        direction: &mut Direction<'_>,
        engine: Option<&Engine>,
    ) -> Result<Dual<4>, Error> {
        let z = dual::conv(x, tangent, &direction.of(&self.conv.weight), engine)?;
        let (gain, shift) = (direction.of(&self.norm.weight), direction.of(&self.norm.bias));
        Ok(z.batch_norm(gain, shift))
    }
}

/// Three 3x3 units beside a 1x1 shortcut, then a 2x2 max-pool.
#[derive(Module, Debug)]
pub struct ResidualBlock {
    /// First 3x3 unit.
    pub unit1: Unit,
    /// Second 3x3 unit.
    pub unit2: Unit,
    /// Third 3x3 unit.
    pub unit3: Unit,
    /// 1x1 unit around the three.
    pub shortcut: Unit,
}

impl ResidualBlock {
    fn new(input: usize, out: usize, init: &mut Init<'_>) -> Self {
        Self {
            unit1: Unit::new(input, out, 3, init),
            unit2: Unit::new(out, out, 3, init),
            unit3: Unit::new(out, out, 3, init),
            shortcut: Unit::new(input, out, 1, init),
        }
    }

    fn forward(
        &self,
        x: Tensor<4>,
        pass: &mut Pass<'_>,
        engine: Option<&Engine>,
    ) -> Result<Tensor<4>, Error> {
        let y = leaky_relu(self.unit1.forward(x.clone(), pass, engine)?, SLOPE);
        let y = leaky_relu(self.unit2.forward(y, pass, engine)?, SLOPE);
        let y = self.unit3.forward(y, pass, engine)?;
        let y = leaky_relu(y + self.shortcut.forward(x, pass, engine)?, SLOPE);
        Ok(max_pool2d(y, MaxPoolOptions::new([2, 2])))
    }

    fn forward_dual(
        &self,
        x: &Tensor<4>,
        tangent: Option<&Tensor<4>>,
        direction: &mut Direction<'_>,
        engine: Option<&Engine>,
    ) -> Result<Dual<4>, Error> {
        let y = self.unit1.forward_dual(x, tangent, direction, engine)?.leaky_relu(SLOPE);
        let y = self.unit2.forward_dual(&y.value, Some(&y.tangent), direction, engine)?.leaky_relu(SLOPE);
        let y = self.unit3.forward_dual(&y.value, Some(&y.tangent), direction, engine)?;
        let around = self.shortcut.forward_dual(x, tangent, direction, engine)?;
        let sum = Dual { value: y.value + around.value, tangent: y.tangent + around.tangent };
        Ok(sum.leaky_relu(SLOPE).max_pool())
    }
}

/// Four residual blocks and the mean over the last map.
#[derive(Module, Debug)]
pub struct ResNet {
    /// The blocks from the image to the features.
    pub blocks: Vec<ResidualBlock>,
    /// Our own CPU convolutions; without them Burn's run.
    #[module(skip)]
    engine: Option<Engine>,
}

/// Channels of the four blocks: 64, 160, 320, 640 for a width of 64.
pub(crate) fn widths(width: usize) -> [usize; 4] {
    [width, width * 5 / 2, width * 5, width * 10]
}

impl ResNet {
    /// ResNet12 on images of `channels`, with `width` channels in the first block.
    pub fn new(channels: usize, width: usize, init: &mut Init<'_>) -> Self {
        let mut input = channels;
        let mut blocks = Vec::new();
        for out in widths(width) {
            blocks.push(ResidualBlock::new(input, out, init));
            input = out;
        }
        Self { blocks, engine: Some(Engine::default()) }
    }

    /// The same network with Burn's convolutions, on the CPU too.
    pub(crate) fn unfused(self) -> Self {
        Self { engine: None, ..self }
    }

    /// The same network with our own convolutions in this precision.
    pub(crate) fn at(self, precision: Precision) -> Result<Self, Error> {
        let engine = self.engine.map(|engine| engine.at(precision)).transpose()?;
        Ok(Self { engine, ..self })
    }

    /// `images`: [N, C, H, W] -> features [N, 10 width].
    pub fn forward(&self, images: Tensor<4>, pass: &mut Pass<'_>) -> Result<Tensor<2>, Error> {
        let mut x = images;
        for block in &self.blocks {
            x = block.forward(x, pass, self.engine.as_ref())?;
        }
        Ok(mean_over_map(x))
    }

    /// The features on batch statistics and their derivative along a direction of the parameters.
    pub(crate) fn forward_dual(
        &self,
        images: Tensor<4>,
        direction: &mut Direction<'_>,
    ) -> Result<Dual<2>, Error> {
        let mut x = Dual { tangent: images.clone(), value: images };
        for (i, block) in self.blocks.iter().enumerate() {
            let tangent = (i > 0).then_some(&x.tangent);
            x = block.forward_dual(&x.value, tangent, direction, self.engine.as_ref())?;
        }
        Ok(Dual { value: mean_over_map(x.value), tangent: mean_over_map(x.tangent) })
    }

    /// The batch-norms in the order in which a forward pass meets them.
    pub(crate) fn norms_mut(&mut self) -> Vec<&mut BatchNorm> {
        let units =
            self.blocks.iter_mut().flat_map(|b| [&mut b.unit1, &mut b.unit2, &mut b.unit3, &mut b.shortcut]);
        units.map(|unit| &mut unit.norm).collect()
    }
}

/// [N, C, H, W] -> [N, C].
fn mean_over_map(x: Tensor<4>) -> Tensor<2> {
    let [n, c, h, w] = x.dims();
    x.reshape([n, c, h * w]).mean_dim(2).reshape([n, c])
}
