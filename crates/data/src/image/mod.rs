//! Pixels: what an image is to the rest of the crate.

pub mod augment;
pub mod decode;
#[cfg(test)]
mod golden;
mod parts;
pub mod resize;
pub mod transform;

use std::borrow::Cow;

/// An image that owns its pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// 1 (grey) or 3 (RGB).
    pub channels: u8,
    /// Row-major, channels interleaved: `[height, width, channels]`.
    pub pixels: Vec<u8>,
}

/// An image as a data set lends it: borrowed from memory or from the mapped pack, or
/// owned where a quarter turn was applied on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRef<'a> {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// 1 (grey) or 3 (RGB).
    pub channels: u8,
    /// Row-major, channels interleaved: `[height, width, channels]`.
    pub pixels: Cow<'a, [u8]>,
}

impl Image {
    /// Lends the image.
    pub fn as_ref(&self) -> ImageRef<'_> {
        ImageRef {
            width: self.width,
            height: self.height,
            channels: self.channels,
            pixels: Cow::Borrowed(&self.pixels),
        }
    }
}

impl ImageRef<'_> {
    /// The image turned counter-clockwise by `turns` quarter turns.
    pub fn turned(self, turns: u8) -> Self {
        let turns = turns % 4;
        if turns == 0 {
            return self;
        }
        let (w, h, c) = (self.width as usize, self.height as usize, self.channels as usize);
        let (new_w, new_h) = if turns % 2 == 1 { (h, w) } else { (w, h) };
        let mut out = Vec::with_capacity(self.pixels.len());
        for y in 0..new_h {
            for x in 0..new_w {
                let (sx, sy) = match turns {
                    1 => (w - 1 - y, x),
                    2 => (w - 1 - x, h - 1 - y),
                    _ => (y, h - 1 - x),
                };
                let at = (sy * w + sx) * c;
                out.extend_from_slice(&self.pixels[at..at + c]);
            }
        }
        ImageRef {
            width: new_w as u32,
            height: new_h as u32,
            channels: self.channels,
            pixels: Cow::Owned(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_is_counter_clockwise_and_four_are_none() {
        // 1 2 3      3 6
        // 4 5 6  ->  2 5
        //            1 4
        let image = Image { width: 3, height: 2, channels: 1, pixels: vec![1, 2, 3, 4, 5, 6] };
        let once = image.as_ref().turned(1);
        assert_eq!((once.width, once.height), (2, 3));
        assert_eq!(&*once.pixels, [3, 6, 2, 5, 1, 4]);
        assert_eq!(image.as_ref().turned(2), once.clone().turned(1));
        assert_eq!(image.as_ref().turned(3), once.clone().turned(2));
        assert_eq!(image.as_ref(), once.turned(3));
    }

    #[test]
    fn channels_stay_together() {
        let image = Image { width: 2, height: 1, channels: 3, pixels: vec![1, 2, 3, 4, 5, 6] };
        assert_eq!(&*image.as_ref().turned(1).pixels, [4, 5, 6, 1, 2, 3]);
    }
}
