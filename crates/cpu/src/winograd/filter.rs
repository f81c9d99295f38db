//! Filters at the 36 points: transformed and packed before a pass, gradients summed and transformed back after it.
#![allow(unsafe_code)]

use rayon::prelude::*;

use super::POINTS;
use super::transform::filter_matrix;
use crate::buffer::{Buffer, Workspace};
use crate::simd::{Isa, Kernel, Vector};

/// Taps of a 3x3 filter.
pub(crate) const TAPS: usize = 9;

/// How tap (a, b) of a filter enters point (i, j): G[i][a] · G[j][b].
fn weights_of_taps() -> [[f32; TAPS]; POINTS] {
    let g = filter_matrix();
    std::array::from_fn(|p| std::array::from_fn(|t| g[p / 6][t / 3] * g[p % 6][t % 3]))
}

/// U = G g Gᵀ for all filters at once: `taps` is `[9, size]` in any order of filters, the result `[36, size]` in the same.
pub(crate) fn to_points(isa: Isa, workspace: &Workspace, taps: &[f32]) -> Buffer {
    let size = taps.len() / TAPS;
    let weights = weights_of_taps();
    let mut points = workspace.take(POINTS * size);
    points.par_chunks_mut(size).zip(&weights).for_each(|(out, weights)| {
        isa.run(Combine { out, parts: taps, step: size, weights });
    });
    points
}

/// dg = Gᵀ (Σ dU) G: `sums` are the gradients at the points of each chunk, added in the order of the chunks.
pub(crate) fn to_taps(isa: Isa, workspace: &Workspace, sums: &[f32], chunks: usize) -> Buffer {
    let size = sums.len() / chunks / POINTS;
    let weights = weights_of_taps();
    let mut total = workspace.take(POINTS * size);
    let ones = vec![1.0; chunks];
    total.par_chunks_mut(size).enumerate().for_each(|(p, out)| {
        let parts = &sums[p * size..];
        isa.run(Combine { out, parts, step: POINTS * size, weights: &ones });
    });
    let mut taps = workspace.take(TAPS * size);
    taps.par_chunks_mut(size).enumerate().for_each(|(t, out)| {
        let column: [f32; POINTS] = std::array::from_fn(|p| weights[p][t]);
        isa.run(Combine { out, parts: &total, step: size, weights: &column });
    });
    taps
}

/// out[i] = Σ_k weights[k] · parts[k · step + i].
struct Combine<'a> {
    out: &'a mut [f32],
    parts: &'a [f32],
    step: usize,
    weights: &'a [f32],
}

impl Kernel for Combine<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { out, parts, step, weights } = self;
        assert!(out.len().is_multiple_of(V::LANES));
        assert!(parts.len() >= (weights.len() - 1) * step + out.len());
        for i in (0..out.len()).step_by(V::LANES) {
            let mut sum = V::splat(0.0);
            for (k, &weight) in weights.iter().enumerate() {
                // SAFETY: i + LANES <= out.len(), and the parts reach that far, as asserted.
                sum = unsafe { V::load(parts.as_ptr().add(k * step + i)) }.fma(V::splat(weight), sum);
            }
            // SAFETY: as above.
            unsafe { sum.store(out.as_mut_ptr().add(i)) };
        }
    }
}
