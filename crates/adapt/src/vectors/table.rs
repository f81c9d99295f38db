//! A file of vectors that is written row by row: the header's place is kept free until the number of rows is known.

use crate::error::{Error, Result};
use serde_json::json;
use siskin_data::files::{self, Draft};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes of the header of an .npy file.
const NPY_HEAD: usize = 128;
/// Room for numbers of a safetensors header that are not known before.
const SPARE: usize = 512;

enum Kind {
    Npy,
    Safetensors,
}

pub(super) struct Table {
    out: PathBuf,
    kind: Kind,
    draft: Draft,
    head: usize,
    dim: usize,
    classes: Vec<String>,
    names: Vec<String>,
    labels: Vec<i64>,
}

impl Table {
    /// Begins a file for at most these images. The folder of an image is its class.
    pub(super) fn create<'a>(out: &Path, paths: impl Iterator<Item = &'a Path>) -> Result<Table> {
        let ending = out.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let kind = match ending.as_str() {
            "npy" => Kind::Npy,
            "safetensors" => Kind::Safetensors,
            _ => {
                return Err(Error::Support(format!(
                    "{} ends neither in .safetensors nor in .npy",
                    out.display()
                )));
            }
        };
        let (mut classes, mut letters) = (BTreeSet::new(), 0);
        for path in paths {
            letters += json!(path.display().to_string()).to_string().len() + 1;
            classes.insert(class_of(path));
        }
        let classes: Vec<String> = classes.into_iter().collect();
        let head = match kind {
            Kind::Npy => NPY_HEAD,
            // Names are JSON within JSON: a quote or a backslash becomes at most twice as long again.
            Kind::Safetensors => {
                (8 + SPARE + 2 * (letters + json!(classes).to_string().len())).next_multiple_of(8)
            }
        };
        let failed = |source| Error::from(siskin_data::Error::io("write", out, source));
        let mut draft = Draft::create(out.parent().unwrap_or(Path::new("")), false).map_err(failed)?;
        draft.write_all(&vec![b' '; head]).map_err(failed)?;
        let (names, labels) = (Vec::new(), Vec::new());
        Ok(Table { out: out.into(), kind, draft, head, dim: 0, classes, names, labels })
    }

    /// Adds the vector of an image.
    pub(super) fn push(&mut self, path: &Path, row: &[f32]) -> Result<()> {
        if self.dim != 0 && row.len() != self.dim {
            return Err(Error::Support(format!(
                "a vector has {} numbers, those before have {}",
                row.len(),
                self.dim
            )));
        }
        self.dim = row.len();
        let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.draft.write_all(&bytes).map_err(|source| self.failed(source))?;
        let label = self.classes.binary_search(&class_of(path)).unwrap_or_default();
        self.labels.push(label as i64);
        self.names.push(path.display().to_string());
        Ok(())
    }

    /// Writes what comes before and after the rows, and puts the file in its place. Length of a vector, classes, files.
    pub(super) fn finish(mut self) -> Result<(usize, Vec<String>, Vec<PathBuf>)> {
        let (rows, out) = (self.labels.len(), self.out.clone());
        let labels: Vec<u8> = self.labels.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut files = vec![out.clone()];
        let head = match self.kind {
            Kind::Npy => {
                let stem = out.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
                let beside = |ending: &str| out.with_file_name(format!("{stem}_{ending}"));
                let labels = [npy_head("<i8", &format!("({rows},)")), labels].concat();
                let lines =
                    |lines: &[String]| lines.iter().map(|l| l.replace('\n', " ") + "\n").collect::<String>();
                let parts = [
                    (beside("labels.npy"), labels),
                    (beside("classes.txt"), lines(&self.classes).into_bytes()),
                    (beside("names.txt"), lines(&self.names).into_bytes()),
                ];
                for (path, bytes) in parts {
                    files::write(&path, &bytes).map_err(|source| self.failed(source))?;
                    files.push(path);
                }
                npy_head("<f4", &format!("({rows}, {})", self.dim))
            }
            Kind::Safetensors => {
                self.draft.write_all(&labels).map_err(|source| self.failed(source))?;
                self.safetensors_head(rows, labels.len())?
            }
        };
        self.draft.overwrite_start(&head).map_err(|source| self.failed(source))?;
        let failed = |source| Error::from(siskin_data::Error::io("write", &out, source));
        self.draft.place(&out).map_err(failed)?;
        Ok((self.dim, self.classes, files))
    }

    fn safetensors_head(&self, rows: usize, labels: usize) -> Result<Vec<u8>> {
        let end = rows * self.dim * 4;
        let header = json!({
            "__metadata__": {
                "classes": json!(self.classes).to_string(),
                "names": json!(self.names).to_string(),
            },
            "features": {"dtype": "F32", "shape": [rows, self.dim], "data_offsets": [0, end]},
            "labels": {"dtype": "I64", "shape": [rows], "data_offsets": [end, end + labels]},
        });
        let mut text = header.to_string().into_bytes();
        if text.len() > self.head - 8 {
            return Err(Error::Support("the names of the images are too long for the header".into()));
        }
        text.resize(self.head - 8, b' ');
        Ok([(text.len() as u64).to_le_bytes().to_vec(), text].concat())
    }

    fn failed(&self, source: std::io::Error) -> Error {
        siskin_data::Error::io("write", &self.out, source).into()
    }
}

/// The folder an image lies in.
fn class_of(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    folder.map_or_else(|| ".".into(), |name| name.to_string_lossy().into_owned())
}

fn npy_head(kind: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}").into_bytes();
    text.resize(NPY_HEAD - 11, b' ');
    text.push(b'\n');
    [b"\x93NUMPY\x01\x00".as_slice(), &((NPY_HEAD - 10) as u16).to_le_bytes(), &text].concat()
}
