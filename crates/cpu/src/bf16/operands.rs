//! How a convolution becomes products of 32x32 blocks: where pixels, filters and gradients lie as bf16.
//!
//! Pixels are one flat sequence: pixel (y, x) is number y·cols + x, and the tap (dy, dx) of a filter reads the pixel
//! dy·cols + dx further on. Past the end of a row that is nonsense, which is computed and dropped. Where this does not
//! hold (strides) or would multiply zeros mostly (few channels), each pixel holds its whole patch instead.

use super::BLOCK;
use super::number::{Halves, round};
use crate::buffer::Workspace;
use crate::direct::Window;
use crate::frame::{Frame, GROUP};

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
    pub fn new(window: Window, x: Frame, z: Frame) -> Self {
        let patches = x.lanes < GROUP || window.stride > 1;
        let cols = if patches { z.w } else { x.w + 2 * window.padding };
        let depth = blocks(if patches { window.depth(x.lanes) } else { x.lanes });
        Self { window, x, z, patches, cols, depth }
    }

    /// Output pixels, those past the end of a row included.
    pub fn pixels(&self) -> usize {
        self.z.h * self.cols
    }

    /// How many pixels on each tap reads: one entry for patches.
    pub fn taps(&self) -> Vec<usize> {
        if self.patches { vec![0] } else { taps(self.window.kernel, self.cols) }
    }

    /// Pixels stored: those of the output in whole blocks, and as many as the last tap reaches further.
    fn stored(&self) -> usize {
        blocks(self.pixels()) + self.taps().last().map_or(0, |tap| blocks(*tap))
    }

    /// Hands out each number that is not zero: pixel, position in the pixel's depth, value.
    #[inline(always)]
    fn each(&self, image: &[f32], mut put: impl FnMut(usize, usize, &[f32])) {
        let Window { kernel, stride, padding } = self.window;
        let lanes = self.x.lanes;
        if !self.patches {
            for y in 0..self.x.h {
                for x in 0..self.x.w {
                    let pixel = (y + padding) * self.cols + x + padding;
                    put(pixel, 0, &image[self.x.at(y, x)..][..lanes]);
                }
            }
            return;
        }
        // The frame's border of zeros is the padding.
        let first = self.x.at(0, 0) - padding * (self.x.row_step() + lanes);
        for y in 0..self.z.h {
            for x in 0..self.z.w {
                let corner = first + y * stride * self.x.row_step() + x * stride * lanes;
                for row in 0..kernel {
                    let part = &image[corner + row * self.x.row_step()..][..kernel * lanes];
                    put(y * self.cols + x, row * kernel * lanes, part);
                }
            }
        }
    }

    /// `[pixels, depth]`: rows of the forward pass.
    pub fn rows(&self, workspace: &Workspace, image: &[f32]) -> Halves {
        let mut out = Halves::zeroed(workspace, self.stored() * self.depth);
        self.each(image, |pixel, at, values| {
            let to = &mut out[pixel * self.depth + at..][..values.len()];
            to.iter_mut().zip(values).for_each(|(to, value)| *to = round(*value));
        });
        out
    }

    /// `[depth, pixels]` and the number of pixels: the same turned round, for the filters' gradient.
    pub fn planes(&self, workspace: &Workspace, image: &[f32]) -> (Halves, usize) {
        let len = self.stored();
        let mut out = Halves::zeroed(workspace, len * self.depth);
        self.each(image, |pixel, at, values| {
            for (i, value) in values.iter().enumerate() {
                out[(at + i) * len + pixel] = round(*value);
            }
        });
        (out, len)
    }

    /// Pairs of pixels of dz, `[pixels / 2, width, 2]`: the right operand of the filters' gradient.
    pub fn pairs(&self, workspace: &Workspace, dz: &[f32]) -> Halves {
        let width = blocks(self.z.lanes);
        let mut out = Halves::zeroed(workspace, blocks(self.pixels()) * width);
        for y in 0..self.z.h {
            for x in 0..self.z.w {
                let pixel = y * self.cols + x;
                let to = &mut out[pixel / 2 * 2 * width + pixel % 2..];
                let values = &dz[self.z.at(y, x)..][..self.z.lanes];
                to.iter_mut().step_by(2).zip(values).for_each(|(to, value)| *to = round(*value));
            }
        }
        out
    }

    /// Numbers of the packed filters.
    pub fn filters_len(&self) -> usize {
        self.taps().len() * self.depth * blocks(self.z.lanes)
    }

    /// Where the filters' number (n, k, tap) lies: pairs in depth, `[taps, depth / 2, width, 2]`.
    pub fn filter_at(&self, n: usize, k: usize, tap: usize) -> usize {
        let lanes = self.x.lanes;
        let deep = if self.patches { tap * lanes + k } else { tap * self.depth + k };
        pair_at(deep, n, blocks(self.z.lanes))
    }
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
    pub fn new(window: Window, x: Frame, z: Frame) -> Self {
        Self { window, x, z, cols: x.w + window.kernel - 1, depth: blocks(z.lanes) }
    }

    pub fn pixels(&self) -> usize {
        self.x.h * self.cols
    }

    pub fn taps(&self) -> Vec<usize> {
        taps(self.window.kernel, self.cols)
    }

    pub fn rows(&self, workspace: &Workspace, dz: &[f32]) -> Halves {
        let Window { kernel, stride, padding } = self.window;
        let around = kernel - 1 - padding;
        let reach = self.taps().last().map_or(0, |tap| blocks(*tap));
        let mut out = Halves::zeroed(workspace, (blocks(self.pixels()) + reach) * self.depth);
        for y in 0..self.z.h {
            for x in 0..self.z.w {
                let pixel = (around + stride * y) * self.cols + around + stride * x;
                let to = &mut out[pixel * self.depth..][..self.z.lanes];
                let values = &dz[self.z.at(y, x)..][..self.z.lanes];
                to.iter_mut().zip(values).for_each(|(to, value)| *to = round(*value));
            }
        }
        out
    }

    pub fn filters_len(&self) -> usize {
        self.window.kernel.pow(2) * self.depth * blocks(self.x.lanes)
    }

    pub fn filter_at(&self, n: usize, k: usize, tap: usize) -> usize {
        let turned = self.window.kernel.pow(2) - 1 - tap;
        pair_at(turned * self.depth + n, k, blocks(self.x.lanes))
    }
}

/// How many pixels on each tap of a k x k filter reads, row by row.
fn taps(kernel: usize, cols: usize) -> Vec<usize> {
    (0..kernel).flat_map(|dy| (0..kernel).map(move |dx| dy * cols + dx)).collect()
}

/// Element (k, j) of a right operand: `[depth / 2, width, 2]`.
fn pair_at(k: usize, j: usize, width: usize) -> usize {
    (k / 2 * width + j) * 2 + k % 2
}
