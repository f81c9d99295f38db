//! An image as the network of a model sees it: small, whatever the image was.

use crate::foreign::Preprocessing;
use crate::look::Look;
use siskin_data::{Image, Transform};
use siskin_random::stream;

/// The network's input made from one image, and what the image looked like.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub(crate) pixels: Pixels,
    /// Statistics of the image before it was made small.
    pub look: Look,
}

/// What a network sees.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pixels {
    /// Of a model that was trained here: [channels, size, size].
    Normalised(Vec<f32>),
    /// Of an added network: [size, size, 3], a quarter of the memory; normalised when it is run.
    Bytes(Vec<u8>),
}

impl View {
    pub(crate) fn foreign(image: &Image, preprocessing: &Preprocessing) -> View {
        View { pixels: Pixels::Bytes(preprocessing.pixels(image)), look: Look::of(&image.as_ref()) }
    }

    pub(crate) fn trained(image: &Image, transform: &Transform) -> View {
        let mut pixels = vec![0.0; transform.len()];
        // The evaluation transform draws no random number.
        transform.apply(&image.as_ref(), &mut stream(0, "evaluate", 0), &mut pixels);
        View { pixels: Pixels::Normalised(pixels), look: Look::of(&image.as_ref()) }
    }
}
