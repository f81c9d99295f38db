//! Networks of other people: tried, and kept under a name.

use crate::{file_error, value_error};
use pyo3::prelude::*;
use siskin_adapt::ModelError;
use siskin_adapt::foreign::{ForeignSpec, MOST_BYTES, Registry, hash_of, inspect};
use siskin_data::files;
use std::path::{Path, PathBuf};

/// What an ONNX file is, by what was asked for, as JSON both. To be called where memory and time are bounded: the file may be anything.
#[pyfunction]
pub(crate) fn probe_network(py: Python<'_>, file: PathBuf, wishes: &str) -> PyResult<String> {
    let wishes = serde_json::from_str(wishes).map_err(value_error)?;
    py.detach(move || {
        let (bytes, name) = (read(&file)?, file.display().to_string());
        let found =
            inspect(bytes, &wishes).map_err(|fault| value_error(ModelError::Foreign { name, fault }))?;
        serde_json::to_string(&found).map_err(value_error)
    })
}

/// Refuses a name that is none, or taken.
#[pyfunction]
pub(crate) fn check_network_name(name: &str) -> PyResult<()> {
    registry()?.check_free(name).map_err(value_error)
}

/// Keeps a file that was tried, with what was found.
#[pyfunction]
pub(crate) fn keep_network(file: PathBuf, name: &str, spec: &str) -> PyResult<()> {
    let spec: ForeignSpec = serde_json::from_str(spec).map_err(value_error)?;
    let bytes = read(&file)?;
    if hash_of(&bytes) != spec.file {
        return Err(value_error(format!("{} was changed while it was read; try again", file.display())));
    }
    registry()?.add(name, &spec, &bytes).map_err(value_error)
}

fn read(file: &Path) -> PyResult<Vec<u8>> {
    let failed = |source| ModelError::Io { action: "read", path: file.into(), source };
    files::read(file, MOST_BYTES).map_err(failed).map_err(file_error)
}

fn registry() -> PyResult<Registry> {
    let none =
        || value_error("this system names no folder for caches; name one by the variable SISKIN_CACHE");
    Registry::default_folder().ok_or_else(none)
}
