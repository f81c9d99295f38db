//! Feature vectors as a kernel sees them: as they come, or divided by their length.

use super::Kernel;
use crate::{Error, Result};
use faer::{Mat, MatRef};
use std::borrow::Cow;

/// Lengths below this are taken as this, as PyTorch's `normalize` does.
const MIN_LENGTH: f64 = 1e-12;

/// Checked features of some points, one column a point.
#[derive(Debug, Clone)]
pub struct KernelFeatures {
    /// [D, N].
    pub(super) z: Mat<f64>,
    /// The length of each vector before normalisation; empty if the kernel does not normalise.
    length: Vec<f64>,
}

impl Kernel {
    /// The features `x` [N, D] of N >= 1 points, normalised if the kernel asks for it.
    pub fn features(&self, x: MatRef<'_, f64>) -> Result<KernelFeatures> {
        let (n, d) = (x.nrows(), x.ncols());
        if n == 0 || d == 0 {
            return Err(Error::Empty {
                what: if n == 0 { "points" } else { "features of a point" },
                needed: 1,
            });
        }
        let mut z = Mat::zeros(d, n);
        for row in 0..n {
            for col in 0..d {
                let value = x[(row, col)];
                if !value.is_finite() {
                    return Err(Error::NotFinite { what: "features", row, col, value });
                }
                z[(col, row)] = value;
            }
        }
        let mut length = Vec::new();
        if self.normalise || self.form.on_unit_vectors() {
            for i in 0..n {
                let norm = z.col(i).norm_l2().max(MIN_LENGTH);
                length.push(norm);
                z.col_mut(i).iter_mut().for_each(|v| *v /= norm);
            }
        }
        Ok(KernelFeatures { z, length })
    }
}

impl KernelFeatures {
    /// Number of points.
    pub fn points(&self) -> usize {
        self.z.ncols()
    }

    /// Number of features of a point.
    pub fn dim(&self) -> usize {
        self.z.nrows()
    }

    /// The features of point `i`.
    pub(super) fn point(&self, i: usize) -> &[f64] {
        self.z.col_as_slice(i)
    }

    /// The features divided by a length for each dimension; by 1 if there are none.
    pub(super) fn over(&self, lengths: &[f64]) -> Cow<'_, Mat<f64>> {
        match lengths {
            [] => Cow::Borrowed(&self.z),
            _ => Cow::Owned(Mat::from_fn(self.dim(), self.points(), |d, i| self.z[(d, i)] / lengths[d])),
        }
    }

    /// The points `rows` alone.
    pub(crate) fn select(&self, rows: &[usize]) -> KernelFeatures {
        let z = Mat::from_fn(self.dim(), rows.len(), |d, i| self.z[(d, rows[i])]);
        let length =
            if self.length.is_empty() { Vec::new() } else { rows.iter().map(|&i| self.length[i]).collect() };
        KernelFeatures { z, length }
    }

    /// From the cotangent of what the kernel saw, [D, N], that of what came in, [N, D]:
    /// (zbar - z <zbar, z>) / |x| for z = x / |x|.
    pub fn pull_back(&self, zbar: &Mat<f64>) -> Mat<f64> {
        let mut xbar = Mat::zeros(self.points(), self.dim());
        for i in 0..self.points() {
            let (z, zbar) = (self.point(i), zbar.col_as_slice(i));
            let (inverse, along) = match self.length.get(i) {
                None => (1.0, 0.0),
                // At the floor the map is linear.
                Some(&length) if length <= MIN_LENGTH => (1.0 / length, 0.0),
                Some(&length) => (1.0 / length, z.iter().zip(zbar).map(|(z, g)| z * g).sum()),
            };
            for d in 0..self.dim() {
                xbar[(i, d)] = (zbar[d] - along * z[d]) * inverse;
            }
        }
        xbar
    }
}
