//! An image as the network of a model sees it: small, whatever the image was.

use crate::foreign::Preprocessing;
use crate::look::Look;
use siskin_data::image::transform::{MEAN, STD};
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

    /// What the network sees as an image of `side` pixels, for people.
    pub fn picture(&self, side: u32) -> Image {
        let plane = side as usize * side as usize;
        let (channels, pixels) = match &self.pixels {
            Pixels::Bytes(pixels) => (3, pixels.clone()),
            Pixels::Normalised(values) => {
                let channels = values.len() / plane.max(1);
                let byte = |i: usize, c: usize| (values[c * plane + i] * STD[c] + MEAN[c]) * 255.0;
                let all = (0..plane).flat_map(|i| (0..channels).map(move |c| byte(i, c).round() as u8));
                (channels as u8, all.collect())
            }
        };
        Image { width: side, height: side, channels, pixels }
    }

    pub(crate) fn trained(image: &Image, transform: &Transform) -> View {
        let mut pixels = vec![0.0; transform.len()];
        // The evaluation transform draws no random number.
        transform.apply(&image.as_ref(), &mut stream(0, "evaluate", 0), &mut pixels);
        View { pixels: Pixels::Normalised(pixels), look: Look::of(&image.as_ref()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_data::Channels;

    #[test]
    fn the_picture_is_what_was_normalised() {
        for (channels, count) in [(Channels::One, 1), (Channels::Three, 3)] {
            let pixels: Vec<u8> = (0..32 * 32 * count).map(|i| (i * 37 % 256) as u8).collect();
            let image = Image { width: 32, height: 32, channels: count as u8, pixels };
            let transform = Transform { size: 28, channels, augment: None };
            let seen = transform.pixels(&image.as_ref(), &mut stream(0, "evaluate", 0));
            assert_eq!(View::trained(&image, &transform).picture(28), seen);
        }
    }
}
