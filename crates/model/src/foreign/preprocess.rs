//! What becomes of an image before a foreign network sees it. Each network wants what it was trained with.

use super::fault::ForeignFault;
use serde::{Deserialize, Serialize};
use siskin_data::Image;
use siskin_data::image::resize::{CropBox, resize, resized_crop};

/// Largest side of a network's input, in pixels.
const MOST_SIDE: u32 = 2_048;
/// A squashed image is first made at most so many times as large as needed, which bounds memory.
const SQUASH_REDUCE: u32 = 4;

/// Preprocessing of well-known families of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// ResNet, MobileNet, ConvNeXt, ViT of torchvision and timm.
    Imagenet,
    /// CLIP's image tower.
    Clip,
    /// DINOv2.
    Dinov2,
    /// EfficientNet-Lite.
    EfficientnetLite,
    /// SigLIP's image tower.
    Siglip,
}

/// How a photo of any shape becomes a square.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resize {
    /// Width and height are changed alike or not: everything stays in view.
    Squash,
    /// The shorter side is made `shorter` pixels long, the aspect kept; then the centre is taken.
    Crop {
        /// Pixels of the shorter side before the centre is taken.
        shorter: u32,
    },
}

/// From an image to a network's input: resized, then `(v / 255 - mean) / std` for each channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocessing {
    /// Side of the square input, in pixels.
    pub size: u32,
    /// How it becomes a square.
    pub resize: Resize,
    /// Mean of red, green, blue, from 0 to 1.
    pub mean: [f32; 3],
    /// Standard deviation of red, green, blue.
    pub std: [f32; 3],
    /// Whether the network takes blue first, then green and red.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bgr: bool,
}

impl Preset {
    /// Every preset with its name.
    pub const NAMED: [(&str, Preset); 5] = [
        ("imagenet", Preset::Imagenet),
        ("clip", Preset::Clip),
        ("dinov2", Preset::Dinov2),
        ("efficientnet-lite", Preset::EfficientnetLite),
        ("siglip", Preset::Siglip),
    ];

    /// Its preprocessing for inputs of `size` pixels.
    pub fn preprocessing(self, size: u32) -> Preprocessing {
        // 256 pixels of which 224 are taken, at any size.
        let margin = Resize::Crop { shorter: (u64::from(size) * 256).div_ceil(224) as u32 };
        let (mean, std, bgr) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], false);
        match self {
            Preset::Imagenet | Preset::Dinov2 => Preprocessing { size, resize: margin, mean, std, bgr },
            Preset::Clip => Preprocessing {
                size,
                resize: Resize::Crop { shorter: size },
                mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
                std: [0.268_629_54, 0.261_302_6, 0.275_777_1],
                bgr,
            },
            Preset::EfficientnetLite => {
                Preprocessing { size, resize: margin, mean: [127.0 / 255.0; 3], std: [128.0 / 255.0; 3], bgr }
            }
            Preset::Siglip => {
                Preprocessing { size, resize: Resize::Squash, mean: [0.5; 3], std: [0.5; 3], bgr }
            }
        }
    }
}

impl Preprocessing {
    /// Refuses sizes and numbers that make no sense.
    pub fn check(&self) -> Result<(), ForeignFault> {
        let side = |what, value: u32, least: u32| match (least..=MOST_SIDE).contains(&value) {
            true => Ok(()),
            false => Err(ForeignFault::Setting {
                what,
                value: f64::from(value),
                must: "from 8 to 2048 pixels, the shorter side not below the size",
            }),
        };
        side("the size", self.size, 8)?;
        if let Resize::Crop { shorter } = self.resize {
            side("the shorter side", shorter, self.size)?;
        }
        let bad = |what, value: f32, must| ForeignFault::Setting { what, value: f64::from(value), must };
        if let Some(&v) = self.mean.iter().find(|v| !v.is_finite()) {
            return Err(bad("the mean", v, "a number"));
        }
        match self.std.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
            Some(&v) => Err(bad("the standard deviation", v, "positive")),
            None => Ok(()),
        }
    }

    /// Pixels of the shorter side that a decoded image needs at most.
    pub fn shorter_side(&self) -> u32 {
        match self.resize {
            Resize::Crop { shorter } => shorter,
            Resize::Squash => SQUASH_REDUCE * self.size,
        }
    }

    /// Number of values of one input.
    pub fn len(&self) -> usize {
        3 * self.size as usize * self.size as usize
    }

    /// Whether an input has no values.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The pixels the network sees, [size, size, 3], before they are normalised.
    pub fn pixels(&self, image: &Image) -> Vec<u8> {
        let square = match self.resize {
            Resize::Squash => resize(&image.as_ref(), self.size, self.size),
            Resize::Crop { shorter } => centre(image, shorter, self.size),
        };
        match square.channels {
            1 => square.pixels.iter().flat_map(|&v| [v; 3]).collect(),
            _ => square.pixels,
        }
    }

    /// Value of a channel's byte as the network takes it.
    pub fn normalised(&self, channel: usize, byte: u8) -> f32 {
        (f32::from(byte) / 255.0 - self.mean[channel]) / self.std[channel]
    }
}

/// The image with a shorter side of `shorter` pixels, and the square of `size` pixels in its middle.
fn centre(image: &Image, shorter: u32, size: u32) -> Image {
    let (width, height) = scaled(image.width, image.height, shorter);
    let first = |long: u32| (f64::from(long - size) / 2.0).round_ties_even() as u32;
    let resized = match (width, height) == (image.width, image.height) {
        true => image.clone(),
        false => resize(&image.as_ref(), width, height),
    };
    let crop = CropBox { left: first(width), top: first(height), width: size, height: size };
    resized_crop(&resized.as_ref(), crop, size, size)
}

/// Width and height with a shorter side of `shorter`, the longer one cut to whole pixels.
fn scaled(width: u32, height: u32, shorter: u32) -> (u32, u32) {
    let least = width.min(height).max(1);
    if least == shorter {
        return (width, height);
    }
    let longer =
        |v: u32| (u64::from(v) * u64::from(shorter) / u64::from(least)).max(u64::from(shorter)) as u32;
    (longer(width), longer(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(width: u32, height: u32, channels: u8) -> Image {
        let count = width * height * u32::from(channels);
        Image { width, height, channels, pixels: (0..count).map(|i| (i * 31 % 251) as u8).collect() }
    }

    #[test]
    fn a_crop_keeps_the_middle_and_a_squash_everything() {
        // Left half black, right half white: the centre of a wide photo has both in equal parts either way; the outer stripes
        // of grey are seen only by a squash.
        let column = |x: u32| {
            if !(10..30).contains(&x) {
                128
            } else if x < 20 {
                0
            } else {
                255
            }
        };
        let pixels: Vec<u8> = (0..20 * 40).flat_map(|i| [column(i % 40); 3]).collect();
        let image = Image { width: 40, height: 20, channels: 3, pixels };
        let of = |resize| {
            Preprocessing { size: 20, resize, mean: [0.0; 3], std: [1.0; 3], bgr: false }.pixels(&image)
        };
        let (crop, squash) = (of(Resize::Crop { shorter: 20 }), of(Resize::Squash));
        assert_eq!((crop.len(), squash.len()), (1200, 1200));
        assert_eq!((crop[0], crop[57]), (0, 255));
        assert!(!crop.contains(&128) && squash[0] == 128 && squash[57] == 128);
    }

    #[test]
    fn images_of_any_shape_and_grey_ones_are_taken() {
        for (width, height) in [(1, 1), (300, 17), (17, 300), (224, 224), (5, 4000)] {
            for channels in [1, 3] {
                for (_, preset) in Preset::NAMED {
                    let of = preset.preprocessing(224);
                    assert_eq!(of.pixels(&plain(width, height, channels)).len(), of.len());
                }
            }
        }
    }

    #[test]
    fn presets_normalise_as_published() {
        // (value - 127) / 128 for EfficientNet-Lite; 2 v - 1 for SigLIP.
        let lite = Preset::EfficientnetLite.preprocessing(224);
        assert!((lite.normalised(1, 255) - 1.0).abs() < 1e-6 && lite.normalised(0, 127).abs() < 1e-6);
        let siglip = Preset::Siglip.preprocessing(224);
        assert_eq!((siglip.normalised(0, 0), siglip.normalised(2, 255)), (-1.0, 1.0));
        assert_eq!(Preset::Imagenet.preprocessing(224).resize, Resize::Crop { shorter: 256 });
        assert!(
            (Preset::Imagenet.preprocessing(224).normalised(2, 255) - (1.0 - 0.406) / 0.225).abs() < 1e-6
        );
    }

    #[test]
    fn settings_without_sense_are_refused() {
        let good = Preset::Clip.preprocessing(224);
        assert_eq!(good.check(), Ok(()));
        let bad = [
            Preprocessing { size: 7, ..good },
            Preprocessing { size: 4_000, ..good },
            Preprocessing { resize: Resize::Crop { shorter: 223 }, ..good },
            Preprocessing { std: [0.2, 0.0, 0.2], ..good },
            Preprocessing { mean: [f32::NAN; 3], ..good },
        ];
        assert!(bad.iter().all(|p| p.check().is_err()));
    }
}
