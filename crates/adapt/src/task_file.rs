//! Task files: one safetensors file, arrays as tensors, everything else as JSON in its header.

use crate::balance::{Balance, NONE, UNMEASURED};
use crate::calibration::TaskCalibration;
use crate::classifier::{ModelRef, TaskClassifier};
use crate::error::{Error, Result};
use crate::fitted::{Fitted, Kind};
use crate::former_task::of_format_3;
use crate::label_sets;
use crate::labelled_images::{check, check_title};
use crate::none_of_these::others::Others;
use faer::Mat;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use siskin_data::files;
use siskin_gp::classifier::GpClassifier;
use siskin_gp::{Hyper, Sites};
use siskin_methods::{Features, row_major};
use std::collections::HashMap;
use std::path::Path;

/// Key of the JSON in the header.
const KEY: &str = "siskin-task";
/// The array of other images' features, in tasks that have them.
const OTHERS: &str = "others";
/// Raised when the meaning of a stored field changes.
const VERSION: u32 = 4;

/// Most bytes of a task file.
const MOST_BYTES: u64 = 256 << 20;

/// All that is no array.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header<C> {
    version: u32,
    siskin: String,
    title: String,
    model: Option<ModelRef>,
    classes: Vec<String>,
    names: Vec<String>,
    labels: Vec<usize>,
    pub(crate) calibration: C,
    /// Of a task made with a model: its kernel, prior mean and temperature, and the bound its posterior reached.
    gp: Option<(Hyper, f64)>,
    /// The power by which numbers of examples are taken out of probabilities. Tasks of earlier versions do not say: 2 where a model's head
    /// made them, 0 where the head is learned from the examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    balance: Option<f64>,
    /// blake3 of this header without its checksum and of the bytes of all tensors in the order of their names.
    checksum: String,
}

impl TaskClassifier {
    /// Writes the task file: the old file or the new one, never a part.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write(path, &self.to_bytes()?)
            .map_err(|source| siskin_data::Error::io("write the task file", path, source).into())
    }

    /// Reads a task file. Everything is checked: length, checksum, shapes, labels, numbers.
    pub fn load(path: &Path) -> Result<TaskClassifier> {
        let bytes = files::read(path, MOST_BYTES)
            .map_err(|source| siskin_data::Error::io("read the task file", path, source))?;
        TaskClassifier::from_bytes(&bytes, &path.display().to_string())
    }

    /// The bytes of a task file. The same task gives the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut arrays: Vec<(&str, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
        let mut floats = |name, shape: [usize; 2], values: &[f64]| {
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            arrays.push((name, Dtype::F64, shape.to_vec(), bytes));
        };
        let gp = match &self.fitted.kind {
            Kind::Network(network) => {
                let sites = &network.sites;
                floats("features", [self.features.rows, self.features.dim], &self.features.values);
                let shape = [sites.b.nrows(), sites.b.ncols()];
                floats("sites.b", shape, &row_major(&sites.b));
                floats("sites.w", shape, &row_major(&sites.w));
                Some((network.hyper.clone(), network.posterior.bound))
            }
            Kind::Vectors(classifier) => {
                floats("features", [self.features.rows, self.features.dim], &self.features.values);
                let bytes = classifier.to_bytes()?;
                arrays.push(("classifier", Dtype::U8, vec![bytes.len()], bytes));
                None
            }
        };
        if let Some(others) = &self.others {
            let Features { values, rows, dim } = &others.features;
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            arrays.push((OTHERS, Dtype::F64, vec![*rows, *dim], bytes));
        }
        arrays.sort_by_key(|array| array.0);
        let mut header = Header {
            version: VERSION,
            siskin: env!("CARGO_PKG_VERSION").into(),
            title: self.title.clone(),
            model: self.model.clone(),
            classes: self.classes.clone(),
            names: self.names.clone(),
            labels: self.labels.clone(),
            calibration: self.calibration.clone(),
            gp,
            balance: Some(self.fitted.balance.power),
            checksum: String::new(),
        };
        let bad = |why: String| Error::Task { name: "to be written".into(), why };
        header.checksum = checksum(&header, arrays.iter().map(|a| a.3.as_slice()))?;
        let json = serde_json::to_string(&header)?;
        let views = arrays
            .iter()
            .map(|(name, dtype, shape, bytes)| Ok((*name, TensorView::new(*dtype, shape.clone(), bytes)?)))
            .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|e| bad(e.to_string()))?;
        serialize(views, Some(HashMap::from([(KEY.to_owned(), json)]))).map_err(|e| bad(e.to_string()))
    }

    /// Reads the bytes of a task file; `name` is for messages.
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<TaskClassifier> {
        TaskClassifier::parse(bytes, name, true)
    }

    /// With `sealed` the checksum must fit; without, the checks behind it must hold alone.
    pub(crate) fn parse(bytes: &[u8], name: &str, sealed: bool) -> Result<TaskClassifier> {
        let bad = |why: String| Error::Task { name: name.into(), why };
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| {
            bad(format!("it is no task file, or not a whole one ({e}). `siskin adapt` makes them"))
        })?;
        let json = metadata.metadata().as_ref().and_then(|m| m.get(KEY));
        let json = json.ok_or_else(|| {
            bad(match label_sets::holds(&metadata) {
                true => "it is a task of label sets, whose answers are sets: `siskin predict` and `siskin serve` take it".into(),
                false => "it is a safetensors file, but holds no task".into(),
            })
        })?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| bad(e.to_string()))?;
        let header = header(json, &tensors, sealed).map_err(bad)?;
        check(&header.classes, &header.labels)?;
        check_title(&header.title)?;
        let table = |wanted: &str| table(&tensors, wanted).map_err(bad);
        let (count, dim, values) = table("features")?;
        if count != header.labels.len() || count != header.names.len() {
            return Err(bad(format!(
                "it has {count} rows of features, {} labels and {} names",
                header.labels.len(),
                header.names.len()
            )));
        }
        let features = Features { values, rows: count, dim };
        let balance = |unsaid: f64| {
            let power = header.balance.unwrap_or(unsaid);
            match power.is_finite() {
                true => Ok(Balance::new(&header.labels, header.classes.len(), power)),
                false => Err(bad(format!("its balance is {power}"))),
            }
        };
        let fitted = match &header.gp {
            Some((hyper, bound)) => {
                let sites = |wanted| -> Result<Mat<f64>> {
                    let (rows, cols, values) = table(wanted)?;
                    Ok(Mat::from_fn(rows, cols, |i, c| values[i * cols + c]))
                };
                let sites = Sites { b: sites("sites.b")?, w: sites("sites.w")? };
                let labelled = (header.labels.as_slice(), balance(UNMEASURED)?);
                Fitted::from_sites(&features, labelled, (hyper, *bound), sites)?
            }
            None => {
                let view = tensors.tensor("classifier").map_err(|e| bad(e.to_string()))?;
                let classifier = GpClassifier::from_bytes(view.data(), name)?;
                Fitted::of_vectors(classifier, &features, &header.labels, balance(NONE)?)?
            }
        };
        let Header { title, model, classes, names, labels, calibration, .. } = header;
        let mut task = TaskClassifier {
            title,
            model,
            classes,
            names,
            labels,
            features,
            fitted,
            calibration,
            others: None,
        };
        if tensors.names().contains(&OTHERS) {
            let (rows, dim, values) = table(OTHERS)?;
            let others = Features { values, rows, dim };
            task.check_width(&others)?;
            task.others = Some(Others::new(others, task.as_labelled())?);
        }
        Ok(task)
    }
}

/// The header of this format or the one before. The error says what is wrong.
fn header(
    json: &str,
    tensors: &SafeTensors<'_>,
    sealed: bool,
) -> std::result::Result<Header<TaskCalibration>, String> {
    let version = serde_json::from_str::<serde_json::Value>(json).ok().and_then(|v| v["version"].as_u64());
    match version {
        Some(4) => unsealed::<TaskCalibration>(json, tensors, sealed),
        Some(3) => unsealed(json, tensors, sealed).map(of_format_3),
        _ => {
            let found = version.map_or("unknown".to_owned(), |v| v.to_string());
            Err(format!(
                "its format is {found}, this program reads {VERSION} and 3. Make it again from its examples: siskin adapt FOLDER"
            ))
        }
    }
}

/// Rows, columns and values of an array. The error says what is wrong.
fn table(tensors: &SafeTensors<'_>, wanted: &str) -> std::result::Result<(usize, usize, Vec<f64>), String> {
    let view = tensors.tensor(wanted).map_err(|e| e.to_string())?;
    match (view.dtype(), view.shape()) {
        (Dtype::F64, &[rows, cols]) => {
            let values = view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
            Ok((rows, cols, values))
        }
        (dtype, shape) => Err(format!("its array `{wanted}` is {dtype:?} {shape:?}")),
    }
}

/// The header, whose checksum must fit where `sealed`. The error says what is wrong.
fn unsealed<C: Serialize + for<'a> Deserialize<'a>>(
    json: &str,
    tensors: &SafeTensors<'_>,
    sealed: bool,
) -> std::result::Result<Header<C>, String> {
    let mut header: Header<C> =
        serde_json::from_str(json).map_err(|e| format!("its header is damaged ({e})"))?;
    let written = std::mem::take(&mut header.checksum);
    let mut list = tensors.tensors();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    let found = checksum(&header, list.iter().map(|(_, view)| view.data())).map_err(|e| e.to_string())?;
    match sealed && found != written {
        true => Err("it is damaged: the checksum does not fit".into()),
        false => Ok(header),
    }
}

impl<C> Header<C> {
    /// The same with another calibration.
    pub(crate) fn with<D>(self, calibration: impl FnOnce(C) -> D) -> Header<D> {
        let Header { version, siskin, title, model, classes, names, labels, gp, balance, checksum, .. } =
            self;
        let calibration = calibration(self.calibration);
        Header { version, siskin, title, model, classes, names, labels, calibration, gp, balance, checksum }
    }
}

/// Of a header with an empty checksum and the arrays.
fn checksum<'a, C: Serialize>(header: &Header<C>, arrays: impl Iterator<Item = &'a [u8]>) -> Result<String> {
    let json = serde_json::to_vec(header)?;
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(&json);
    arrays.for_each(&mut add);
    Ok(hasher.finalize().to_hex().to_string())
}
