//! The Gaussian block of one class with site precisions of either sign.
//!
//! Sites that are not conjugate may have negative precisions. Split W = W+ - W-: the block of W+ exists always, and
//! Sigma^{-1} = Sigma+^{-1} - W- is positive definite exactly if M = I - W-^{1/2} Sigma+ W-^{1/2} is, which its Cholesky factor decides.

use faer::Mat;

use super::{Block, Digits};
use crate::Result;
use crate::linalg::{cholesky, dot, logdet_of_one_plus, lower_inverse, mul_vec, product};
use crate::task::check_vector;

/// From more points on than this, variances at new points are found by products of matrices.
const MANY_POINTS: usize = 200;

/// Moments of q(x) with precision K^{-1} + W, W of any sign, and linear term b + K^{-1} a.
#[derive(Debug, Clone)]
pub struct SignedBlock {
    /// Mean, `[N]`.
    pub mu: Vec<f64>,
    /// Marginal variances, `[N]`.
    pub v: Vec<f64>,
    /// `g = K^{-1}(mu - a) = b - W mu`, `[N]`.
    pub g: Vec<f64>,
    /// `KL(q || N(a, K)) = (log det(I + K W) - w.v + (mu - a).g)/2`.
    pub kl: f64,
    /// The site precisions, `[N]`.
    pub w: Vec<f64>,
    /// The block of the positive part of W.
    positive: Block,
    downdate: Option<Downdate>,
}

/// What the negative part of W adds.
#[derive(Debug, Clone)]
struct Downdate {
    /// The points with negative precisions, ascending.
    negative: Vec<usize>,
    /// Their columns of the covariance of the positive part, [N, negative].
    sigma: Mat<f64>,
    /// `T = chol(M)^{-1} W-^{1/2}`, [negative, negative].
    t: Mat<f64>,
    /// `U = chol(M)^{-1} W-^{1/2} Sigma+`, one row for each negative site: `Sigma = Sigma+ + U'U`.
    u: Mat<f64>,
}

impl SignedBlock {
    /// The moments for kernel matrix `k` [N, N], site precisions `w`, linear term `b`, prior mean `a`, all `[N]`.
    ///
    /// An error if K^{-1} + W is not positive definite.
    pub fn new(k: &Mat<f64>, w: &[f64], b: &[f64], a: &[f64]) -> Result<Self> {
        Self::to(Digits::All, k, w, b, a)
    }

    /// [`SignedBlock::new`] with as many digits as asked.
    pub(crate) fn to(digits: Digits, k: &Mat<f64>, w: &[f64], b: &[f64], a: &[f64]) -> Result<Self> {
        // NaN.max(0) is 0: a site that is no number would vanish.
        check_vector("w", w, w.len())?;
        let w_plus: Vec<f64> = w.iter().map(|w| w.max(0.0)).collect();
        let gauss = Block::to(digits, k, &w_plus, b, a)?;
        let negative: Vec<usize> = (0..w.len()).filter(|&i| w[i] < 0.0).collect();
        if negative.is_empty() {
            return Ok(gauss.into());
        }
        let sigma = gauss.sigma_of_free(k, &negative);
        let root: Vec<f64> = negative.iter().map(|&i| (-w[i]).sqrt()).collect();
        let m = Mat::from_fn(root.len(), root.len(), |i, j| {
            f64::from(i == j) - root[i] * sigma[(negative[i], j)] * root[j]
        });
        let factor = cholesky(m, "I - W-^1/2 Sigma+ W-^1/2")?;
        let inverse = lower_inverse(&factor);
        let t = Mat::from_fn(root.len(), root.len(), |i, j| inverse[(i, j)] * root[j]);
        let rows = Mat::from_fn(root.len(), w.len(), |i, j| root[i] * sigma[(j, i)]);
        let u = product(inverse.as_ref(), rows.as_ref());

        // h = W- mu = W-^{1/2} M^{-1} W-^{1/2} mu+, and mu = mu+ + Sigma+ h.
        let pulled: Vec<f64> = negative.iter().zip(&root).map(|(&i, r)| r * gauss.mu[i]).collect();
        let white = mul_vec(&inverse, &pulled);
        let (mut mu, mut v, mut g) = (gauss.mu.clone(), gauss.v.clone(), gauss.g.clone());
        for i in 0..w.len() {
            let column = u.col_as_slice(i);
            mu[i] += dot(column, &white);
            v[i] += dot(column, column);
            g[i] -= w_plus[i] * (mu[i] - gauss.mu[i]) + w[i].min(0.0) * mu[i];
        }
        let diagonal: Vec<f64> = negative.iter().enumerate().map(|(j, &i)| w[i] * sigma[(i, j)]).collect();
        let logdet = gauss.logdet + logdet_of_one_plus(&diagonal, &factor);
        // K g, not mu - a: that loses digits where the prior mean is large and K small.
        let kl = 0.5 * (logdet - dot(w, &v) + dot(&mul_vec(k, &g), &g));
        Ok(SignedBlock {
            mu,
            v,
            g,
            kl,
            w: w.to_vec(),
            positive: gauss,
            downdate: Some(Downdate { negative, sigma, t, u }),
        })
    }

    /// The block of the positive part of W.
    pub(crate) fn positive(&self) -> &Block {
        &self.positive
    }

    /// `U` with `Sigma = Sigma+ + U'U`, where there are negative sites.
    pub(crate) fn given_back(&self) -> Option<&Mat<f64>> {
        self.downdate.as_ref().map(|downdate| &downdate.u)
    }

    /// `R = (K + W^{-1})^{-1} = W - W Sigma W`, [N, N].
    pub(crate) fn r(&self) -> Mat<f64> {
        let mut r = self.positive.r();
        let Some(Downdate { negative, sigma, u, .. }) = &self.downdate else { return r };
        // Where both sites are positive, R+ holds W+ - W+ Sigma+ W+ without cancellation.
        let mut covariance = product(u.transpose(), u.as_ref());
        for (place, &j) in negative.iter().enumerate() {
            for i in (0..self.w.len()).filter(|&i| self.w[i] >= 0.0 || i >= j) {
                covariance[(i, j)] += sigma[(i, place)];
                covariance[(j, i)] = covariance[(i, j)];
            }
        }
        let w = &self.w;
        for j in 0..w.len() {
            for i in 0..w.len() {
                r[(i, j)] -= w[i] * w[j] * covariance[(i, j)];
            }
            r[(j, j)] += w[j].min(0.0);
        }
        r
    }

    /// `k*' R k*` for each column of `k_star` [N, M]: what the data take from the prior variance at new points.
    pub(crate) fn variance_drop(&self, k_star: &Mat<f64>) -> Vec<f64> {
        if self.w.len() > MANY_POINTS {
            return self.variance_drop_at_once(k_star);
        }
        match &self.downdate {
            None => (0..k_star.ncols())
                .map(|q| {
                    let white = self.positive.whiten(k_star.col_as_slice(q));
                    dot(&white, &white)
                })
                .collect(),
            Some(_) => {
                let rk = product(self.r().as_ref(), k_star.as_ref());
                (0..k_star.ncols()).map(|q| dot(rk.col_as_slice(q), k_star.col_as_slice(q))).collect()
            }
        }
    }
}

impl SignedBlock {
    /// [`SignedBlock::variance_drop`] by products of matrices, where there are many points. The positive sites take
    /// `|L^{-1} S k*|^2`; the negative ones give back `|T c|^2`, `c = k*_- - V_-' L^{-1} S k*` their covariance with the new point.
    fn variance_drop_at_once(&self, k_star: &Mat<f64>) -> Vec<f64> {
        let white = self.positive.whiten_all(k_star);
        let square = |m: &Mat<f64>, q: usize| dot(m.col_as_slice(q), m.col_as_slice(q));
        let taken = (0..k_star.ncols()).map(|q| square(&white, q));
        let Some(Downdate { negative, t, .. }) = &self.downdate else { return taken.collect() };
        let v = self.positive.v_of_free(negative);
        let known = product(v.transpose(), white.as_ref());
        let c = Mat::from_fn(negative.len(), k_star.ncols(), |i, q| k_star[(negative[i], q)] - known[(i, q)]);
        let back = product(t.as_ref(), c.as_ref());
        taken.enumerate().map(|(q, taken)| taken - square(&back, q)).collect()
    }
}

impl From<Block> for SignedBlock {
    fn from(gauss: Block) -> Self {
        SignedBlock {
            mu: gauss.mu.clone(),
            v: gauss.v.clone(),
            g: gauss.g.clone(),
            kl: gauss.kl,
            w: gauss.w.clone(),
            positive: gauss,
            downdate: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use faer::linalg::solvers::{DenseSolveCore, Solve};
    use proptest::prelude::*;

    /// (K^{-1} + W)^{-1} literally.
    fn literal(k: &Mat<f64>, w: &[f64], b: &[f64], a: &[f64]) -> (Vec<f64>, Mat<f64>, f64) {
        let n = w.len();
        let inverse = k.partial_piv_lu().inverse();
        let precision = Mat::from_fn(n, n, |i, j| inverse[(i, j)] + if i == j { w[i] } else { 0.0 });
        let sigma = precision.partial_piv_lu().inverse();
        let prior = mul_vec(&inverse, a);
        let linear: Vec<f64> = b.iter().zip(&prior).map(|(b, p)| b + p).collect();
        let mu = mul_vec(&sigma, &linear);
        let d: Vec<f64> = mu.iter().zip(a).map(|(m, a)| m - a).collect();
        let trace: f64 = (0..n).map(|i| product(inverse.as_ref(), sigma.as_ref())[(i, i)]).sum();
        let dets = k.determinant().ln() - sigma.determinant().ln();
        let kl = 0.5 * (trace - n as f64 + dot(&d, &mul_vec(&inverse, &d)) + dets);
        (mu, sigma, kl)
    }

    /// A kernel matrix and sites of both signs, of 28 numbers in -1..1. Negative precisions are down to `least` of that at which
    /// one site alone could make the precision indefinite, `1 / |K|`.
    fn problem(numbers: &[f64], scale: f64, least: f64) -> (Mat<f64>, Vec<f64>) {
        let n = 4;
        let x = Mat::from_fn(n, n, |i, j| numbers[4 * i + j]);
        let k = product(x.as_ref(), x.transpose()) + Mat::<f64>::identity(n, n) * faer::Scale(0.2);
        let k = k * faer::Scale(scale);
        let largest = *k.self_adjoint_eigenvalues(faer::Side::Lower).unwrap().last().unwrap();
        let site = |u: &f64| if *u < 0.0 { least * u / largest } else { 3.0 * u };
        (k, numbers[16..20].iter().map(site).collect())
    }

    proptest! {
        /// `K^{-1} >= 1 / |K|`, so with these sites the precision is positive definite and there must be a block.
        #[test]
        fn agrees_with_the_literal_formulas(numbers in prop::collection::vec(-1.0..1.0f64, 28), scale in 0.1..10.0f64) {
            let n = 4;
            let (k, w) = problem(&numbers, scale, 0.9);
            let (b, a) = (&numbers[20..24], &numbers[24..28]);
            let got = SignedBlock::new(&k, &w, b, a).unwrap();
            let (mu, sigma, kl) = literal(&k, &w, b, a);
            let precision = sigma.partial_piv_lu().solve(Mat::<f64>::identity(n, n));
            let size = sigma.norm_max() * precision.norm_max();
            for i in 0..n {
                prop_assert!((got.mu[i] - mu[i]).abs() < 1e-11 * size, "mu {} {}", got.mu[i], mu[i]);
                prop_assert!((got.v[i] - sigma[(i, i)]).abs() < 1e-11 * size);
                prop_assert!((got.g[i] - (b[i] - w[i] * mu[i])).abs() < 1e-11 * size);
                for j in 0..n {
                    let r = f64::from(i == j) * w[i] - w[i] * sigma[(i, j)] * w[j];
                    prop_assert!((got.r()[(i, j)] - r).abs() < 1e-10 * size);
                }
            }
            prop_assert!((got.kl - kl).abs() < 1e-10 * size);
            let drop = got.variance_drop(&k);
            let want = product(product(k.as_ref(), got.r().as_ref()).as_ref(), k.as_ref());
            for i in 0..n {
                prop_assert!((drop[i] - want[(i, i)]).abs() < 1e-10 * size * scale);
            }
        }
    }

    proptest! {
        /// Sites up to eight times as negative: an error exactly where the literal precision has a negative eigenvalue.
        #[test]
        fn there_is_a_block_exactly_where_the_precision_is_positive_definite(
            numbers in prop::collection::vec(-1.0..1.0f64, 28), scale in 0.1..10.0f64,
        ) {
            let (k, w) = problem(&numbers, scale, 8.0);
            let inverse = k.partial_piv_lu().inverse();
            let precision = Mat::from_fn(4, 4, |i, j| inverse[(i, j)] + if i == j { w[i] } else { 0.0 });
            let least = precision.self_adjoint_eigenvalues(faer::Side::Lower).unwrap()[0];
            // Within rounding of zero either answer is right.
            prop_assume!(least.abs() > 1e-10 * precision.norm_max());
            let block = SignedBlock::new(&k, &w, &numbers[20..24], &numbers[24..28]);
            prop_assert_eq!(block.is_ok(), least > 0.0, "least eigenvalue {}", least);
        }
    }

    #[test]
    fn an_indefinite_precision_is_refused() {
        let k = Mat::<f64>::identity(2, 2);
        assert!(SignedBlock::new(&k, &[-0.99, 1.0], &[0.0; 2], &[0.0; 2]).is_ok());
        let error = SignedBlock::new(&k, &[-1.01, 1.0], &[0.0; 2], &[0.0; 2]).unwrap_err();
        assert!(matches!(error, Error::NotPositiveDefinite { pivot: 0, .. }));
    }

    #[test]
    fn a_site_that_is_no_number_is_refused() {
        let k = Mat::<f64>::identity(2, 2);
        let error = SignedBlock::new(&k, &[0.5, f64::NAN], &[0.0; 2], &[0.0; 2]).unwrap_err();
        assert!(matches!(error, Error::NotFinite { what: "w", row: 1, .. }));
        let error = SignedBlock::new(&k, &[-0.5, 1.0], &[0.0; 3], &[0.0; 2]).unwrap_err();
        assert!(matches!(error, Error::Shape { what: "b", expected: 2, got: 3 }));
    }

    /// `KL = (log(1 + wK) - wK/(1 + wK) + K g^2)/2` of one point, w < 0, at small K and a prior mean far from 0.
    #[test]
    fn the_kl_of_a_small_kernel_keeps_its_digits() {
        for exponent in -12..=0 {
            let (k, w, b, a) = (10f64.powi(exponent), -0.3, 0.4, -5.0);
            let block = SignedBlock::new(&Mat::from_fn(1, 1, |_, _| k), &[w], &[b], &[a]).unwrap();
            let (t, g) = (w * k, (b - w * a) / (1.0 + w * k));
            let want = 0.5 * (t.ln_1p() - t / (1.0 + t) + k * g * g);
            assert!((block.kl / want - 1.0).abs() < 1e-13, "{k:e}: {:e} {want:e}", block.kl);
        }
    }
}
