//! From the convolution's output to the block's: statistics, peaks, scale, shift and rectifier.
#![allow(unsafe_code)]

use crate::frame::Frame;
use crate::simd::{Kernel, Vector};

/// Of one image: mean and sum of squared deviations of each channel (`stats`: `[2, lanes]`), and the peaks. Of a strip of
/// it: those of the strips above are there already.
pub(crate) struct Summarise<'a> {
    pub z: &'a [f32],
    pub z_frame: Frame,
    /// Rows of the image above these, an even number.
    pub top: usize,
    /// `[2, lanes]`, or `None` when the statistics are known.
    pub stats: Option<&'a mut [f32]>,
    /// The maximum of each pool and its frame, or `None` without a pool.
    pub peaks: Option<(&'a mut [f32], Frame)>,
}

impl Kernel for Summarise<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { z, z_frame, top, mut stats, mut peaks } = self;
        assert!(z.len() == z_frame.len());
        if let Some(stats) = &mut stats {
            assert!(stats.len() == 2 * z_frame.lanes);
            if top == 0 {
                stats.fill(0.0);
            }
        }
        for y in (0..z_frame.h).step_by(2) {
            let rows = 2.min(z_frame.h - y);
            if let Some(stats) = &mut stats {
                let rows = Rows { z, frame: z_frame, first: y, count: rows, above: top + y };
                let mut c = 0;
                while c + 4 * V::LANES <= z_frame.lanes {
                    rows.merge::<V, 4>(c, stats);
                    c += 4 * V::LANES;
                }
                while c < z_frame.lanes {
                    rows.merge::<V, 1>(c, stats);
                    c += V::LANES;
                }
            }
            if let Some((peaks, frame)) = &mut peaks
                && rows == 2
            {
                pool_row::<V>(z, &z_frame, y, peaks, frame, (top + y) / 2);
            }
        }
    }
}

/// One or two rows of an image of which statistics are made.
struct Rows<'a> {
    z: &'a [f32],
    frame: Frame,
    first: usize,
    count: usize,
    /// Rows of the image that are in the statistics already.
    above: usize,
}

impl Rows<'_> {
    /// Mean and squared deviations of N vectors of channels from channel c, merged into those of the rows above by Chan's rule: no
    /// difference of large sums.
    #[inline(always)]
    fn merge<V: Vector, const N: usize>(&self, c: usize, stats: &mut [f32]) {
        let count = (self.count * self.frame.w) as f32;
        let before = (self.above * self.frame.w) as f32;
        let zero = V::splat(0.0);
        let sum = self.fold::<V, N>(c, [zero; N], |value, _, sum| sum.add(value));
        let mut mean = [zero; N];
        for v in 0..N {
            mean[v] = sum[v].mul(V::splat(1.0 / count));
        }
        let squares = self.fold::<V, N>(c, mean, |value, mean, sum| {
            let d = value.sub(mean);
            d.fma(d, sum)
        });
        for v in 0..N {
            // SAFETY: lanes c..c + N vectors of `[2, lanes]` statistics; lengths asserted by the caller.
            unsafe {
                let means = stats.as_mut_ptr().add(c + v * V::LANES);
                let deviations = means.add(self.frame.lanes);
                let step = mean[v].sub(V::load(means));
                let share = V::splat(count / (before + count));
                V::load(means).add(step.mul(share)).store(means);
                let between = step.mul(step).mul(share).mul(V::splat(before));
                V::load(deviations).add(squares[v]).add(between).store(deviations);
            }
        }
    }

    /// A sum over the pixels, each entered by `add(value, at, sum)`. Even and odd columns are summed apart: twice as many
    /// additions in flight.
    #[inline(always)]
    fn fold<V: Vector, const N: usize>(&self, c: usize, at: [V; N], add: impl Fn(V, V, V) -> V) -> [V; N] {
        let (lanes, w) = (self.frame.lanes, self.frame.w);
        let (mut even, mut odd) = ([V::splat(0.0); N], [V::splat(0.0); N]);
        for r in 0..self.count {
            // SAFETY: pixels of the image and channels c..c + N vectors of each; lengths asserted by the caller.
            unsafe {
                let row = self.z.as_ptr().add(self.frame.at(self.first + r, 0) + c);
                for x in (0..w - w % 2).step_by(2) {
                    let (left, right) = (row.add(x * lanes), row.add((x + 1) * lanes));
                    for v in 0..N {
                        even[v] = add(V::load(left.add(v * V::LANES)), at[v], even[v]);
                        odd[v] = add(V::load(right.add(v * V::LANES)), at[v], odd[v]);
                    }
                }
                if w % 2 == 1 {
                    let last = row.add((w - 1) * lanes);
                    for v in 0..N {
                        even[v] = add(V::load(last.add(v * V::LANES)), at[v], even[v]);
                    }
                }
            }
        }
        for v in 0..N {
            even[v] = even[v].add(odd[v]);
        }
        even
    }
}

/// The peaks of rows y and y + 1, which are row `to_row` of `peaks`.
#[inline(always)]
fn pool_row<V: Vector>(
    z: &[f32],
    z_frame: &Frame,
    y: usize,
    peaks: &mut [f32],
    frame: &Frame,
    to_row: usize,
) {
    assert!(peaks.len() == frame.len() && frame.lanes == z_frame.lanes && to_row < frame.h);
    let lanes = z_frame.lanes;
    for x in 0..frame.w {
        let (top, bottom) = (z_frame.at(y, 2 * x), z_frame.at(y + 1, 2 * x));
        let to = frame.at(to_row, x);
        for c in (0..lanes).step_by(V::LANES) {
            // SAFETY: four pixels of the image and one of the peaks.
            unsafe {
                let (top, bottom) = (z.as_ptr().add(top + c), z.as_ptr().add(bottom + c));
                let upper = V::load(top).max(V::load(top.add(lanes)));
                let lower = V::load(bottom).max(V::load(bottom.add(lanes)));
                upper.max(lower).store(peaks.as_mut_ptr().add(to + c));
            }
        }
    }
}

/// y = max(0, s·peak + t) for one image, into the inner frame of the next layer with zeros around.
pub(crate) struct Rectify<'a> {
    pub peaks: &'a [f32],
    pub peak_frame: Frame,
    /// s, `[lanes]`.
    pub scale: &'a [f32],
    /// t, `[lanes]`.
    pub shift: &'a [f32],
    pub y: &'a mut [f32],
    pub y_frame: Frame,
}

impl Kernel for Rectify<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { peaks, peak_frame, scale, shift, y, y_frame } = self;
        let lanes = y_frame.lanes;
        assert!(peaks.len() == peak_frame.len() && y.len() == y_frame.len());
        assert!(lanes == peak_frame.lanes && scale.len() == lanes && shift.len() == lanes);
        assert!((y_frame.h, y_frame.w) == (peak_frame.h, peak_frame.w));
        y_frame.clear_surround(y);
        for row in 0..y_frame.h {
            for x in 0..y_frame.w {
                let (from, to) = (peak_frame.at(row, x), y_frame.at(row, x));
                for c in (0..lanes).step_by(V::LANES) {
                    // SAFETY: one pixel of each image and one vector of each `[lanes]`.
                    unsafe {
                        let (s, t) = (V::load(scale.as_ptr().add(c)), V::load(shift.as_ptr().add(c)));
                        let value = V::load(peaks.as_ptr().add(from + c)).fma(s, t);
                        V::splat(0.0).max(value).store(y.as_mut_ptr().add(to + c));
                    }
                }
            }
        }
    }
}
