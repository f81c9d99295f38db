//! Saving and loading: one safetensors file, arrays as tensors, everything else as JSON in its header.

use super::inducing::{Inducing, Narrow};
use super::inference::{adapted, restored};
use super::inputs::{Standardiser, check_features, count_classes};
use super::learn::{HeldOut, Points};
use super::{EvidenceBound, GpClassifier, Knowledge, Learned, Likelihood, Trained};
use crate::gaussian::Sites;
use crate::hyper::Hyper;
use crate::kernels::Kernel;
use crate::{Error, Result};
use faer::Mat;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Key of the JSON in the header.
const KEY: &str = "siskin-gp-classifier";
/// Raised when the meaning of a stored field changes.
const VERSION: u32 = 4;
/// Most bytes of a file.
const MOST_BYTES: u64 = 2 << 30;

/// All that is no array.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    likelihood: String,
    inference: String,
    standardise: bool,
    kernel: Kernel,
    learned: Learned,
    /// blake3 of this header without its checksum and of all arrays in the order of their names; files of version 1 have none.
    #[serde(default)]
    checksum: String,
}

/// Of a header and the arrays of a file, sorted by name.
fn checksum<'a>(
    header: &Header,
    arrays: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> serde_json::Result<String> {
    let header = Header { checksum: String::new(), ..header.clone() };
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(&serde_json::to_vec(&header)?);
    let mut arrays: Vec<(&str, &[u8])> = arrays.collect();
    arrays.sort_unstable();
    for (name, bytes) in arrays {
        add(name.as_bytes());
        add(bytes);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> String {
    table.iter().find(|(_, v)| v == value).map_or_else(String::new, |(name, _)| (*name).to_owned())
}

/// The arrays of what the training points left behind.
fn knowledge_arrays(by: &Knowledge) -> Vec<Array> {
    match by {
        Knowledge::All { x, y, adapted } => {
            let mut arrays = vec![floats("x", x), whole("y", y.iter().copied())];
            if let Some(blocks) = adapted.posterior().blocks() {
                let sites = blocks.sites();
                arrays.extend([floats("sites.b", &sites.b), floats("sites.w", &sites.w)]);
            }
            arrays
        }
        Knowledge::Few(inducing, held) => {
            let own = Mat::from_fn(held.own.len(), 1, |i, _| held.own[i].1);
            vec![
                floats("inducing.z", &inducing.z),
                narrow_floats("inducing.mean", &[&inducing.mean]),
                narrow_floats("inducing.factors", &inducing.narrow.factors.iter().collect::<Vec<_>>()),
                narrow_floats("inducing.variances", &[&inducing.narrow.others]),
                whole("held.y", held.own.iter().map(|&(y, _)| y)),
                floats("held.own", &own),
                floats("held.scores", &row(&[held.log_loss, held.accuracy])),
            ]
        }
    }
}

impl GpClassifier {
    /// Writes the fitted classifier to a safetensors file, whole or not at all. It keeps the training points: the posterior
    /// needs them; with inducing points it keeps these alone.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_whole(path, &self.to_bytes()?).map_err(|e| file_error(path, &e))
    }

    /// The bytes of such a file, to keep within another.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let path = Path::new("the classifier");
        let model = self.model()?;
        let mut header = Header {
            version: VERSION,
            likelihood: name_of(&Likelihood::NAMED, &self.likelihood),
            inference: name_of(&EvidenceBound::NAMED, &self.bound),
            standardise: self.standardise,
            kernel: model.kernel().clone(),
            learned: model.learned.clone(),
            checksum: String::new(),
        };
        let mut arrays = vec![
            floats("mean", &row(&model.standardiser.mean)),
            floats("scale", &row(&model.standardiser.scale)),
        ];
        arrays.extend(knowledge_arrays(&model.by));
        let named = arrays.iter().map(|(name, _, _, bytes)| (*name, bytes.as_slice()));
        header.checksum = checksum(&header, named).map_err(|e| file_error(path, &e))?;
        let json = serde_json::to_string(&header).map_err(|e| file_error(path, &e))?;
        let views = arrays
            .iter()
            .map(|(name, dtype, shape, bytes)| Ok((*name, TensorView::new(*dtype, shape.clone(), bytes)?)))
            .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|e| file_error(path, &e))?;
        serialize(views, Some(HashMap::from([(KEY.to_owned(), json)]))).map_err(|e| file_error(path, &e))
    }

    /// Reads a classifier written by [`GpClassifier::save`]. Everything is checked as in `fit`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let about = std::fs::metadata(path).map_err(|e| file_error(path, &e))?;
        if !about.is_file() || about.len() > MOST_BYTES {
            return Err(file_error(path, &format!("must be a regular file of at most {MOST_BYTES} bytes")));
        }
        let bytes = std::fs::read(path).map_err(|e| file_error(path, &e))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads what [`GpClassifier::to_bytes`] gave; `path` only names it in errors.
    pub fn from_bytes(bytes: &[u8], path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| file_error(path, &e))?;
        let json = metadata.metadata().as_ref().and_then(|m| m.get(KEY));
        let json = json.ok_or_else(|| file_error(path, &"is a safetensors file, but holds no classifier"))?;
        let mut value: serde_json::Value = serde_json::from_str(json).map_err(|e| file_error(path, &e))?;
        let sealed = value["version"].as_u64() != Some(1);
        match value["version"].as_u64() {
            Some(1) => value = from_version_1(value),
            Some(2 | 3) => {}
            Some(version) if version == u64::from(VERSION) => {}
            version => {
                let found = version.map_or("unknown".to_owned(), |v| v.to_string());
                let problem = format!(
                    "holds a classifier of version {found}, this library reads versions 1 to {VERSION}"
                );
                return Err(file_error(path, &problem));
            }
        }
        let header: Header = serde_json::from_value(value).map_err(|e| file_error(path, &e))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| file_error(path, &e))?;
        let named: Vec<(String, TensorView<'_>)> = tensors.tensors();
        let arrays = named.iter().map(|(name, view)| (name.as_str(), view.data()));
        if sealed && checksum(&header, arrays).map_err(|e| file_error(path, &e))? != header.checksum {
            return Err(file_error(path, &"is damaged: the checksum does not fit"));
        }
        let read = Reader { path, tensors };
        Ok(GpClassifier { unsealed: !sealed, ..read.classifier(header)? })
    }
}

/// Writes beside the place, brings it to the disk and moves it there: after a crash the file is the old one or the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
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

/// In version 1 the fields of the kernel stood among the others.
fn from_version_1(mut header: serde_json::Value) -> serde_json::Value {
    let Some(fields) = header.as_object_mut() else { return header };
    let mut take = |name: &str| fields.remove(name).unwrap_or_default();
    let (name, power) = (take("kernel"), take("power"));
    let kind = match name == "polynomial" {
        true => serde_json::json!({ "polynomial": { "power": power } }),
        false => name,
    };
    let (normalise, raw_shape, raw_scale) = (take("normalise"), take("raw_shape"), take("raw_scale"));
    fields.insert(
        "kernel".into(),
        serde_json::json!({ "kind": kind, "normalise": normalise, "raw_shape": raw_shape, "raw_scale": raw_scale }),
    );
    fields.insert("version".into(), 2.into());
    header
}

struct Reader<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl Reader<'_> {
    fn classifier(&self, header: Header) -> Result<GpClassifier> {
        let find = |what: &str, name: &str| file_error(self.path, &format!("unknown {what} `{name}`"));
        let likelihood = Likelihood::NAMED.iter().find(|(name, _)| *name == header.likelihood);
        let likelihood = likelihood.ok_or_else(|| find("likelihood", &header.likelihood))?.1;
        let bound = EvidenceBound::NAMED.iter().find(|(name, _)| *name == header.inference);
        let bound = bound.ok_or_else(|| find("inference", &header.inference))?.1;
        let Header { kernel, learned, .. } = header;

        let mean = self.matrix("mean")?;
        let width = mean.ncols();
        let standardiser = Standardiser { mean: self.row("mean", width)?, scale: self.row("scale", width)? };
        let mut out = GpClassifier {
            kernel: Some(kernel.clone()),
            likelihood,
            bound,
            standardise: header.standardise,
            prior_mean: learned.prior_mean,
            tau: learned.tau,
            spread: learned.spread,
            ..GpClassifier::default()
        };
        out.check_settings()?;
        let hyper = Hyper { kernel, mean: learned.prior_mean, tau: learned.tau };
        let by = match learned.inducing {
            0 => self.all_points(&out, &hyper, &learned, width)?,
            _ => self.inducing(&hyper, width)?,
        };
        out.fitted = Some(Trained { standardiser, by, learned });
        Ok(out)
    }

    fn all_points(
        &self,
        settings: &GpClassifier,
        hyper: &Hyper,
        learned: &Learned,
        width: usize,
    ) -> Result<Knowledge> {
        let y = self.labels("y")?;
        let classes = count_classes(&y)?;
        hyper.kernel.check(classes)?;
        let x = self.sized("x", y.len(), width)?;
        check_features(x.as_ref(), y.len())?;
        let points = Points { x: &x, y: &y, classes };
        let adapted = if settings.likelihood == Likelihood::LogisticSoftmax {
            let sites = Sites {
                b: self.sized("sites.b", y.len(), classes)?,
                w: self.sized("sites.w", y.len(), classes)?,
            };
            restored(hyper, points, &sites, learned.bound)?
        } else {
            adapted(settings, hyper, learned.noise, points, None)?
        };
        Ok(Knowledge::All { x, y, adapted: Box::new(adapted) })
    }

    fn inducing(&self, hyper: &Hyper, width: usize) -> Result<Knowledge> {
        let z = self.matrix("inducing.z")?;
        let z = self.sized("inducing.z", z.nrows(), width)?;
        let one = |name: &'static str| -> Result<Mat<f32>> {
            let none = || file_error(self.path, &format!("array `{name}` is empty"));
            self.narrow(name)?.into_iter().next().ok_or_else(none)
        };
        let mean = one("inducing.mean")?;
        let classes = mean.ncols();
        if classes < 2 {
            return Err(Error::OneClass);
        }
        hyper.kernel.check(classes)?;
        let narrow = Narrow { factors: self.narrow("inducing.factors")?, others: one("inducing.variances")? };
        let inducing = Inducing::from_parts(z, hyper.prior(classes), mean, narrow)?;
        let y = self.labels("held.y")?;
        if let Some((row, &label)) = y.iter().enumerate().find(|&(_, &label)| label >= classes) {
            return Err(Error::Label { row, label, classes });
        }
        let (own, scores) = (self.sized("held.own", y.len(), 1)?, self.row("held.scores", 2)?);
        let own = y.iter().enumerate().map(|(i, &y)| (y, own[(i, 0)])).collect();
        let held = HeldOut { own, log_loss: scores[0], accuracy: scores[1] };
        Ok(Knowledge::Few(Box::new(inducing), held))
    }

    /// Matrices of 32-bit floats of one size.
    fn narrow(&self, name: &'static str) -> Result<Vec<Mat<f32>>> {
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

    fn tensor(&self, name: &str, dtype: Dtype, dimensions: usize) -> Result<TensorView<'_>> {
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

    fn matrix(&self, name: &'static str) -> Result<Mat<f64>> {
        let tensor = self.tensor(name, Dtype::F64, 2)?;
        let (rows, cols) = (tensor.shape()[0], tensor.shape()[1]);
        let values: Vec<f64> = words(tensor.data()).map(f64::from_le_bytes).collect();
        let m = Mat::from_fn(rows, cols, |i, j| values[i * cols + j]);
        crate::task::check_matrix(name, &m, rows, cols)?;
        Ok(m)
    }

    fn sized(&self, name: &'static str, rows: usize, cols: usize) -> Result<Mat<f64>> {
        let m = self.matrix(name)?;
        crate::task::check_matrix(name, &m, rows, cols)?;
        Ok(m)
    }

    fn row(&self, name: &'static str, cols: usize) -> Result<Vec<f64>> {
        let m = self.sized(name, 1, cols)?;
        Ok((0..cols).map(|j| m[(0, j)]).collect())
    }

    fn labels(&self, name: &str) -> Result<Vec<usize>> {
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
type Array = (&'static str, Dtype, Vec<usize>, Vec<u8>);

fn floats(name: &'static str, m: &Mat<f64>) -> Array {
    let bytes =
        (0..m.nrows()).flat_map(|i| (0..m.ncols()).flat_map(move |j| m[(i, j)].to_le_bytes())).collect();
    (name, Dtype::F64, vec![m.nrows(), m.ncols()], bytes)
}

/// Matrices of 32-bit floats of one size.
fn narrow_floats(name: &'static str, all: &[&Mat<f32>]) -> Array {
    let (rows, cols) = all.first().map_or((0, 0), |m| (m.nrows(), m.ncols()));
    let of = |m: &Mat<f32>| (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))).map(|at| m[at]).collect();
    let bytes = all.iter().flat_map(|m| -> Vec<f32> { of(m) }).flat_map(f32::to_le_bytes).collect();
    (name, Dtype::F32, vec![all.len(), rows, cols], bytes)
}

/// Whole numbers.
fn whole(name: &'static str, values: impl ExactSizeIterator<Item = usize>) -> Array {
    let shape = vec![values.len()];
    (name, Dtype::U64, shape, values.flat_map(|v| (v as u64).to_le_bytes()).collect())
}

fn row(values: &[f64]) -> Mat<f64> {
    Mat::from_fn(1, values.len(), |_, j| values[j])
}

fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> + '_ {
    bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        word
    })
}

fn file_error(path: &Path, problem: &dyn std::fmt::Display) -> Error {
    Error::File { path: path.display().to_string(), problem: problem.to_string() }
}
