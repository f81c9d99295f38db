//! Saving and loading: one safetensors file with a version and a checksum; the classifier of sizes lies in it as a file of its own.

use super::super::file::{self, Header as _, Reader, file_error, floats, row, whole, write_whole};
use super::super::inducing::Inducing;
use super::super::inputs::Standardiser;
use super::{GpClassifier, LabelSetClassifier, LearnedSets, SetSizes, Trained};
use crate::kernels::Kernel;
use crate::{Hyper, Result};
use safetensors::tensor::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Raised when the meaning of a stored field changes.
const VERSION: u32 = 1;

/// All that is no array.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    standardise: bool,
    /// Of the labels given the size; `None` where no set tells of them.
    kernel: Option<Kernel>,
    learned: LearnedSets,
    /// blake3 of this header without its checksum and of all arrays in the order of their names.
    checksum: String,
}

impl file::Header for Header {
    const KEY: &'static str = "siskin-gp-label-sets";

    fn checksum(&mut self) -> &mut String {
        &mut self.checksum
    }
}

impl LabelSetClassifier {
    /// Writes the fitted classifier to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_whole(path, &self.to_bytes()?).map_err(|e| file_error(path, &e))
    }

    /// The bytes of such a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (path, model) = (Path::new("the classifier of label sets"), self.model()?);
        let header = Header {
            version: VERSION,
            standardise: self.standardise,
            kernel: model.members.as_ref().map(|members| members.prior.kernel.clone()),
            learned: model.learned.clone(),
            checksum: String::new(),
        };
        let mut arrays = vec![
            floats("mean", &row(&model.standardiser.mean)),
            floats("scale", &row(&model.standardiser.scale)),
            whole("sizes", model.sizes.values.iter().copied()),
        ];
        if let Some(by) = &model.sizes.by {
            let bytes = by.to_bytes()?;
            arrays.push(("sizes.classifier", Dtype::U8, vec![bytes.len()], bytes));
        }
        arrays.extend(model.members.iter().flat_map(Inducing::arrays));
        header.sealed(&arrays, path)
    }

    /// Reads a classifier written by [`LabelSetClassifier::save`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_bytes(&file::read(path)?, path)
    }

    /// Reads what [`LabelSetClassifier::to_bytes`] gave; `path` only names it in errors.
    pub fn from_bytes(bytes: &[u8], path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let entries = file::entries(bytes, path)?;
        let json =
            entries.get(Header::KEY).ok_or_else(|| file_error(path, &"holds no classifier of label sets"))?;
        let value: serde_json::Value = serde_json::from_str(json).map_err(|e| file_error(path, &e))?;
        if value["version"].as_u64() != Some(u64::from(VERSION)) {
            let problem =
                format!("holds label sets of version {}, this library reads {VERSION}", value["version"]);
            return Err(file_error(path, &problem));
        }
        let header: Header = serde_json::from_value(value).map_err(|e| file_error(path, &e))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| file_error(path, &e))?;
        header.fits(&tensors, path)?;
        trained(&Reader { path, tensors }, &header).map(|fitted| LabelSetClassifier {
            kernel: header.kernel,
            standardise: header.standardise,
            fitted: Some(fitted),
            ..LabelSetClassifier::default()
        })
    }
}

fn trained(read: &Reader<'_>, header: &Header) -> Result<Trained> {
    let width = read.matrix("mean")?.ncols();
    let standardiser = Standardiser { mean: read.row("mean", width)?, scale: read.row("scale", width)? };
    let LearnedSets { labels, prior_mean, tau, .. } = header.learned;
    let values = read.labels("sizes")?;
    let ascending = values.windows(2).all(|pair| pair[0] < pair[1]);
    if labels < 2 || !ascending || values.is_empty() || values.last().is_some_and(|&most| most > labels) {
        return Err(file_error(read.path, &"has sizes that no label set can have"));
    }
    let by = match values.len() {
        1 => None,
        _ => {
            let bytes = read.tensor("sizes.classifier", Dtype::U8, 1)?;
            let by = GpClassifier::from_bytes(bytes.data(), read.path)?;
            if by.learned()?.shares.len() != values.len() {
                return Err(file_error(read.path, &"has a classifier of other sizes than it names"));
            }
            Some(Box::new(by))
        }
    };
    let members = match &header.kernel {
        None => None,
        Some(kernel) => {
            let hyper = Hyper { kernel: kernel.clone(), mean: prior_mean, tau };
            Some(Inducing::read(read, &hyper, labels, width)?)
        }
    };
    let (sizes, learned) = (SetSizes { values, by }, header.learned.clone());
    Ok(Trained { standardiser, members, sizes, learned })
}
