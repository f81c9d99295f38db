//! The covariance of the weights of one class: full among the leading features, diagonal among the others.
//!
//! `S^-1 = I + G`, G what the sites say: `Phi' diag(w) Phi` on the leading features, the diagonal of that on the others. Features come in
//! the order of what they say beyond those before them, so the leading ones are those that the points determine.

use crate::Result;
use crate::linalg::{cholesky, dot, lower_inverse, tmul_vec};
use faer::Mat;

/// Of one class.
#[derive(Debug, Clone)]
pub(super) struct Covariance {
    /// G among the leading features, [R, R].
    full: Mat<f64>,
    /// The diagonal of G among the others, [M - R].
    diagonal: Vec<f64>,
    /// J with `J' J = S` among the leading features, lower triangular.
    pub(super) factor: Mat<f64>,
    log_det: f64,
}

impl Covariance {
    /// The prior's: nothing is known.
    pub(super) fn prior(leading: usize, others: usize) -> Self {
        let (full, factor) = (Mat::zeros(leading, leading), Mat::identity(leading, leading));
        Covariance { full, diagonal: vec![0.0; others], factor, log_det: 0.0 }
    }

    pub(super) fn new(full: Mat<f64>, diagonal: Vec<f64>) -> Result<Self> {
        let r = full.nrows();
        let precision = Mat::from_fn(r, r, |i, j| full[(i, j)] + f64::from(i == j));
        let l = cholesky(precision, "precision of the weights")?;
        let log_det = crate::linalg::logdet_of_factor(&l);
        Ok(Covariance { full, diagonal, factor: lower_inverse(&l), log_det })
    }

    /// A natural-gradient step of this size: `G + size (target - G)`.
    pub(super) fn towards(&self, target: &(Mat<f64>, Vec<f64>), size: f64) -> Result<Self> {
        let (full, diagonal) = target;
        let mix = |from: f64, to: f64| from + size * (to - from);
        let r = full.nrows();
        let diagonal = self.diagonal.iter().zip(diagonal).map(|(&from, &to)| mix(from, to)).collect();
        Covariance::new(Mat::from_fn(r, r, |i, j| mix(self.full[(i, j)], full[(i, j)])), diagonal)
    }

    /// The same sites seen `by` times as many times.
    pub(super) fn times(&self, by: f64) -> Result<Self> {
        let diagonal = self.diagonal.iter().map(|g| g * by).collect();
        Covariance::new(&self.full * faer::Scale(by), diagonal)
    }

    /// The variances of the features that are not leading.
    pub(super) fn variances(&self) -> Vec<f64> {
        self.diagonal.iter().map(|g| 1.0 / (1.0 + g)).collect()
    }

    /// `S x`.
    pub(super) fn apply(&self, x: &[f64]) -> Vec<f64> {
        let r = self.factor.nrows();
        let inner = crate::linalg::mul_vec(&self.factor, &x[..r]);
        let mut out = tmul_vec(&self.factor, &inner);
        out.extend(x[r..].iter().zip(&self.diagonal).map(|(x, g)| x / (1.0 + g)));
        out
    }

    /// `KL(N(m, S) || N(0, I))`.
    pub(super) fn kl(&self, m: &[f64]) -> f64 {
        let r = self.factor.nrows();
        let trace: f64 = (0..r).map(|j| dot(self.factor.col_as_slice(j), self.factor.col_as_slice(j))).sum();
        let of_others: f64 = self.diagonal.iter().map(|g| 1.0 / (1.0 + g) - 1.0 + g.ln_1p()).sum();
        0.5 * (dot(m, m) + trace - r as f64 + self.log_det + of_others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covariance_and_divergence_are_those_of_the_dense_matrix() {
        let full = Mat::from_fn(2, 2, |i, j| [[3.0, 1.0], [1.0, 2.0]][i][j]);
        let s = Covariance::new(full, vec![4.0]).unwrap();
        // (I + G)^-1 = [[4, 1], [1, 3]]^-1 = [[3, -1], [-1, 4]] / 11, and 1/5.
        let got = s.apply(&[11.0, 0.0, 5.0]);
        assert!(got.iter().zip([3.0, -1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}");
        let want = 0.5 * (14.0 + 7.0 / 11.0 + 0.2 - 3.0 + 55f64.ln());
        assert!((s.kl(&[1.0, 2.0, 3.0]) - want).abs() < 1e-12);
        assert_eq!(Covariance::prior(2, 1).kl(&[0.0; 3]), 0.0);
        // Half way is half of G.
        let half = Covariance::prior(2, 1).towards(&(Mat::identity(2, 2), vec![2.0]), 0.5).unwrap();
        assert!((half.apply(&[1.5, 0.0, 2.0])[0] - 1.0).abs() < 1e-12 && half.variances() == [0.5]);
    }
}
