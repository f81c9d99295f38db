//! Batch normalisation, rectifier and 2x2 max-pool in as few passes over memory as they need.
//!
//! The caller has made gamma >= 0 by turning the sign of the filters. Then s·z + t rises with z, and the maximum of a
//! pool can be taken *before* the statistics of the batch are known: forward reads the convolution's output once, while
//! it is still in the cache, and the rest works on the *peaks*, a quarter of its size.

mod backward;
mod forward;

pub(crate) use backward::{Reduce, Spread};
pub(crate) use forward::{Rectify, Summarise};

use crate::frame::Frame;

/// The frame of the peaks of `z`: half as high and wide, rounded down, or `z` itself without a pool.
pub(crate) fn peak_frame(z: Frame, pool: bool) -> Frame {
    if pool { Frame::outer(z.h / 2, z.w / 2, z.channels) } else { z }
}
