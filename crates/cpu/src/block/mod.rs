//! One fused block: convolution, batch normalisation, rectifier and, if asked for, 2x2 max-pool.

mod backward;
mod forward;

use crate::bf16::{Precision, Unit};
use crate::buffer::{Buffer, Workspace};
use crate::direct::Window;
use crate::error::{Error, check};
use crate::filter::Layer;
use crate::frame::{Activations, Frame};
use crate::norm::peak_frame;
use crate::simd::Isa;

/// Added to a variance before its root is taken, as in PyTorch.
pub const EPSILON: f32 = 1e-5;

/// What a block is made of. Its filters are 3x3 with stride 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpec {
    /// Channels of the input.
    pub c_in: usize,
    /// Channels of the output.
    pub c_out: usize,
    /// Zeros around the input: 0 or 1.
    pub padding: usize,
    /// Whether a 2x2 max-pool ends the block.
    pub pool: bool,
}

/// A block's parameters in PyTorch's order.
#[derive(Clone, Copy, Debug)]
pub struct BlockParams<'a> {
    /// Filters, `[c_out, c_in, 3, 3]`.
    pub weight: &'a [f32],
    /// Bias of the convolution, `[c_out]`.
    pub bias: &'a [f32],
    /// Scale of the normalisation, `[c_out]`.
    pub gamma: &'a [f32],
    /// Shift of the normalisation, `[c_out]`.
    pub beta: &'a [f32],
}

/// Statistics used in evaluation.
#[derive(Clone, Copy, Debug)]
pub struct RunningStats<'a> {
    /// Running mean, `[c_out]`.
    pub mean: &'a [f32],
    /// Running (unbiased) variance, `[c_out]`.
    pub var: &'a [f32],
}

/// Where a backward pass writes the gradients, shaped as the parameters.
#[derive(Debug)]
pub struct BlockGrads<'a> {
    /// d/d weight.
    pub weight: &'a mut [f32],
    /// d/d bias: exactly zero, since the normalisation takes any constant out again.
    pub bias: &'a mut [f32],
    /// d/d gamma.
    pub gamma: &'a mut [f32],
    /// d/d beta.
    pub beta: &'a mut [f32],
}

/// What the backward pass of a block starts from.
#[derive(Clone, Copy, Debug)]
pub struct BlockPass<'a> {
    /// The parameters of the forward pass.
    pub params: BlockParams<'a>,
    /// Its input.
    pub x: &'a Activations,
    /// What it saved.
    pub saved: &'a BlockSaved,
    /// The gradient of its output.
    pub dy: &'a Activations,
}

/// What the backward pass of a block needs besides its input and parameters: the convolution's output (unless it is made
/// again, strip by strip), its peaks (maxima of the pools), and the batch statistics. Memory returns to the workspace when
/// this is dropped.
#[derive(Debug)]
pub struct BlockSaved {
    /// Empty if it is made again.
    z: Buffer,
    peaks: Option<Buffer>,
    channels: Buffer,
    geometry: Geometry,
}

/// The frames of a block for one image size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    n: usize,
    x: Frame,
    z: Frame,
    peak: Frame,
    y: Frame,
}

/// Rows of `BlockSaved::channels`, `[7, lanes]`.
const MEAN: usize = 0;
const INV_STD: usize = 1;
const SCALE: usize = 2;
const SHIFT: usize = 3;
const SIGN: usize = 4;
const BATCH_MEAN: usize = 5;
const BATCH_VAR: usize = 6;
const KEPT: usize = 7;

/// Runs blocks of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    isa: Isa,
    unit: Option<Unit>,
    spec: BlockSpec,
}

impl Block {
    /// A block run with the widest instructions of this CPU.
    ///
    /// # Errors
    /// A padding other than 0 or 1, or no channels.
    pub fn new(spec: BlockSpec) -> Result<Self, Error> {
        Self::with_isa(spec, Isa::detect())
    }

    /// A block run with the given instructions.
    ///
    /// # Errors
    /// A padding other than 0 or 1, or no channels.
    pub fn with_isa(spec: BlockSpec, isa: Isa) -> Result<Self, Error> {
        if spec.padding > 1 {
            return Err(Error::Unsupported { what: "padding", value: spec.padding, allowed: "0 or 1" });
        }
        if spec.c_in == 0 || spec.c_out == 0 {
            return Err(Error::Unsupported {
                what: "the number of channels",
                value: 0,
                allowed: "at least 1",
            });
        }
        Ok(Self { isa, unit: None, spec })
    }

    /// The same block with its convolutions in this precision.
    ///
    /// # Errors
    /// Instructions this CPU does not have.
    pub fn at(self, precision: Precision) -> Result<Self, Error> {
        Ok(Self { unit: precision.unit(self.isa)?, ..self })
    }

    /// What it is made of.
    pub fn spec(&self) -> BlockSpec {
        self.spec
    }

    /// Height and width of the output for images of h x w, `None` if nothing remains.
    pub fn output_size(&self, h: usize, w: usize) -> Option<(usize, usize)> {
        let shrink = |x: usize| {
            let z = (x + 2 * self.spec.padding).checked_sub(2)?;
            let y = if self.spec.pool { z / 2 } else { z };
            (x > 0 && y > 0).then_some(y)
        };
        Some((shrink(h)?, shrink(w)?))
    }

    fn geometry(&self, x: &Activations) -> Result<Geometry, Error> {
        let Frame { h, w, channels, .. } = x.frame;
        if channels != self.spec.c_in {
            return Err(Error::Channels { block: 0, expected: channels, found: self.spec.c_in });
        }
        let too_small = Error::TooSmall { block: 0, h, w };
        let (yh, yw) = self.output_size(h, w).filter(|_| x.n > 0).ok_or(too_small)?;
        let lost = 2 - 2 * self.spec.padding;
        let z = Frame::outer(h - lost, w - lost, self.spec.c_out);
        let peak = peak_frame(z, self.spec.pool);
        Ok(Geometry { n: x.n, x: x.frame, z, peak, y: Frame::between(yh, yw, self.spec.c_out) })
    }

    fn layer(&self, g: &Geometry) -> Layer {
        let window = Window { kernel: 3, stride: 1, padding: self.spec.padding };
        Layer { isa: self.isa, window, x: g.x, z: g.z, algorithm: self.unit.into() }
    }

    /// Rows of the convolution's output handled at once in training. If they are not all, the backward pass makes them again.
    fn strip(&self, layer: &Layer) -> usize {
        if self.spec.pool && layer.is_cheap() { layer.strip() } else { layer.z.h }
    }

    fn check(&self, params: &BlockParams) -> Result<(), Error> {
        let BlockSpec { c_in, c_out, .. } = self.spec;
        check("weight", "[c_out, c_in, 3, 3]", params.weight.len(), c_out * c_in * 9)?;
        check("bias", "[c_out]", params.bias.len(), c_out)?;
        check("gamma", "[c_out]", params.gamma.len(), c_out)?;
        check("beta", "[c_out]", params.beta.len(), c_out)
    }
}

impl BlockSaved {
    fn kept(&self, row: usize) -> &[f32] {
        &self.channels[row * self.geometry.z.lanes..][..self.geometry.z.channels]
    }

    /// The gradient of the block's output, `[n, c_out, h, w]`, in the layout the backward pass reads.
    ///
    /// # Errors
    /// A slice of another length.
    pub fn gradient(&self, workspace: &Workspace, dy: &[f32]) -> Result<Activations, Error> {
        Activations::load(workspace, "dy", dy, self.geometry.n, self.geometry.y)
    }

    /// Mean of each channel of the convolution's output (bias included) over this batch.
    pub fn batch_mean(&self) -> &[f32] {
        self.kept(BATCH_MEAN)
    }

    /// Unbiased variance of each channel over this batch: what a running variance takes in.
    pub fn batch_var(&self) -> &[f32] {
        self.kept(BATCH_VAR)
    }

    /// running ← (1 − momentum)·running + momentum·batch, PyTorch's rule.
    ///
    /// # Errors
    /// Slices that are not `[c_out]`.
    pub fn update_running(&self, momentum: f32, mean: &mut [f32], var: &mut [f32]) -> Result<(), Error> {
        check("running mean", "[c_out]", mean.len(), self.geometry.z.channels)?;
        check("running variance", "[c_out]", var.len(), self.geometry.z.channels)?;
        for (running, batch) in [(mean, self.batch_mean()), (var, self.batch_var())] {
            for (running, batch) in running.iter_mut().zip(batch) {
                *running += momentum * (batch - *running);
            }
        }
        Ok(())
    }
}
