//! Convolutions in mixed precision: both operands of every product rounded to bf16, sums in f32.
//!
//! By definition and not by Winograd: rounding the transformed operands costs four to five times the error
//! (`docs/performance.md`). Everything is cut into products of 32x32 blocks; the block is the one piece of code that
//! differs between AMX tiles, AVX-512 BF16 and the emulation on ordinary vectors.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod number;
mod operands;

use std::fmt;
use std::str::FromStr;

use crate::buffer::Workspace;
use crate::direct::Window;
use crate::error::Error;
use crate::frame::Frame;
use crate::simd::Isa;
use block::Session;
pub(crate) use number::Halves;
use number::round;
use operands::{Input, Spread};

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
    pub fn hardware() -> Vec<Self> {
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
    pub fn pack(&self, workspace: &Workspace, weight: &[f32], scale: Option<&[f32]>) -> Halves {
        let input = self.input();
        self.place(workspace, input.filters_len(), weight, scale, |n, k, tap| input.filter_at(n, k, tap))
    }

    /// The same turned round, for the gradient with respect to the input.
    pub fn pack_transposed(&self, workspace: &Workspace, weight: &[f32], scale: Option<&[f32]>) -> Halves {
        let spread = self.spread();
        self.place(workspace, spread.filters_len(), weight, scale, |n, k, tap| spread.filter_at(n, k, tap))
    }

    fn place(
        &self,
        workspace: &Workspace,
        len: usize,
        weight: &[f32],
        scale: Option<&[f32]>,
        at: impl Fn(usize, usize, usize) -> usize,
    ) -> Halves {
        let taps = self.window.kernel.pow(2);
        let mut out = Halves::zeroed(workspace, len);
        for n in 0..self.z.channels {
            for k in 0..self.x.channels {
                for (tap, value) in weight[(n * self.x.channels + k) * taps..][..taps].iter().enumerate() {
                    out[at(n, k, tap)] = round(value * scale.map_or(1.0, |s| s[n]));
                }
            }
        }
        out
    }

    /// z = x * filters for a run of images.
    pub fn forward(&self, workspace: &Workspace, filters: &[u16], x: &[f32], z: &mut [f32]) {
        let (input, session) = (self.input(), Session::start(self.unit));
        for (x, z) in x.chunks_exact(self.x.len()).zip(z.chunks_exact_mut(self.z.len())) {
            let rows = input.rows(workspace, x);
            convolve(&session, &rows, input.depth, &input.taps(), input.cols, filters, z, self.z);
        }
    }

    /// Adds the filters' gradient to `sums` (`[k·k·lanes_in, lanes_out]`), and writes dx if asked for.
    pub fn backward(
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
                dx.fill(0.0);
                let rows = spread.rows(workspace, dz);
                convolve(&session, &rows, spread.depth, &spread.taps(), spread.cols, transposed, dx, self.x);
            }
        }
    }

    fn filters_gradient(
        &self,
        workspace: &Workspace,
        session: &Session,
        input: &Input,
        x: &[f32],
        dz: &[f32],
        sums: &mut [f32],
    ) {
        let (planes, len) = input.planes(workspace, x);
        let pairs = input.pairs(workspace, dz);
        let (lin, lout) = (self.window.depth(self.x.lanes), self.z.lanes);
        let (width, taps) = (lout.next_multiple_of(BLOCK), input.taps());
        let used = lin / taps.len();
        let steps: Vec<usize> = (0..input.pixels()).step_by(BLOCK).collect();
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
                    for (i, row) in block.chunks_exact(BLOCK).take(tall).enumerate() {
                        let to = &mut sums[(tap * used + k + i) * lout + j..][..wide];
                        to.iter_mut().zip(row).for_each(|(to, value)| *to += value);
                    }
                }
            }
        }
    }
}

/// out[pixel] = Σ_tap rows[pixel + tap] · filters[tap] for the pixels of `frame`, flat rows of `cols` pixels.
fn convolve(
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
    let steps: Vec<usize> =
        taps.iter().flat_map(|tap| (0..depth).step_by(BLOCK).map(move |k| tap * depth + k)).collect();
    let mut block = [0.0; BLOCK * BLOCK];
    for first in (0..frame.h * cols).step_by(BLOCK) {
        for j in (0..frame.lanes).step_by(BLOCK) {
            session.multiply(&rows[first * depth..], depth, &steps, &filters[2 * j..], 2 * width, &mut block);
            let wide = BLOCK.min(frame.lanes - j);
            for (i, row) in block.chunks_exact(BLOCK).enumerate() {
                let (y, x) = ((first + i) / cols, (first + i) % cols);
                if y < frame.h && x < frame.w {
                    out[frame.at(y, x) + j..][..wide].copy_from_slice(&row[..wide]);
                }
            }
        }
    }
}
