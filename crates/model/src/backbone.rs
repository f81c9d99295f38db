//! The backbone of a trained model, as the start of another training.

use crate::error::Result;
use crate::file;
use crate::model::{CHECKPOINT, EMBEDDED, MOST_BYTES, Model, bad};
use safetensors::SafeTensors;
use siskin_data::files;
use siskin_methods::{Role, Values};
use siskin_nn::{Architecture, NamedTensor};
use std::path::Path;

impl Model {
    /// Architecture and weights of the backbone of the model that `name` means: an embedded one, a run folder or a file of
    /// `siskin export`. `None` where `name` is a file of another kind.
    pub fn backbone_of(name: &str) -> Result<Option<(Architecture, Vec<NamedTensor>)>> {
        let path = Path::new(name);
        let embedded = EMBEDDED.iter().any(|(known, _)| *known == name) && !path.exists();
        if !embedded && !path.is_dir() && !is_exported(path)? {
            return Ok(None);
        }
        let model = Model::open(name)?;
        let (architecture, state) = model.learned()?;
        let weights = state.0.iter().filter(|t| t.role == Role::Model).filter_map(|t| {
            let (name, Values::F32(values)) = (t.name.strip_prefix("network.")?, &t.values) else {
                return None;
            };
            Some(NamedTensor { name: name.into(), shape: t.shape.clone(), values: values.clone() })
        });
        Ok(Some((architecture, weights.collect())))
    }
}

/// Whether a file is one of `siskin export`, by its header. Of a file that cannot be read, or is no safetensors file, its reader says so.
fn is_exported(path: &Path) -> Result<bool> {
    let Ok(bytes) = files::read(path, MOST_BYTES) else { return Ok(false) };
    let Ok((_, header)) = SafeTensors::read_metadata(&bytes) else { return Ok(false) };
    let has = |key: &str| header.metadata().as_ref().is_some_and(|records| records.contains_key(key));
    match has(CHECKPOINT) {
        true => {
            Err(bad(&path.display().to_string(), "it is the checkpoint of a run: give the run folder".into()))
        }
        false => Ok(has(file::KEY)),
    }
}
