//! The extension module `pysiskin._native`: NumPy arrays in and out, long work without the GIL. The classes that people use
//! are written in Python on top of it (`python/pysiskin`).

mod array;
mod calibration;
mod classifier;
mod few_shot;
mod image;
mod interrupt;
mod label_sets;
mod networks;
mod pool;
mod runs;

use pyo3::prelude::*;

/// Native parts of the package `pysiskin`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::calibration::{
        accuracy, adaptive_ece, brier, classwise_ece, conformal_sets, ece, fit_temperature, mce, nll,
        reliability, sharpen,
    };
    #[pymodule_export]
    use crate::classifier::Classifier;
    #[pymodule_export]
    use crate::few_shot::{Network, PyTask};
    #[pymodule_export]
    use crate::label_sets::LabelSets;
    #[pymodule_export]
    use crate::networks::{check_network_name, keep_network, probe_network};
    #[pymodule_export]
    use crate::runs::{test, train};
    use pyo3::prelude::*;
    use siskin_gp::classifier::{EvidenceBound, Likelihood};

    /// What added ONNX networks are run by.
    #[pyfunction]
    fn onnx_engine() -> &'static str {
        siskin_adapt::foreign::engine()
    }

    /// The rules of answers have their defaults in one place, for Python too; and what can be chosen by name has its names there.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        siskin_gp::keep_freed_memory();
        let siskin_adapt::Rules { level, abstain, min_probability } = siskin_adapt::Rules::default();
        module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
        module.add("DEFAULT_LEVEL", level)?;
        module.add("DEFAULT_ABSTAIN", abstain)?;
        module.add("DEFAULT_MIN_PROBABILITY", min_probability)?;
        module.add("KERNELS", siskin_gp::kernels::AnyForm::names())?;
        module.add("LIKELIHOODS", Likelihood::NAMED.map(|(name, _)| name))?;
        module.add("INFERENCES", EvidenceBound::NAMED.map(|(name, _)| name))
    }
}

/// Bad values become `ValueError` with the library's own sentence.
fn value_error(error: impl std::fmt::Display) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(error.to_string())
}

/// Files that the system refuses become `OSError` (of the kind Python has for it, e.g. `FileNotFoundError`), all else
/// `ValueError`.
fn file_error(error: impl Into<siskin_adapt::Error>) -> PyErr {
    let error = error.into();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(of) = cause {
        if let Some(io) = of.downcast_ref::<std::io::Error>() {
            return std::io::Error::new(io.kind(), error.to_string()).into();
        }
        cause = of.source();
    }
    value_error(error)
}
