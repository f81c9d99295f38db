//! From the convolution's output to the block's: statistics, peaks, scale, shift and rectifier.
#![allow(unsafe_code)]

use crate::frame::{Frame, GROUP};
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
                for c in (0..z_frame.lanes).step_by(GROUP) {
                    merge_rows::<V>(z, &z_frame, y, rows, top, c, stats);
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

/// Mean and squared deviations of `rows` rows from row y, one group of channels (a cache line of each pixel), merged into
/// those of the rows above by Chan's rule: no difference of large sums.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
fn merge_rows<V: Vector>(
    z: &[f32],
    frame: &Frame,
    y: usize,
    rows: usize,
    top: usize,
    c: usize,
    stats: &mut [f32],
) {
    let vectors = GROUP / V::LANES;
    let count = (rows * frame.w) as f32;
    let before = ((top + y) * frame.w) as f32;
    // Two sums for even and odd pixels: twice as many additions in flight. A group has at most two vectors.
    let mut sum = [[V::splat(0.0); 2]; 2];
    let mut mean = [V::splat(0.0); 2];
    let mut squares = [[V::splat(0.0); 2]; 2];
    // SAFETY: pixels of the image and lanes c..c+GROUP of `[2, lanes]` statistics; lengths asserted by the caller.
    unsafe {
        let z = z.as_ptr().add(c);
        for r in 0..rows {
            let row = z.add(frame.at(y + r, 0));
            for x in 0..frame.w {
                for v in 0..vectors {
                    sum[v][x & 1] = sum[v][x & 1].add(V::load(row.add(x * frame.lanes + v * V::LANES)));
                }
            }
        }
        for v in 0..vectors {
            mean[v] = sum[v][0].add(sum[v][1]).mul(V::splat(1.0 / count));
        }
        for r in 0..rows {
            let row = z.add(frame.at(y + r, 0));
            for x in 0..frame.w {
                for v in 0..vectors {
                    let d = V::load(row.add(x * frame.lanes + v * V::LANES)).sub(mean[v]);
                    squares[v][x & 1] = d.fma(d, squares[v][x & 1]);
                }
            }
        }
        for v in 0..vectors {
            let means = stats.as_mut_ptr().add(c + v * V::LANES);
            let deviations = means.add(frame.lanes);
            let step = mean[v].sub(V::load(means));
            let share = V::splat(count / (before + count));
            V::load(means).add(step.mul(share)).store(means);
            let between = step.mul(step).mul(share).mul(V::splat(before));
            V::load(deviations).add(squares[v][0].add(squares[v][1])).add(between).store(deviations);
        }
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
