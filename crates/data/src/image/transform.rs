//! From a stored image to the network's input: the training and the evaluation transform of the reference.

use rand::Rng;

use super::augment::Augmentation;
use super::resize::resize;
use super::{Image, ImageRef};

/// Mean of each channel that inputs are normalised with (ImageNet's, for every data set).
pub const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// Standard deviation of each channel, likewise.
pub const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// What becomes of an image: its size and channels, and whether it is augmented.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    /// Width and height of the input: 84 for Conv4, 28 for Conv4S.
    pub size: u32,
    /// Channels of the input.
    pub channels: Channels,
    /// Augmented (training), with the least part of an image's area that a random crop takes; or `None`: resized and cropped at
    /// the centre (evaluation).
    pub augment: Option<f64>,
}

/// Channels of the network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channels {
    /// The first channel alone, as Conv4S takes it.
    One,
    /// Red, green, blue; grey images fill all three.
    Three,
}

impl Channels {
    /// 1 or 3.
    pub fn count(self) -> usize {
        match self {
            Channels::One => 1,
            Channels::Three => 3,
        }
    }
}

impl Transform {
    /// Number of values of one input: channels x size x size.
    pub fn len(&self) -> usize {
        self.channels.count() * self.size as usize * self.size as usize
    }

    /// Whether an input has no values.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Writes the input made from `image` to `out`: [channels, size, size]. `rng` is used only to augment.
    pub fn apply(&self, image: &ImageRef<'_>, rng: &mut impl Rng, out: &mut [f32]) {
        normalize(&self.pixels(image, rng), self.channels, out);
    }

    /// The pixels the network sees, before normalisation: size x size, with the channels of `image`.
    pub fn pixels(&self, image: &ImageRef<'_>, rng: &mut impl Rng) -> Image {
        match self.augment {
            Some(least_area) => {
                Augmentation::draw(image.width, image.height, least_area, rng).apply(image, self.size)
            }
            None => centre(image, self.size),
        }
    }
}

/// Evaluation: resized to a square of 1.15 x `size` (the aspect is not kept), of which the centre is taken.
pub(super) fn centre(image: &ImageRef<'_>, size: u32) -> Image {
    // In f64 and cut, as the reference does: 1.15 * 100 gives 114.
    let square = (f64::from(size) * 1.15) as u32;
    let resized = resize(image, square, square);
    let first = (f64::from(square - size) / 2.0).round_ties_even() as usize;
    let (side, channels) = (size as usize, resized.channels as usize);
    let rows = resized.pixels.chunks_exact(square as usize * channels).skip(first).take(side);
    let pixels = rows.flat_map(|row| &row[first * channels..(first + side) * channels]).copied().collect();
    Image { width: size, height: size, channels: resized.channels, pixels }
}

/// torchvision's `ToTensor` and `Normalize`: `(v / 255 - mean) / std` in f32, channel by channel.
pub(super) fn normalize(image: &Image, channels: Channels, out: &mut [f32]) {
    let plane = image.width as usize * image.height as usize;
    let stride = image.channels as usize;
    for (c, out) in out.chunks_exact_mut(plane).take(channels.count()).enumerate() {
        let table: [f32; 256] = std::array::from_fn(|v| (v as f32 / 255.0 - MEAN[c]) / STD[c]);
        let first = c.min(stride - 1);
        for (o, &v) in out.iter_mut().zip(image.pixels[first..].iter().step_by(stride)) {
            *o = table[v as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::augment::LEAST_AREA;
    use siskin_random::stream;

    fn rgb() -> Image {
        let pixels = (0..20 * 15 * 3).map(|i| (i * 37 % 256) as u8).collect();
        Image { width: 20, height: 15, channels: 3, pixels }
    }

    fn apply(image: &Image, channels: Channels, augment: Option<f64>) -> Vec<f32> {
        let transform = Transform { size: 12, channels, augment };
        let mut out = vec![f32::NAN; transform.len()];
        transform.apply(&image.as_ref(), &mut stream(4, "augment", 0), &mut out);
        out
    }

    #[test]
    fn one_channel_is_the_first_of_three() {
        for augment in [None, Some(LEAST_AREA)] {
            let three = apply(&rgb(), Channels::Three, augment);
            assert_eq!(apply(&rgb(), Channels::One, augment), three[..144]);
            assert!(three.iter().all(|v| v.is_finite()));
        }
    }

    #[test]
    fn grey_fills_all_three_channels_as_an_rgb_image_of_greys_does() {
        let grey = Image { channels: 1, pixels: (0..300).map(|i| (i * 91 % 256) as u8).collect(), ..rgb() };
        let as_rgb =
            Image { channels: 3, pixels: grey.pixels.iter().flat_map(|&v| [v; 3]).collect(), ..rgb() };
        for augment in [None, Some(LEAST_AREA)] {
            assert_eq!(apply(&grey, Channels::Three, augment), apply(&as_rgb, Channels::Three, augment));
        }
    }
}
