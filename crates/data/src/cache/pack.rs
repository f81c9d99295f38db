//! The pack: all images of a data set in one file that is mapped, not read.
//!
//! ```text
//! 0   magic "SISKPACK"      8 bytes
//! 8   version               u32, little-endian as all numbers
//! 12  zero                  u32
//! 16  bytes of pixels       u64
//! 24  bytes of the index    u64
//! 32  blake3 of the index   32 bytes
//! 64  pixels, image after image, row-major, channels interleaved
//! ..  index, JSON: classes, and for each image name, offset, size, hash of its file and checksum of its pixels
//! ```
//!
//! The index is checked when the pack is opened, the pixels of an image when it is first asked for.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dataset::{Entry, Pixels, hash_of_files};
use crate::files::Draft;
use crate::{Class, Dataset, Error, Image, Result};

const MAGIC: &[u8; 8] = b"SISKPACK";
/// Raised whenever the format or the decoding changes.
pub(crate) const VERSION: u32 = 2;
/// Where the pixels begin.
pub(crate) const PIXELS_AT: u64 = 64;

/// Classes and images of a pack. Columns, because a hundred thousand images are common.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
struct Index {
    classes: Vec<IndexClass>,
    names: Vec<String>,
    offsets: Vec<u64>,
    sizes: Vec<(u32, u32, u8)>,
    /// Hexadecimal.
    hashes: Vec<String>,
    /// Of the pixels: see [`checksum`].
    sums: Vec<u64>,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct IndexClass {
    name: String,
    /// Empty: the name of the data set.
    domain: String,
    images: usize,
}

/// Where a written image lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    offset: u64,
    size: (u32, u32, u8),
    hash: blake3::Hash,
    sum: u64,
}

/// The first eight bytes of the blake3 of an image's pixels.
fn checksum(pixels: &[u8]) -> u64 {
    let hash = blake3::hash(pixels);
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}

/// Name, domain (empty: the name of the data set) and named images of a class.
pub(crate) type StoredClass = (String, String, Vec<(String, Stored)>);

/// Writes a pack beside its final place, and moves it there when it is whole.
pub(crate) struct PackWriter {
    folder: PathBuf,
    file: BufWriter<Draft>,
    end: u64,
}

impl PackWriter {
    /// Begins a pack in `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let draft =
            Draft::create(folder, false).map_err(|source| Error::io("create a file in", folder, source))?;
        let mut file = BufWriter::with_capacity(1 << 20, draft);
        file.write_all(&[0; PIXELS_AT as usize]).map_err(|source| Error::io("write in", folder, source))?;
        Ok(PackWriter { folder: folder.to_owned(), file, end: PIXELS_AT })
    }

    /// Adds an image.
    pub(crate) fn push(&mut self, image: &Image, hash: blake3::Hash) -> Result<Stored> {
        self.write(&image.pixels)?;
        let offset = self.end;
        self.end += image.pixels.len() as u64;
        let sum = checksum(&image.pixels);
        Ok(Stored { offset, size: (image.width, image.height, image.channels), hash, sum })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|source| Error::io("write in", &self.folder, source))
    }

    /// Writes index and header, and moves the pack to `<folder>/<key>.pack`, with the key of its content.
    pub(crate) fn finish(mut self, classes: Vec<StoredClass>) -> Result<String> {
        let mut index = Index::default();
        for (name, domain, images) in classes {
            index.classes.push(IndexClass { name, domain, images: images.len() });
            for (name, stored) in images {
                index.names.push(name);
                index.offsets.push(stored.offset);
                index.sizes.push(stored.size);
                index.hashes.push(stored.hash.to_hex().to_string());
                index.sums.push(stored.sum);
            }
        }
        let json = serde_json::to_vec(&index)
            .map_err(|e| Error::BadCache { path: self.folder.clone(), reason: e.to_string() })?;
        let index_hash = blake3::hash(&json);
        self.write(&json)?;
        let header = header(self.end - PIXELS_AT, &json);
        // Names, sizes and hashes of the files are all in the index: its hash is the key of the content.
        let key = index_hash.to_hex()[..32].to_owned();
        let target = pack_path(&self.folder, &key);
        let io = |source| Error::io("write", &target, source);
        let mut draft = self.file.into_inner().map_err(|e| io(e.into_error()))?;
        draft.overwrite_start(&header).map_err(io)?;
        draft.place(&target).map_err(io)?;
        Ok(key)
    }
}

fn header(pixel_bytes: u64, index: &[u8]) -> Vec<u8> {
    let mut header = Vec::with_capacity(PIXELS_AT as usize);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend([0; 4]);
    header.extend(pixel_bytes.to_le_bytes());
    header.extend((index.len() as u64).to_le_bytes());
    header.extend(blake3::hash(index).as_bytes());
    header
}

/// The bytes of a pack with any index, right or wrong.
pub(crate) fn sealed(pixels: &[u8], index: &[u8]) -> Vec<u8> {
    [&header(pixels.len() as u64, index), pixels, index].concat()
}

/// Where the pack of a key lies.
pub(crate) fn pack_path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.pack"))
}

/// Opens a pack: header and index are checked, the pixels are mapped.
pub(crate) fn open(path: &Path, name: &str) -> Result<Dataset> {
    let bad = |reason: &str| Error::BadCache { path: path.to_owned(), reason: reason.to_owned() };
    let file = File::open(path).map_err(|source| Error::io("open", path, source))?;
    // SAFETY: the file is only ever replaced as a whole by a rename, never written in place, so the mapped bytes do
    // not change beneath us; the map is read as plain bytes, for which any content is valid.
    #[allow(unsafe_code)]
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|source| Error::io("map", path, source))?;
    let header = map.get(..PIXELS_AT as usize).ok_or_else(|| bad("it is shorter than its header"))?;
    if &header[..8] != MAGIC {
        return Err(bad("it does not begin as a pack"));
    }
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
    let version = u32::from_le_bytes(std::array::from_fn(|i| header[8 + i]));
    if version != VERSION {
        return Err(bad(&format!("it has version {version}; this program writes version {VERSION}")));
    }
    let (pixel_bytes, index_bytes) = (u64_at(16), u64_at(24));
    let end = PIXELS_AT.checked_add(pixel_bytes).and_then(|at| at.checked_add(index_bytes));
    if end != Some(map.len() as u64) {
        return Err(bad("its length is not what its header says; it was cut short or changed"));
    }
    let pixels_end = PIXELS_AT + pixel_bytes;
    let json = &map[pixels_end as usize..];
    if blake3::hash(json).as_bytes() != &header[32..64] {
        return Err(bad("the checksum of its index is wrong"));
    }
    let index: Index = serde_json::from_slice(json).map_err(|e| bad(&format!("its index: {e}")))?;
    let count = index.names.len();
    let images: usize = index.classes.iter().map(|c| c.images).sum();
    if [index.offsets.len(), index.sizes.len(), index.hashes.len(), index.sums.len(), images] != [count; 5] {
        return Err(bad("the columns of its index differ in length"));
    }
    let mut entries = Vec::with_capacity(count);
    let columns = index.names.into_iter().zip(index.offsets).zip(index.sizes).zip(index.hashes);
    for (((name, offset), (width, height, channels)), hash) in columns {
        let bytes = u64::from(width) * u64::from(height) * u64::from(channels);
        if !matches!(channels, 1 | 3) || offset < PIXELS_AT || offset.saturating_add(bytes) > pixels_end {
            return Err(bad(&format!("the image {name} lies outside its pixels")));
        }
        let hash =
            blake3::Hash::from_hex(&hash).map_err(|_| bad(&format!("the image {name} has no hash")))?;
        let stored = entries.len();
        entries.push(Entry {
            name,
            offset: offset as usize,
            stored,
            width,
            height,
            channels,
            turns: 0,
            hash,
        });
    }
    let mut classes = Vec::with_capacity(index.classes.len());
    let mut start = 0;
    for class in index.classes {
        let domain = if class.domain.is_empty() { name.to_owned() } else { class.domain };
        classes.push(Class { name: class.name, images: start..start + class.images, domain });
        start += class.images;
    }
    let content_hash = hash_of_files(&classes, &entries);
    let checked = (0..count).map(|_| AtomicBool::new(false)).collect();
    let pixels = Mapped { map, path: path.to_owned(), sums: index.sums, checked };
    Dataset::from_parts(name.to_owned(), classes, entries, Pixels::Mapped(Arc::new(pixels)), content_hash)
}

/// The pixels of a pack, mapped. Those of an image are compared with their checksum once, when they are first asked for.
#[derive(Debug)]
pub(crate) struct Mapped {
    map: memmap2::Mmap,
    path: PathBuf,
    sums: Vec<u64>,
    checked: Vec<AtomicBool>,
}

impl Mapped {
    /// The pixels of an image, or the fact that they are not those that were written.
    pub(crate) fn pixels(&self, entry: &Entry) -> Result<&[u8]> {
        let pixels = &self.map[entry.offset..entry.offset + entry.bytes()];
        if !self.checked[entry.stored].load(Ordering::Relaxed) {
            if checksum(pixels) != self.sums[entry.stored] {
                let reason = format!(
                    "the pixels of {} are damaged (their checksum is wrong). Delete the file, and it is made anew",
                    entry.name
                );
                return Err(Error::BadCache { path: self.path.clone(), reason });
            }
            self.checked[entry.stored].store(true, Ordering::Relaxed);
        }
        Ok(pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path) -> PathBuf {
        let mut writer = PackWriter::new(folder).unwrap();
        let image = |v: u8| Image { width: 2, height: 1, channels: 3, pixels: vec![v; 6] };
        let stored: Vec<_> = (0..3).map(|v| writer.push(&image(v), blake3::hash(&[v])).unwrap()).collect();
        // The second class was read before the first.
        let first = ("a".to_owned(), String::new(), vec![("a/2".to_owned(), stored[2].clone())]);
        let second = [0, 1].map(|i| (format!("b/{i}"), stored[i].clone())).to_vec();
        let key = writer.finish(vec![first, ("b".to_owned(), "B".to_owned(), second)]).unwrap();
        pack_path(folder, &key)
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path());
        let data = open(&path, "d").unwrap();
        assert_eq!((data.len(), data.classes.len()), (3, 2));
        assert_eq!((data.classes[0].domain.as_str(), data.classes[1].domain.as_str()), ("d", "B"));
        assert_eq!(data.classes[1].images, 1..3);
        assert_eq!(&*data.image(0).unwrap().pixels, [2; 6]);
        assert_eq!((data.image_name(2), &*data.image(2).unwrap().pixels), ("b/1", [1; 6].as_slice()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
        assert_eq!(write(dir.path()), path, "the same content has the same key");
    }

    #[test]
    fn every_damage_to_header_index_or_length_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path());
        let good = std::fs::read(&path).unwrap();
        let index_at = 64 + 18;
        let damaged = |at: usize| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        };
        let cases = (0..12).chain(16..64).chain(index_at..good.len()).map(damaged);
        let cases =
            cases.chain((0..good.len()).map(|n| good[..n].to_vec())).chain([[&good[..], &[0]].concat()]);
        for bytes in cases {
            std::fs::write(&path, bytes).unwrap();
            // An empty file cannot be mapped on every system: that is an error of the system then.
            assert!(matches!(open(&path, "d"), Err(Error::BadCache { .. } | Error::Io { .. })));
        }
    }

    #[test]
    fn damage_to_pixels_is_found_with_the_image_it_is_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path());
        let good = std::fs::read(&path).unwrap();
        for at in PIXELS_AT as usize..PIXELS_AT as usize + 18 {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, bytes).unwrap();
            let data = open(&path, "d").unwrap().with_rotations().unwrap();
            // Written as b/0, b/1, a/2; each stands in the data set four times, turned.
            let names = ["b/0", "b/1", "a/2"];
            let bad: Vec<usize> = (0..data.len()).filter(|&i| data.image(i).is_err()).collect();
            assert_eq!(bad.len(), 4);
            assert!(
                bad.iter().all(|&i| data.image_name(i).starts_with(names[(at - 64) / 6])),
                "{at}: {bad:?}"
            );
            let error = data.image(bad[0]).unwrap_err().to_string();
            assert!(error.contains("checksum is wrong") && error.contains(".pack"), "{error}");
        }
    }
}
