//! How a convolution becomes products of 32x32 blocks: where pixels, filters and gradients lie as bf16.
//!
//! Pixels are one flat sequence: pixel (y, x) is number y·cols + x, and the tap (dy, dx) of a filter reads the pixel
//! dy·cols + dx further on. Past the end of a row that is nonsense, which is computed and dropped. Where this does not
//! hold (strides) or would multiply zeros mostly (few channels), each pixel holds its whole patch instead.

use super::BLOCK;
use super::number::Halves;
use super::pack::{Lay, Patches, pairs, rounded, transposed};
use crate::buffer::Workspace;
use crate::direct::Window;
use crate::frame::{Frame, GROUP};
use crate::simd::Isa;

/// The left operand of the forward pass and of the filters' gradient.
#[derive(Clone, Copy)]
pub(super) struct Input {
    window: Window,
    x: Frame,
    z: Frame,
    /// Whether each pixel holds its patch.
    patches: bool,
    /// Pixels from one row to the next.
    pub cols: usize,
    /// Numbers of a pixel, whole blocks.
    pub depth: usize,
}

/// Numbers rounded up to whole blocks.
fn blocks(n: usize) -> usize {
    n.next_multiple_of(BLOCK)
}

impl Input {
    pub(super) fn new(window: Window, x: Frame, z: Frame) -> Self {
        let patches = x.lanes < GROUP || window.stride > 1;
        let cols = if patches { z.w } else { x.w + 2 * window.padding };
        let depth = blocks(if patches { window.depth(x.lanes) } else { x.lanes });
        Self { window, x, z, patches, cols, depth }
    }

    /// Output pixels, those past the end of a row included.
    pub(super) fn pixels(&self) -> usize {
        self.z.h * self.cols
    }

    /// How many pixels on each tap reads: one entry for patches.
    pub(super) fn taps(&self) -> Vec<usize> {
        if self.patches { vec![0] } else { taps(self.window.kernel, self.cols) }
    }

    /// Pixels stored: those of the output in whole blocks, and as many as the last tap reaches further.
    fn stored(&self) -> usize {
        blocks(self.pixels()) + self.taps().last().map_or(0, |tap| blocks(*tap))
    }

    /// `[pixels, depth]`: rows of the forward pass.
    pub(super) fn rows(&self, isa: Isa, workspace: &Workspace, image: &[f32]) -> Halves {
        let Self { window, x, z, cols, depth, .. } = *self;
        let lanes = x.lanes;
        if self.patches {
            let image = &rounded(isa, workspace, image, Patches::SPARE);
            return Patches { image, x, z, window, depth }.copied(isa, workspace, self.stored());
        }
        // The frame's border of zeros is the padding.
        let from = &image[x.at(0, 0) - window.padding * (x.row_step() + lanes)..];
        let h = z.h + window.kernel - 1;
        let lay = Lay { from, row: x.row_step(), h, w: cols, lanes, depth, first: 0, down: cols, right: 1 };
        lay.rounded(isa, workspace, self.stored())
    }

    /// `[depth, pixels]` and the number of pixels: the same turned round, for the filters' gradient.
    pub(super) fn planes(&self, isa: Isa, workspace: &Workspace, image: &[f32]) -> (Halves, usize) {
        let rows = self.rows(isa, workspace, image);
        (transposed(isa, workspace, &rows, self.depth), self.stored())
    }

    /// Pairs of pixels of dz, `[pixels / 2, width, 2]`: the right operand of the filters' gradient.
    pub(super) fn pairs(&self, isa: Isa, workspace: &Workspace, dz: &[f32]) -> Halves {
        let (z, depth) = (self.z, blocks(self.z.lanes));
        let lay = lay(dz, z, depth, 0, self.cols, 1);
        pairs(isa, workspace, &lay.rounded(isa, workspace, blocks(self.pixels())), depth)
    }

    /// How the forward pass wants the filters.
    pub(super) fn filters(&self) -> FilterOrder {
        let width = blocks(self.z.lanes);
        let taps = self.taps().len();
        let deep = if self.patches { self.x.lanes } else { self.depth };
        FilterOrder { rows: taps * self.depth, width, n: 1, k: width, tap: deep * width, turned: false }
    }
}

/// Where the number (n, k, tap) of the filters lies in `[rows, width]`: a right operand before its rows are paired.
pub(super) struct FilterOrder {
    pub rows: usize,
    pub width: usize,
    /// Numbers from one filter to the next, from one channel to the next, from one tap to the next.
    pub n: usize,
    pub k: usize,
    pub tap: usize,
    /// Whether the last tap comes first.
    pub turned: bool,
}

/// The left operand of the gradient with respect to the input: dz with zeros between its pixels where there is a
/// stride, and around it as many as a filter reaches. Then that gradient is a convolution of stride 1 with the filters
/// turned round.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    window: Window,
    x: Frame,
    z: Frame,
    pub cols: usize,
    pub depth: usize,
}

impl Spread {
    pub(super) fn new(window: Window, x: Frame, z: Frame) -> Self {
        Self { window, x, z, cols: x.w + window.kernel - 1, depth: blocks(z.lanes) }
    }

    pub(super) fn taps(&self) -> Vec<usize> {
        taps(self.window.kernel, self.cols)
    }

    pub(super) fn rows(&self, isa: Isa, workspace: &Workspace, dz: &[f32]) -> Halves {
        let Window { kernel, stride, padding } = self.window;
        let around = kernel - 1 - padding;
        let reach = self.taps().last().map_or(0, |tap| blocks(*tap));
        let lay = lay(dz, self.z, self.depth, around * (self.cols + 1), stride * self.cols, stride);
        lay.rounded(isa, workspace, blocks(self.x.h * self.cols) + reach)
    }

    /// How this gradient wants the filters.
    pub(super) fn filters(&self) -> FilterOrder {
        let (taps, width) = (self.window.kernel.pow(2), blocks(self.x.lanes));
        FilterOrder { rows: taps * self.depth, width, n: width, k: 1, tap: self.depth * width, turned: true }
    }
}

/// Where the pixels of a whole outer frame go.
fn lay(from: &[f32], z: Frame, depth: usize, first: usize, down: usize, right: usize) -> Lay<'_> {
    Lay { from, row: z.row_step(), h: z.h, w: z.w, lanes: z.lanes, depth, first, down, right }
}

/// How many pixels on each tap of a k x k filter reads, row by row.
fn taps(kernel: usize, cols: usize) -> Vec<usize> {
    (0..kernel).flat_map(|dy| (0..kernel).map(move |dx| dy * cols + dx)).collect()
}
