//! Bilinear resampling with antialiasing, to the byte what Pillow's `resize(..., BILINEAR)` gives.
//!
//! Each output pixel is a weighted mean of the input pixels under a triangle whose half-width is one output pixel
//! (or one input pixel, where the image grows). Rows first, then columns, rounded to u8 between, weights in 22-bit
//! fixed point: the reference's results depend on all of it.

use super::{Image, ImageRef};

/// Fraction bits of a weight.
const BITS: u32 = 22;

/// A rectangle of whole pixels within an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropBox {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Columns, at least 1.
    pub width: u32,
    /// Rows, at least 1.
    pub height: u32,
}

impl CropBox {
    /// The whole of an image.
    pub fn whole(image: &ImageRef<'_>) -> Self {
        Self { left: 0, top: 0, width: image.width, height: image.height }
    }
}

/// `image` resized to `width` x `height`.
pub fn resize(image: &ImageRef<'_>, width: u32, height: u32) -> Image {
    resized_crop(image, CropBox::whole(image), width, height)
}

/// The part of `image` in `crop` (which must lie within it), resized to `width` x `height`. Pixels outside the crop
/// have no influence.
pub fn resized_crop(image: &ImageRef<'_>, crop: CropBox, width: u32, height: u32) -> Image {
    let pixels = match image.channels {
        1 => resample::<1>(image, crop, width as usize, height as usize),
        _ => resample::<3>(image, crop, width as usize, height as usize),
    };
    Image { width, height, channels: image.channels, pixels }
}

fn resample<const C: usize>(image: &ImageRef<'_>, crop: CropBox, width: usize, height: usize) -> Vec<u8> {
    let stride = image.width as usize * C;
    let (left, top) = (crop.left as usize * C, crop.top as usize);
    let (crop_width, crop_height) = (crop.width as usize, crop.height as usize);
    let rows = (top..top + crop_height).map(|y| &image.pixels[y * stride + left..][..crop_width * C]);
    let horizontal: Vec<u8> = if crop_width == width {
        rows.flatten().copied().collect()
    } else {
        let weights = Weights::new(crop_width, width);
        let mut out = vec![0; crop_height * width * C];
        for (row, out_row) in rows.zip(out.chunks_exact_mut(width * C)) {
            resample_row::<C>(row, &weights, out_row);
        }
        out
    };
    if crop_height == height {
        return horizontal;
    }
    let weights = Weights::new(crop_height, height);
    let mut out = vec![0; height * width * C];
    let mut sums = vec![0i32; width * C];
    for (y, out_row) in out.chunks_exact_mut(width * C).enumerate() {
        let (first, weights) = weights.of(y);
        sums.fill(1 << (BITS - 1));
        for (k, &w) in weights.iter().enumerate() {
            let row = &horizontal[(first + k) * width * C..][..width * C];
            for (sum, &v) in sums.iter_mut().zip(row) {
                *sum += w * i32::from(v);
            }
        }
        for (o, &sum) in out_row.iter_mut().zip(&sums) {
            *o = to_u8(sum);
        }
    }
    out
}

fn resample_row<const C: usize>(row: &[u8], weights: &Weights, out: &mut [u8]) {
    for (x, pixel) in out.chunks_exact_mut(C).enumerate() {
        let (first, weights) = weights.of(x);
        let mut sums = [1i32 << (BITS - 1); C];
        for (v, &w) in row[first * C..].chunks_exact(C).zip(weights) {
            for c in 0..C {
                sums[c] += w * i32::from(v[c]);
            }
        }
        for c in 0..C {
            pixel[c] = to_u8(sums[c]);
        }
    }
}

fn to_u8(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

/// For each output position, the first input position and the weights from there on.
struct Weights {
    first: Vec<usize>,
    start: Vec<usize>,
    weights: Vec<i32>,
}

impl Weights {
    fn new(input: usize, output: usize) -> Self {
        let scale = input as f64 / output as f64;
        let support = scale.max(1.0);
        let (mut first, mut start, mut weights) = (Vec::with_capacity(output), vec![0], Vec::new());
        let mut exact = Vec::new();
        for x in 0..output {
            let centre = (x as f64 + 0.5) * scale;
            let low = (centre - support + 0.5).max(0.0) as usize;
            let high = ((centre + support + 0.5) as usize).min(input);
            let shrink = 1.0 / support;
            let triangle = |i: usize| (1.0 - ((i as f64 - centre + 0.5) * shrink).abs()).max(0.0);
            exact.clear();
            exact.extend((low..high).map(triangle));
            let sum: f64 = exact.iter().sum();
            weights.extend(exact.iter().map(|w| (0.5 + w / sum * f64::from(1 << BITS)) as i32));
            first.push(low);
            start.push(weights.len());
        }
        Self { first, start, weights }
    }

    fn of(&self, x: usize) -> (usize, &[i32]) {
        (self.first[x], &self.weights[self.start[x]..self.start[x + 1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grey(width: u32, height: u32, pixels: Vec<u8>) -> Image {
        Image { width, height, channels: 1, pixels }
    }

    #[test]
    fn halving_takes_the_triangle_mean() {
        // Output centre at 1.0: inputs 0, 1, 2 with weights (3/4, 3/4, 1/4) / (7/4) of the border-cut triangle.
        let out = resize(&grey(4, 1, vec![70, 0, 140, 0]).as_ref(), 2, 1);
        let first = (70.0 * 3.0 + 140.0) / 7.0;
        assert_eq!(out.pixels[0], f64::round(first) as u8);
    }

    #[test]
    fn pixels_outside_the_crop_have_no_influence() {
        let mut image = grey(8, 8, vec![255; 64]);
        for y in 2..6 {
            image.pixels[y * 8 + 2..y * 8 + 6].fill(9);
        }
        let crop = CropBox { left: 2, top: 2, width: 4, height: 4 };
        assert!(resized_crop(&image.as_ref(), crop, 3, 9).pixels.iter().all(|&v| v == 9));
    }

    proptest! {
        #[test]
        fn a_constant_stays_and_a_range_is_kept(
            w in 1u32..40, h in 1u32..40, to_w in 1u32..40, to_h in 1u32..40, low in 0u8..200, spread in 0u8..50,
        ) {
            let pixels = (0..w * h * 3).map(|i| low + (i * 7919 % (u32::from(spread) + 1)) as u8).collect();
            let image = Image { width: w, height: h, channels: 3, pixels };
            let out = resize(&image.as_ref(), to_w, to_h);
            prop_assert_eq!(out.pixels.len(), (to_w * to_h * 3) as usize);
            prop_assert!(out.pixels.iter().all(|&v| (low..=low + spread).contains(&v)));
        }
    }
}
