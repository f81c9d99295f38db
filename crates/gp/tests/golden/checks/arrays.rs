//! Arrays of the files as matrices, and back; their tolerances.

use faer::Mat;
use serde::Deserialize;

/// The tolerance of a file that has one for all.
#[derive(Deserialize)]
pub(super) struct Tol {
    pub rel: f64,
}

/// Rows of a JSON array as a matrix; ragged rows give an empty matrix, which no comparison accepts.
pub(super) fn matrix(rows: &[Vec<f64>]) -> Mat<f64> {
    let columns = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|row| row.len() != columns) {
        return Mat::zeros(0, 0);
    }
    Mat::from_fn(rows.len(), columns, |i, j| rows[i][j])
}

/// The entries of a matrix row by row.
pub(super) fn flat(m: &Mat<f64>) -> Vec<f64> {
    (0..m.nrows()).flat_map(|i| (0..m.ncols()).map(move |j| m[(i, j)])).collect()
}

/// The entries of several matrices, row by row.
pub(super) fn flat_all(ms: &[Mat<f64>]) -> Vec<f64> {
    ms.iter().flat_map(flat).collect()
}

/// `max(stated, 100 * float64_ref_err)`.
pub(super) fn tolerance(stated: f64, float64_ref_err: f64) -> f64 {
    stated.max(100.0 * float64_ref_err)
}
