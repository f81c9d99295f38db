//! From the gradient of the block's output to that of the convolution's.
#![allow(unsafe_code)]

use crate::frame::Frame;
use crate::simd::{Kernel, Vector};

/// Of one image: Σ g and Σ g·(peak − mean) of each channel (`sums`: `[2, lanes]`), where g is dy where the block's
/// output is positive. Only peaks carry gradient, so this reads a quarter of the convolution's output.
pub(crate) struct Reduce<'a> {
    pub peaks: &'a [f32],
    pub peak_frame: Frame,
    pub dy: &'a [f32],
    pub dy_frame: Frame,
    /// s, t, mean: `[lanes]` each.
    pub scale: &'a [f32],
    pub shift: &'a [f32],
    pub mean: &'a [f32],
    pub sums: &'a mut [f32],
}

impl Kernel for Reduce<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { peaks, peak_frame, dy, dy_frame, scale, shift, mean, sums } = self;
        let lanes = peak_frame.lanes;
        assert!(peaks.len() == peak_frame.len() && dy.len() == dy_frame.len() && lanes == dy_frame.lanes);
        assert!(
            scale.len() == lanes && shift.len() == lanes && mean.len() == lanes && sums.len() == 2 * lanes
        );
        assert!((dy_frame.h, dy_frame.w) == (peak_frame.h, peak_frame.w));
        sums.fill(0.0);
        // A sum for each row, then of the rows: the rounding error grows with h + w, not with h · w.
        for y in 0..peak_frame.h {
            for c in (0..lanes).step_by(V::LANES) {
                // SAFETY: pixels of both images and one vector of each `[lanes]`; lengths asserted above.
                unsafe {
                    let s = V::load(scale.as_ptr().add(c));
                    let t = V::load(shift.as_ptr().add(c));
                    let mean = V::load(mean.as_ptr().add(c));
                    let peaks = peaks.as_ptr().add(peak_frame.at(y, 0) + c);
                    let dy = dy.as_ptr().add(dy_frame.at(y, 0) + c);
                    let (mut sum, mut sum_z) = (V::splat(0.0), V::splat(0.0));
                    for x in 0..peak_frame.w {
                        let peak = V::load(peaks.add(x * lanes));
                        let g = peak.fma(s, t).if_positive(V::load(dy.add(x * lanes)));
                        sum = sum.add(g);
                        sum_z = g.fma(peak.sub(mean), sum_z);
                    }
                    let (total, total_z) = (sums.as_mut_ptr().add(c), sums.as_mut_ptr().add(lanes + c));
                    V::load(total).add(sum).store(total);
                    V::load(total_z).add(sum_z).store(total_z);
                }
            }
        }
    }
}

/// dz = s·g + b·(z − mean) + d for one image or a strip of it.
pub(crate) struct Spread<'a> {
    pub z: &'a [f32],
    pub z_frame: Frame,
    /// Rows of the image above these, an even number.
    pub top: usize,
    pub pool: bool,
    pub dy: &'a [f32],
    pub dy_frame: Frame,
    /// s, t, mean, b, d: `[lanes]` each.
    pub scale: &'a [f32],
    pub shift: &'a [f32],
    pub mean: &'a [f32],
    pub slope: &'a [f32],
    pub offset: &'a [f32],
    pub dz: &'a mut [f32],
}

impl Kernel for Spread<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let (frame, lanes) = (self.z_frame, self.z_frame.lanes);
        assert!(self.z.len() == frame.len() && self.dz.len() == frame.len());
        assert!(self.dy.len() == self.dy_frame.len() && self.dy_frame.lanes == lanes);
        let channels = [self.scale, self.shift, self.mean, self.slope, self.offset];
        assert!(channels.iter().all(|x| x.len() == lanes));
        let side = if self.pool { 2 } else { 1 };
        assert!(self.dy_frame.h >= (self.top + frame.h) / side && self.dy_frame.w == frame.w / side);
        for y in 0..frame.h / side {
            for x in 0..self.dy_frame.w {
                let (from, at) = (self.dy_frame.at(self.top / side + y, x), frame.at(side * y, side * x));
                for c in (0..lanes).step_by(V::LANES) {
                    let here = Here::<V>::load(&channels, c);
                    // SAFETY: a pixel of dy and the one or four pixels of z and dz below it; lengths asserted above.
                    unsafe {
                        let dy = V::load(self.dy.as_ptr().add(from + c));
                        let (z, dz) = (self.z.as_ptr().add(at + c), self.dz.as_mut_ptr().add(at + c));
                        if self.pool {
                            here.pool(z, dz, dy, lanes, frame.row_step());
                        } else {
                            let value = V::load(z);
                            here.gradient(value, here.gate(value, dy)).store(dz);
                        }
                    }
                }
            }
        }
        // Odd sizes: the last row and column belong to no pool, but to the statistics.
        let (pooled_h, pooled_w) = (frame.h / side * side, side * self.dy_frame.w);
        for y in 0..frame.h {
            for x in if y < pooled_h { pooled_w } else { 0 }..frame.w {
                for c in (0..lanes).step_by(V::LANES) {
                    let (here, at) = (Here::<V>::load(&channels, c), frame.at(y, x) + c);
                    // SAFETY: a pixel of z and dz.
                    unsafe {
                        let z = V::load(self.z.as_ptr().add(at));
                        here.gradient(z, V::splat(0.0)).store(self.dz.as_mut_ptr().add(at));
                    }
                }
            }
        }
    }
}

/// The coefficients of one vector of channels.
struct Here<V> {
    s: V,
    t: V,
    mean: V,
    b: V,
    d: V,
}

impl<V: Vector> Here<V> {
    #[inline(always)]
    fn load(channels: &[&[f32]; 5], c: usize) -> Self {
        let mut values = [V::splat(0.0); 5];
        for (value, channel) in values.iter_mut().zip(channels) {
            // SAFETY: the slice of a whole vector is in bounds, or this panics.
            *value = unsafe { V::load(channel[c..c + V::LANES].as_ptr()) };
        }
        let [s, t, mean, b, d] = values;
        Self { s, t, mean, b, d }
    }

    /// g: dy where s·peak + t > 0.
    #[inline(always)]
    fn gate(&self, peak: V, dy: V) -> V {
        peak.fma(self.s, self.t).if_positive(dy)
    }

    #[inline(always)]
    fn gradient(&self, z: V, g: V) -> V {
        self.s.fma(g, z.sub(self.mean).fma(self.b, self.d))
    }

    /// The four pixels of a pool: the first that equals the maximum takes the gradient, as in PyTorch.
    ///
    /// # Safety
    /// The four pixels must be in bounds of `z` and `dz`.
    #[inline(always)]
    unsafe fn pool(&self, z: *const f32, dz: *mut f32, dy: V, right: usize, below: usize) {
        let places = [0, right, below, below + right];
        let mut values = [dy; 4];
        for (value, place) in values.iter_mut().zip(places) {
            // SAFETY: the caller vouches for the four pixels.
            *value = unsafe { V::load(z.add(place)) };
        }
        let peak = values[0].max(values[1]).max(values[2].max(values[3]));
        let zero = V::splat(0.0);
        let mut left = self.gate(peak, dy);
        for (value, place) in values.into_iter().zip(places) {
            let g = value.if_equal(peak, left, zero);
            left = value.if_equal(peak, zero, left);
            // SAFETY: as above.
            unsafe { self.gradient(value, g).store(dz.add(place)) };
        }
    }
}
