//! The Gaussian block of one class: `q(x) ~ N(x | a, K) exp(b'x - x'Wx/2)`, without ever forming `K^{-1}`.
//!
//! With `S = W^{1/2}` and `B = I + S K S` (eigenvalues >= 1, so its Cholesky factor exists for singular K too) everything
//! follows from `L^{-1}`, `L = chol B`. Differences that would cancel are avoided entry by entry: between two strong points
//! (`w_n K_nn > 1`) Sigma comes from `(I - B^{-1})/(s s')`, between two weak ones from `K - V'V`, `V = L^{-1} S K`, and
//! between a strong and a weak one from `L^{-1}' V / s`.

use faer::Mat;

use super::Factor;
use crate::linalg::{add_symmetric_product, dot, lower_product, mirror, mul_vec, product, tmul_vec};
use crate::task::check_vector;
use crate::{Error, Result};

/// Eqs. (12d), (12e): moments of `q(x)` with precision `K^{-1} + W` and linear term `b + K^{-1} a`.
#[derive(Debug, Clone)]
pub struct Block {
    /// Mean `mu = a + K g`, `[N]`.
    pub mu: Vec<f64>,
    /// Marginal variances, the diagonal of `Sigma = (K^{-1} + W)^{-1}`, `[N]`.
    pub v: Vec<f64>,
    /// `g = K^{-1}(mu - a) = b - W mu`, `[N]`.
    pub g: Vec<f64>,
    /// `log det B = log det K - log det Sigma`.
    pub logdet: f64,
    /// `KL(q || N(a, K)) = (log det B - w.v + (mu - a).g)/2`.
    pub kl: f64,
    /// The site precisions `w >= 0` it was built with, `[N]`.
    pub w: Vec<f64>,
    factor: Factor,
    /// The points with `w_n K_nn > 1`.
    strong: Vec<usize>,
    /// The other points.
    weak: Vec<usize>,
    /// The columns of `V = L^{-1} S K` of the weak points.
    v_weak: Mat<f64>,
}

/// How many digits the variances of points with weak sites keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// All of them.
    All,
    /// All but seven at worst, for a third of the cost where there are many points.
    Most,
}

impl Digits {
    /// A point with `w_n K_nn` above this is a strong one.
    fn strong(self) -> f64 {
        match self {
            Self::All => 1.0,
            Self::Most => 1e-7,
        }
    }
}

impl Block {
    /// The moments for kernel matrix `k` [N, N], site precisions `w >= 0`, linear term `b` and prior mean `a`, all `[N]`.
    pub fn new(k: &Mat<f64>, w: &[f64], b: &[f64], a: &[f64]) -> Result<Self> {
        Self::to(Digits::All, k, w, b, a)
    }

    /// [`Block::new`] with as many digits as asked.
    pub(crate) fn to(digits: Digits, k: &Mat<f64>, w: &[f64], b: &[f64], a: &[f64]) -> Result<Self> {
        let n = w.len();
        for (side, got) in [("rows", k.nrows()), ("columns", k.ncols())] {
            if got != n {
                return Err(Error::ShapeOf { what: "k", side, expected: n, got });
            }
        }
        for (what, x) in [("w", w), ("b", b), ("a", a)] {
            check_vector(what, x, n)?;
        }
        if let Some(&value) = w.iter().find(|w| **w < 0.0) {
            return Err(Error::OutOfRange { what: "w", value, must: ">= 0" });
        }
        let factor = Factor::new(k, w)?;
        let (logdet, li) = (factor.logdet(), &factor.li);
        let g = factor.weights(k, b, a);
        let shift = mul_vec(k, &g);
        let mu: Vec<f64> = a.iter().zip(&shift).map(|(a, d)| a + d).collect();

        let (strong, weak): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|&i| w[i] * k[(i, i)] > digits.strong());
        let sk = Mat::from_fn(n, weak.len(), |i, j| factor.s[i] * k[(i, weak[j])]);
        let v_weak = lower_product(li.as_ref(), sk.as_ref());
        let mut v = vec![0.0; n];
        for &i in &strong {
            let column = &li.col_as_slice(i)[i..];
            v[i] = (1.0 - dot(column, column)).max(0.0) / w[i];
        }
        for (j, &i) in weak.iter().enumerate() {
            let column = v_weak.col_as_slice(j);
            v[i] = (k[(i, i)] - dot(column, column)).max(0.0);
        }
        let kl = 0.5 * (logdet - dot(w, &v) + dot(&shift, &g));
        let w = w.to_vec();
        Ok(Self { mu, v, g, logdet, kl, w, factor, strong, weak, v_weak })
    }

    /// `log int N(x | a, K) exp(b'x - x'Wx/2) dx = -logdet/2 + b.a - a.Wa/2 + r.(mu - a)/2`, `r = b - Wa`.
    ///
    /// Of a strong point the terms are `b^2/(2w) - (b/w - a) g/2`: the same, and nothing large cancels.
    pub fn log_z(&self, b: &[f64], a: &[f64]) -> f64 {
        let strong = |i: usize| b[i] * b[i] / (2.0 * self.w[i]) - 0.5 * (b[i] / self.w[i] - a[i]) * self.g[i];
        let weak = |i: usize| {
            let r = b[i] - self.w[i] * a[i];
            b[i] * a[i] - 0.5 * self.w[i] * a[i] * a[i] + 0.5 * r * (self.mu[i] - a[i])
        };
        let sites = self.strong.iter().map(|&i| strong(i)).chain(self.weak.iter().map(|&i| weak(i)));
        sites.sum::<f64>() - 0.5 * self.logdet
    }

    /// `L^{-1} S k*`: its squared length is what the data take from the prior variance at a new point.
    pub(crate) fn whiten(&self, k_star: &[f64]) -> Vec<f64> {
        self.factor.whiten(k_star)
    }

    /// `B^{-1}`, [N, N].
    pub(crate) fn b_inverse(&self) -> &Mat<f64> {
        self.factor.b_inverse()
    }

    /// `R = (K + W^{-1})^{-1} = S B^{-1} S`, [N, N].
    pub fn r(&self) -> Mat<f64> {
        let (n, b_inverse) = (self.factor.s.len(), self.b_inverse());
        Mat::from_fn(n, n, |i, j| self.factor.s[i] * b_inverse[(i, j)] * self.factor.s[j])
    }

    /// `Sigma = (K^{-1} + W)^{-1}`, [N, N].
    pub fn sigma(&self, k: &Mat<f64>) -> Mat<f64> {
        let (n, strong, weak) = (self.factor.s.len(), &self.strong, &self.weak);
        let b_inverse = self.b_inverse();
        let mut sigma = Mat::zeros(n, n);
        for &j in strong {
            let (column, bj) = (sigma.col_as_slice_mut(j), b_inverse.col_as_slice(j));
            for &i in strong {
                column[i] = -bj[i] / (self.factor.s[i] * self.factor.s[j]);
            }
        }
        let mut both_weak = Mat::from_fn(weak.len(), weak.len(), |i, j| k[(weak[i], weak[j])]);
        add_symmetric_product(&mut both_weak, -1.0, self.v_weak.transpose(), self.v_weak.as_ref());
        let li_strong = Mat::from_fn(n, strong.len(), |i, j| self.factor.li[(i, strong[j])]);
        let mixed = product(li_strong.transpose(), self.v_weak.as_ref());
        for (j, &col) in weak.iter().enumerate() {
            for (i, &row) in strong.iter().enumerate() {
                let x = mixed[(i, j)] / self.factor.s[row];
                (sigma[(row, col)], sigma[(col, row)]) = (x, x);
            }
            for i in j..weak.len() {
                (sigma[(weak[i], col)], sigma[(col, weak[i])]) = (both_weak[(i, j)], both_weak[(i, j)]);
            }
        }
        (0..n).for_each(|i| sigma[(i, i)] = self.v[i]);
        sigma
    }

    /// `V = L^{-1} S K` at points without a site (`w = 0`), [N, points].
    pub(crate) fn v_of_free(&self, points: &[usize]) -> Mat<f64> {
        // Ascending, and a point without a site is a weak one.
        let place: Vec<usize> = points.iter().map(|p| self.weak.partition_point(|w| w < p)).collect();
        Mat::from_fn(self.factor.s.len(), points.len(), |i, j| self.v_weak[(i, place[j])])
    }

    /// [`Block::whiten`] of every column of `k_star` [N, M] at once.
    pub(crate) fn whiten_all(&self, k_star: &Mat<f64>) -> Mat<f64> {
        let sk = Mat::from_fn(k_star.nrows(), k_star.ncols(), |i, j| self.factor.s[i] * k_star[(i, j)]);
        lower_product(self.factor.li.as_ref(), sk.as_ref())
    }

    /// The columns of Sigma of points without a site (`w = 0`), [N, points].
    pub(crate) fn sigma_of_free(&self, k: &Mat<f64>, points: &[usize]) -> Mat<f64> {
        let n = self.factor.s.len();
        let v = self.v_of_free(points);
        let both_weak = product(self.v_weak.transpose(), v.as_ref());
        let li_strong = Mat::from_fn(n, self.strong.len(), |i, j| self.factor.li[(i, self.strong[j])]);
        let mixed = product(li_strong.transpose(), v.as_ref());
        let mut sigma = Mat::zeros(n, points.len());
        for (j, &point) in points.iter().enumerate() {
            for (i, &row) in self.weak.iter().enumerate() {
                sigma[(row, j)] = k[(row, point)] - both_weak[(i, j)];
            }
            for (i, &row) in self.strong.iter().enumerate() {
                sigma[(row, j)] = mixed[(i, j)] / self.factor.s[row];
            }
            sigma[(point, j)] = self.v[point];
        }
        sigma
    }

    /// `P = Sigma K^{-1} = (I + K W)^{-1} = I - Sigma W`, [N, N].
    pub(crate) fn p(&self, sigma: &Mat<f64>) -> Mat<f64> {
        let (n, b_inverse) = (self.factor.s.len(), self.b_inverse());
        let mut p = Mat::zeros(n, n);
        for j in 0..n {
            let (pj, bj, sj) = (p.col_as_slice_mut(j), b_inverse.col_as_slice(j), sigma.col_as_slice(j));
            for &i in &self.strong {
                pj[i] = bj[i] * self.factor.s[j] / self.factor.s[i];
            }
            for &i in &self.weak {
                pj[i] = f64::from(i == j) - sj[i] * self.w[j];
            }
        }
        p
    }

    /// What the adjoint needs, formed once: see [`BlockAdjoint`].
    pub fn adjoint(&self, k: &Mat<f64>) -> BlockAdjoint<'_> {
        let sigma = self.sigma(k);
        let p = self.p(&sigma);
        BlockAdjoint { block: self, sigma, p }
    }

    /// Adds `scale (g g' - R)` to `kbar`: with `scale = 1/2` the explicit kernel derivative of `-KL` (at fixed q) and of
    /// [`Block::log_z`].
    pub fn add_evidence_slope(&self, scale: f64, kbar: &mut Mat<f64>) {
        self.factor.add_slope(scale, &self.g, kbar);
    }
}

/// The adjoint of a block, linear in the cotangents `mubar`, `vbar` `[N]` of its moments.
#[derive(Debug)]
pub struct BlockAdjoint<'g> {
    block: &'g Block,
    /// `Sigma`, [N, N].
    pub sigma: Mat<f64>,
    /// `P = (I + K W)^{-1}`, [N, N].
    pub p: Mat<f64>,
}

impl BlockAdjoint<'_> {
    /// Cotangents of the sites: adds `Sigma mubar` to `bbar` and `-mu o (Sigma mubar) - (Sigma o Sigma) vbar` to `wbar`.
    pub fn add_sites(&self, mubar: &[f64], vbar: &[f64], bbar: &mut [f64], wbar: &mut [f64]) {
        let b = mul_vec(&self.sigma, mubar);
        for ((b, mu), (bbar, wbar)) in b.iter().zip(&self.block.mu).zip(bbar.iter_mut().zip(wbar.iter_mut()))
        {
            *bbar += b;
            *wbar -= mu * b;
        }
        for (j, vb) in vbar.iter().enumerate() {
            for (wb, x) in wbar.iter_mut().zip(self.sigma.col_as_slice(j)) {
                *wb -= x * x * vb;
            }
        }
    }

    /// Cotangents of the prior: adds `P' diag(vbar) P + sym(p g')` to `kbar` and `p = P' mubar` to `abar`.
    pub fn prior(&self, mubar: &[f64], vbar: &[f64], kbar: &mut Mat<f64>, abar: &mut [f64]) {
        let n = mubar.len();
        let mut weighted = self.p.clone();
        for j in 0..n {
            for (x, vb) in weighted.col_as_slice_mut(j).iter_mut().zip(vbar) {
                *x *= vb;
            }
        }
        let mut share = Mat::zeros(n, n);
        add_symmetric_product(&mut share, 1.0, self.p.transpose(), weighted.as_ref());
        mirror(&mut share);
        let (p, g) = (tmul_vec(&self.p, mubar), &self.block.g);
        for j in 0..n {
            let (out, share) = (kbar.col_as_slice_mut(j), share.col_as_slice(j));
            for (((out, share), p_i), g_i) in out.iter_mut().zip(share).zip(&p).zip(g) {
                *out += share + 0.5 * (p_i * g[j] + p[j] * g_i);
            }
            abar[j] += p[j];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gram, normal};
    use crate::twin::inverse;
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    fn problem(n: usize, rank: usize, seed: u64) -> (Mat<f64>, Vec<f64>, Vec<f64>, Vec<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let k = gram(&normal(&mut rng, n, rank));
        let mut vector = || normal(&mut rng, n, 1).col_as_slice(0).to_vec();
        let (w, b, a) = (vector(), vector(), vector());
        (k, w.iter().map(|w| (3.0 * w).exp()).collect(), b, a)
    }

    proptest! {
        #[test]
        fn the_literal_formulas_agree(seed in 0u64..10_000, n in 1usize..7) {
            let (k, w, b, a) = problem(n, n + 4, seed);
            let got = Block::new(&k, &w, &b, &a).unwrap();
            let ki = inverse(&k);
            let precision = Mat::from_fn(n, n, |i, j| ki[(i, j)] + if i == j { w[i] } else { 0.0 });
            let sigma = inverse(&precision);
            let linear: Vec<f64> = mul_vec(&ki, &a).iter().zip(&b).map(|(x, b)| x + b).collect();
            let mu = mul_vec(&sigma, &linear);
            let scale = k.norm_max() * ki.norm_max();
            prop_assert!((got.sigma(&k) - &sigma).norm_max() < 1e-13 * scale * k.norm_max());
            for i in 0..n {
                prop_assert!((got.mu[i] - mu[i]).abs() < 1e-12 * scale * (1.0 + mu[i].abs()));
                prop_assert!((got.g[i] - (b[i] - w[i] * got.mu[i])).abs() < 1e-10 * (1.0 + b[i].abs() + (w[i] * got.mu[i]).abs()));
            }
            let logdet = crate::twin::logdet(&k) - crate::twin::logdet(&sigma);
            prop_assert!((got.logdet - logdet).abs() < 1e-12 * scale);
            let p = got.p(&got.sigma(&k));
            prop_assert!((&p * &k - &sigma).norm_max() < 1e-12 * scale * k.norm_max());
        }

        /// Singular kernels and sites that are exactly 0: against differences, with K moved inside its cone.
        #[test]
        fn the_adjoint_agrees_with_differences(seed in 0u64..10_000, n in 2usize..7, rank in 1usize..8) {
            let (k, mut w, b, a) = problem(n, rank, seed);
            w[0] = 0.0;
            let mut rng = ChaCha8Rng::seed_from_u64(seed + 1);
            let mut vector = || normal(&mut rng, n, 1).col_as_slice(0).to_vec();
            let (mubar, vbar, db, da, dw) = (vector(), vector(), vector(), vector(), vector());
            let lbar = 0.7;
            let d = normal(&mut rng, n, n);
            let block = Block::new(&k, &w, &b, &a).unwrap();
            let (mut kbar, mut abar) = (Mat::zeros(n, n), vec![0.0; n]);
            let adjoint = block.adjoint(&k);
            adjoint.prior(&mubar, &vbar, &mut kbar, &mut abar);
            let (mut bbar, mut wbar) = (vec![0.0; n], vec![0.0; n]);
            adjoint.add_sites(&mubar, &vbar, &mut bbar, &mut wbar);
            block.add_evidence_slope(0.5 * lbar, &mut kbar);
            let direction = &d * &k + &k * d.transpose();
            let mut terms = Vec::new();
            for i in 0..n {
                (0..n).for_each(|j| terms.push(kbar[(i, j)] * direction[(i, j)]));
                terms.push((abar[i] + lbar * block.g[i]) * da[i]);
                terms.push((bbar[i] + lbar * block.mu[i]) * db[i]);
                terms.push((wbar[i] - 0.5 * lbar * (block.v[i] + block.mu[i].powi(2))) * dw[i] * w[i]);
            }
            let value = |e: f64| {
                let left = Mat::from_fn(n, n, |i, j| f64::from(i == j) + e * d[(i, j)]);
                let m = &left * &k * left.transpose();
                let m = Mat::from_fn(n, n, |i, j| 0.5 * (m[(i, j)] + m[(j, i)]));
                let moved = |x: &[f64], dx: &[f64]| -> Vec<f64> { x.iter().zip(dx).map(|(x, d)| x + e * d).collect() };
                let w: Vec<f64> = w.iter().zip(&dw).map(|(w, d)| w * (1.0 + e * d)).collect();
                let (b, a) = (moved(&b, &db), moved(&a, &da));
                let block = Block::new(&m, &w, &b, &a).unwrap();
                dot(&mubar, &block.mu) + dot(&vbar, &block.v) + lbar * block.log_z(&b, &a)
            };
            let fd = (value(1e-5) - value(-1e-5)) / 2e-5;
            let (want, scale) = terms.iter().fold((0.0, 1.0), |(t, s), x| (t + x, s + x.abs()));
            prop_assert!((fd - want).abs() < 2e-6 * scale, "{fd} {want} {scale}");
        }
    }

    #[test]
    fn strong_sites_keep_their_digits() {
        // One point: v = K/(1 + wK), mu = (bK + a)/(1 + wK), exactly known at any scale.
        for exponent in -12..=12 {
            let (k, w) = (10f64.powi(exponent), 3.0);
            let block = Block::new(&Mat::from_fn(1, 1, |_, _| k), &[w], &[0.4], &[-2.0]).unwrap();
            let (v, mu) = (k / (1.0 + w * k), (0.4 * k - 2.0) / (1.0 + w * k));
            assert!((block.v[0] / v - 1.0).abs() < 1e-15, "{k:e}");
            assert!((block.mu[0] - mu).abs() < 4e-16 * (2.0 + mu.abs() + 1.0 / w), "{k:e}");
        }
    }

    /// One point and rank one, both known in closed form: with `t = s sum_n w_n u_n^2` and `e = s (u.r)^2/(1 + t)^2`,
    /// `KL = (log(1 + t) - t/(1 + t) + e)/2`.
    #[test]
    fn the_kl_of_a_small_kernel_keeps_its_digits() {
        let (u, w) = ([0.7, -1.3, 0.2], [0.2, 3.0, 0.04]);
        let (b, a) = ([0.5, -0.4, 0.3], [-2.0, 0.1, -5.0]);
        for n in [1, 3] {
            for exponent in -12..=if n == 1 { 7 } else { 0 } {
                let s = 10f64.powi(exponent);
                let k = Mat::from_fn(n, n, |i, j| s * u[i] * u[j]);
                let block = Block::new(&k, &w[..n], &b[..n], &a[..n]).unwrap();
                let t: f64 = (0..n).map(|i| s * w[i] * u[i] * u[i]).sum();
                let ur: f64 = (0..n).map(|i| u[i] * (b[i] - w[i] * a[i])).sum();
                let want = 0.5 * (t.ln_1p() - t / (1.0 + t) + s * (ur / (1.0 + t)).powi(2));
                assert!((block.logdet / t.ln_1p() - 1.0).abs() < 1e-14, "{n} {s:e}");
                assert!((block.kl / want - 1.0).abs() < 1e-13, "{n} {s:e}: {:e} {want:e}", block.kl);
            }
        }
    }

    /// Many points of full rank: `log det(I + A) = tr A - tr A^2/2 + tr A^3/3 - ..`, and the Gaussian by the same series.
    #[test]
    fn the_kl_of_many_points_agrees_with_its_series() {
        for exponent in [-10, -8, -6] {
            let (k, w, b, a) = problem(40, 60, 5);
            let k = k * faer::Scale(10f64.powi(exponent) / 60.0);
            let n = w.len();
            let w: Vec<f64> = w.iter().map(|w| w.min(3.0)).collect();
            let block = Block::new(&k, &w, &b, &a).unwrap();
            let aw = Mat::from_fn(n, n, |i, j| k[(i, j)] * w[j]);
            let (second, trace) = (&aw * &aw, |m: &Mat<f64>| (0..n).map(|i| m[(i, i)]).sum::<f64>());
            let third = &second * &aw;
            let fourth = trace(&(&third * &aw));
            let (t1, t2, t3) = (trace(&aw), trace(&second), trace(&third));
            let logdet = t1 - t2 / 2.0 + t3 / 3.0 - fourth / 4.0;
            assert!((block.logdet / logdet - 1.0).abs() < 1e-13, "{exponent}");
            // w.v = tr(I - B^-1) = t1 - t2 + t3 - ..; g = r - W K r + W K W K r - ..
            let r: Vec<f64> = (0..n).map(|i| b[i] - w[i] * a[i]).collect();
            let mut g = r.clone();
            for _ in 0..4 {
                let kg = mul_vec(&k, &g);
                g = (0..n).map(|i| r[i] - w[i] * kg[i]).collect();
            }
            let shift = dot(&mul_vec(&k, &g), &g);
            let want = 0.5 * (t2 / 2.0 - 2.0 * t3 / 3.0 + 3.0 * fourth / 4.0 + shift);
            assert!((block.kl / want - 1.0).abs() < 1e-10, "{exponent}: {:e} {want:e}", block.kl);
        }
    }

    #[test]
    fn variances_are_never_negative() {
        // Equal points with strong sites: 1 - (B^-1)_nn rounds to either side of its value.
        for seed in 0..200 {
            let (k, w, b, a) = problem(6, 1, seed);
            let w: Vec<f64> = w.iter().map(|w| 1e9 * w).collect();
            let block = Block::new(&k, &w, &b, &a).unwrap();
            assert!(block.v.iter().all(|v| *v >= 0.0), "seed {seed}: {:?}", block.v);
        }
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let k = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 5.0 });
        let error = Block::new(&k, &[4.0, 4.0], &[0.0; 2], &[0.0; 2]).unwrap_err();
        assert!(matches!(error, Error::NotPositiveDefinite { pivot: 1, .. }));
    }

    #[test]
    fn wrong_arguments_are_named() {
        let k = Mat::<f64>::identity(2, 2);
        let z = [0.0; 2];
        let refused = |k: &Mat<f64>, w: &[f64], b: &[f64], a: &[f64]| Block::new(k, w, b, a).unwrap_err();
        assert!(matches!(
            refused(&Mat::zeros(3, 2), &z, &z, &z),
            Error::ShapeOf { side: "rows", got: 3, .. }
        ));
        assert!(matches!(refused(&k, &[1.0; 3], &z, &z), Error::ShapeOf { expected: 3, got: 2, .. }));
        assert!(matches!(refused(&k, &z, &[0.0], &z), Error::Shape { what: "b", expected: 2, got: 1 }));
        assert!(matches!(refused(&k, &z, &z, &[0.0; 3]), Error::Shape { what: "a", .. }));
        assert!(matches!(refused(&k, &[0.0, f64::NAN], &z, &z), Error::NotFinite { what: "w", row: 1, .. }));
        assert!(matches!(refused(&k, &z, &[f64::INFINITY, 0.0], &z), Error::NotFinite { what: "b", .. }));
        assert!(matches!(refused(&k, &[-1.0, 0.0], &z, &z), Error::OutOfRange { what: "w", .. }));
        let nan = Mat::from_fn(2, 2, |_, _| f64::NAN);
        assert!(matches!(refused(&nan, &z, &z, &z), Error::NotPositiveDefinite { .. }));
    }
}
