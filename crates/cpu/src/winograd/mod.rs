//! 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3): a quarter of the multiplications of the definition. Tiles at
//! the edges have as many outputs as are left, and fewer points.
//!
//! A group of tiles is transformed to 36 points, one small matrix product is made at each point, and the products are
//! transformed back. All three live in the second-level cache.
#![allow(unsafe_code)]

pub(crate) mod filter;
mod transform;

use std::ops::Range;

use crate::buffer::Workspace;
use crate::frame::Frame;
use crate::gemm::{Stretches, outer_sum, product};
use crate::simd::{Isa, Kernel, Vector};
use transform::{Grid, Half, Input, InputAdjoint, Output, OutputAdjoint, POINTS_OF, Transform};

/// Points of a tile.
pub(crate) const POINTS: usize = 36;

/// Tiles of one size: `down` x `across` in each image, the first at pixel (`y`, `x`) of the output.
#[derive(Clone, Copy)]
struct Class {
    /// Rows and columns of output.
    outputs: [usize; 2],
    down: usize,
    across: usize,
    y: usize,
    x: usize,
}

/// The tiles of a run of images: 4x4 outputs each and, where the sides are no multiples of four, smaller ones at the lower
/// and the right edge, which need fewer points.
///
/// They are numbered by classes: first those at the lower edge, the whole ones, those at the right edge, the corner. So the
/// tiles that have a given point follow one another.
struct Tiles {
    x: Frame,
    z: Frame,
    /// Rows and columns of the input frame left of the first tile: 0 with padding 1, 1 without.
    skip: usize,
    images: usize,
    classes: [Class; 4],
}

/// One tile: its class, and where it begins in the input and in the output.
struct Tile {
    class: usize,
    outputs: [usize; 2],
    x: usize,
    z: usize,
}

impl Tiles {
    fn new(x: Frame, z: Frame, padding: usize, images: usize) -> Self {
        assert!(x.border == 1 && z.border == 0 && padding <= 1);
        assert!(x.h + 2 * padding >= z.h + 2 && x.w + 2 * padding >= z.w + 2);
        let class = |lower: bool, right: bool| {
            let side = |whole: usize, edge: bool| match (edge, whole % 4) {
                (false, _) => (4, whole / 4, 0),
                (true, rest) => (rest, rest.min(1), whole - rest),
            };
            let ((h, down, y), (w, across, x)) = (side(z.h, lower), side(z.w, right));
            Class { outputs: [h, w], down, across, y, x }
        };
        let classes = [class(true, false), class(false, false), class(false, true), class(true, true)];
        Self { x, z, skip: 1 - padding, images, classes }
    }

    fn total(&self) -> usize {
        self.images * tiles(self.z)
    }

    /// Groups of equal size, at most `group_size`.
    fn group(&self) -> usize {
        let (total, most) = (self.total(), group_size(self.x.lanes.max(self.z.lanes)));
        total.div_ceil(total.div_ceil(most)).next_multiple_of(6)
    }

    fn tile(&self, mut t: usize) -> Tile {
        let mut number = 0;
        while t >= self.images * self.classes[number].down * self.classes[number].across {
            t -= self.images * self.classes[number].down * self.classes[number].across;
            number += 1;
        }
        let class = &self.classes[number];
        let (image, t) = (t / (class.down * class.across), t % (class.down * class.across));
        let (y, x) = (class.y + 4 * (t / class.across), class.x + 4 * (t % class.across));
        let from = ((y + self.skip) * self.x.cols + x + self.skip) * self.x.lanes;
        let to = self.z.at(y, x);
        let (x, z) = (image * self.x.len() + from, image * self.z.len() + to);
        Tile { class: number, outputs: class.outputs, x, z }
    }

    /// Which of the tiles first..first+count have point p, counted from `first`.
    fn with_point(&self, p: usize, first: usize, count: usize) -> Range<usize> {
        let mut end = 0;
        let ends = self.classes.map(|class| {
            end += self.images * class.down * class.across;
            end.clamp(first, first + count) - first
        });
        let [h, w] = self.classes[3].outputs;
        let (lower, right) = (POINTS_OF[h].contains(&(p / 6)), POINTS_OF[w].contains(&(p % 6)));
        let start = if lower { 0 } else { ends[0] };
        start..ends[if !right {
            1
        } else if lower {
            3
        } else {
            2
        }]
    }

    /// Where the points of each class lie when they are `step` floats apart.
    fn points(&self, step: usize) -> [Grid; 4] {
        self.classes.map(|class| {
            let [rows, cols] = class.outputs.map(|outputs| {
                let mut places = [0; 6];
                places.iter_mut().zip(POINTS_OF[outputs]).for_each(|(place, point)| *place = point * step);
                places
            });
            Grid { rows: rows.map(|row| 6 * row), cols }
        })
    }
}

/// Where the pixels of a tile lie.
fn pixels(frame: &Frame) -> Grid {
    Grid {
        rows: std::array::from_fn(|i| i * frame.row_step()),
        cols: std::array::from_fn(|i| i * frame.lanes),
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

/// z = x * filters for a run of images.
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
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
    let tiles = Tiles::new(x_frame, z_frame, padding, x.len() / x_frame.len());
    let (lin, lout) = (x_frame.lanes, z_frame.lanes);
    let group = tiles.group();
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
        assert!(x.len() == tiles.images * tiles.x.len() && z.len() == tiles.images * tiles.z.len());
        assert!(v.len() >= POINTS * v_step && m.len() >= POINTS * m_step);
        let (points, pixels, total) = (tiles.points(m_step), pixels(&tiles.z), tiles.total());
        let mut half = [[V::splat(0.0); 6]; 6];
        let mut first = 0;
        while first < total {
            let count = group.min(total - first);
            gather::<V>(&tiles, first, count, x, v, v_step);
            for p in 0..POINTS {
                let Range { start, end } = tiles.with_point(p, first, count);
                let u = &filters[p * filter::step(lin * lout)..][..lin * lout];
                let (vp, mp) = (&v[p * v_step + start * lin..], &mut m[p * m_step + start * lout..]);
                product::<V>(vp, lin, Stretches::row(lin), end - start, u, lout, mp, lout);
            }
            for t in 0..count {
                let tile = tiles.tile(first + t);
                for c in (0..lout).step_by(V::LANES) {
                    // SAFETY: point and tile are inside `m`; the pixels of a tile are inside the outer frame.
                    unsafe {
                        let from = m.as_ptr().add(t * lout + c);
                        let to = z.as_mut_ptr().add(tile.z + c);
                        let grid = &points[tile.class];
                        Output::sandwich::<V, false>(tile.outputs, from, grid, &mut half, to, &pixels);
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
    let (points, pixels) = (tiles.points(v_step), pixels(&tiles.x));
    let mut half: Half<V> = [[V::splat(0.0); 6]; 6];
    for t in 0..count {
        let tile = tiles.tile(first + t);
        for c in (0..lin).step_by(V::LANES) {
            // SAFETY: the pixels under a tile are inside the inner frame; point and tile are inside `v`.
            unsafe {
                let from = x.as_ptr().add(tile.x + c);
                let to = v.as_mut_ptr().add(t * lin + c);
                let grid = &points[tile.class];
                Input::sandwich::<V, false>(tile.outputs, from, &pixels, &mut half, to, grid);
            }
        }
    }
}

/// Adds the filters' gradient at the 36 points to `sums` (`[36, lanes_in, lanes_out]` and a gap after each point), or writes
/// it there if they are `fresh`, and writes dx if asked for.
/// The adjoint of [`forward`]: dM = A dz Aᵀ, dU += Vᵀ dM, dV = dM Uᵀ, dx = Σ_tiles B dV Bᵀ.
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
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
    fresh: bool,
) {
    let tiles = Tiles::new(x_frame, z_frame, padding, x.len() / x_frame.len());
    let (lin, lout) = (x_frame.lanes, z_frame.lanes);
    let group = tiles.group();
    let mut v = workspace.take(POINTS * point_step(group, lin));
    let mut m = workspace.take(POINTS * point_step(group, lout));
    isa.run(Backward { transposed, tiles, group, x, dz, dx, sums, fresh, v: &mut v, m: &mut m });
}

struct Backward<'a> {
    transposed: &'a [f32],
    tiles: Tiles,
    group: usize,
    x: &'a [f32],
    dz: &'a [f32],
    dx: Option<&'a mut [f32]>,
    sums: &'a mut [f32],
    fresh: bool,
    v: &'a mut [f32],
    m: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { transposed, tiles, group, x, dz, mut dx, sums, fresh, v, m } = self;
        let (lin, lout) = (tiles.x.lanes, tiles.z.lanes);
        let (v_step, m_step) = (point_step(group, lin), point_step(group, lout));
        assert!(x.len() == tiles.images * tiles.x.len() && dz.len() == tiles.images * tiles.z.len());
        assert!(v.len() >= POINTS * v_step && m.len() >= POINTS * m_step);
        if let Some(dx) = &mut dx {
            assert!(dx.len() == x.len());
            dx.fill(0.0);
        }
        let (x_points, z_points) = (tiles.points(v_step), tiles.points(m_step));
        let (x_pixels, z_pixels) = (pixels(&tiles.x), pixels(&tiles.z));
        let mut half = [[V::splat(0.0); 6]; 6];
        let total = tiles.total();
        let mut first = 0;
        while first < total {
            let count = group.min(total - first);
            gather::<V>(&tiles, first, count, x, v, v_step);
            for t in 0..count {
                let tile = tiles.tile(first + t);
                for c in (0..lout).step_by(V::LANES) {
                    // SAFETY: the pixels of a tile are inside the outer frame; point and tile are inside `m`.
                    unsafe {
                        let from = dz.as_ptr().add(tile.z + c);
                        let to = m.as_mut_ptr().add(t * lout + c);
                        let grid = &z_points[tile.class];
                        OutputAdjoint::sandwich::<V, false>(
                            tile.outputs,
                            from,
                            &z_pixels,
                            &mut half,
                            to,
                            grid,
                        );
                    }
                }
            }
            for p in 0..POINTS {
                let Range { start, end } = tiles.with_point(p, first, count);
                let (vp, mp) = (&mut v[p * v_step + start * lin..], &m[p * m_step + start * lout..]);
                let at = p * filter::step(lin * lout);
                let sum = &mut sums[at..][..lin * lout];
                let add = !fresh || first > 0;
                outer_sum::<V>(vp, lin, Stretches::row(lin), mp, lout, end - start, sum, lout, add);
                if dx.is_some() {
                    // The input's points have been used: their gradient takes their place.
                    let ut = &transposed[at..][..lin * lout];
                    product::<V>(mp, lout, Stretches::row(lout), end - start, ut, lin, vp, lin);
                }
            }
            if let Some(dx) = &mut dx {
                for t in 0..count {
                    let tile = tiles.tile(first + t);
                    for c in (0..lin).step_by(V::LANES) {
                        // SAFETY: point and tile are inside `v`; the pixels under a tile are inside the inner frame.
                        unsafe {
                            let from = v.as_ptr().add(t * lin + c);
                            let to = dx.as_mut_ptr().add(tile.x + c);
                            let grid = &x_points[tile.class];
                            InputAdjoint::sandwich::<V, true>(
                                tile.outputs,
                                from,
                                grid,
                                &mut half,
                                to,
                                &x_pixels,
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
        // Whole tiles alone, and with each size of tile at the edges.
        (12..16).for_each(compare);
    }

    fn compare(side: usize) {
        let c = 64;
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
            let mut sums = vec![f32::NAN; layer.sums_len()];
            layer.pack(&workspace, &weight, None).forward(&workspace, &x, 0..side, &mut z);
            let transposed = layer.pack_transposed(&workspace, &weight, None);
            transposed.backward(&workspace, &x, 0..side, &dz, Some(&mut dx), &mut sums, true);
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
                "{side} x {side}, {name}: Winograd rms {:.1e} max {:.1e}; definition rms {:.1e} max {:.1e}",
                fast[i][0], fast[i][1], plain[i][0], plain[i][1]
            );
            assert!(fast[i][0] < 1e-6 && fast[i][1] < 1e-5, "{side}, {name}: {:?}", fast[i]);
            assert!(fast[i][0] < 10.0 * plain[i][0]);
        }
    }
}
