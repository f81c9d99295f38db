//! What images look like, so that a model meets no other kind than it was trained on without a warning.

use serde::{Deserialize, Serialize};
use siskin_data::image::ImageRef;

/// A pixel whose largest and smallest channel differ by more than this has a colour. Yellowed paper stays below.
const COLOURED: u8 = 48;
/// Half the width of the band of grey levels that counts as one background.
const BAND: usize = 16;
/// Grey levels nearer to the darkest or the lightest one than this share of the contrast are no mid-greys.
const MARGIN: f64 = 0.25;
/// With a larger share than this of both kinds, training images were mixed.
const MIXED: f64 = 0.1;

/// Statistics of one image; the first three are shares of its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Pixels that have a colour.
    pub coloured: f64,
    /// Pixels halfway between dark and light.
    pub mid_grey: f64,
    /// Pixels of the background: of the most common grey level, and of levels next to it.
    pub background: f64,
    /// The mean grey level of the background, from 0 (black) to 1 (white).
    pub background_level: f64,
}

impl Look {
    /// Of a decoded image, before it is made as small as a network needs it.
    pub fn of(image: &ImageRef<'_>) -> Look {
        let mut levels = [0u64; 256];
        let mut coloured = 0u64;
        for pixel in image.pixels.chunks_exact(image.channels.max(1).into()) {
            let (least, most) = pixel.iter().fold((255, 0), |(low, high), &v| (v.min(low), v.max(high)));
            coloured += u64::from(most - least > COLOURED);
            let sum: u32 = pixel.iter().map(|&v| u32::from(v)).sum();
            levels[(sum / pixel.len() as u32) as usize] += 1;
        }
        let all = levels.iter().sum::<u64>().max(1) as f64;
        // The band of levels around each one; the fullest is the background.
        let bands = (0..256usize).map(|centre| {
            let band = centre.saturating_sub(BAND)..(centre + BAND + 1).min(256);
            let pixels: u64 = levels[band.clone()].iter().sum();
            (pixels, band.map(|level| level as u64 * levels[level]).sum::<u64>())
        });
        let (pixels, sum) = bands.max_by_key(|(pixels, _)| *pixels).unwrap_or_default();
        let (dark, light) = (quantile(&levels, 0.01), quantile(&levels, 0.99));
        let (low, high) = (dark + MARGIN * (light - dark), light - MARGIN * (light - dark));
        let between = levels.iter().enumerate().filter(|(v, _)| *v as f64 > low && (*v as f64) < high);
        let mid_grey = between.map(|(_, n)| n).sum::<u64>() as f64 / all;
        Look {
            coloured: coloured as f64 / all,
            mid_grey,
            background: pixels as f64 / all,
            background_level: sum as f64 / pixels.max(1) as f64 / 255.0,
        }
    }
}

/// The level that so large a share of the pixels does not exceed.
fn quantile(levels: &[u64; 256], share: f64) -> f64 {
    let wanted = (share * levels.iter().sum::<u64>() as f64).ceil() as u64;
    let mut seen = 0;
    let found = levels.iter().position(|n| {
        seen += n;
        seen >= wanted.max(1)
    });
    found.unwrap_or(255) as f64
}

impl Look {
    /// Whether it looks like a photo, not like a drawing: many coloured pixels (more than coloured ink leaves), many
    /// mid-greys (more than smoothed strokes have), or no background that is nearly white or nearly black. docs/predict.md
    /// says how many drawings and photos these thresholds tell apart.
    pub fn is_photo(&self) -> bool {
        let plain = self.background >= 0.53 && !(0.1..0.8).contains(&self.background_level);
        self.coloured > 0.15 || self.mid_grey > 0.18 || !plain
    }
}

/// What the training images of a model look like.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Looks {
    /// How many images were looked at.
    pub images: usize,
    /// Share of them that look like photos.
    pub photos: f64,
    /// Their statistics, on average.
    pub mean: Look,
}

impl Looks {
    /// Of some images of the training classes; `None` of none.
    pub fn of(looks: &[Look]) -> Option<Looks> {
        let mean = |of: fn(&Look) -> f64| looks.iter().map(of).sum::<f64>() / looks.len() as f64;
        (!looks.is_empty()).then(|| Looks {
            images: looks.len(),
            photos: mean(|look| f64::from(look.is_photo())),
            mean: Look {
                coloured: mean(|look| look.coloured),
                mid_grey: mean(|look| look.mid_grey),
                background: mean(|look| look.background),
                background_level: mean(|look| look.background_level),
            },
        })
    }

    /// The place of the first model whose training images (none where a card does not say) are of the kind of these.
    pub(crate) fn first_that_suits(models: &[Option<Looks>], looks: &[Look]) -> Option<usize> {
        models.iter().position(|of| of.is_some_and(|of| of.mismatch(looks).is_none()))
    }

    /// Whether a person's images are of another kind: at least half of them, where training had one kind only.
    pub fn mismatch<'a>(&self, looks: impl IntoIterator<Item = &'a Look>) -> Option<Mismatch> {
        let trained_on_photos = match self.photos {
            share if share >= 1.0 - MIXED => true,
            share if share <= MIXED => false,
            _ => return None,
        };
        let (mut images, mut unlike) = (0, 0);
        for look in looks {
            images += 1;
            unlike += usize::from(look.is_photo() != trained_on_photos);
        }
        (images > 0 && 2 * unlike >= images).then_some(Mismatch { trained_on_photos, images, unlike })
    }
}

/// Images of another kind than a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Whether the model was trained on photos; else on drawings.
    pub trained_on_photos: bool,
    /// The images that were given.
    pub images: usize,
    /// How many of them are of the other kind.
    pub unlike: usize,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (drawings, photos) = (("a drawn character", "drawn characters"), ("a photo", "photos"));
        let ((_, seen), (one, many)) =
            if self.trained_on_photos { (photos, drawings) } else { (drawings, photos) };
        let these = match (self.unlike, self.images) {
            (1, 1) => format!("this image looks like {one}"),
            (unlike, images) if unlike == images => format!("all {images} images look like {many}"),
            (unlike, images) => format!("{unlike} of {images} images look like {many}"),
        };
        write!(
            f,
            "this model has seen {seen}, but {these}: expect little of its answers. Use a model that was trained on \
             {many}."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_data::Image;

    /// An image of `side` x `side` pixels.
    fn painted(side: i32, paint: impl Fn(f64, f64) -> [f64; 3]) -> Look {
        let place = |i: i32| (f64::from(i % side) / f64::from(side), f64::from(i / side) / f64::from(side));
        let pixels =
            (0..side * side).flat_map(|i| paint(place(i).0, place(i).1)).map(|v| v.clamp(0.0, 255.0) as u8);
        let (width, height) = (side as u32, side as u32);
        Look::of(&Image { width, height, channels: 3, pixels: pixels.collect() }.as_ref())
    }

    /// How much ink there is: a ring with a smooth rim.
    fn ink(x: f64, y: f64) -> f64 {
        let distance = ((x - 0.5).hypot(y - 0.5) - 0.3).abs();
        (1.5 - distance / 0.03).clamp(0.0, 1.0)
    }

    /// Something that looks random, between -1 and 1.
    fn grain(x: f64, y: f64) -> f64 {
        let v = (x * 127.1 + y * 311.7).sin() * 43_758.547;
        2.0 * (v - v.floor()) - 1.0
    }

    #[test]
    fn drawings_are_no_photos() {
        let drawings = [
            ("black on white", painted(105, |x, y| [255.0 * f64::from(ink(x, y) < 0.5); 3])),
            ("smooth and small", painted(28, |x, y| [255.0 * (1.0 - ink(x, y)); 3])),
            ("white on black", painted(28, |x, y| [255.0 * ink(x, y); 3])),
            ("blue ink", painted(105, |x, y| [1.0, 1.0, 0.3].map(|c| 255.0 * (1.0 - c * ink(x, y))))),
            (
                "pencil on yellowed paper, scanned",
                painted(150, |x, y| {
                    [1.0, 0.97, 0.9].map(|c| c * (238.0 + 4.0 * grain(x, y) - 130.0 * ink(x, y)))
                }),
            ),
            ("an empty sheet", painted(50, |_, _| [255.0; 3])),
        ];
        for (name, look) in drawings {
            assert!(!look.is_photo(), "{name}: {look:?}");
        }
        let glyphs = siskin_data::open::Opened::glyphs().unwrap();
        let siskin_data::Items::Images(data) = glyphs.items else { panic!("glyphs are images") };
        let photos = (0..data.len()).step_by(29).filter(|&i| Look::of(&data.image(i).unwrap()).is_photo());
        assert_eq!(photos.count(), 0, "of the drawn glyphs");
    }

    #[test]
    fn photos_are_no_drawings() {
        let photos = [
            (
                "grass and sky",
                painted(84, |x, y| [60.0 + 60.0 * y, 120.0 + 40.0 * grain(x, y), 200.0 * (1.0 - y)]),
            ),
            (
                "grey levels",
                painted(84, |x, y| {
                    [127.0 + 90.0 * (7.0 * x).sin() * (5.0 * y).cos() + 20.0 * grain(x, y); 3]
                }),
            ),
            ("a bird before an even sky", painted(84, |x, y| [170.0 - 120.0 * ink(x, y); 3])),
            ("one colour all over", painted(84, |_, _| [250.0, 90.0, 40.0])),
        ];
        for (name, look) in photos {
            assert!(look.is_photo(), "{name}: {look:?}");
        }
    }

    #[test]
    fn only_one_kind_of_training_images_leads_to_a_warning() {
        let drawing = painted(28, |x, y| [255.0 * (1.0 - ink(x, y)); 3]);
        let photo = painted(28, |_, _| [250.0, 90.0, 40.0]);
        let of_drawings = Looks::of(&[drawing; 20]).unwrap();
        assert_eq!((of_drawings.images, of_drawings.photos, of_drawings.mean.coloured), (20, 0.0, 0.0));
        assert_eq!(of_drawings.mismatch(&[drawing, drawing, photo]), None);
        let warning = of_drawings.mismatch(&[drawing, photo]).unwrap().to_string();
        assert!(
            warning.starts_with("this model has seen drawn characters, but 1 of 2 images look like photos"),
            "{warning}"
        );
        let of_photos = Looks::of(&[photo; 20]).unwrap();
        let warning = of_photos.mismatch(&[drawing]).unwrap().to_string();
        assert!(
            warning.contains("has seen photos, but this image looks like a drawn character"),
            "{warning}"
        );
        assert_eq!(of_photos.mismatch(&[photo]), None);
        assert_eq!(Looks::of(&[drawing, photo]).unwrap().mismatch(&[photo]), None, "it has seen both");
        let models = [None, Some(of_drawings), Some(of_photos)];
        assert_eq!(Looks::first_that_suits(&models, &[drawing, drawing, photo]), Some(1));
        assert_eq!(Looks::first_that_suits(&models, &[drawing, photo, photo]), Some(2));
        assert_eq!(Looks::first_that_suits(&models[..2], &[photo]), None);
        assert_eq!((Looks::of(&[]), of_photos.mismatch(&[])), (None, None));
    }
}
