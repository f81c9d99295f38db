//! Draws from N(a, K) for positive semi-definite K of any rank.

use crate::{Error, Result};
use faer::{Mat, Side};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// A square root of each class's kernel matrix; equal matrices are factored once.
#[derive(Debug, Clone)]
pub(super) struct Prior {
    roots: Vec<Mat<f64>>,
    /// Index into `roots` of each class.
    of_class: Vec<usize>,
}

impl Prior {
    pub(super) fn new(k: &[Mat<f64>]) -> Result<Self> {
        let mut roots = Vec::new();
        let mut of_class: Vec<usize> = Vec::with_capacity(k.len());
        for (c, kc) in k.iter().enumerate() {
            match (0..c).find(|&d| k[d] == *kc) {
                Some(same) => of_class.push(of_class[same]),
                None => {
                    of_class.push(roots.len());
                    roots.push(root(kc)?);
                }
            }
        }
        Ok(Self { roots, of_class })
    }

    /// `a + K^1/2 z` for each class, [N, C].
    pub(super) fn draw<R: Rng + ?Sized>(&self, a: &Mat<f64>, rng: &mut R) -> Mat<f64> {
        let (n, c) = (a.nrows(), a.ncols());
        let z = Mat::from_fn(n, c, |_, _| rng.sample(StandardNormal));
        let mut x = a.clone();
        for j in 0..c {
            let shift = crate::linalg::mul_vec(&self.roots[self.of_class[j]], z.col_as_slice(j));
            for i in 0..n {
                x[(i, j)] += shift[i];
            }
        }
        x
    }
}

/// `U max(Lambda, 0)^1/2` of `K = U Lambda U'`: no jitter, singular matrices included.
pub(crate) fn root(k: &Mat<f64>) -> Result<Mat<f64>> {
    let eigen = k.self_adjoint_eigen(Side::Lower).map_err(|_| Error::NotPositiveDefinite {
        what: "a covariance (its eigenvalues were not found)",
        pivot: 0,
    })?;
    let (u, lambda) = (eigen.U(), eigen.S().column_vector());
    Ok(Mat::from_fn(k.nrows(), k.ncols(), |i, j| u[(i, j)] * lambda[j].max(0.0).sqrt()))
}
