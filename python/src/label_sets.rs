//! The classifier of label sets.

use crate::array::matrix;
use crate::classifier::{array, bar, named_kernel};
use crate::interrupt::{interruptible, watched};
use crate::pool::VECTORS;
use crate::value_error;
use faer::Mat;
use numpy::{PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use siskin_gp::classifier::{LabelSetClassifier, SetPredictions};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Points predicted between two looks at Ctrl-C.
const CHUNK: usize = 1024;

/// A fitted classifier of label sets.
#[pyclass(frozen, module = "pysiskin._native")]
pub struct LabelSets(Arc<LabelSetClassifier>);

/// Chances of labels [M, L] and of sizes [M, K], the sizes, and the most probable sets with their probabilities.
type Answer<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Vec<usize>, Vec<(Vec<usize>, f64)>);

/// The settings of a fit, as Python has them: a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    kernel: Option<String>,
    standardise: bool,
    n_inducing: Option<usize>,
    verbose: bool,
}

#[pymethods]
impl LabelSets {
    /// Learns from `x` [N, D] and label sets, labels in 0..`labels`.
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f64>,
        sets: Vec<Vec<usize>>,
        labels: usize,
        settings: Settings,
    ) -> PyResult<LabelSets> {
        let x = matrix(&x);
        let kernel = match settings.kernel.as_deref() {
            Some("auto") => {
                return Err(value_error("kernel = \"auto\" is not there for label sets: name one, or None"));
            }
            name => named_kernel(name, &x, &vec![0; sets.len()])?,
        };
        let mut model = LabelSetClassifier::default();
        model.kernel = kernel;
        (model.standardise, model.inducing) = (settings.standardise, settings.n_inducing);
        let (cancelled, progress) = (model.cancelled.clone(), model.progress.clone());
        let threads = VECTORS.threads()?;
        watched(py, &cancelled, bar(progress, settings.verbose), move || {
            threads.install(|| model.fit(x.as_ref(), &sets, labels)).map_err(value_error)?;
            Ok(LabelSets(Arc::new(model)))
        })
    }

    /// What is predicted at `x` [M, D].
    fn predictions<'py>(&self, py: Python<'py>, x: PyReadonlyArray2<'py, f64>) -> PyResult<Answer<'py>> {
        let (x, rows) = (matrix(&x), x.shape()[0]);
        let (mut parts, threads) = (Vec::new(), VECTORS.threads()?);
        for start in (0..rows).step_by(CHUNK) {
            let part = x.subrows(start, CHUNK.min(rows - start)).to_owned();
            let (model, threads) = (self.0.clone(), threads.clone());
            let work = move || threads.install(|| model.predictions(part.as_ref())).map_err(value_error);
            parts.push(interruptible(py, &AtomicBool::default(), work)?);
        }
        let of = |what: fn(&SetPredictions) -> &Mat<f64>| array(py, parts.iter().map(what));
        let (labels, sizes) = (of(|p| &p.labels)?, of(|p| &p.sizes)?);
        let values = parts.first().map_or(Vec::new(), |part| part.size_values.clone());
        Ok((labels, sizes, values, parts.into_iter().flat_map(|part| part.sets).collect()))
    }

    /// The learned hyperparameters by name.
    fn learned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let learned = self.0.learned().map_err(value_error)?;
        let dict = PyDict::new(py);
        dict.set_item("tau", learned.tau)?;
        dict.set_item("prior_mean", learned.prior_mean)?;
        dict.set_item("spread", learned.spread)?;
        dict.set_item("held_out", learned.held_out)?;
        dict.set_item("evaluations", learned.evaluations)?;
        dict.set_item("inducing", learned.inducing)?;
        dict.set_item("converged", learned.converged)?;
        Ok(dict)
    }

    /// The bytes of a saved classifier.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.to_bytes().map_err(value_error)?))
    }

    /// A classifier from the bytes of a saved one.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<LabelSets> {
        let model =
            LabelSetClassifier::from_bytes(bytes, "the classifier of label sets").map_err(value_error)?;
        Ok(LabelSets(Arc::new(model)))
    }

    /// Pickles as its bytes.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = py.get_type::<LabelSets>().getattr("from_bytes")?;
        Ok((make, (self.to_bytes(py)?,)))
    }
}
