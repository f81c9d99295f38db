//! 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3): a quarter of the multiplications of the definition.
//!
//! A group of tiles is transformed to 36 points, one small matrix product is made at each point, and the products are
//! transformed back. All three live in the second-level cache.
#![allow(unsafe_code)]

pub(crate) mod filter;
mod transform;

use crate::buffer::Workspace;
use crate::frame::Frame;
use crate::gemm::{Stretches, outer_sum, product};
use crate::simd::{Isa, Kernel, Vector};
use transform::{Grid, Input, InputAdjoint, Output, OutputAdjoint, sandwich};

/// Points of a tile.
pub(crate) const POINTS: usize = 36;

/// Where the tiles of a batch lie in its input and output frames.
#[derive(Clone, Copy)]
struct Tiles {
    x: Frame,
    z: Frame,
    /// Rows and columns of the input frame left of the first tile: 0 with padding 1, 1 without.
    skip: usize,
    down: usize,
    across: usize,
}

impl Tiles {
    fn new(x: Frame, z: Frame, padding: usize) -> Self {
        assert!(x.border == 1 && z.border == 0 && padding <= 1);
        assert!(x.h + 2 * padding == z.h + 2 && x.w + 2 * padding == z.w + 2);
        Self { x, z, skip: 1 - padding, down: z.h.div_ceil(4), across: z.w.div_ceil(4) }
    }

    /// Groups of equal size, at most `group_size`, for the tiles of these images.
    fn group(&self, images: usize) -> usize {
        let (total, most) = (images * self.per_image(), group_size(self.x.lanes.max(self.z.lanes)));
        total.div_ceil(total.div_ceil(most)).next_multiple_of(6)
    }

    fn per_image(&self) -> usize {
        self.down * self.across
    }

    /// Where tile t of the batch begins in the input and in the output.
    fn places(&self, t: usize) -> (usize, usize) {
        let (image, t) = (t / self.per_image(), t % self.per_image());
        let (y, x) = (4 * (t / self.across), 4 * (t % self.across));
        let from = ((y + self.skip) * self.x.cols + x + self.skip) * self.x.lanes;
        (image * self.x.len() + from, image * self.z.len() + (y * self.z.cols + x) * self.z.lanes)
    }

    fn pixels_of_x(&self) -> Grid {
        Grid { row: self.x.row_step(), col: self.x.lanes }
    }

    fn pixels_of_z(&self) -> Grid {
        Grid { row: self.z.row_step(), col: self.z.lanes }
    }
}

/// Tiles of an image with the output frame `z`.
pub(crate) fn tiles(z: Frame) -> usize {
    z.h.div_ceil(4) * z.w.div_ceil(4)
}

/// The most tiles transformed together: as many as keep both operands near 400 KiB each.
pub(crate) fn group_size(lanes: usize) -> usize {
    (3072 / lanes / 6 * 6).clamp(6, 96)
}

/// Floats from one point to the next: one cache line more than the tiles need, or all points would share a cache set.
fn point_step(group: usize, lanes: usize) -> usize {
    group * lanes + 16
}

fn points(step: usize) -> Grid {
    Grid { row: 6 * step, col: step }
}

/// z = x * filters for a run of images.
pub(crate) fn forward(
    isa: Isa,
    workspace: &Workspace,
    filters: &[f32],
    padding: usize,
    x: &[f32],
    x_frame: Frame,
    z: &mut [f32],
    z_frame: Frame,
) {
    let tiles = Tiles::new(x_frame, z_frame, padding);
    let (lin, lout) = (x_frame.lanes, z_frame.lanes);
    let group = tiles.group(x.len() / x_frame.len());
    let mut v = workspace.take(POINTS * point_step(group, lin));
    let mut m = workspace.take(POINTS * point_step(group, lout));
    isa.run(Forward { filters, tiles, group, x, z, v: &mut v, m: &mut m });
}

struct Forward<'a> {
    filters: &'a [f32],
    tiles: Tiles,
    group: usize,
    x: &'a [f32],
    z: &'a mut [f32],
    v: &'a mut [f32],
    m: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { filters, tiles, group, x, z, v, m } = self;
        let (lin, lout) = (tiles.x.lanes, tiles.z.lanes);
        let (v_step, m_step) = (point_step(group, lin), point_step(group, lout));
        let images = x.len() / tiles.x.len();
        assert!(x.len() == images * tiles.x.len() && z.len() == images * tiles.z.len());
        assert!(v.len() >= POINTS * v_step && m.len() >= POINTS * m_step);
        let total = images * tiles.per_image();
        let mut first = 0;
        while first < total {
            let count = group.min(total - first);
            gather::<V>(&tiles, first, count, x, v, v_step);
            for p in 0..POINTS {
                let u = &filters[p * lin * lout..][..lin * lout];
                product::<V>(
                    &v[p * v_step..],
                    lin,
                    Stretches::row(lin),
                    count,
                    u,
                    lout,
                    &mut m[p * m_step..],
                    lout,
                );
            }
            for t in 0..count {
                let to = tiles.places(first + t).1;
                for c in (0..lout).step_by(V::LANES) {
                    // SAFETY: point and tile are inside `m`; the 4x4 pixels of a tile are inside the outer frame.
                    unsafe {
                        let from = m.as_ptr().add(t * lout + c);
                        let to = z.as_mut_ptr().add(to + c);
                        sandwich::<V, Output, 6, 4, false>(from, points(m_step), to, tiles.pixels_of_z());
                    }
                }
            }
            first += count;
        }
    }
}

/// Input tiles first..first+count to their points: v[p, t, c].
#[inline(always)]
fn gather<V: Vector>(tiles: &Tiles, first: usize, count: usize, x: &[f32], v: &mut [f32], v_step: usize) {
    let lin = tiles.x.lanes;
    for t in 0..count {
        let from = tiles.places(first + t).0;
        for c in (0..lin).step_by(V::LANES) {
            // SAFETY: the 6x6 pixels of a tile are inside the inner frame; point and tile are inside `v`.
            unsafe {
                let from = x.as_ptr().add(from + c);
                let to = v.as_mut_ptr().add(t * lin + c);
                sandwich::<V, Input, 6, 6, false>(from, tiles.pixels_of_x(), to, points(v_step));
            }
        }
    }
}

/// Adds the filters' gradient at the 36 points to `sums` (`[36, lanes_in, lanes_out]`), and writes dx if asked for.
/// The adjoint of [`forward`]: dM = A dz Aᵀ, dU += Vᵀ dM, dV = dM Uᵀ, dx = Σ_tiles B dV Bᵀ.
pub(crate) fn backward(
    isa: Isa,
    workspace: &Workspace,
    transposed: &[f32],
    padding: usize,
    x: &[f32],
    x_frame: Frame,
    dz: &[f32],
    z_frame: Frame,
    dx: Option<&mut [f32]>,
    sums: &mut [f32],
) {
    let tiles = Tiles::new(x_frame, z_frame, padding);
    let (lin, lout) = (x_frame.lanes, z_frame.lanes);
    let group = tiles.group(x.len() / x_frame.len());
    let mut v = workspace.take(POINTS * point_step(group, lin));
    let mut m = workspace.take(POINTS * point_step(group, lout));
    isa.run(Backward { transposed, tiles, group, x, dz, dx, sums, v: &mut v, m: &mut m });
}

struct Backward<'a> {
    transposed: &'a [f32],
    tiles: Tiles,
    group: usize,
    x: &'a [f32],
    dz: &'a [f32],
    dx: Option<&'a mut [f32]>,
    sums: &'a mut [f32],
    v: &'a mut [f32],
    m: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { transposed, tiles, group, x, dz, mut dx, sums, v, m } = self;
        let (lin, lout) = (tiles.x.lanes, tiles.z.lanes);
        let (v_step, m_step) = (point_step(group, lin), point_step(group, lout));
        let images = x.len() / tiles.x.len();
        assert!(x.len() == images * tiles.x.len() && dz.len() == images * tiles.z.len());
        assert!(v.len() >= POINTS * v_step && m.len() >= POINTS * m_step);
        if let Some(dx) = &mut dx {
            assert!(dx.len() == x.len());
            dx.fill(0.0);
        }
        let total = images * tiles.per_image();
        let mut first = 0;
        while first < total {
            let count = group.min(total - first);
            gather::<V>(&tiles, first, count, x, v, v_step);
            for t in 0..count {
                let from = tiles.places(first + t).1;
                for c in (0..lout).step_by(V::LANES) {
                    // SAFETY: the 4x4 pixels of a tile are inside the outer frame; point and tile are inside `m`.
                    unsafe {
                        let from = dz.as_ptr().add(from + c);
                        let to = m.as_mut_ptr().add(t * lout + c);
                        sandwich::<V, OutputAdjoint, 4, 6, false>(
                            from,
                            tiles.pixels_of_z(),
                            to,
                            points(m_step),
                        );
                    }
                }
            }
            for p in 0..POINTS {
                let (vp, mp) = (&mut v[p * v_step..], &m[p * m_step..]);
                let sum = &mut sums[p * lin * lout..][..lin * lout];
                outer_sum::<V>(vp, lin, Stretches::row(lin), mp, lout, count, sum, lout);
                if dx.is_some() {
                    // The input's points have been used: their gradient takes their place.
                    let ut = &transposed[p * lin * lout..][..lin * lout];
                    product::<V>(mp, lout, Stretches::row(lout), count, ut, lin, vp, lin);
                }
            }
            if let Some(dx) = &mut dx {
                for t in 0..count {
                    let to = tiles.places(first + t).0;
                    for c in (0..lin).step_by(V::LANES) {
                        // SAFETY: point and tile are inside `v`; the 6x6 pixels of a tile are inside the inner frame.
                        unsafe {
                            let from = v.as_ptr().add(t * lin + c);
                            let to = dx.as_mut_ptr().add(to + c);
                            sandwich::<V, InputAdjoint, 6, 6, true>(
                                from,
                                points(v_step),
                                to,
                                tiles.pixels_of_x(),
                            );
                        }
                    }
                }
            }
            first += count;
        }
    }
}
