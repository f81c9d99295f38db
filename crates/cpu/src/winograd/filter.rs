//! Filters at the 36 points: transformed and packed before a pass, gradients summed and transformed back after it.
#![allow(unsafe_code)]

use rayon::prelude::*;

use super::POINTS;
use super::transform::{filter, filter_adjoint, filter_matrix};
use crate::buffer::{Buffer, Workspace};
use crate::simd::{Isa, Kernel, Vector};

/// Taps of a 3x3 filter.
pub(crate) const TAPS: usize = 9;

/// Floats from one tap or point of `size` filters to the next: one cache line more, or all of them would share a cache set.
pub(crate) fn step(size: usize) -> usize {
    size + 16
}

/// U = G g Gᵀ for all filters at once: `taps` is `[9, step]` in any order of filters, the result `[36, step]` in the same.
pub(crate) fn to_points(isa: Isa, workspace: &Workspace, taps: &[f32]) -> Buffer {
    let step = taps.len() / TAPS;
    let mut points = workspace.take(POINTS * step);
    let rows = points.par_chunks_mut(6 * step).zip(filter_matrix());
    rows.for_each(|(out, weights)| isa.run(RowOfPoints { out, taps, step, weights }));
    points
}

/// dg = Gᵀ (Σ dU) G: `sums` are the gradients at the points of each chunk, added in the order of the chunks.
pub(crate) fn to_taps(isa: Isa, workspace: &Workspace, sums: &[f32], chunks: usize) -> Buffer {
    let step = sums.len() / chunks / POINTS;
    let mut half = workspace.take(18 * step);
    let rows = half.par_chunks_mut(3 * step).enumerate();
    rows.for_each(|(i, out)| isa.run(RowOfSums { out, sums: &sums[6 * i * step..], step, chunks }));
    let mut taps = workspace.take(TAPS * step);
    taps.par_chunks_mut(3 * step).enumerate().for_each(|(a, out)| {
        let weights = filter_matrix().map(|row| row[a]);
        isa.run(Combine { out, parts: &half, weights });
    });
    taps
}

/// One row of points of all filters: out = (weights · g) Gᵀ.
struct RowOfPoints<'a> {
    out: &'a mut [f32],
    taps: &'a [f32],
    step: usize,
    weights: [f32; 3],
}

impl Kernel for RowOfPoints<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { out, taps, step, weights } = self;
        assert!(out.len() == 6 * step && taps.len() == TAPS * step && step.is_multiple_of(V::LANES));
        let weights = weights.map(V::splat);
        for i in (0..step).step_by(V::LANES) {
            let mut row = [V::splat(0.0); 3];
            for (b, sum) in row.iter_mut().enumerate() {
                for (a, weight) in weights.iter().enumerate() {
                    // SAFETY: a vector of tap (a, b), inside the length asserted.
                    *sum = unsafe { V::load(taps.as_ptr().add((3 * a + b) * step + i)) }.fma(*weight, *sum);
                }
            }
            for (j, value) in filter(row).into_iter().enumerate() {
                // SAFETY: a vector of point j of this row, inside the length asserted.
                unsafe { value.store(out.as_mut_ptr().add(j * step + i)) };
            }
        }
    }
}

/// One row of points of the gradient, summed over chunks: out = (Σ dU) G.
struct RowOfSums<'a> {
    out: &'a mut [f32],
    sums: &'a [f32],
    step: usize,
    chunks: usize,
}

impl Kernel for RowOfSums<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { out, sums, step, chunks } = self;
        assert!(out.len() == 3 * step && step.is_multiple_of(V::LANES));
        assert!(sums.len() >= ((chunks - 1) * POINTS + 6) * step);
        for i in (0..step).step_by(V::LANES) {
            let mut row = [V::splat(0.0); 6];
            for chunk in 0..chunks {
                for (j, sum) in row.iter_mut().enumerate() {
                    // SAFETY: a vector of point j of this row, inside the length asserted.
                    *sum = sum.add(unsafe { V::load(sums.as_ptr().add((chunk * POINTS + j) * step + i)) });
                }
            }
            for (b, value) in filter_adjoint(row).into_iter().enumerate() {
                // SAFETY: a vector of column b, inside the length asserted.
                unsafe { value.store(out.as_mut_ptr().add(b * step + i)) };
            }
        }
    }
}

/// out = Σ_k weights[k] · part k.
struct Combine<'a> {
    out: &'a mut [f32],
    parts: &'a [f32],
    weights: [f32; 6],
}

impl Kernel for Combine<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { out, parts, weights } = self;
        assert!(out.len().is_multiple_of(V::LANES) && parts.len() == weights.len() * out.len());
        for i in (0..out.len()).step_by(V::LANES) {
            let mut sum = V::splat(0.0);
            for (k, &weight) in weights.iter().enumerate() {
                // SAFETY: i + LANES <= out.len(), and every part is as long.
                sum = unsafe { V::load(parts.as_ptr().add(k * out.len() + i)) }.fma(V::splat(weight), sum);
            }
            // SAFETY: as above.
            unsafe { sum.store(out.as_mut_ptr().add(i)) };
        }
    }
}
