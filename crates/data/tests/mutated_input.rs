//! The fuzz targets' entry points with some thousand mutated inputs, so that every run of the tests covers them.

use std::io::Write;

use rand::RngExt;
use siskin_data::fuzzing;

/// `count` mutations of `seed`: bytes changed, removed, doubled, the end cut off.
fn mutations(seed: &[u8], name: &str, count: u64, mut each: impl FnMut(&[u8])) {
    each(seed);
    for index in 0..count {
        let mut rng = siskin_random::stream(0, name, index);
        let mut bytes = seed.to_vec();
        for _ in 0..rng.random_range(1..6) {
            if bytes.is_empty() {
                break;
            }
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..5) {
                0 => bytes[at] = rng.random(),
                1 => bytes[at] ^= 1 << rng.random_range(0..8),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, rng.random()),
                _ => bytes.truncate(at),
            }
        }
        each(&bytes);
    }
}

fn png() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 8, 8);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[7; 64]).unwrap();
    out
}

fn tar() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for name in ["a/1.png", "b/1.png"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(png().len() as u64);
        builder.append_data(&mut header, name, &png()[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn lists() {
    let json = br#"{"label_names": ["a", "b"], "image_names": ["/x/a/1.jpg", "/x/b/2.jpg"], "image_labels": [0, 1]}"#;
    mutations(json, "json", 5000, fuzzing::file_list);
    let csv = b"filename,label\n\"n01,1.jpg\",n01\nn02.jpg,n02\n";
    mutations(csv, "csv", 5000, fuzzing::csv_list);
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    npy.extend([0; 8]);
    mutations(&npy, "npy", 5000, fuzzing::npy);
}

#[test]
fn archives() {
    let dir = tempfile::tempdir().unwrap();
    mutations(&tar(), "tar", 1500, |bytes| fuzzing::archive(bytes, dir.path(), "x.tar"));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&tar()).unwrap();
    mutations(&gz.finish().unwrap(), "gz", 1000, |bytes| fuzzing::archive(bytes, dir.path(), "x.tar.gz"));
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["a/1.png", "b/1.png"] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&png()).unwrap();
    }
    let zip = zip.finish().unwrap().into_inner();
    mutations(&zip, "zip", 1500, |bytes| fuzzing::archive(bytes, dir.path(), "x.zip"));
}

#[test]
fn images() {
    mutations(&png(), "png", 2000, fuzzing::image);
    let mut jpeg = Vec::new();
    let pixels = [90; 16 * 16 * 3];
    jpeg_encoder::Encoder::new(&mut jpeg, 80).encode(&pixels, 16, 16, jpeg_encoder::ColorType::Rgb).unwrap();
    mutations(&jpeg, "jpeg", 2000, fuzzing::image);
}
