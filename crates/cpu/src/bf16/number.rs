//! bfloat16: the upper half of an f32, so eight bits of it remain of the fraction's twenty-four.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

use crate::buffer::{Buffer, Workspace};

/// To the nearest, ties to even; a NaN stays one.
#[inline(always)]
pub(crate) fn round(x: f32) -> u16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if x.is_nan() { quiet } else { nearest }) as u16
}

/// The f32 of the same value.
#[cfg(test)]
pub(crate) fn widen(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Numbers of 16 bits on loan from a workspace.
pub(crate) struct Halves {
    buffer: Buffer,
    len: usize,
}

impl Halves {
    /// `len` numbers with unspecified (but initialised) contents.
    pub(crate) fn take(workspace: &Workspace, len: usize) -> Self {
        Self { buffer: workspace.take(len.div_ceil(2)), len }
    }

    /// The first `len` of them.
    pub(crate) fn shortened(self, len: usize) -> Self {
        Self { len: len.min(self.len), ..self }
    }
}

impl Deref for Halves {
    type Target = [u16];
    fn deref(&self) -> &[u16] {
        // SAFETY: the buffer holds at least `len` halves (two an f32), stricter aligned, of which every bit pattern is valid.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Halves {
    fn deref_mut(&mut self) -> &mut [u16] {
        // SAFETY: as above, and every bit pattern is a valid f32 too.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest_with_ties_to_even() {
        let unit = 1.0 / 128.0;
        for (x, expected) in [
            (1.0, 1.0),
            (1.0 + 0.49 * unit, 1.0),
            (1.0 + 0.51 * unit, 1.0 + unit),
            (1.0 + 0.5 * unit, 1.0),
            (1.0 + 1.5 * unit, 1.0 + 2.0 * unit),
            (-1.0 - 1.5 * unit, -1.0 - 2.0 * unit),
            (0.0, 0.0),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
        ] {
            assert_eq!(widen(round(x)), expected, "{x}");
        }
        assert_eq!(round(-0.0), 0x8000);
        for nan in [f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff)] {
            assert!(widen(round(nan)).is_nan());
        }
    }
}
