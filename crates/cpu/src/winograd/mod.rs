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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::Window;
    use crate::filter::{Algorithm, Layer};

    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1u32 << 24) as f32
        };
        (0..n).map(|_| next()).collect()
    }

    /// Root mean square and largest difference, both relative to the twin's root mean square.
    fn error(found: &[f32], twin: &[f64]) -> [f64; 2] {
        let mean_square = |x: &mut dyn Iterator<Item = f64>| x.sum::<f64>() / twin.len() as f64;
        let size = mean_square(&mut twin.iter().map(|t| t * t)).sqrt();
        let apart: Vec<f64> = found.iter().zip(twin).map(|(f, t)| (f64::from(*f) - t).abs()).collect();
        let root = mean_square(&mut apart.iter().map(|d| d * d)).sqrt();
        [root / size, apart.iter().fold(0.0_f64, |m, d| m.max(*d)) / size]
    }

    /// What a transform costs in digits, beside the plain sum of products in the same precision.
    #[test]
    fn the_error_of_winograd_is_a_small_multiple_of_that_of_the_definition() {
        let (c, side) = (64, 12);
        let (x_frame, z_frame) = (Frame::inner(side, side, c), Frame::outer(side, side, c));
        let planes = numbers(c * side * side, 1);
        let weight: Vec<f32> = numbers(c * c * 9, 2).iter().map(|w| (w - 0.5) * 0.2).collect();
        let dplanes: Vec<f32> = numbers(c * side * side, 3).iter().map(|d| d - 0.5).collect();

        let area = side * side;
        let mut twin = [vec![0.0; c * area], vec![0.0; c * area], vec![0.0; c * c * 9]];
        for o in 0..c {
            for k in 0..c {
                for tap in 0..9 {
                    for y in 0..side {
                        for x in 0..side {
                            let (sy, sx) = (y + tap / 3, x + tap % 3);
                            if sy < 1 || sx < 1 || sy > side || sx > side {
                                continue;
                            }
                            let (from, to) = (k * area + (sy - 1) * side + sx - 1, o * area + y * side + x);
                            let (v, w) = (f64::from(planes[from]), f64::from(weight[(o * c + k) * 9 + tap]));
                            let d = f64::from(dplanes[to]);
                            twin[0][to] += v * w;
                            twin[1][from] += d * w;
                            twin[2][(o * c + k) * 9 + tap] += d * v;
                        }
                    }
                }
            }
        }

        let (mut x, mut dz) = (vec![0.0; x_frame.len()], vec![0.0; z_frame.len()]);
        x_frame.load(&planes, &mut x);
        z_frame.load(&dplanes, &mut dz);
        let (isa, workspace) = (Isa::detect(), Workspace::new());
        let window = Window { kernel: 3, stride: 1, padding: 1 };
        let run = |layer: Layer| {
            let (mut z, mut dx) = (vec![0.0; z_frame.len()], vec![0.0; x_frame.len()]);
            let mut sums = vec![0.0; layer.sums_len()];
            layer.pack(&workspace, &weight, None).forward(&workspace, &x, &mut z);
            let transposed = layer.pack_transposed(&workspace, &weight, None);
            transposed.backward(&workspace, &x, &dz, Some(&mut dx), &mut sums);
            let mut out = [vec![0.0; c * area], vec![0.0; c * area], vec![0.0; c * c * 9]];
            z_frame.unload(&z, &mut out[0]);
            x_frame.unload(&dx, &mut out[1]);
            layer.gradient(&workspace, &sums, None, &mut out[2]);
            [0, 1, 2].map(|i| error(&out[i], &twin[i]))
        };
        let layer = Layer { isa, window, x: x_frame, z: z_frame, algorithm: Algorithm::Fastest };
        let (fast, plain) = (run(layer), run(Layer { algorithm: Algorithm::Definition, ..layer }));
        for (i, name) in ["z", "dx", "dw"].iter().enumerate() {
            println!(
                "{name}: Winograd rms {:.1e} max {:.1e}; definition rms {:.1e} max {:.1e}",
                fast[i][0], fast[i][1], plain[i][0], plain[i][1]
            );
            assert!(fast[i][0] < 1e-6 && fast[i][1] < 1e-5, "{name}: {:?}", fast[i]);
            assert!(fast[i][0] < 10.0 * plain[i][0]);
        }
    }
}
