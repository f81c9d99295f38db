//! Saving and loading: one safetensors file, arrays as tensors, everything else as JSON in its header.

use super::file::{self, Array, Header as _, Reader, file_error, floats, row, whole, write_whole};
use super::inducing::Inducing;
use super::inference::{adapted, restored};
use super::inputs::{Standardiser, check_features, count_classes};
use super::learn::{HeldOut, Points};
use super::{EvidenceBound, GpClassifier, Knowledge, Learned, Likelihood, Trained};
use crate::gaussian::Sites;
use crate::hyper::Hyper;
use crate::kernels::Kernel;
use crate::{Error, Result};
use faer::Mat;
use safetensors::tensor::SafeTensors;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Raised when the meaning of a stored field changes.
const VERSION: u32 = 4;

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

impl file::Header for Header {
    const KEY: &'static str = "siskin-gp-classifier";

    fn checksum(&mut self) -> &mut String {
        &mut self.checksum
    }
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
            let mut arrays = inducing.arrays();
            arrays.extend([
                whole("held.y", held.own.iter().map(|&(y, _)| y)),
                floats("held.own", &own),
                floats("held.scores", &row(&[held.log_loss, held.accuracy])),
            ]);
            arrays
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
        let header = Header {
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
        header.sealed(&arrays, path)
    }

    /// Reads a classifier written by [`GpClassifier::save`]. Everything is checked as in `fit`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = file::read(path)?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads what [`GpClassifier::to_bytes`] gave; `path` only names it in errors.
    pub fn from_bytes(bytes: &[u8], path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let entries = file::entries(bytes, path)?;
        let json = entries.get(Header::KEY);
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
        if sealed {
            header.fits(&tensors, path)?;
        }
        let read = Reader { path, tensors };
        Ok(GpClassifier { unsealed: !sealed, ..read.classifier(header)? })
    }
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
        let points = Points { x: &x, y: &y, classes, weights: None };
        let adapted = if settings.likelihood == Likelihood::LogisticSoftmax {
            let sites = Sites {
                b: self.sized("sites.b", y.len(), classes)?,
                w: self.sized("sites.w", y.len(), classes)?,
            };
            restored(hyper, points, &sites, learned.bound)?
        } else {
            adapted(settings, hyper, learned.noise, points, None, &settings.cancelled)?
        };
        Ok(Knowledge::All { x, y, adapted: Box::new(adapted) })
    }

    fn inducing(&self, hyper: &Hyper, width: usize) -> Result<Knowledge> {
        let classes = self.one("inducing.mean")?.ncols();
        if classes < 2 {
            return Err(Error::OneClass);
        }
        let inducing = Inducing::read(self, hyper, classes, width)?;
        let y = self.labels("held.y")?;
        if let Some((row, &label)) = y.iter().enumerate().find(|&(_, &label)| label >= classes) {
            return Err(Error::Label { row, label, classes });
        }
        let (own, scores) = (self.sized("held.own", y.len(), 1)?, self.row("held.scores", 2)?);
        let own = y.iter().enumerate().map(|(i, &y)| (y, own[(i, 0)])).collect();
        let held = HeldOut { own, log_loss: scores[0], accuracy: scores[1] };
        Ok(Knowledge::Few(Box::new(inducing), held))
    }
}
