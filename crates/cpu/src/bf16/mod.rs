//! Convolutions in mixed precision: both operands of every product rounded to bf16, sums in f32.
//!
//! By definition and not by Winograd, whose transforms would add operands before they are rounded (`docs/performance.md`).
//! Everything is cut into products of 32x32 blocks; the block is the one piece of code that differs between AMX tiles,
//! AVX-512 BF16 and the emulation on ordinary vectors.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod number;
mod operands;
mod pack;
mod unload;

use std::fmt;
use std::str::FromStr;

use crate::buffer::Workspace;
use crate::direct::Window;
use crate::error::Error;
use crate::frame::Frame;
use crate::simd::Isa;
use block::{Session, Steps};
pub(crate) use number::{Halves, round};
use operands::{FilterOrder, Input, Spread};
use unload::{Add, Unload};

/// Rows and columns of a block, and products of one step.
pub(crate) const BLOCK: usize = 32;

/// The numbers a convolution multiplies. It always adds in f32, and weights and statistics are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Precision {
    /// Single precision.
    #[default]
    F32,
    /// bfloat16 by the CPU's own instructions: AMX tiles or AVX-512 BF16.
    Bf16,
    /// The same numbers on any CPU by ordinary instructions: to see what bf16 does to results, not to be fast.
    Bf16Emulated,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::Bf16Emulated];

    /// The name used in configs and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Bf16Emulated => "bf16-emulated",
        }
    }

    /// What multiplies bf16 numbers, `None` for f32.
    ///
    /// # Errors
    /// A CPU without bf16 instructions.
    pub(crate) fn unit(self, isa: Isa) -> Result<Option<Unit>, Error> {
        match self {
            Self::F32 => Ok(None),
            Self::Bf16Emulated => Ok(Some(Unit::Vectors(isa))),
            Self::Bf16 => match Unit::hardware().first() {
                Some(unit) => Ok(Some(*unit)),
                None => Err(Error::NoBf16 { instructions: isa.name() }),
            },
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| Error::UnknownPrecision { name: name.to_owned() })
    }
}

/// What multiplies blocks of bf16 numbers. Those of the hardware are only made after the CPU said it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Vectors(Isa),
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Amx,
}

impl Unit {
    /// The bf16 instructions of this CPU, the fastest first.
    pub(crate) fn hardware() -> Vec<Self> {
        let mut units = Vec::new();
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if amx::available() {
            units.push(Self::Amx);
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16") {
            units.push(Self::Avx512Bf16);
        }
        units
    }
}

/// A convolution in mixed precision.
#[derive(Clone, Copy)]
pub(crate) struct Mixed {
    pub isa: Isa,
    pub unit: Unit,
    pub window: Window,
    pub x: Frame,
    pub z: Frame,
}

impl Mixed {
    fn input(&self) -> Input {
        Input::new(self.window, self.x, self.z)
    }

    fn spread(&self) -> Spread {
        Spread::new(self.window, self.x, self.z)
    }

    /// Packs `weight` (`[c_out, c_in, k, k]`), filter n scaled by `scale[n]`, for the forward pass.
    pub(crate) fn pack(&self, workspace: &Workspace, weight: &[f32], scale: Option<&[f32]>) -> Halves {
        self.place(workspace, self.input().filters(), weight, scale)
    }

    /// The same turned round, for the gradient with respect to the input.
    pub(crate) fn pack_transposed(
        &self,
        workspace: &Workspace,
        weight: &[f32],
        scale: Option<&[f32]>,
    ) -> Halves {
        self.place(workspace, self.spread().filters(), weight, scale)
    }

    fn place(
        &self,
        workspace: &Workspace,
        order: FilterOrder,
        weight: &[f32],
        scale: Option<&[f32]>,
    ) -> Halves {
        let taps = self.window.kernel.pow(2);
        let FilterOrder { rows, width, turned, .. } = order;
        let mut out = workspace.take_zeroed(rows * width);
        for n in 0..self.z.channels {
            let scale = scale.map_or(1.0, |s| s[n]);
            let filter = &weight[n * self.x.channels * taps..][..self.x.channels * taps];
            for (k, values) in filter.chunks_exact(taps).enumerate() {
                let to = out[n * order.n + k * order.k..].iter_mut().step_by(order.tap);
                if turned {
                    to.zip(values.iter().rev()).for_each(|(to, value)| *to = value * scale);
                } else {
                    to.zip(values).for_each(|(to, value)| *to = value * scale);
                }
            }
        }
        pack::pairs(self.isa, workspace, &pack::rounded(self.isa, workspace, &out, 0), width)
    }

    /// z = x * filters for a run of images.
    pub(crate) fn forward(&self, workspace: &Workspace, filters: &[u16], x: &[f32], z: &mut [f32]) {
        let (input, session) = (self.input(), Session::start(self.unit));
        for (x, z) in x.chunks_exact(self.x.len()).zip(z.chunks_exact_mut(self.z.len())) {
            let rows = input.rows(self.isa, workspace, x);
            convolve(self.isa, &session, &rows, input.depth, &input.taps(), input.cols, filters, z, self.z);
        }
    }

    /// Adds the filters' gradient to `sums` (`[k·k·lanes_in, lanes_out]`), and writes dx if asked for.
    #[expect(
        clippy::too_many_arguments,
        reason = "an inner kernel: slices and strides as the formula names them"
    )]
    pub(crate) fn backward(
        &self,
        workspace: &Workspace,
        transposed: &[u16],
        x: &[f32],
        dz: &[f32],
        mut dx: Option<&mut [f32]>,
        sums: &mut [f32],
    ) {
        let (input, spread, session) = (self.input(), self.spread(), Session::start(self.unit));
        let images = x.chunks_exact(self.x.len()).zip(dz.chunks_exact(self.z.len()));
        for (i, (x, dz)) in images.enumerate() {
            self.filters_gradient(workspace, &session, &input, x, dz, sums);
            if let Some(dx) = &mut dx {
                let dx = &mut dx[i * self.x.len()..][..self.x.len()];
                self.x.clear_surround(dx);
                let rows = spread.rows(self.isa, workspace, dz);
                convolve(
                    self.isa,
                    &session,
                    &rows,
                    spread.depth,
                    &spread.taps(),
                    spread.cols,
                    transposed,
                    dx,
                    self.x,
                );
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "an inner kernel: slices and strides as the formula names them"
    )]
    fn filters_gradient(
        &self,
        workspace: &Workspace,
        session: &Session,
        input: &Input,
        x: &[f32],
        dz: &[f32],
        sums: &mut [f32],
    ) {
        let (planes, len) = input.planes(self.isa, workspace, x);
        let pairs = input.pairs(self.isa, workspace, dz);
        let (lin, lout) = (self.window.depth(self.x.lanes), self.z.lanes);
        let (width, taps) = (lout.next_multiple_of(BLOCK), input.taps());
        let used = lin / taps.len();
        let steps = Steps::new((0..input.pixels()).step_by(BLOCK).collect());
        let mut block = [0.0; BLOCK * BLOCK];
        for (tap, on) in taps.iter().enumerate() {
            for k in (0..used).step_by(BLOCK) {
                for j in (0..lout).step_by(BLOCK) {
                    session.multiply(
                        &planes[k * len + on..],
                        len,
                        &steps,
                        &pairs[2 * j..],
                        2 * width,
                        &mut block,
                    );
                    let (tall, wide) = (BLOCK.min(used - k), BLOCK.min(lout - j));
                    let sums = &mut sums[(tap * used + k) * lout + j..];
                    self.isa.run(Add { block: &block, tall, wide, sums, row: lout });
                }
            }
        }
    }
}

/// out[pixel] = Σ_tap rows[pixel + tap] · filters[tap] for the pixels of `frame`, flat rows of `cols` pixels.
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
fn convolve(
    isa: Isa,
    session: &Session,
    rows: &[u16],
    depth: usize,
    taps: &[usize],
    cols: usize,
    filters: &[u16],
    out: &mut [f32],
    frame: Frame,
) {
    let width = frame.lanes.next_multiple_of(BLOCK);
    let steps = taps.iter().flat_map(|tap| (0..depth).step_by(BLOCK).map(move |k| tap * depth + k));
    let steps = Steps::new(steps.collect());
    let mut block = [0.0; BLOCK * BLOCK];
    for first in (0..frame.h * cols).step_by(BLOCK) {
        for j in (0..frame.lanes).step_by(BLOCK) {
            session.multiply(&rows[first * depth..], depth, &steps, &filters[2 * j..], 2 * width, &mut block);
            isa.run(Unload { block: &block, first, cols, out, frame, lane: j });
        }
    }
}
