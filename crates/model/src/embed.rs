//! From images to what a method keeps of them: the one way, in test and in prediction.

use crate::error::{Error, Result};
use rayon::prelude::*;
use siskin_data::Transform;
use siskin_methods::{Features, Images, Method, Rows};
use std::sync::atomic::{AtomicBool, Ordering};

/// Images sent through the network at a time: bounds the memory, changes no result.
const BATCH: usize = 128;

/// `count` images as `method` keeps them, one row each. `fill(i, out)` writes the network's input of image i. Where `stop` is
/// set on the way: [`Error::Stopped`]. An image's row does not depend on the others.
pub fn embed(
    method: &dyn Method,
    transform: &Transform,
    count: usize,
    fill: impl Fn(usize, &mut [f32]) -> siskin_data::Result<()> + Sync,
    stop: &AtomicBool,
) -> Result<Rows> {
    let size = transform.size as usize;
    let mut parts = Vec::new();
    for first in (0..count).step_by(BATCH) {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let rows = BATCH.min(count - first);
        let mut pixels = vec![0.0; rows * transform.len()];
        let images = pixels.par_chunks_exact_mut(transform.len()).enumerate();
        images.try_for_each(|(row, out)| fill(first + row, out))?;
        let shape = [rows, transform.channels.count(), size, size];
        parts.push(method.embed(Images::new(&pixels, shape)?)?);
    }
    let none = || Rows::Features(Features { values: Vec::new(), rows: 0, dim: 1 });
    Ok(Rows::stack(parts)?.unwrap_or_else(none))
}
