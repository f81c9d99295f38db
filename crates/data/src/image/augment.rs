//! What chance does to a training image: which crop, which light, which side.
//!
//! The draws ([`Augmentation`]) and what they do ([`Augmentation::apply`]) are separate, so that the second can be
//! compared with torchvision and Pillow byte by byte.

use rand::{Rng, RngExt};

use super::resize::{CropBox, resized_crop};
use super::{Image, ImageRef};

/// The least part of the image's area that a random crop takes: torchvision's default.
pub const LEAST_AREA: f64 = 0.08;
/// Width by height of a random crop: torchvision's default.
const ASPECT: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0];
/// Crops tried before the central one is taken: torchvision's default.
const TRIES: usize = 10;
/// Brightness, contrast and colour are multiplied by 1 ± this.
const JITTER: f64 = 0.4;

/// Everything drawn at random for one training image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Augmentation {
    /// The part of the image that is shown.
    pub crop: CropBox,
    /// Factor of brightness.
    pub brightness: f32,
    /// Factor of contrast.
    pub contrast: f32,
    /// Factor of colour (saturation).
    pub color: f32,
    /// Whether left and right change places.
    pub flip: bool,
}

impl Augmentation {
    /// Draws the augmentation of an image of `width` x `height`, whose crop takes `least_area` of it or more, below 1.
    pub fn draw(width: u32, height: u32, least_area: f64, rng: &mut impl Rng) -> Self {
        let crop = draw_crop(width, height, least_area, rng);
        let mut factor = || (1.0 + JITTER * (2.0 * rng.random::<f64>() - 1.0)) as f32;
        let [brightness, contrast, color] = [factor(), factor(), factor()];
        Self { crop, brightness, contrast, color, flip: rng.random_bool(0.5) }
    }

    /// Crop, resize to `size` x `size`, brightness, contrast, colour, flip: in the reference's order.
    pub fn apply(&self, image: &ImageRef<'_>, size: u32) -> Image {
        let mut out = resized_crop(image, self.crop, size, size);
        change_brightness(&mut out, self.brightness);
        change_contrast(&mut out, self.contrast);
        change_color(&mut out, self.color);
        if self.flip {
            flip(&mut out);
        }
        out
    }
}

/// torchvision's `RandomResizedCrop.get_params`: ten tries, else the largest central crop of an allowed aspect.
fn draw_crop(width: u32, height: u32, least_area: f64, rng: &mut impl Rng) -> CropBox {
    for _ in 0..TRIES {
        let part = rng.random_range(least_area..1.0);
        let aspect = rng.random_range(ASPECT[0].ln()..ASPECT[1].ln()).exp();
        if let Some((w, h)) = crop_size(width, height, part, aspect) {
            let top = rng.random_range(0..=height - h);
            let left = rng.random_range(0..=width - w);
            return CropBox { left, top, width: w, height: h };
        }
    }
    central_crop(width, height)
}

/// Size of a crop of `part` of the area with the given aspect, if it fits.
pub(super) fn crop_size(width: u32, height: u32, part: f64, aspect: f64) -> Option<(u32, u32)> {
    let area = f64::from(width) * f64::from(height) * part;
    let w = (area * aspect).sqrt().round_ties_even() as u32;
    let h = (area / aspect).sqrt().round_ties_even() as u32;
    ((1..=width).contains(&w) && (1..=height).contains(&h)).then_some((w, h))
}

pub(super) fn central_crop(width: u32, height: u32) -> CropBox {
    let ratio = f64::from(width) / f64::from(height);
    let (w, h) = if ratio < ASPECT[0] {
        (width, (f64::from(width) / ASPECT[0]).round_ties_even() as u32)
    } else if ratio > ASPECT[1] {
        ((f64::from(height) * ASPECT[1]).round_ties_even() as u32, height)
    } else {
        (width, height)
    };
    CropBox { left: (width - w) / 2, top: (height - h) / 2, width: w, height: h }
}

/// Pillow's `ImageEnhance.Brightness`: a blend with black.
fn change_brightness(image: &mut Image, factor: f32) {
    blend_with_constant(image, 0, factor);
}

/// Pillow's `ImageEnhance.Contrast`: a blend with the mean grey, rounded.
fn change_contrast(image: &mut Image, factor: f32) {
    let sum: u64 = match image.channels {
        1 => image.pixels.iter().map(|&v| u64::from(v)).sum(),
        _ => image.pixels.chunks_exact(3).map(|p| u64::from(grey(p))).sum(),
    };
    let mean = sum as f64 / (f64::from(image.width) * f64::from(image.height));
    blend_with_constant(image, (mean + 0.5) as u8, factor);
}

/// Pillow's `ImageEnhance.Color`: a blend with the grey image. Grey stays as it is.
fn change_color(image: &mut Image, factor: f32) {
    if image.channels == 3 {
        for pixel in image.pixels.chunks_exact_mut(3) {
            let grey = grey(pixel);
            for v in pixel {
                *v = blend(grey, *v, factor);
            }
        }
    }
}

fn flip(image: &mut Image) {
    let channels = image.channels as usize;
    for row in image.pixels.chunks_exact_mut(image.width as usize * channels) {
        row.reverse();
        row.chunks_exact_mut(channels).for_each(<[u8]>::reverse);
    }
}

/// ITU-R 601 luma as Pillow computes it, in 16-bit fixed point.
fn grey(rgb: &[u8]) -> u8 {
    ((u32::from(rgb[0]) * 19595 + u32::from(rgb[1]) * 38470 + u32::from(rgb[2]) * 7471 + 0x8000) >> 16) as u8
}

fn blend_with_constant(image: &mut Image, constant: u8, factor: f32) {
    let table: [u8; 256] = std::array::from_fn(|v| blend(constant, v as u8, factor));
    for v in &mut image.pixels {
        *v = table[*v as usize];
    }
}

/// Pillow's `Image.blend` of one value: `from + factor (to - from)` in f32, cut to 0..255, the fraction dropped.
fn blend(from: u8, to: u8, factor: f32) -> u8 {
    // Rust's cast cuts and drops as Pillow does.
    (f32::from(from) + factor * (f32::from(to) - f32::from(from))) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siskin_random::stream;

    proptest! {
        #[test]
        fn draws_stay_within_their_bounds(width in 1u32..400, height in 1u32..400, seed: u64) {
            let drawn = Augmentation::draw(width, height, LEAST_AREA, &mut stream(seed, "augment", 0));
            let CropBox { left, top, width: w, height: h } = drawn.crop;
            prop_assert!(w >= 1 && h >= 1 && left + w <= width && top + h <= height);
            for factor in [drawn.brightness, drawn.contrast, drawn.color] {
                prop_assert!((0.6..=1.4).contains(&factor));
            }
        }
    }

    #[test]
    fn draws_are_distributed_as_torchvisions() {
        let draws = 20_000;
        let (mut area, mut brightness, mut flips, mut centre) = (0.0, 0.0, 0, 0.0);
        for index in 0..draws {
            let drawn = Augmentation::draw(1000, 1000, LEAST_AREA, &mut stream(1, "augment", index));
            let crop = drawn.crop;
            area += f64::from(crop.width) * f64::from(crop.height) / 1e6;
            brightness += f64::from(drawn.brightness);
            flips += u32::from(drawn.flip);
            centre += f64::from(crop.left) + 0.5 * f64::from(crop.width);
        }
        let mean = |sum: f64| sum / draws as f64;
        // The rule's mean over a million crops is 0.4783 (torchvision over 20,000: 0.4761 +- 0.0016).
        assert!((mean(area) - 0.4783).abs() < 0.01, "{}", mean(area));
        assert!((mean(brightness) - 1.0).abs() < 0.006, "{}", mean(brightness));
        assert!((mean(flips.into()) - 0.5).abs() < 0.02, "{flips}");
        assert!((mean(centre) - 500.0).abs() < 4.0, "{}", mean(centre));
    }

    #[test]
    fn crops_take_at_least_the_area_that_is_asked_for() {
        let area = |least: f64| {
            let part = |index| {
                let crop = Augmentation::draw(1000, 1000, least, &mut stream(2, "augment", index)).crop;
                f64::from(crop.width) * f64::from(crop.height) / 1e6
            };
            (0..2000).map(part).fold(f64::INFINITY, f64::min)
        };
        assert!((0.08..0.1).contains(&(area(LEAST_AREA) + 1e-3)), "{}", area(LEAST_AREA));
        assert!((0.5..0.52).contains(&(area(0.5) + 1e-3)), "{}", area(0.5));
    }
}
