//! Rounding and moving operands: one generic source for every instruction set.
#![allow(unsafe_code)]

use super::number::Halves;
use crate::buffer::Workspace;
use crate::direct::Window;
use crate::frame::Frame;
use crate::simd::{Isa, Kernel, Vector};

/// Numbers moved at once, whatever their count: rows of operands are multiples of this.
const RUN: usize = 16;

/// Pixels `[h, w, lanes]` of f32, rows `row` apart, and where they go: `[pixels, depth]` of bf16, pixel (y, x) as number
/// first + y·down + x·right.
pub(super) struct Lay<'a> {
    pub from: &'a [f32],
    pub row: usize,
    pub h: usize,
    pub w: usize,
    pub lanes: usize,
    pub depth: usize,
    pub first: usize,
    pub down: usize,
    pub right: usize,
}

impl Lay<'_> {
    /// Rounds the pixels to their places among `pixels`; all else is zero.
    pub(super) fn rounded(self, isa: Isa, workspace: &Workspace, pixels: usize) -> Halves {
        let mut out = Halves::take(workspace, pixels * self.depth);
        isa.run(Rounded { lay: self, to: &mut out });
        out
    }
}

struct Rounded<'a> {
    lay: Lay<'a>,
    to: &'a mut [u16],
}

impl Kernel for Rounded<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { lay: Lay { from, row, h, w, lanes, depth, first, down, right }, to } = self;
        // Pixels side by side are one stretch.
        let (stretch, count) = if lanes == depth && right == 1 { (w * lanes, 1) } else { (lanes, w) };
        let mut done = 0;
        for y in 0..h {
            for x in 0..count {
                let at = (first + y * down + x * right) * depth;
                to[done..at].fill(0);
                done = at + stretch;
                round::<V>(&from[y * row + x * lanes..][..stretch], &mut to[at..done]);
            }
        }
        to[done..].fill(0);
    }
}

/// Each number rounded, and zeros to spare after them.
pub(super) fn rounded(isa: Isa, workspace: &Workspace, from: &[f32], spare: usize) -> Halves {
    let (lanes, depth) = (from.len(), from.len() + spare);
    Lay { from, row: 0, h: 1, w: 1, lanes, depth, first: 0, down: 0, right: 1 }.rounded(isa, workspace, 1)
}

/// Rounds each number.
#[inline(always)]
fn round<V: Vector>(from: &[f32], to: &mut [u16]) {
    let whole = from.len() / V::LANES * V::LANES;
    let (from, from_rest) = from.split_at(whole);
    let (to, to_rest) = to.split_at_mut(whole);
    for (from, to) in from.chunks_exact(V::LANES).zip(to.chunks_exact_mut(V::LANES)) {
        // SAFETY: both chunks hold LANES numbers.
        unsafe { V::load(from.as_ptr()).store_rounded(to.as_mut_ptr()) };
    }
    to_rest.iter_mut().zip(from_rest).for_each(|(to, from)| *to = super::number::round(*from));
}

/// `[pixels / 2, width, 2]` from `[pixels, width]`: a right operand, whose depth is in pairs.
pub(super) fn pairs(isa: Isa, workspace: &Workspace, from: &[u16], width: usize) -> Halves {
    let mut to = Halves::take(workspace, from.len());
    isa.run(Pairs { from, width, to: &mut to });
    to
}

struct Pairs<'a> {
    from: &'a [u16],
    width: usize,
    to: &'a mut [u16],
}

impl Kernel for Pairs<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { from, width, to } = self;
        assert!(width.is_multiple_of(RUN) && from.len().is_multiple_of(2 * width));
        for (from, to) in from.chunks_exact(2 * width).zip(to.chunks_exact_mut(2 * width)) {
            let (upper, lower) = from.split_at(width);
            for j in (0..width).step_by(V::LANES) {
                // SAFETY: rows are whole vectors, and each pair of them has as much room.
                unsafe {
                    V::pair(upper.as_ptr().add(j), lower.as_ptr().add(j))
                        .store(to.as_mut_ptr().add(2 * j).cast());
                }
            }
        }
    }
}

/// `[depth, pixels]` from `[pixels, depth]`.
pub(super) fn transposed(isa: Isa, workspace: &Workspace, from: &[u16], depth: usize) -> Halves {
    let mut to = Halves::take(workspace, from.len());
    isa.run(Transpose { from, depth, to: &mut to });
    to
}

struct Transpose<'a> {
    from: &'a [u16],
    depth: usize,
    to: &'a mut [u16],
}

impl Kernel for Transpose<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { from, depth, to } = self;
        let pixels = from.len() / depth;
        assert!(depth.is_multiple_of(RUN) && pixels.is_multiple_of(2 * RUN));
        assert!(from.len() == pixels * depth && to.len() == from.len());
        // Two pixels of a channel are one lane: what is transposed are squares of lanes.
        for first in (0..pixels).step_by(2 * V::LANES) {
            for k in (0..depth).step_by(V::LANES) {
                let mut square = [V::splat(0.0); RUN];
                let rows = &mut square[..V::LANES];
                // SAFETY: pixels are whole squares wide and channels whole squares deep.
                unsafe {
                    for (i, row) in rows.iter_mut().enumerate() {
                        let upper = from.as_ptr().add((first + 2 * i) * depth + k);
                        *row = V::pair(upper, upper.add(depth));
                    }
                    transpose(rows);
                    for (i, row) in rows.iter().enumerate() {
                        row.store(to.as_mut_ptr().add((k + i) * pixels + first).cast());
                    }
                }
            }
        }
    }
}

/// Transposes a square: each round doubles how many lanes of a column lie side by side.
#[inline(always)]
fn transpose<V: Vector>(rows: &mut [V]) {
    let half = V::LANES / 2;
    let mut side_by_side = 1;
    while side_by_side < V::LANES {
        let mut next = [V::splat(0.0); RUN];
        for i in 0..half {
            (next[2 * i], next[2 * i + 1]) = rows[i].zip(rows[i + half]);
        }
        rows.copy_from_slice(&next[..V::LANES]);
        side_by_side *= 2;
    }
}

/// The patch under the filter for each pixel of z, `[pixels, depth]`, from a rounded image with numbers to spare after it.
pub(super) struct Patches<'a> {
    pub image: &'a [u16],
    pub x: Frame,
    pub z: Frame,
    pub window: Window,
    pub depth: usize,
}

impl Patches<'_> {
    /// Numbers an image must have more than its frame.
    pub(super) const SPARE: usize = RUN;

    /// All patches among `pixels`; all else is zero.
    pub(super) fn copied(self, isa: Isa, workspace: &Workspace, pixels: usize) -> Halves {
        let len = pixels * self.depth;
        let mut out = Halves::take(workspace, len + RUN);
        isa.run(Copied { patches: self, to: &mut out });
        out.shortened(len)
    }
}

struct Copied<'a> {
    patches: Patches<'a>,
    to: &'a mut [u16],
}

impl Kernel for Copied<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { patches: Patches { image, x: frame, z, window, depth }, to } = self;
        let Window { kernel, stride, padding } = window;
        // The frame's border of zeros is the padding.
        let first = frame.at(0, 0) - padding * (frame.row_step() + frame.lanes);
        let (row, part) = (frame.row_step(), kernel * frame.lanes);
        let last = first + ((z.h - 1) * stride + kernel - 1) * row + (z.w - 1) * stride * frame.lanes;
        assert!(image.len() >= last + part + RUN && kernel * part <= depth);
        assert!(to.len() >= z.h * z.w * depth + RUN);
        // SAFETY: the last stretch of the last pixel is inside both, with room for what the last run has too much.
        // That lies where the next stretch is written next.
        unsafe {
            let mut to = to.as_mut_ptr();
            for y in 0..z.h {
                let mut corner = image.as_ptr().add(first + y * stride * row);
                for _ in 0..z.w {
                    for dy in 0..kernel {
                        let (from, to) = (corner.add(dy * row), to.add(dy * part));
                        for i in (0..part).step_by(RUN) {
                            let run = from.add(i).cast::<[u16; RUN]>().read_unaligned();
                            to.add(i).cast::<[u16; RUN]>().write_unaligned(run);
                        }
                    }
                    for i in (kernel * part..depth).step_by(RUN) {
                        to.add(i).cast::<[u16; RUN]>().write_unaligned([0; RUN]);
                    }
                    to = to.add(depth);
                    // After the last pixel of a row this may point beyond the image, and nothing is read there.
                    corner = corner.wrapping_add(stride * frame.lanes);
                }
            }
        }
        to[z.h * z.w * depth..].fill(0);
    }
}
