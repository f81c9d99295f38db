//! Measures of calibration and what corrects it: thin covers of `siskin-calib`.

use crate::array::{column, table};
use crate::value_error;
use numpy::{PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use siskin_calib::{Conformal, Optimum, Predictions, Probabilities, Reliability, SetRule, Temperature};

fn probabilities(p: &PyReadonlyArray2<'_, f64>) -> PyResult<Probabilities> {
    Probabilities::new(p.as_array().iter().copied().collect(), p.shape()[1]).map_err(value_error)
}

fn predictions(p: &PyReadonlyArray2<'_, f64>, labels: Vec<usize>) -> PyResult<Predictions> {
    Predictions::with_labels(probabilities(p)?, labels).map_err(value_error)
}

/// Share of rows whose most probable class is the true one.
#[pyfunction]
pub(crate) fn accuracy(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>) -> PyResult<f64> {
    Ok(siskin_calib::accuracy(&predictions(&p, labels)?))
}

/// Mean negative log-probability of the truth.
#[pyfunction]
pub(crate) fn nll(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>) -> PyResult<f64> {
    Ok(siskin_calib::nll(&predictions(&p, labels)?))
}

/// Brier score.
#[pyfunction]
pub(crate) fn brier(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>) -> PyResult<f64> {
    Ok(siskin_calib::brier(&predictions(&p, labels)?))
}

/// Expected calibration error.
#[pyfunction]
pub(crate) fn ece(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>, bins: usize) -> PyResult<f64> {
    siskin_calib::ece(&predictions(&p, labels)?, bins).map_err(value_error)
}

/// Maximum calibration error.
#[pyfunction]
pub(crate) fn mce(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>, bins: usize) -> PyResult<f64> {
    siskin_calib::mce(&predictions(&p, labels)?, bins).map_err(value_error)
}

/// Expected calibration error with bins of equal mass.
#[pyfunction]
pub(crate) fn adaptive_ece(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>, bins: usize) -> PyResult<f64> {
    siskin_calib::adaptive_ece(&predictions(&p, labels)?, bins).map_err(value_error)
}

/// Expected calibration error of every class's probability, averaged.
#[pyfunction]
pub(crate) fn classwise_ece(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>, bins: usize) -> PyResult<f64> {
    siskin_calib::classwise_ece(&predictions(&p, labels)?, bins).map_err(value_error)
}

/// The bins of a reliability diagram: edges, counts, mean confidence and accuracy of each.
#[pyfunction]
pub(crate) fn reliability<'py>(
    py: Python<'py>,
    p: PyReadonlyArray2<'_, f64>,
    labels: Vec<usize>,
    bins: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let all = Reliability::new(&predictions(&p, labels)?, bins).map_err(value_error)?;
    let dict = PyDict::new(py);
    dict.set_item("lower", column(py, &all.bins, |b| b.lower))?;
    dict.set_item("upper", column(py, &all.bins, |b| b.upper))?;
    dict.set_item("count", column(py, &all.bins, |b| b.count as f64))?;
    dict.set_item("confidence", column(py, &all.bins, |b| b.confidence))?;
    dict.set_item("accuracy", column(py, &all.bins, |b| b.accuracy))?;
    Ok(dict)
}

/// The temperature that minimises the negative log-likelihood, and whether it is a true minimum.
#[pyfunction]
pub(crate) fn fit_temperature(p: PyReadonlyArray2<'_, f64>, labels: Vec<usize>) -> PyResult<(f64, bool)> {
    let found = Temperature::fit_predictions(&predictions(&p, labels)?).map_err(value_error)?;
    Ok((found.value, found.optimum == Optimum::Interior))
}

/// Probabilities at another temperature: p^(1/T), normalised.
#[pyfunction]
pub(crate) fn sharpen<'py>(
    py: Python<'py>,
    p: PyReadonlyArray2<'py, f64>,
    temperature: f64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let sharp = probabilities(&p)?.sharpened(temperature).map_err(value_error)?;
    table(py, (sharp.len(), sharp.classes()), sharp.as_slice().to_vec())
}

/// Conformal sets of `p`, fitted on calibration probabilities and labels, as lists of class indices.
#[pyfunction]
pub(crate) fn conformal_sets(
    calibration: PyReadonlyArray2<'_, f64>,
    labels: Vec<usize>,
    p: PyReadonlyArray2<'_, f64>,
    alpha: f64,
    rule: &str,
) -> PyResult<Vec<Vec<usize>>> {
    let rule = match rule {
        "lac" => SetRule::Lac,
        "aps" => SetRule::Aps,
        _ => return Err(value_error(format!("rule = {rule:?} is not known; there are: lac, aps"))),
    };
    let fitted = Conformal::fit(&predictions(&calibration, labels)?, rule, alpha).map_err(value_error)?;
    Ok(fitted.sets(&probabilities(&p)?))
}
