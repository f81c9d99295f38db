//! Entry points for bytes that nobody has looked at: the fuzz targets call them, and so does a test with mutated input.
//! Each must return, whatever it is given.

use std::path::Path;

use crate::source::{csv, filelist, npy, tree::Tree};

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

/// A .npy file.
pub fn npy(bytes: &[u8]) {
    let _ = npy::parse(bytes, Path::new("fuzz.npy"));
}

/// An image file.
pub fn image(bytes: &[u8]) {
    let _ = crate::image::decode::decode(bytes, Some(16));
}

/// An archive, listed and read through. `folder`: where to put it; `name`: its name, whose ending says its kind.
pub fn archive(bytes: &[u8], folder: &Path, name: &str) {
    let path = folder.join(name);
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    if let Ok(tree) = Tree::open(&path) {
        let wanted: Vec<&str> = tree.files.iter().map(|f| f.path.as_str()).collect();
        let _ = tree.stream(&wanted, 1 << 20, &mut |_, _| true);
    }
}
