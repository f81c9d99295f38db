//! Where the sums of a block go.

use super::BLOCK;
use crate::frame::Frame;
use crate::simd::{Kernel, Vector};

/// Copies the block of pixels from `first` and of lanes from `lane` to its places in a frame.
pub(super) struct Unload<'a> {
    pub block: &'a [f32; BLOCK * BLOCK],
    pub first: usize,
    pub cols: usize,
    pub out: &'a mut [f32],
    pub frame: Frame,
    pub lane: usize,
}

impl Kernel for Unload<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { block, first, cols, out, frame, lane } = self;
        let wide = BLOCK.min(frame.lanes - lane);
        let (mut y, mut x) = (first / cols, first % cols);
        for row in block.as_chunks::<BLOCK>().0 {
            if y < frame.h && x < frame.w {
                let to = &mut out[frame.at(y, x) + lane..];
                match to.first_chunk_mut() {
                    Some(to) if wide == BLOCK => *to = *row,
                    _ => to[..wide].copy_from_slice(&row[..wide]),
                }
            }
            x += 1;
            if x == cols {
                (y, x) = (y + 1, 0);
            }
        }
    }
}

/// Adds the upper left part of a block to `sums`, rows `row` apart.
pub(super) struct Add<'a> {
    pub block: &'a [f32; BLOCK * BLOCK],
    pub tall: usize,
    pub wide: usize,
    pub sums: &'a mut [f32],
    pub row: usize,
}

impl Kernel for Add<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { block, tall, wide, sums, row } = self;
        for (i, from) in block.as_chunks::<BLOCK>().0.iter().take(tall).enumerate() {
            let to = &mut sums[i * row..][..wide];
            to.iter_mut().zip(from).for_each(|(to, value)| *to += value);
        }
    }
}
