//! Numbers between NumPy and us.

use crate::value_error;
use faer::Mat;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// An array as a matrix of ours, whatever its strides.
pub(crate) fn matrix(x: &PyReadonlyArray2<'_, f64>) -> Mat<f64> {
    let view = x.as_array();
    Mat::from_fn(x.shape()[0], x.shape()[1], |i, j| view[(i, j)])
}

/// Row-major values as an array [rows, columns].
pub(crate) fn table<'py>(
    py: Python<'py>,
    (rows, columns): (usize, usize),
    values: Vec<f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    values.into_pyarray(py).reshape([rows, columns]).map_err(value_error)
}

/// One number of each item as an array.
pub(crate) fn column<'py, T>(
    py: Python<'py>,
    items: &[T],
    f: impl Fn(&T) -> f64,
) -> Bound<'py, PyArray1<f64>> {
    items.iter().map(f).collect::<Vec<_>>().into_pyarray(py)
}
