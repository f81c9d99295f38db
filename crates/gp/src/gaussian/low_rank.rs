//! The moments of a class where its kernel matrix has a low rank: `K = P P'` with fewer columns than points.
//!
//! Kernels of few features (cosine, linear) have as many columns at most. With `A = I + P' W P`, which is positive definite exactly if
//! `K^{-1} + W` is, whatever the signs of W: `mu = a + P h`, `h = A^{-1} P'(b - W a)`, `v_n = p_n' A^{-1} p_n`, and
//! `KL = (log det A - w.v + |h|^2)/2`. No matrix is larger than the rank. Where W has both signs, so has `P' W P`, and pivots of A lie on
//! both sides of 1.

use faer::Mat;

use super::SignedBlock;
use crate::Result;
use crate::linalg::{
    cholesky, logdet_of_one_plus, logdet_of_one_plus_signed, lower_inverse, lower_product, mul_vec, product,
    squared_length, tmul_vec,
};
use crate::task::check_vector;

/// From fewer points than this a factor would save nothing.
const FEWEST: usize = 16;
/// Nor from this share of the points in columns.
const MOST: f64 = 0.75;
/// What is left of the largest diagonal entry when a matrix counts as used up: some times the rounding of its entries.
const LEFT: f64 = 1e-13;

/// Marginals of q(x) and its distance from the prior: what a step of an ascent asks of a class.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    /// Mean, `[N]`.
    pub mu: Vec<f64>,
    /// Marginal variances, `[N]`.
    pub v: Vec<f64>,
    /// `KL(q || N(a, K))`.
    pub kl: f64,
}

impl Moments {
    pub(crate) fn of(block: &SignedBlock) -> Self {
        Moments { mu: block.mu.clone(), v: block.v.clone(), kl: block.kl }
    }
}

/// A factor of a kernel matrix of low rank.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    /// `P'`, [rank, N]: a column for each point.
    columns: Mat<f64>,
}

impl Root {
    /// The pivoted Cholesky factor of `k` [N, N], if it has at most three quarters as many columns as points.
    pub(crate) fn of(k: &Mat<f64>) -> Option<Self> {
        let n = k.nrows();
        let most = (MOST * n as f64) as usize;
        if n < FEWEST {
            return None;
        }
        let mut left: Vec<f64> = (0..n).map(|i| k[(i, i)]).collect();
        let least = LEFT * left.iter().fold(0.0, |m: f64, d| m.max(*d));
        let mut rows: Vec<Vec<f64>> = Vec::new();
        loop {
            let pivot = (1..n).fold(0, |best, i| if left[i] > left[best] { i } else { best });
            if left[pivot] <= least {
                break;
            }
            if rows.len() == most {
                return None;
            }
            let mut row = k.col_as_slice(pivot).to_vec();
            for before in &rows {
                let share = before[pivot];
                row.iter_mut().zip(before).for_each(|(x, p)| *x -= share * p);
            }
            let root = left[pivot].sqrt();
            for (x, left) in row.iter_mut().zip(&mut left) {
                *x /= root;
                *left = (*left - *x * *x).max(0.0);
            }
            left[pivot] = 0.0;
            rows.push(row);
        }
        let mut columns = Mat::zeros(rows.len(), n);
        for n in 0..n {
            columns.col_as_slice_mut(n).iter_mut().zip(&rows).for_each(|(p, row)| *p = row[n]);
        }
        Some(Root { columns })
    }

    /// The moments for site precisions `w` of any sign, linear term `b` and prior mean `a`, all `[N]`.
    ///
    /// An error if `K^{-1} + W` is not positive definite.
    pub(crate) fn moments(&self, w: &[f64], b: &[f64], a: &[f64]) -> Result<Moments> {
        let points = self.columns.ncols();
        check_vector("w", w, points)?;
        check_vector("b", b, points)?;
        check_vector("a", a, points)?;
        let p = &self.columns;
        let mut weighted = p.clone();
        for (n, w) in w.iter().enumerate() {
            weighted.col_as_slice_mut(n).iter_mut().for_each(|x| *x *= w);
        }
        let mut inner = product(weighted.as_ref(), p.transpose());
        let diagonal: Vec<f64> = (0..inner.nrows()).map(|i| inner[(i, i)]).collect();
        (0..inner.nrows()).for_each(|i| inner[(i, i)] += 1.0);
        let factor = cholesky(inner, "I + P' W P")?;
        let logdet = if w.iter().all(|w| *w >= 0.0) {
            logdet_of_one_plus(&diagonal, &factor)
        } else {
            logdet_of_one_plus_signed(&diagonal, &factor)
        };
        let inverse = lower_inverse(&factor);

        let linear: Vec<f64> = b.iter().zip(w.iter().zip(a)).map(|(b, (w, a))| b - w * a).collect();
        let h = tmul_vec(&inverse, &mul_vec(&inverse, &mul_vec(p, &linear)));
        let mu = a.iter().zip(tmul_vec(p, &h)).map(|(a, shift)| a + shift).collect();
        let white = lower_product(inverse.as_ref(), p.as_ref());
        let v: Vec<f64> = (0..w.len()).map(|n| squared_length(white.col_as_slice(n))).collect();
        let spent: f64 = w.iter().zip(&v).map(|(w, v)| w * v).sum();
        Ok(Moments { mu, v, kl: 0.5 * (logdet - spent + squared_length(&h)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    /// A kernel matrix of so many columns of numbers.
    fn kernel(n: usize, rank: usize, scale: f64, numbers: &[f64]) -> Mat<f64> {
        let x = Mat::from_fn(n, rank, |i, j| numbers[(i * rank + j) % numbers.len()]);
        product(x.as_ref(), x.transpose()) * faer::Scale(scale)
    }

    proptest! {
        /// Small and large kernels, sites of both signs: the numbers of the block that factors [N, N].
        #[test]
        fn agrees_with_the_block(numbers in prop::collection::vec(-1.0..1.0f64, 97), exponent in -6..4i32, rank in 1usize..9) {
            let (n, scale) = (20, 10f64.powi(exponent));
            let k = kernel(n, rank, scale, &numbers);
            let site = |i: usize| {
                let u: f64 = numbers[(7 * i + 3) % 97];
                if u < 0.0 { 0.5 * u / (n as f64 * rank as f64 * scale) } else { 5.0 * u }
            };
            let w: Vec<f64> = (0..n).map(site).collect();
            let (b, a) = (&numbers[20..40], &numbers[50..70]);
            let want = SignedBlock::new(&k, &w, b, a).unwrap();
            let got = Root::of(&k).unwrap().moments(&w, b, a).unwrap();
            for i in 0..n {
                prop_assert!((got.mu[i] - want.mu[i]).abs() < 1e-9, "{} {}", got.mu[i], want.mu[i]);
                prop_assert!((got.v[i] - want.v[i]).abs() <= 1e-9 * want.v[i] + 1e-12 * k[(i, i)], "{} {}", got.v[i], want.v[i]);
            }
            prop_assert!((got.kl - want.kl).abs() < 1e-9 * want.kl.abs() + 1e-14, "{} {}", got.kl, want.kl);
        }
    }

    /// Sites of both signs so strong that `P' W P` has eigenvalues near -1 and far above 0, at the size of a training episode.
    #[test]
    fn agrees_with_the_block_where_the_precision_is_nearly_indefinite() {
        let numbers: Vec<f64> = (0..997).map(|i| (f64::from(i) * 2.3).sin()).collect();
        let (n, rank) = (85, 60);
        let k = kernel(n, rank, 1.0 / rank as f64, &numbers);
        let sign = |i: usize| if i.is_multiple_of(3) { -1.0 } else { 4.0 };
        let (b, a) = (&numbers[20..20 + n], &numbers[150..150 + n]);
        let (root, mut share) = (Root::of(&k).unwrap(), 1.0);
        // The strongest negative sites that leave a Gaussian.
        let sites = |share: f64| -> Vec<f64> { (0..n).map(|i| share * sign(i)).collect() };
        while SignedBlock::new(&k, &sites(share), b, a).is_err() {
            share *= 0.95;
        }
        let w = sites(share);
        let (want, got) = (SignedBlock::new(&k, &w, b, a).unwrap(), root.moments(&w, b, a).unwrap());
        let spread = want.v.iter().fold(0.0, |most: f64, v| most.max(*v));
        for i in 0..n {
            assert!((got.v[i] - want.v[i]).abs() < 1e-9 * spread, "{} {}", got.v[i], want.v[i]);
            assert!((got.mu[i] - want.mu[i]).abs() < 1e-9 * spread, "{} {}", got.mu[i], want.mu[i]);
        }
        assert!((got.kl - want.kl).abs() < 1e-9 * want.kl.abs(), "{} {}", got.kl, want.kl);
    }

    #[test]
    fn the_factor_gives_the_matrix_back_and_has_its_rank() {
        let numbers: Vec<f64> = (0..211).map(|i| (f64::from(i) * 1.7).sin()).collect();
        for (n, rank) in [(16, 3), (60, 17), (100, 64)] {
            let k = kernel(n, rank, 3.0, &numbers);
            let root = Root::of(&k).unwrap().columns;
            assert!(root.nrows() <= rank, "{} of {rank}", root.nrows());
            let again = product(root.transpose(), root.as_ref());
            assert!((&again - &k).norm_max() < 1e-12 * k.norm_max());
        }
    }

    #[test]
    fn a_matrix_of_full_rank_and_one_of_few_points_have_none() {
        assert!(Root::of(&Mat::<f64>::identity(40, 40)).is_none());
        assert!(Root::of(&Mat::<f64>::zeros(FEWEST - 1, FEWEST - 1)).is_none());
        assert!(Root::of(&Mat::<f64>::zeros(FEWEST, FEWEST)).is_some());
    }

    /// One column of ones: the precision is positive definite exactly if `1 + sum w > 0`.
    #[test]
    fn an_indefinite_precision_is_refused() {
        let root = Root::of(&Mat::from_fn(20, 20, |_, _| 1.0)).unwrap();
        let zeros = [0.0; 20];
        assert!(root.moments(&[-0.0499; 20], &zeros, &zeros).is_ok());
        let error = root.moments(&[-0.0501; 20], &zeros, &zeros).unwrap_err();
        assert!(matches!(error, Error::NotPositiveDefinite { .. }));
    }
}
