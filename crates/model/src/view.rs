//! An image as the network of a model sees it: small, whatever the image was.

use crate::look::Look;
use siskin_data::{Image, Transform};
use siskin_random::stream;

/// The network's input made from one image, and what the image looked like.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// [channels, size, size].
    pub(crate) pixels: Vec<f32>,
    /// Statistics of the image before it was made small.
    pub look: Look,
}

impl View {
    pub(crate) fn new(image: &Image, transform: &Transform) -> View {
        let mut pixels = vec![0.0; transform.len()];
        // The evaluation transform draws no random number.
        transform.apply(&image.as_ref(), &mut stream(0, "evaluate", 0), &mut pixels);
        View { pixels, look: Look::of(&image.as_ref()) }
    }
}
