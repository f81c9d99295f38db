//! Convolutions by definition, as matrix products whose left operand is read from the image where it lies.
//!
//! In a channels-last frame the patch under a k x k filter is k stretches of k·lanes floats: no copy of patches is made.

use std::ops::Range;

use crate::buffer::Workspace;
use crate::frame::Frame;
use crate::gemm::{Stretches, outer_sum, product};
use crate::simd::{Isa, Kernel, Vector};

/// Filter size, stride and padding.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
}

impl Window {
    fn stretches(&self, x: &Frame) -> Stretches {
        Stretches { count: self.kernel, step: x.row_step(), len: self.kernel * x.lanes }
    }

    /// Floats of a patch.
    pub(crate) fn depth(&self, lanes: usize) -> usize {
        self.kernel * self.kernel * lanes
    }

    /// Where the patches of output row y begin in an image.
    fn row(&self, x: &Frame, y: usize) -> usize {
        ((y * self.stride + x.border - self.padding) * x.cols + x.border - self.padding) * x.lanes
    }
}

/// These rows of z = x * filters for a run of images; `filters` is `[depth, lanes_out]`, packed.
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
pub(crate) fn forward(
    isa: Isa,
    filters: &[f32],
    window: Window,
    x: &[f32],
    x_frame: Frame,
    rows: Range<usize>,
    z: &mut [f32],
    z_frame: Frame,
) {
    isa.run(Forward { filters, window, x, x_frame, rows, z, z_frame });
}

struct Forward<'a> {
    filters: &'a [f32],
    window: Window,
    x: &'a [f32],
    x_frame: Frame,
    rows: Range<usize>,
    z: &'a mut [f32],
    z_frame: Frame,
}

impl Kernel for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { filters, window, x, x_frame, rows, z, z_frame } = self;
        let stretches = window.stretches(&x_frame);
        let (step, lout) = (window.stride * x_frame.lanes, z_frame.lanes);
        let strip = z_frame.strip(rows.len());
        for (x, z) in x.chunks_exact(x_frame.len()).zip(z.chunks_exact_mut(strip.len())) {
            for y in rows.clone() {
                let (a, out) = (&x[window.row(&x_frame, y)..], &mut z[strip.at(y - rows.start, 0)..]);
                product::<V>(a, step, stretches, z_frame.w, filters, lout, out, lout);
            }
        }
    }
}

/// Adds the filters' gradient of these rows of dz to `sums` (`[depth, lanes_out]`), and theirs to dx if asked for, which the
/// first row clears; `transposed` is `[lanes_out, depth rounded up to whole groups]`, packed.
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
pub(crate) fn backward(
    isa: Isa,
    workspace: &Workspace,
    transposed: &[f32],
    window: Window,
    x: &[f32],
    x_frame: Frame,
    rows: Range<usize>,
    dz: &[f32],
    z_frame: Frame,
    dx: Option<&mut [f32]>,
    sums: &mut [f32],
) {
    let width = transposed.len() / z_frame.lanes;
    let mut patches = workspace.take(if dx.is_some() { z_frame.w * width } else { 0 });
    isa.run(Backward {
        transposed,
        width,
        window,
        x,
        x_frame,
        rows,
        dz,
        z_frame,
        dx,
        sums,
        patches: &mut patches,
    });
}

struct Backward<'a> {
    transposed: &'a [f32],
    width: usize,
    window: Window,
    x: &'a [f32],
    x_frame: Frame,
    rows: Range<usize>,
    dz: &'a [f32],
    z_frame: Frame,
    dx: Option<&'a mut [f32]>,
    sums: &'a mut [f32],
    patches: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { transposed, width, window, x, x_frame, rows, dz, z_frame, mut dx, sums, patches } = self;
        let stretches = window.stretches(&x_frame);
        let (step, lout) = (window.stride * x_frame.lanes, z_frame.lanes);
        let strip = z_frame.strip(rows.len());
        let images = x.chunks_exact(x_frame.len()).zip(dz.chunks_exact(strip.len()));
        for (i, (x, dz)) in images.enumerate() {
            let mut dx = dx.as_mut().map(|dx| &mut dx[i * x_frame.len()..][..x_frame.len()]);
            if let Some(dx) = &mut dx
                && rows.start == 0
            {
                dx.fill(0.0);
            }
            for y in rows.clone() {
                let (row, d) = (window.row(&x_frame, y), &dz[strip.at(y - rows.start, 0)..]);
                outer_sum::<V>(&x[row..], step, stretches, d, lout, z_frame.w, sums, lout, true);
                let Some(dx) = &mut dx else { continue };
                product::<V>(d, lout, Stretches::row(lout), z_frame.w, transposed, width, patches, width);
                for (px, patch) in patches.chunks_exact(width).enumerate() {
                    for (s, part) in patch[..stretches.total()].chunks_exact(stretches.len).enumerate() {
                        let to = &mut dx[row + px * step + s * stretches.step..][..stretches.len];
                        to.iter_mut().zip(part).for_each(|(to, part)| *to += part);
                    }
                }
            }
        }
    }
}
