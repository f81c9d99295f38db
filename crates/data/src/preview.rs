//! Pictures for people: a contact sheet of a split, or one episode as the network sees it.

use std::path::Path;

use crate::image::resize::resize;
use crate::{Dataset, EpisodeSource, Error, Image, ImageRef, Items, Result, Split, Transform};
use siskin_random::stream_at;

/// Level of the paper between the pictures.
const PAPER: u8 = 160;
/// Pixels between two pictures.
const GAP: u32 = 2;

/// A sheet of square tiles in RGB, row by row.
struct Sheet {
    tile: u32,
    columns: u32,
    image: Image,
}

impl Sheet {
    fn new(rows: u32, columns: u32, tile: u32) -> Self {
        let (width, height) = (columns * (tile + GAP) + GAP, rows * (tile + GAP) + GAP);
        let pixels = vec![PAPER; width as usize * height as usize * 3];
        Self { tile, columns, image: Image { width, height, channels: 3, pixels } }
    }

    /// Puts a picture on a tile: as large as fits, its aspect kept, in the middle.
    fn put(&mut self, row: u32, column: u32, picture: &ImageRef<'_>) {
        debug_assert!(column < self.columns);
        let longer = picture.width.max(picture.height);
        let fit = |side: u32| (u64::from(side) * u64::from(self.tile) / u64::from(longer)).max(1) as u32;
        let small = resize(picture, fit(picture.width), fit(picture.height));
        let left = GAP + column * (self.tile + GAP) + (self.tile - small.width) / 2;
        let top = GAP + row * (self.tile + GAP) + (self.tile - small.height) / 2;
        let channels = small.channels as usize;
        for (y, line) in (top..).zip(small.pixels.chunks_exact(small.width as usize * channels)) {
            let start = (y as usize * self.image.width as usize + left as usize) * 3;
            let out = self.image.pixels[start..].chunks_exact_mut(3);
            for (rgb, pixel) in out.zip(line.chunks_exact(channels)) {
                // A grey pixel has one value, which `cycle` gives to all three channels.
                rgb.iter_mut().zip(pixel.iter().cycle()).for_each(|(to, &from)| *to = from);
            }
        }
    }
}

/// A contact sheet: up to `classes` classes of `split`, evenly chosen, a row each, with its first `per_class` images.
pub fn contact_sheet(split: &Split, classes: u32, per_class: u32, tile: u32) -> Result<Image> {
    let data = images(split)?;
    let count = split.classes.len();
    let rows = (classes as usize).min(count);
    let mut sheet = Sheet::new(rows as u32, per_class, tile.max(1));
    for row in 0..rows {
        let members = &split.classes[row * count / rows];
        for (column, &item) in (0..per_class).zip(&members.items) {
            sheet.put(row as u32, column, &data.image(item)?);
        }
    }
    Ok(sheet.image)
}

/// An episode: a row for each class, its support, a free column, its queries. With a transform the tiles are what
/// the network sees (before normalisation), without one the stored images.
pub fn episode_sheet(
    source: &dyn EpisodeSource,
    index: u64,
    view: Option<(&Transform, u64)>,
    tile: u32,
) -> Result<Image> {
    let episode = source.episode(index)?;
    let data = images(&source.splits()[episode.split])?;
    let most_support = episode.classes.iter().map(|class| class.support.len()).max().unwrap_or(0);
    let most_query = episode.classes.iter().map(|class| class.query.len()).max().unwrap_or(0);
    let mut sheet = Sheet::new(episode.way() as u32, (most_support + 1 + most_query) as u32, tile.max(1));
    let mut position = 0;
    for (row, class) in (0..).zip(&episode.classes) {
        let columns = (0..class.support.len()).chain(most_support + 1..);
        for (column, item) in columns.zip(class.items()) {
            let stored = data.image(item)?;
            match view {
                None => sheet.put(row, column as u32, &stored),
                Some((transform, seed)) => {
                    let mut rng = stream_at(seed, "augment", index, position);
                    sheet.put(row, column as u32, &transform.pixels(&stored, &mut rng).as_ref());
                }
            }
            position += 1;
        }
    }
    Ok(sheet.image)
}

/// Writes an image as PNG.
pub fn write_png(image: &Image, path: &Path) -> Result<()> {
    let color =
        if image.channels == 1 { image::ExtendedColorType::L8 } else { image::ExtendedColorType::Rgb8 };
    let format = image::ImageFormat::Png;
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::write_buffer_with_format(&mut bytes, &image.pixels, image.width, image.height, color, format)
        .map_err(|error| Error::Picture { path: path.to_owned(), reason: error.to_string() })?;
    crate::files::write(path, bytes.get_ref()).map_err(|source| Error::io("write", path, source))
}

fn images(split: &Split) -> Result<&Dataset> {
    match &split.items {
        Items::Images(data) => Ok(data),
        Items::Embeddings(data) => Err(Error::NotImages { dataset: data.name.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::small;
    use crate::image::augment::LEAST_AREA;
    use crate::{Channels, Embeddings, EpisodeSpec, Sampler, SplitName};
    use std::sync::Arc;

    fn split() -> Split {
        Split::all(SplitName::Train, Items::Images(Arc::new(small(6, 9))))
    }

    fn pixel(sheet: &Image, x: u32, y: u32) -> [u8; 3] {
        let at = (y * sheet.width + x) as usize * 3;
        sheet.pixels[at..at + 3].try_into().unwrap()
    }

    #[test]
    fn a_contact_sheet_shows_every_other_class_of_six_in_three_rows() {
        let sheet = contact_sheet(&split(), 3, 4, 10).unwrap();
        assert_eq!((sheet.width, sheet.height), (4 * 12 + 2, 3 * 12 + 2));
        for (row, class) in [(0, 0), (1, 2), (2, 4)] {
            for column in 0..4 {
                // Stored pixels are (class, image), two wide and one high: a 10 x 5 picture in the middle of the tile.
                let (left, top) = (2 + column * 12, 2 + row * 12);
                assert_eq!(pixel(&sheet, left, top + 5), [class; 3]);
                assert_eq!(pixel(&sheet, left + 9, top + 5), [column as u8; 3]);
                assert_eq!(pixel(&sheet, left, top), [PAPER; 3], "above the picture");
            }
        }
    }

    #[test]
    fn an_episode_sheet_shows_support_and_queries_apart() {
        let sampler = Sampler::new(vec![split()], EpisodeSpec::fixed(3, 2, 4), 0).unwrap();
        let sheet = episode_sheet(&sampler, 0, None, 10).unwrap();
        assert_eq!((sheet.width, sheet.height), (7 * 12 + 2, 3 * 12 + 2));
        for (row, class) in (0u32..).zip(sampler.draw(0).classes) {
            let columns = [0u32, 1, 3, 4, 5, 6];
            for (column, item) in columns.into_iter().zip(class.items()) {
                let seen = pixel(&sheet, 2 + column * 12 + 9, 2 + row * 12 + 5);
                assert_eq!(seen, [(item % 9) as u8; 3]);
            }
            assert_eq!(pixel(&sheet, 2 + 2 * 12 + 5, 2 + row * 12 + 5), [PAPER; 3], "the free column");
        }
        let transform = Transform { size: 8, channels: Channels::One, augment: Some(LEAST_AREA) };
        let augmented = episode_sheet(&sampler, 0, Some((&transform, 1)), 10).unwrap();
        assert_eq!((augmented.width, augmented.height), (sheet.width, sheet.height));
        assert_ne!(augmented.pixels, sheet.pixels);
    }

    #[test]
    fn a_png_is_written_whole_and_a_bad_path_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sheet.png");
        let sheet = contact_sheet(&split(), 3, 4, 10).unwrap();
        write_png(&sheet, &path).unwrap();
        assert_eq!(image::open(&path).unwrap().to_rgb8().into_raw(), sheet.pixels);
        let nowhere = dir.path().join("none/sheet.png");
        let error = write_png(&sheet, &nowhere).unwrap_err().to_string();
        assert!(error.contains("none/sheet.png"), "{error}");
    }

    #[test]
    fn embeddings_cannot_be_shown() {
        let data = Embeddings::new("e", vec!["a".into()], 1, &[0.0], &[0]).unwrap();
        let split = Split::all(SplitName::Test, Items::Embeddings(Arc::new(data)));
        assert!(
            matches!(contact_sheet(&split, 1, 1, 8), Err(Error::NotImages { dataset }) if dataset == "e")
        );
    }
}
