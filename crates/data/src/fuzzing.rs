//! Entry points for bytes that nobody has looked at: the fuzz targets call them, and so does a test with mutated input.
//! Each must return, whatever it is given. The seeds below are whole inputs.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::cache::pack;
use crate::fault::Fault;
use crate::image::decode::{Claim, decode_if};
use crate::source::split_lists::{self, Known};
use crate::source::{csv, embeddings, filelist, npy, tree::Tree};
use crate::{ClassImages, Dataset, EpisodeList, EpisodeSpec, Image, Items, Sampler, Split, SplitName};

/// A CloserLook file list.
pub fn file_list(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = filelist::parse(text, "fuzz.json");
    }
}

/// A Ravi-Larochelle CSV.
pub fn csv_list(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = csv::parse(text, "fuzz.csv");
    }
}

/// A list of classes by split.
pub fn split_list(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ =
            split_lists::parse_json(text, "fuzz.json", &Known::new("d", ["a", "b", "c", "d"].into_iter()));
    }
}

/// A .npy file.
pub fn npy(bytes: &[u8]) {
    let _ = npy::parse(bytes, Path::new("fuzz.npy"));
}

/// An image file; decoded if its claim is within 128 MB, which it must keep to.
pub fn image(bytes: &[u8]) {
    const MOST: u64 = 128 << 20;
    let admit = |claim: &Claim| match claim.memory > MOST {
        true => Err(Fault::Decode { reason: "too large to try".into() }),
        false => Ok(()),
    };
    let _ = decode_if(bytes, Some(16), admit);
}

/// An archive, listed and read through. `folder`: where to put it; `name`: its name, whose ending says its kind.
pub fn archive(bytes: &[u8], folder: &Path, name: &str) {
    if let Some(path) = put(folder, name, bytes) {
        read_through(&path);
    }
}

/// An EMNIST pair: the first two thirds are images, the rest labels.
pub fn idx(bytes: &[u8], folder: &Path) {
    let (images, labels) = bytes.split_at(bytes.len() * 2 / 3);
    let _ = put(folder, "emnist-x-labels-idx1-ubyte", labels);
    if let Some(path) = put(folder, "emnist-x-images-idx3-ubyte", images) {
        read_through(&path);
    }
}

/// A safetensors file of vectors, with labels and without.
pub fn vectors(bytes: &[u8], folder: &Path) {
    if let Some(path) = put(folder, "x.safetensors", bytes) {
        let _ = embeddings::read(&path);
        let _ = embeddings::read_vectors(&path);
    }
}

/// An episode list for the data set of its seed.
pub fn episode_list(bytes: &[u8], folder: &Path) {
    if let (Some(path), Some(split)) = (put(folder, "x.jsonl", bytes), small()) {
        let _ = EpisodeList::read(&path, vec![split]);
    }
}

/// The index of a pack behind pixels of 64 bytes, with the header that belongs to it: what a checksum cannot find.
pub fn pack(index: &[u8], folder: &Path) {
    let bytes = pack::sealed(&[7; 64], index);
    let Some(path) = put(folder, "x.pack", &bytes) else { return };
    if let Ok(data) = pack::open(&path, "d") {
        (0..data.len()).for_each(|i| drop(data.image(i)));
    }
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> Option<std::path::PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).ok().map(|()| path)
}

fn read_through(path: &Path) {
    if let Ok(tree) = Tree::open(path) {
        let wanted: Vec<&str> = tree.files.iter().map(|f| f.path.as_str()).collect();
        let _ = tree.stream(&wanted, 1 << 20, &mut |_, _| true);
    }
}

/// Two classes of three images.
fn small() -> Option<Split> {
    let image = |v: u8| Image { width: 2, height: 1, channels: 1, pixels: vec![v; 2] };
    let class = |name: &str| ClassImages {
        name: name.into(),
        domain: String::new(),
        images: (0..3).map(|i| (format!("{name}/{i}"), image(i))).collect(),
    };
    let data = Dataset::in_memory("d", vec![class("a"), class("b")]).ok()?;
    Some(Split::all(SplitName::Test, Items::Images(Arc::new(data))))
}

/// A small image in every format that can be written.
pub fn encoded_images() -> Vec<Vec<u8>> {
    use image::ImageFormat::{Bmp, Gif, Jpeg, Png, Tiff, WebP};
    let pixels: Vec<u8> = (0..12 * 10 * 3).map(|i| (i * 7 % 256) as u8).collect();
    let encode = |format| {
        let mut out = std::io::Cursor::new(Vec::new());
        let color = image::ExtendedColorType::Rgb8;
        image::write_buffer_with_format(&mut out, &pixels, 12, 10, color, format).ok()?;
        Some(out.into_inner())
    };
    [Png, Gif, Jpeg, Bmp, Tiff, WebP].into_iter().filter_map(encode).collect()
}

/// A tar, a tar.gz and a zip of two images.
pub fn archives() -> Vec<Vec<u8>> {
    let names = ["a/1.pgm", "b/1.pgm"];
    let content = b"P2 1 1 255 7";
    let mut tar = tar::Builder::new(Vec::new());
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        let _ = tar.append_data(&mut header, name, &content[..]);
        let _ = zip.start_file(name, zip::write::SimpleFileOptions::default());
        let _ = zip.write_all(content);
    }
    let tar = tar.into_inner().unwrap_or_default();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let _ = gz.write_all(&tar);
    let zip = zip.finish().map(std::io::Cursor::into_inner).unwrap_or_default();
    vec![tar, gz.finish().unwrap_or_default(), zip]
}

/// An episode list of the data set that [`episode_list`] knows.
pub fn an_episode_list(folder: &Path) -> Vec<u8> {
    let path = folder.join("seed.jsonl");
    let write = || {
        let sampler = Sampler::new(vec![small()?], EpisodeSpec::fixed(2, 1, 1), 0).ok()?;
        EpisodeList::write(&sampler, 3, &path).ok()?;
        std::fs::read(&path).ok()
    };
    write().unwrap_or_default()
}

/// The index of a pack with two images in 64 bytes of pixels.
pub fn a_pack_index() -> Vec<u8> {
    let hash = "0".repeat(64);
    format!(
        r#"{{"classes":[{{"name":"a","domain":"","images":1}},{{"name":"b","domain":"","images":1}}],"names":["a/1","b/1"],"offsets":[64,96],"sizes":[[4,8,1],[4,2,3]],"hashes":["{hash}","{hash}"],"sums":[1,2]}}"#
    )
    .into_bytes()
}
