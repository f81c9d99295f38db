//! A data set as samplers and loaders see it: classes of images, already decoded.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::cache::pack::Mapped;
use crate::image::{Image, ImageRef};
use crate::{Error, Result};

/// A class: a name and its images, contiguous in the data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Name of the class, unique in its data set.
    pub name: String,
    /// Indices of its images (or vectors) in the data set.
    pub images: Range<usize>,
    /// The domain it belongs to: an alphabet, a genus, or the name of the data set.
    pub domain: String,
}

/// The images of one class, named, on their way into a [`Dataset`].
#[derive(Debug, Clone)]
pub struct ClassImages {
    /// Name of the class.
    pub name: String,
    /// Its domain.
    pub domain: String,
    /// Name and pixels of each image.
    pub images: Vec<(String, Image)>,
}

/// Images of one data set, decoded to a working resolution, in memory or memory-mapped.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Name of the data set.
    pub name: String,
    /// Its classes; their image ranges follow one another.
    pub classes: Vec<Class>,
    images: Vec<Entry>,
    pixels: Pixels,
    content_hash: blake3::Hash,
}

/// Where an image lies in the pixels, and how it is turned on the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub offset: usize,
    /// Its place among the images that are stored: turned images share it.
    pub stored: usize,
    pub width: u32,
    pub height: u32,
    pub channels: u8,
    pub turns: u8,
    /// Of the file, or of the pixels where there is no file.
    pub hash: blake3::Hash,
}

impl Entry {
    pub(crate) fn bytes(&self) -> usize {
        self.width as usize * self.height as usize * self.channels as usize
    }
}

/// The pixels of all images, one after the other.
#[derive(Debug, Clone)]
pub(crate) enum Pixels {
    Memory(Arc<Vec<u8>>),
    /// A pack: its pixels begin at [`crate::cache::pack::PIXELS_AT`], which the offsets count.
    Mapped(Arc<Mapped>),
}

impl Pixels {
    fn of(&self, entry: &Entry) -> Result<&[u8]> {
        match self {
            Pixels::Memory(bytes) => Ok(&bytes[entry.offset..entry.offset + entry.bytes()]),
            Pixels::Mapped(pack) => pack.pixels(entry),
        }
    }
}

impl Dataset {
    /// A data set held in memory. Its content hash covers names and pixels.
    pub fn in_memory(name: impl Into<String>, classes: Vec<ClassImages>) -> Result<Self> {
        let name = name.into();
        let mut hasher = blake3::Hasher::new();
        let (mut pixels, mut images, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for class in classes {
            let start = images.len();
            hash_text(&mut hasher, &class.name);
            hasher.update(&(class.images.len() as u64).to_le_bytes());
            for (image_name, image) in class.images {
                let entry = Entry {
                    name: image_name,
                    offset: pixels.len(),
                    stored: images.len(),
                    width: image.width,
                    height: image.height,
                    channels: image.channels,
                    turns: 0,
                    hash: hash_pixels(&image),
                };
                if entry.bytes() != image.pixels.len() || !matches!(image.channels, 1 | 3) {
                    return Err(Error::ImageShape {
                        name: entry.name,
                        class: class.name,
                        width: image.width,
                        height: image.height,
                        channels: image.channels,
                        expected: u64::from(image.width)
                            * u64::from(image.height)
                            * u64::from(image.channels),
                        got: image.pixels.len() as u64,
                    });
                }
                hash_text(&mut hasher, &entry.name);
                hash_image(&mut hasher, &image);
                pixels.extend_from_slice(&image.pixels);
                images.push(entry);
            }
            ranges.push(Class { name: class.name, images: start..images.len(), domain: class.domain });
        }
        Self::from_parts(name, ranges, images, Pixels::Memory(Arc::new(pixels)), hasher.finalize())
    }

    /// The parts put together, once the class names are known to be unique.
    pub(crate) fn from_parts(
        name: String,
        classes: Vec<Class>,
        images: Vec<Entry>,
        pixels: Pixels,
        content_hash: blake3::Hash,
    ) -> Result<Self> {
        let mut seen = HashSet::new();
        for class in &classes {
            if !seen.insert(&class.name) {
                return Err(Error::DuplicateClass { dataset: name, name: class.name.clone() });
            }
        }
        Ok(Dataset { name, classes, images, pixels, content_hash })
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Image `index`, of `0..len()`. Panics beyond, as a slice does. An error if its pixels in the cache are damaged.
    pub fn image(&self, index: usize) -> Result<ImageRef<'_>> {
        let entry = &self.images[index];
        let image = ImageRef {
            width: entry.width,
            height: entry.height,
            channels: entry.channels,
            pixels: Cow::Borrowed(self.pixels.of(entry)?),
        };
        Ok(image.turned(entry.turns))
    }

    /// Width, height and channels of image `index` as [`Dataset::image`] gives it, without touching its pixels.
    pub fn image_size(&self, index: usize) -> (u32, u32, u8) {
        let entry = &self.images[index];
        if entry.turns.is_multiple_of(2) {
            (entry.width, entry.height, entry.channels)
        } else {
            (entry.height, entry.width, entry.channels)
        }
    }

    /// Name of image `index`: its path within the source, with `/` between the parts.
    pub(crate) fn image_name(&self, index: usize) -> &str {
        &self.images[index].name
    }

    /// Hash of the file that image `index` was read from, or of its pixels where there was no file.
    pub fn image_hash(&self, index: usize) -> blake3::Hash {
        self.images[index].hash
    }

    /// The class that image `index` belongs to.
    pub fn class_of(&self, index: usize) -> usize {
        self.classes.partition_point(|class| class.images.end <= index)
    }

    /// What the data set holds, as a hash: equal content gives equal hashes, on any machine.
    /// Names of classes and images and the bytes of the files (of the pixels, where there are no files) enter it.
    pub fn content_hash(&self) -> blake3::Hash {
        self.content_hash
    }

    /// The data set with each class turned by 90, 180 and 270 degrees as three classes more, named
    /// `<class>_rot90` and so on: the Omniglot protocol. No pixel is copied; the turn happens in [`Dataset::image`].
    pub fn with_rotations(&self) -> Result<Self> {
        let (mut classes, mut images) = (Vec::new(), Vec::new());
        for turns in 0..4u8 {
            for class in &self.classes {
                let start = images.len();
                images.extend(self.images[class.images.clone()].iter().map(|entry| Entry {
                    name: with_turn(&entry.name, turns),
                    turns: (entry.turns + turns) % 4,
                    ..entry.clone()
                }));
                classes.push(Class {
                    name: with_turn(&class.name, turns),
                    images: start..images.len(),
                    domain: class.domain.clone(),
                });
            }
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.content_hash.as_bytes()).update(b"rotations 90 180 270");
        Self::from_parts(self.name.clone(), classes, images, self.pixels.clone(), hasher.finalize())
    }
}

/// The content hash of a data set that was read from files: names of classes and images, and the hash of each file.
pub(crate) fn hash_of_files(classes: &[Class], images: &[Entry]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for class in classes {
        hash_text(&mut hasher, &class.name);
        hasher.update(&(class.images.len() as u64).to_le_bytes());
        for image in &images[class.images.clone()] {
            hash_text(&mut hasher, &image.name);
            hasher.update(image.hash.as_bytes());
        }
    }
    hasher.finalize()
}

fn hash_pixels(image: &Image) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hash_image(&mut hasher, image);
    hasher.finalize()
}

fn hash_image(hasher: &mut blake3::Hasher, image: &Image) {
    hasher.update(&image.width.to_le_bytes()).update(&image.height.to_le_bytes());
    hasher.update(&[image.channels]).update(&image.pixels);
}

/// The name of a class or image after so many quarter turns.
pub(crate) fn with_turn(name: &str, turns: u8) -> String {
    if turns == 0 { name.to_owned() } else { format!("{name}_rot{}", u32::from(turns) * 90) }
}

/// Text into a hash, its length first, so that no two lists of texts look alike.
pub(crate) fn hash_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `classes` classes of `per_class` grey 2 x 1 images whose pixels are (class, image).
    pub(crate) fn small(classes: usize, per_class: usize) -> Dataset {
        let class = |c: usize| ClassImages {
            name: format!("c{c}"),
            domain: "small".into(),
            images: (0..per_class)
                .map(|i| {
                    let pixels = vec![c as u8, i as u8];
                    (format!("c{c}/{i}.png"), Image { width: 2, height: 1, channels: 1, pixels })
                })
                .collect(),
        };
        Dataset::in_memory("small", (0..classes).map(class).collect()).unwrap()
    }

    #[test]
    fn images_and_classes_find_each_other() {
        let data = small(3, 4);
        assert_eq!(data.len(), 12);
        for (c, class) in data.classes.iter().enumerate() {
            for (i, index) in class.images.clone().enumerate() {
                assert_eq!(data.class_of(index), c);
                assert_eq!(&*data.image(index).unwrap().pixels, [c as u8, i as u8]);
            }
        }
    }

    #[test]
    fn rotations_are_new_classes_over_the_same_pixels() {
        let data = small(2, 3);
        let turned = data.with_rotations().unwrap();
        assert_eq!((turned.classes.len(), turned.len()), (8, 24));
        assert_eq!(turned.classes[3].name, "c1_rot90");
        assert_ne!(turned.content_hash(), data.content_hash());
        let first = turned.classes[3].images.start;
        let image = turned.image(first).unwrap();
        assert_eq!((image.width, image.height), (1, 2));
        assert_eq!(&*image.pixels, [0, 1], "counter-clockwise: the right pixel comes on top");
        assert_eq!(turned.image_name(first), "c1/0.png_rot90");
    }

    #[test]
    fn the_hash_sees_names_and_pixels() {
        let same = small(2, 2).content_hash();
        assert_eq!(same, small(2, 2).content_hash());
        assert_ne!(same, small(2, 3).content_hash());
    }

    #[test]
    fn wrong_sizes_and_double_names_are_refused() {
        let image = Image { width: 2, height: 2, channels: 1, pixels: vec![0; 3] };
        let class = |name: &str, image: Image| ClassImages {
            name: name.into(),
            domain: String::new(),
            images: vec![("i".into(), image)],
        };
        let error = Dataset::in_memory("d", vec![class("a", image)]).unwrap_err();
        assert!(error.to_string().contains("has 3 bytes, but 2 x 2 x 1 needs 4"), "{error}");
        let good = Image { width: 1, height: 1, channels: 1, pixels: vec![0] };
        let twice = vec![class("a", good.clone()), class("a", good)];
        assert!(matches!(Dataset::in_memory("d", twice), Err(Error::DuplicateClass { .. })));
    }
}
