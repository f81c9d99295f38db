//! A method's state as the bytes of a safetensors file with one record in its header: what checkpoints and model files share.

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use siskin_methods::{Role, State, Tensor, Values};
use std::collections::HashMap;

/// The bytes, with `record` in the header under `key`. The same state gives the same bytes. The error says why not.
pub fn encode(state: &State, key: &str, record: &str) -> Result<Vec<u8>, String> {
    let bytes: Vec<Vec<u8>> = state.0.iter().map(|t| little_endian(&t.values)).collect();
    let views = state.0.iter().zip(&bytes).map(|(tensor, bytes)| {
        let dtype = match tensor.values {
            Values::F32(_) => Dtype::F32,
            Values::F64(_) => Dtype::F64,
        };
        TensorView::new(dtype, tensor.shape.clone(), bytes).map(|view| (tensor.name.clone(), view))
    });
    let views = views.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let metadata = HashMap::from([(key.to_string(), record.to_string())]);
    safetensors::serialize(views, Some(metadata)).map_err(|e| e.to_string())
}

/// The record and the state of such bytes. The error says what is wrong with them.
pub fn decode(bytes: &[u8], key: &str) -> Result<(Option<String>, State), String> {
    let (_, header) =
        SafeTensors::read_metadata(bytes).map_err(|e| format!("it is not a whole safetensors file ({e})"))?;
    let record = header.metadata().as_ref().and_then(|m| m.get(key)).cloned();
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let mut state = State::default();
    for (name, view) in tensors.tensors() {
        let values = match view.dtype() {
            Dtype::F32 => {
                Values::F32(view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
            }
            Dtype::F64 => {
                Values::F64(view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
            }
            other => return Err(format!("tensor `{name}` has type {other:?}")),
        };
        let role = Role::of_name(&name);
        state.0.push(Tensor { name, shape: view.shape().to_vec(), values, role });
    }
    Ok((record, state))
}

fn little_endian(values: &Values) -> Vec<u8> {
    match values {
        Values::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Values::F64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}
