//! EMNIST as its authors give it: one IDX file of images, one of labels, gzipped or not.
//!
//! The images lie on their side (transposed) and are white on black; they are given upright and black on white,
//! like Omniglot, as portable grey maps.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::tree::{Sink, TreeFile};
use crate::{Error, Result};

/// The characters of the ByClass labels 0..62.
const BY_CLASS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// More images than any EMNIST file has.
const MAX_IMAGES: u32 = 10_000_000;
/// Larger than any side of an EMNIST image.
const MAX_SIDE: u32 = 1024;

/// The labels that belong to a file of images: the same name with `labels-idx1` for `images-idx3`.
pub(super) fn labels_beside(images: &Path) -> Result<PathBuf> {
    let name = images.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.contains("emnist") || !name.contains("images-idx3") {
        return Err(bad(
            images,
            "an EMNIST file is named emnist-<part>-images-idx3-ubyte, with or without .gz",
        ));
    }
    let labels = name.replace("images-idx3", "labels-idx1");
    let bare = labels.trim_end_matches(".gz").to_owned();
    let found = [labels.clone(), bare.clone(), format!("{bare}.gz")]
        .into_iter()
        .map(|n| images.with_file_name(n))
        .find(|p| p.is_file());
    found.ok_or_else(|| bad(images, &format!("the labels {labels} are not beside it")))
}

/// The images as `<label>_<character>/<index>.pgm` (ByClass) or `<label>/<index>.pgm`.
pub(super) fn list(images: &Path) -> Result<Vec<TreeFile>> {
    let (header, _) = open_images(images)?;
    let labels = read_labels(&labels_beside(images)?, header.count)?;
    let by_class = images.file_name().is_some_and(|n| n.to_string_lossy().contains("byclass"));
    let bytes = u64::from(header.rows * header.cols);
    let mut files = Vec::with_capacity(labels.len());
    for (index, label) in labels.into_iter().enumerate() {
        let class = match BY_CLASS.get(label as usize) {
            Some(&character) if by_class => format!("{label:02}_{}", char::from(character)),
            None if by_class => {
                return Err(bad(images, &format!("label {label} of image {index} is beyond 61")));
            }
            _ => format!("{label:02}"),
        };
        files.push(TreeFile { path: format!("{class}/{index:06}.pgm"), bytes, modified: 0 });
    }
    Ok(files)
}

/// Gives the wanted images to `sink`, in the order of the file.
pub(super) fn stream(images: &Path, wanted: &[&str], sink: Sink<'_>) -> Result<()> {
    let index_of = |path: &str| path.rsplit('/').next()?.strip_suffix(".pgm")?.parse::<u32>().ok();
    let mut wanted_at = HashMap::with_capacity(wanted.len());
    for (position, path) in wanted.iter().enumerate() {
        let index = index_of(path).ok_or_else(|| bad(images, &format!("there is no image {path}")))?;
        wanted_at.insert(index, position);
    }
    let (header, mut reader) = open_images(images)?;
    let (rows, cols) = (header.rows as usize, header.cols as usize);
    let mut lying = vec![0; rows * cols];
    for index in 0..header.count {
        reader.read_exact(&mut lying).map_err(|e| bad(images, &format!("image {index}: {e}")))?;
        let Some(&position) = wanted_at.get(&index) else { continue };
        // Upright, the image has `rows` columns and `cols` rows.
        let mut upright = format!("P5 {rows} {cols} 255\n").into_bytes();
        for y in 0..cols {
            upright.extend((0..rows).map(|x| 255 - lying[x * cols + y]));
        }
        if !sink(position, Ok(upright)) {
            break;
        }
    }
    Ok(())
}

struct Header {
    count: u32,
    rows: u32,
    cols: u32,
}

fn open_images(path: &Path) -> Result<(Header, Box<dyn Read>)> {
    let mut reader = open(path)?;
    expect_magic(path, &mut reader, 0x0803)?;
    let mut next = || read_u32(path, &mut reader);
    let header = Header { count: next()?, rows: next()?, cols: next()? };
    let side = 1..=MAX_SIDE;
    if header.count > MAX_IMAGES || !side.contains(&header.rows) || !side.contains(&header.cols) {
        let claim = format!("the header claims {} images of {} x {}", header.count, header.rows, header.cols);
        return Err(bad(path, &claim));
    }
    Ok((header, reader))
}

fn read_labels(path: &Path, images: u32) -> Result<Vec<u8>> {
    let mut reader = open(path)?;
    expect_magic(path, &mut reader, 0x0801)?;
    let count = read_u32(path, &mut reader)?;
    if count != images {
        return Err(bad(path, &format!("there are {count} labels for {images} images")));
    }
    let mut labels = vec![0; count as usize];
    reader.read_exact(&mut labels).map_err(|e| bad(path, &e.to_string()))?;
    Ok(labels)
}

fn open(path: &Path) -> Result<Box<dyn Read>> {
    let file = BufReader::new(File::open(path).map_err(|source| Error::io("open", path, source))?);
    let gzipped = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"));
    Ok(if gzipped {
        Box::new(BufReader::new(flate2::read::MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    })
}

fn expect_magic(path: &Path, reader: &mut dyn Read, magic: u32) -> Result<()> {
    let found = read_u32(path, reader)?;
    if found == magic {
        return Ok(());
    }
    Err(bad(
        path,
        &format!("it begins with {found:#010x}, not with {magic:#010x} as an IDX file of its kind"),
    ))
}

fn read_u32(path: &Path, reader: &mut dyn Read) -> Result<u32> {
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes).map_err(|e| bad(path, &e.to_string()))?;
    Ok(u32::from_be_bytes(bytes))
}

fn bad(path: &Path, reason: &str) -> Error {
    Error::BadArchive { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::source::tree::Tree;
    use std::io::Write;

    /// Writes images of 2 x 2 pixels `[i, 1, 2, 3]` and their labels, gzipped if asked, and gives the images' path.
    pub(crate) fn write_pair(dir: &Path, stem: &str, labels: &[u8], gzip: bool) -> PathBuf {
        let mut images = [0x0803u32, labels.len() as u32, 2, 2].map(u32::to_be_bytes).concat();
        (0..labels.len()).for_each(|i| images.extend([i as u8, 1, 2, 3]));
        let mut label_bytes = [0x0801u32, labels.len() as u32].map(u32::to_be_bytes).concat();
        label_bytes.extend(labels);
        let write = |name: String, bytes: &[u8]| {
            let path = dir.join(if gzip { format!("{name}.gz") } else { name });
            let mut file = File::create(&path).unwrap();
            if gzip {
                let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap();
            } else {
                file.write_all(bytes).unwrap();
            }
            path
        };
        write(format!("{stem}-labels-idx1-ubyte"), &label_bytes);
        write(format!("{stem}-images-idx3-ubyte"), &images)
    }

    #[test]
    fn images_stand_upright_and_black_on_white() {
        for gzip in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = write_pair(dir.path(), "emnist-byclass-test", &[10, 61, 10], gzip);
            let tree = Tree::open(&path).unwrap();
            let paths: Vec<_> = tree.files.iter().map(|f| f.path.as_str()).collect();
            assert_eq!(paths, ["10_A/000000.pgm", "10_A/000002.pgm", "61_z/000001.pgm"]);
            let mut got = Vec::new();
            tree.stream(&["61_z/000001.pgm"], 1 << 20, &mut |i, bytes| {
                got.push((i, bytes.unwrap()));
                true
            })
            .unwrap();
            // Stored rows (1 1) (2 3): transposed and inverted (254 253) (254 252).
            assert_eq!(got, [(0, [b"P5 2 2 255\n".as_slice(), &[254, 253, 254, 252]].concat())]);
        }
    }

    #[test]
    fn lies_in_the_headers_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_pair(dir.path(), "emnist-letters-test", &[1, 2], false);
        let good = std::fs::read(&path).unwrap();
        let error_with = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let tree = Tree::open(&path).map(|t| t.files.iter().map(|f| f.path.clone()).collect::<Vec<_>>());
            let all = tree.and_then(|paths| {
                let wanted: Vec<&str> = paths.iter().map(String::as_str).collect();
                Tree::open(&path)?.stream(&wanted, 1 << 20, &mut |_, _| true)
            });
            all.unwrap_err().to_string()
        };
        assert!(error_with(&good[..good.len() - 1]).contains("image 1"));
        assert!(error_with(&good[..3]).contains("cannot be read"));
        let mut magic = good.clone();
        magic[3] = 1;
        assert!(error_with(&magic).contains("0x00000801"));
        let mut huge = good.clone();
        huge[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(error_with(&huge).contains("claims 4294967295 images"));
        let mut three = good;
        three[7] = 3;
        assert!(error_with(&three).contains("2 labels for 3 images"));
    }
}
