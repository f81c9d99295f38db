//! Between the tables and names of a method and the matrices of the Gaussian process.

use crate::Features;
use faer::{Mat, MatRef};
use siskin_gp::kernels::Kernel;

/// Features as the Gaussian process takes them, [rows, dim].
pub fn matrix(features: &Features) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(&features.values, features.rows, features.dim)
}

/// The entries of a matrix row by row.
pub fn row_major(m: &Mat<f64>) -> Vec<f64> {
    (0..m.nrows()).flat_map(|i| (0..m.ncols()).map(move |j| m[(i, j)])).collect()
}

/// The output scales of a kernel by name.
pub(crate) fn named_scales(kernel: &Kernel) -> Vec<(String, f64)> {
    match kernel.raw_scale.len() {
        1 => vec![("output_scale".into(), kernel.scale(0))],
        scales => (0..scales).map(|c| (format!("output_scale_{c}"), kernel.scale(c))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stay_rows() {
        let features = Features { values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], rows: 2, dim: 3 };
        let m = matrix(&features).to_owned();
        assert_eq!((m[(0, 2)], m[(1, 0)]), (3.0, 4.0));
        assert_eq!(row_major(&m), features.values);
    }
}
