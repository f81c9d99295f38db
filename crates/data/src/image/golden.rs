//! Transforms against torchvision and Pillow, byte by byte. The values are made by `scripts/make_augment_golden.py`.

use serde::Deserialize;

use super::Image;
use super::augment::{Augmentation, central_crop, crop_size};
use super::resize::{CropBox, resize};
use super::transform::{Channels, centre, normalize};

#[derive(Deserialize)]
struct Golden {
    images: Vec<Stored>,
    resized: Vec<Resized>,
    augmented: Vec<Augmented>,
    evaluated: Vec<Evaluated>,
    normalized: Vec<Vec<f32>>,
    crops: Vec<Crop>,
}

#[derive(Deserialize)]
struct Stored {
    width: u32,
    height: u32,
    channels: u8,
    pixels: String,
}

#[derive(Deserialize)]
struct Resized {
    image: usize,
    result: Stored,
}

#[derive(Deserialize)]
struct Augmented {
    image: usize,
    crop: [u32; 4],
    factors: [f32; 3],
    flip: bool,
    size: u32,
    result: Stored,
}

#[derive(Deserialize)]
struct Evaluated {
    image: usize,
    size: u32,
    result: Stored,
}

#[derive(Deserialize)]
struct Crop {
    tries: Vec<[f64; 2]>,
    corner: Vec<u32>,
    image: [u32; 2],
    crop: [u32; 4],
}

impl Stored {
    fn image(&self) -> Image {
        let byte = |i| u8::from_str_radix(&self.pixels[i..i + 2], 16).unwrap();
        let pixels = (0..self.pixels.len()).step_by(2).map(byte).collect();
        Image { width: self.width, height: self.height, channels: self.channels, pixels }
    }
}

fn crop_box([left, top, width, height]: [u32; 4]) -> CropBox {
    CropBox { left, top, width, height }
}

fn golden() -> Golden {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/augment.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn resizing_is_pillows() {
    let golden = golden();
    for case in &golden.resized {
        let want = case.result.image();
        let got = resize(&golden.images[case.image].image().as_ref(), want.width, want.height);
        assert_eq!(got, want, "image {} to {} x {}", case.image, want.width, want.height);
    }
}

#[test]
fn augmentation_is_torchvisions_and_pillows() {
    let golden = golden();
    for case in &golden.augmented {
        let [brightness, contrast, color] = case.factors;
        let crop = crop_box(case.crop);
        let augmentation = Augmentation { crop, brightness, contrast, color, flip: case.flip };
        let got = augmentation.apply(&golden.images[case.image].image().as_ref(), case.size);
        assert_eq!(got, case.result.image(), "{augmentation:?}");
    }
}

#[test]
fn the_evaluation_transform_is_torchvisions() {
    let golden = golden();
    for case in &golden.evaluated {
        let got = centre(&golden.images[case.image].image().as_ref(), case.size);
        assert_eq!(got, case.result.image(), "image {} at {}", case.image, case.size);
    }
}

#[test]
fn normalisation_is_torchvisions_to_the_last_bit() {
    let pixels = (0..=255u8).flat_map(|v| [v; 3]).collect();
    let levels = Image { width: 16, height: 16, channels: 3, pixels };
    let mut got = vec![0.0; 3 * 256];
    normalize(&levels, Channels::Three, &mut got);
    assert_eq!(got, golden().normalized.concat());
}

#[test]
fn crops_are_chosen_by_torchvisions_rule() {
    for case in golden().crops {
        let [width, height] = case.image;
        let sizes: Vec<_> =
            case.tries.iter().map(|&[part, aspect]| crop_size(width, height, part, aspect)).collect();
        let got = match (sizes.iter().flatten().next(), &case.corner[..]) {
            (Some(&(w, h)), &[top, left]) => CropBox { left, top, width: w, height: h },
            _ => central_crop(width, height),
        };
        assert_eq!(got, crop_box(case.crop), "{width} x {height}: {:?}", case.tries);
        let failed = sizes.iter().filter(|size| size.is_none()).count();
        assert_eq!(failed, if case.corner.is_empty() { 10 } else { case.tries.len() - 1 });
    }
}
