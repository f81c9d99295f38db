//! Weight files: safetensors under our names, or as PyTorch's few-shot code names them.
//!
//! | ours | CloserLookFewShot and its descendants |
//! | --- | --- |
//! | `blocks.i.conv.weight`, `.bias` | `trunk.i.C.weight`, `.bias` |
//! | `blocks.i.norm.weight`, `.bias`, `.running_mean`, `.running_var` | `trunk.i.BN.*` |
//!
//! | ours | the usual ResNet12 (MetaOptNet and its descendants), i + 1 = 1 to 4, j = 1 to 3 |
//! | --- | --- |
//! | `blocks.i.unitj.conv.weight`, `blocks.i.unitj.norm.*` | `layer(i+1).0.convj.weight`, `layer(i+1).0.bnj.*` |
//! | `blocks.i.shortcut.conv.weight`, `blocks.i.shortcut.norm.*` | `layer(i+1).0.downsample.0.weight`, `.1.*` |
//!
//! Their names may stand under `feature.` or `feature_extractor.` (a whole method's state dict); then tensors outside
//! that prefix belong to the head and are passed over. `num_batches_tracked` is not used. The second name they give to
//! the same tensors (`trunk.i.trunk.0.*` for `C`, `trunk.i.trunk.1.*` for `BN`) is read too.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::Error;
use crate::backbone::Backbone;
use crate::state::{NamedTensor, export, import};

const PREFIXES: [&str; 2] = ["feature.", "feature_extractor."];

/// Writes the backbone's parameters and running statistics.
pub(crate) fn save(backbone: &Backbone, path: &Path) -> Result<(), Error> {
    let io = |source| Error::WeightsIo { path: path.to_owned(), source };
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = export(backbone)
        .into_iter()
        .map(|t| {
            let bytes = t.values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (t.name, t.shape, bytes)
        })
        .collect();
    let mut views = Vec::with_capacity(bytes.len());
    for (name, shape, data) in &bytes {
        let view = TensorView::new(Dtype::F32, shape.clone(), data).map_err(|e| format_error(path, e))?;
        views.push((name, view));
    }
    // One entry only: a map of several would be written in random order.
    let architecture = backbone.architecture().name().to_owned();
    let metadata = HashMap::from([("architecture".to_owned(), architecture)]);
    let file = safetensors::serialize(views, Some(metadata)).map_err(|e| format_error(path, e))?;
    std::fs::write(path, file).map_err(io)
}

/// The backbone with the weights of a file; every tensor must be there with its shape, and no unknown one.
pub(crate) fn load(backbone: Backbone, path: &Path) -> Result<Backbone, Error> {
    let name = backbone.architecture().name();
    let mismatch =
        |reason| Error::WeightsMismatch { path: path.to_owned(), backbone: name, reason: Box::new(reason) };
    let tensors = translate(read(path)?).map_err(mismatch)?;
    import(backbone, tensors).map_err(mismatch)
}

fn format_error(path: &Path, reason: impl ToString) -> Error {
    Error::WeightsFormat { path: path.to_owned(), reason: reason.to_string() }
}

/// The backbone's tensors of a file, without the prefix of a whole method. Heads and the integer counters that PyTorch
/// saves with a batch-norm are passed over.
fn read(path: &Path) -> Result<Vec<NamedTensor>, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::WeightsIo { path: path.to_owned(), source })?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| format_error(path, e))?;
    let present = |prefix: &&str| file.names().iter().any(|name| name.starts_with(*prefix));
    let prefix = PREFIXES.into_iter().find(present).unwrap_or("");
    let mut tensors = Vec::new();
    for (name, view) in file.iter() {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        if rest.ends_with("num_batches_tracked") {
            continue;
        }
        if view.dtype() != Dtype::F32 {
            return Err(Error::TensorType { name: name.to_owned(), dtype: format!("{:?}", view.dtype()) });
        }
        let values = view.data().as_chunks::<4>().0;
        tensors.push(NamedTensor {
            name: rest.to_owned(),
            shape: view.shape().to_vec(),
            values: values.iter().map(|&b| f32::from_le_bytes(b)).collect(),
        });
    }
    Ok(tensors)
}

/// The tensors under our names, whichever naming they came in.
fn translate(tensors: Vec<NamedTensor>) -> Result<Vec<NamedTensor>, Error> {
    let mut ours: BTreeMap<String, NamedTensor> = BTreeMap::new();
    for tensor in tensors {
        let name = our_name(&tensor.name).unwrap_or_else(|| tensor.name.clone());
        let tensor = NamedTensor { name: name.clone(), ..tensor };
        // A tensor may come under both of its names, but then it must be the same.
        if let Some(other) = ours.insert(name.clone(), tensor)
            && other != ours[&name]
        {
            return Err(Error::DuplicateTensor { name });
        }
    }
    Ok(ours.into_values().collect())
}

/// Our name of a name without its prefix: `trunk.0.C.weight` -> `blocks.0.conv.weight`,
/// `layer1.0.bn2.weight` -> `blocks.0.unit2.norm.weight`.
fn our_name(theirs: &str) -> Option<String> {
    conv_net_name(theirs).or_else(|| resnet_name(theirs))
}

fn resnet_name(theirs: &str) -> Option<String> {
    let (number, rest) = theirs.strip_prefix("layer")?.split_once(".0.")?;
    let block = number.parse::<usize>().ok()?.checked_sub(1)?;
    let (layer, value) = match rest.strip_prefix("downsample.") {
        Some(rest) => match rest.split_once('.')? {
            ("0", value) => ("shortcut.conv".to_owned(), value),
            ("1", value) => ("shortcut.norm".to_owned(), value),
            _ => return None,
        },
        None => {
            let (layer, value) = rest.split_once('.')?;
            let unit = |kind: &str, number: &str| format!("unit{number}.{kind}");
            let layer = match layer.strip_prefix("conv") {
                Some(number) => unit("conv", number),
                None => unit("norm", layer.strip_prefix("bn")?),
            };
            (layer, value)
        }
    };
    Some(format!("blocks.{block}.{layer}.{value}"))
}

fn conv_net_name(theirs: &str) -> Option<String> {
    let (index, rest) = theirs.strip_prefix("trunk.")?.split_once('.')?;
    index.parse::<usize>().ok()?;
    let (layer, value) = match rest.strip_prefix("trunk.") {
        Some(rest) => rest.split_once('.')?,
        None => rest.split_once('.')?,
    };
    let layer = match layer {
        "C" | "0" => "conv",
        "BN" | "1" => "norm",
        _ => return None,
    };
    Some(format!("blocks.{index}.{layer}.{value}"))
}
