//! A safetensors file: arrays as tensors, everything else as JSON in its header, a checksum over both.

use crate::{Error, Result};
use faer::Mat;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes of a file.
const MOST_BYTES: u64 = 2 << 30;

/// All of a file that is no array, with a checksum of both.
pub(super) trait Header: Clone + Serialize {
    /// Key of its JSON among the entries of the file's own header.
    const KEY: &'static str;

    /// blake3 of this header without its checksum and of all arrays in the order of their names.
    fn checksum(&mut self) -> &mut String;

    /// The checksum it must have beside these arrays.
    fn due<'a>(&self, arrays: impl Iterator<Item = (&'a str, &'a [u8])>, path: &Path) -> Result<String> {
        let mut open = self.clone();
        open.checksum().clear();
        let json = serde_json::to_vec(&open).map_err(|e| file_error(path, &e))?;
        Ok(checksum(&json, arrays))
    }

    /// The bytes of a file with it and these arrays.
    fn sealed(mut self, arrays: &[Array], path: &Path) -> Result<Vec<u8>> {
        let named = arrays.iter().map(|(name, _, _, bytes)| (*name, bytes.as_slice()));
        *self.checksum() = self.due(named, path)?;
        let json = serde_json::to_string(&self).map_err(|e| file_error(path, &e))?;
        packed(arrays, HashMap::from([(Self::KEY.to_owned(), json)]), path)
    }

    /// Whether the checksum is that of these arrays.
    fn fits(&self, tensors: &SafeTensors<'_>, path: &Path) -> Result<()> {
        let named = tensors.tensors();
        let arrays = named.iter().map(|(name, view)| (name.as_str(), view.data()));
        if self.due(arrays, path)? != *self.clone().checksum() {
            return Err(file_error(path, &"is damaged: the checksum does not fit"));
        }
        Ok(())
    }
}

/// Of the JSON of a header and the arrays of a file: blake3 over both, the arrays in the order of their names.
fn checksum<'a>(header: &[u8], arrays: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(header);
    let mut arrays: Vec<(&str, &[u8])> = arrays.collect();
    arrays.sort_unstable();
    for (name, bytes) in arrays {
        add(name.as_bytes());
        add(bytes);
    }
    hasher.finalize().to_hex().to_string()
}

/// The bytes of a file with these arrays and entries of its header.
fn packed(arrays: &[Array], entries: HashMap<String, String>, path: &Path) -> Result<Vec<u8>> {
    let views = arrays
        .iter()
        .map(|(name, dtype, shape, bytes)| Ok((*name, TensorView::new(*dtype, shape.clone(), bytes)?)))
        .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(|e| file_error(path, &e))?;
    serialize(views, Some(entries)).map_err(|e| file_error(path, &e))
}

/// The bytes of a regular file of bounded size.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let about = std::fs::metadata(path).map_err(|e| file_error(path, &e))?;
    if !about.is_file() || about.len() > MOST_BYTES {
        return Err(file_error(path, &format!("must be a regular file of at most {MOST_BYTES} bytes")));
    }
    std::fs::read(path).map_err(|e| file_error(path, &e))
}

/// The entries of a file's header.
pub(super) fn entries(bytes: &[u8], path: &Path) -> Result<HashMap<String, String>> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| file_error(path, &e))?;
    Ok(metadata.metadata().clone().unwrap_or_default())
}

/// Writes beside the place, brings it to the disk and moves it there: after a crash the file is the old one or the new one.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    static DRAFTS: AtomicUsize = AtomicUsize::new(0);
    let draft = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_added_extension(format!("{}-{draft}.siskin-writing", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create_new(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // What went wrong is told; a draft that cannot be removed either changes nothing.
        let _ = std::fs::remove_file(&draft);
    })
}

/// The arrays of a file.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    pub(super) tensors: SafeTensors<'a>,
}

impl Reader<'_> {
    /// The first of such matrices.
    pub(super) fn one(&self, name: &'static str) -> Result<Mat<f32>> {
        let none = || file_error(self.path, &format!("array `{name}` is empty"));
        self.narrow(name)?.into_iter().next().ok_or_else(none)
    }

    /// Matrices of 32-bit floats of one size.
    pub(super) fn narrow(&self, name: &'static str) -> Result<Vec<Mat<f32>>> {
        let tensor = self.tensor(name, Dtype::F32, 3)?;
        let (rows, cols) = (tensor.shape()[1], tensor.shape()[2]);
        let values: Vec<f32> =
            tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        if let Some(place) = values.iter().position(|v| !v.is_finite()) {
            let value = f64::from(values[place]);
            return Err(Error::NotFinite {
                what: name,
                row: place / cols.max(1),
                col: place % cols.max(1),
                value,
            });
        }
        let one = |k: usize| Mat::from_fn(rows, cols, |i, j| values[(k * rows + i) * cols + j]);
        Ok((0..tensor.shape()[0]).map(one).collect())
    }

    pub(super) fn tensor(&self, name: &str, dtype: Dtype, dimensions: usize) -> Result<TensorView<'_>> {
        let tensor = self.tensors.tensor(name).map_err(|e| file_error(self.path, &e))?;
        if tensor.dtype() != dtype || tensor.shape().len() != dimensions {
            let problem = format!(
                "array `{name}` is {:?} with {} dimensions, expected {dtype:?} with {dimensions}",
                tensor.dtype(),
                tensor.shape().len()
            );
            return Err(file_error(self.path, &problem));
        }
        Ok(tensor)
    }

    pub(super) fn matrix(&self, name: &'static str) -> Result<Mat<f64>> {
        let tensor = self.tensor(name, Dtype::F64, 2)?;
        let (rows, cols) = (tensor.shape()[0], tensor.shape()[1]);
        let values: Vec<f64> = words(tensor.data()).map(f64::from_le_bytes).collect();
        let m = Mat::from_fn(rows, cols, |i, j| values[i * cols + j]);
        crate::task::check_matrix(name, &m, rows, cols)?;
        Ok(m)
    }

    pub(super) fn sized(&self, name: &'static str, rows: usize, cols: usize) -> Result<Mat<f64>> {
        let m = self.matrix(name)?;
        crate::task::check_matrix(name, &m, rows, cols)?;
        Ok(m)
    }

    pub(super) fn row(&self, name: &'static str, cols: usize) -> Result<Vec<f64>> {
        let m = self.sized(name, 1, cols)?;
        Ok((0..cols).map(|j| m[(0, j)]).collect())
    }

    pub(super) fn labels(&self, name: &str) -> Result<Vec<usize>> {
        let tensor = self.tensor(name, Dtype::U64, 1)?;
        words(tensor.data())
            .map(|bytes| {
                usize::try_from(u64::from_le_bytes(bytes))
                    .map_err(|_| file_error(self.path, &"a label does not fit this machine's numbers"))
            })
            .collect()
    }
}

/// An array as the file has it: name, type, shape, little-endian bytes.
pub(super) type Array = (&'static str, Dtype, Vec<usize>, Vec<u8>);

pub(super) fn floats(name: &'static str, m: &Mat<f64>) -> Array {
    let bytes =
        (0..m.nrows()).flat_map(|i| (0..m.ncols()).flat_map(move |j| m[(i, j)].to_le_bytes())).collect();
    (name, Dtype::F64, vec![m.nrows(), m.ncols()], bytes)
}

/// Matrices of 32-bit floats of one size.
pub(super) fn narrow_floats(name: &'static str, all: &[&Mat<f32>]) -> Array {
    let (rows, cols) = all.first().map_or((0, 0), |m| (m.nrows(), m.ncols()));
    let of = |m: &Mat<f32>| (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))).map(|at| m[at]).collect();
    let bytes = all.iter().flat_map(|m| -> Vec<f32> { of(m) }).flat_map(f32::to_le_bytes).collect();
    (name, Dtype::F32, vec![all.len(), rows, cols], bytes)
}

/// Whole numbers.
pub(super) fn whole(name: &'static str, values: impl ExactSizeIterator<Item = usize>) -> Array {
    let shape = vec![values.len()];
    (name, Dtype::U64, shape, values.flat_map(|v| (v as u64).to_le_bytes()).collect())
}

pub(super) fn row(values: &[f64]) -> Mat<f64> {
    Mat::from_fn(1, values.len(), |_, j| values[j])
}

fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> + '_ {
    bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        word
    })
}

pub(super) fn file_error(path: &Path, problem: &dyn std::fmt::Display) -> Error {
    Error::File { path: path.display().to_string(), problem: problem.to_string() }
}
