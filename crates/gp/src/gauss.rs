//! The Gaussian block of one class: `q(x) ~ N(x | a, K) exp(b'x - x'Wx/2)`, without ever forming `K^{-1}`.
//!
//! With `S = W^{1/2}` and `B = I + S K S` (eigenvalues >= 1, so its Cholesky factor exists for singular K too) everything
//! follows from `L^{-1}`, `L = chol B`. Differences that would cancel are replaced row by row: a point with `w_n K_nn > 1`
//! takes its variance from `(1 - (B^{-1})_nn)/w_n`, the others from `K_nn - |V_n|^2`, `V = L^{-1} S K`.

use faer::Mat;

use crate::Result;
use crate::linalg::{
    add_symmetric_product, cholesky, dot, gram_of_lower, logdet_of_factor, lower_inverse, lower_product,
    mirror, mul_vec, tmul_vec,
};

/// Eqs. (12d), (12e): moments of `q(x)` with precision `K^{-1} + W` and linear term `b + K^{-1} a`.
#[derive(Debug, Clone)]
pub struct Gauss {
    /// Mean `mu = a + K g`, [N].
    pub mu: Vec<f64>,
    /// Marginal variances, the diagonal of `Sigma = (K^{-1} + W)^{-1}`, [N].
    pub v: Vec<f64>,
    /// `g = K^{-1}(mu - a) = b - W mu`, [N].
    pub g: Vec<f64>,
    /// `log det B = log det K - log det Sigma`.
    pub logdet: f64,
    /// `KL(q || N(a, K)) = (log det B - w.v + (mu - a).g)/2`.
    pub kl: f64,
    /// The site precisions `w >= 0` it was built with, [N].
    pub w: Vec<f64>,
    /// `s = sqrt(w)`, [N].
    s: Vec<f64>,
    /// `L^{-1}`, [N, N] lower triangular.
    li: Mat<f64>,
    /// Whether the row takes the form for `w_n K_nn > 1`, [N].
    strong: Vec<bool>,
    /// `V = L^{-1} S K`, [N, N]; absent when every row is strong.
    vt: Option<Mat<f64>>,
}

impl Gauss {
    /// The moments for kernel matrix `k` [N, N], site precisions `w >= 0`, linear term `b` and prior mean `a`, all [N].
    pub fn new(k: &Mat<f64>, w: &[f64], b: &[f64], a: &[f64]) -> Result<Self> {
        let n = w.len();
        let s: Vec<f64> = w.iter().map(|w| w.sqrt()).collect();
        let mut big_b = Mat::zeros(n, n);
        for j in 0..n {
            let (kj, bj) = (k.col_as_slice(j), big_b.col_as_slice_mut(j));
            for i in j..n {
                bj[i] = s[i] * kj[i] * s[j];
            }
            bj[j] += 1.0;
        }
        let l = cholesky(big_b, "I + W^1/2 K W^1/2")?;
        let logdet = logdet_of_factor(&l);
        let li = lower_inverse(&l);

        let g = weights_of_kernel(k, w, &s, &li, b, a);
        let shift = mul_vec(k, &g);
        let mu: Vec<f64> = a.iter().zip(&shift).map(|(a, d)| a + d).collect();

        let strong: Vec<bool> = (0..n).map(|i| w[i] * k[(i, i)] > 1.0).collect();
        let vt = (!strong.iter().all(|&s| s)).then(|| {
            let sk = Mat::from_fn(n, n, |i, j| s[i] * k[(i, j)]);
            lower_product(li.as_ref(), sk.as_ref())
        });
        let v: Vec<f64> = (0..n)
            .map(|i| match &vt {
                Some(vt) if !strong[i] => {
                    let column = vt.col_as_slice(i);
                    (k[(i, i)] - dot(column, column)).max(0.0)
                }
                _ => {
                    let column = &li.col_as_slice(i)[i..];
                    (1.0 - dot(column, column)) / w[i]
                }
            })
            .collect();
        let kl = 0.5 * (logdet - dot(w, &v) + dot(&shift, &g));
        Ok(Self { mu, v, g, logdet, kl, w: w.to_vec(), s, li, strong, vt })
    }

    /// `log int N(x | a, K) exp(b'x - x'Wx/2) dx = -logdet/2 + b.a - a.Wa/2 + r.(mu - a)/2`, `r = b - Wa`.
    pub fn log_z(&self, b: &[f64], a: &[f64]) -> f64 {
        let sites: f64 = (0..a.len())
            .map(|i| {
                let r = b[i] - self.w[i] * a[i];
                b[i] * a[i] - 0.5 * self.w[i] * a[i] * a[i] + 0.5 * r * (self.mu[i] - a[i])
            })
            .sum();
        sites - 0.5 * self.logdet
    }

    /// `L^{-1} S k*`: its squared length is what the data take from the prior variance at a new point.
    pub fn whiten(&self, k_star: &[f64]) -> Vec<f64> {
        let sk: Vec<f64> = self.s.iter().zip(k_star).map(|(s, k)| s * k).collect();
        let mut out = vec![0.0; sk.len()];
        for (j, &x) in sk.iter().enumerate() {
            for (o, &l) in out[j..].iter_mut().zip(&self.li.col_as_slice(j)[j..]) {
                *o += l * x;
            }
        }
        out
    }

    /// `B^{-1}`, [N, N].
    pub fn b_inverse(&self) -> Mat<f64> {
        gram_of_lower(&self.li)
    }

    /// `R = (K + W^{-1})^{-1} = S B^{-1} S`, [N, N].
    pub fn r(&self, b_inverse: &Mat<f64>) -> Mat<f64> {
        let n = self.s.len();
        Mat::from_fn(n, n, |i, j| self.s[i] * b_inverse[(i, j)] * self.s[j])
    }

    /// `Sigma = (K^{-1} + W)^{-1}`, [N, N].
    pub fn sigma(&self, k: &Mat<f64>, b_inverse: &Mat<f64>) -> Mat<f64> {
        let n = self.s.len();
        let mut sigma = match &self.vt {
            Some(vt) => {
                let mut sigma = k.clone();
                add_symmetric_product(&mut sigma, -1.0, vt.transpose(), vt.as_ref());
                mirror(&mut sigma);
                sigma
            }
            None => Mat::zeros(n, n),
        };
        for j in 0..n {
            for i in 0..n {
                if self.strong[i] && self.strong[j] && i != j {
                    sigma[(i, j)] = -b_inverse[(i, j)] / (self.s[i] * self.s[j]);
                }
            }
            sigma[(j, j)] = self.v[j];
        }
        sigma
    }

    /// `P = Sigma K^{-1} = (I + K W)^{-1} = I - Sigma W`, [N, N].
    pub fn p(&self, sigma: &Mat<f64>, b_inverse: &Mat<f64>) -> Mat<f64> {
        let n = self.s.len();
        Mat::from_fn(n, n, |i, j| {
            if self.strong[i] {
                b_inverse[(i, j)] * self.s[j] / self.s[i]
            } else {
                f64::from(i == j) - sigma[(i, j)] * self.w[j]
            }
        })
    }

    /// What the adjoint needs, formed once: see [`GaussAdjoint`].
    pub fn adjoint(&self, k: &Mat<f64>) -> GaussAdjoint<'_> {
        let b_inverse = self.b_inverse();
        let sigma = self.sigma(k, &b_inverse);
        let p = self.p(&sigma, &b_inverse);
        GaussAdjoint { block: self, sigma, p }
    }

    /// Adds `scale (g g' - R)` to `kbar`: with `scale = 1/2` the explicit kernel derivative of `-KL` (at fixed q) and of
    /// [`Gauss::log_z`].
    pub fn add_evidence_slope(&self, scale: f64, kbar: &mut Mat<f64>) {
        let b_inverse = self.b_inverse();
        for j in 0..self.g.len() {
            let (out, bi) = (kbar.col_as_slice_mut(j), b_inverse.col_as_slice(j));
            for i in 0..out.len() {
                out[i] += scale * (self.g[i] * self.g[j] - self.s[i] * bi[i] * self.s[j]);
            }
        }
    }
}

/// The adjoint of a block, linear in the cotangents `mubar`, `vbar` [N] of its moments.
#[derive(Debug)]
pub struct GaussAdjoint<'g> {
    block: &'g Gauss,
    /// `Sigma`, [N, N].
    pub sigma: Mat<f64>,
    /// `P = (I + K W)^{-1}`, [N, N].
    pub p: Mat<f64>,
}

impl GaussAdjoint<'_> {
    /// Cotangents of the sites: `bbar = Sigma mubar`, `wbar = -mu o bbar - (Sigma o Sigma) vbar`.
    pub fn sites(&self, mubar: &[f64], vbar: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let bbar = mul_vec(&self.sigma, mubar);
        let mut wbar: Vec<f64> = bbar.iter().zip(&self.block.mu).map(|(b, m)| -m * b).collect();
        for (j, vb) in vbar.iter().enumerate() {
            for (wb, x) in wbar.iter_mut().zip(self.sigma.col_as_slice(j)) {
                *wb -= x * x * vb;
            }
        }
        (bbar, wbar)
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
            for i in 0..n {
                out[i] += share[i] + 0.5 * (p[i] * g[j] + p[j] * g[i]);
            }
            abar[j] += p[j];
        }
    }
}

/// `g = S B^{-1} (r/s)`, `r = b - W a`. A site with `w_n = 0` has `g_n = b_n`; the others see it as a known shift
/// `K g_0` of the prior mean.
fn weights_of_kernel(k: &Mat<f64>, w: &[f64], s: &[f64], li: &Mat<f64>, b: &[f64], a: &[f64]) -> Vec<f64> {
    let n = w.len();
    let free: Vec<f64> = (0..n).map(|i| if w[i] == 0.0 { b[i] } else { 0.0 }).collect();
    let shift = if free.iter().any(|&x| x != 0.0) { mul_vec(k, &free) } else { vec![0.0; n] };
    let rhs: Vec<f64> =
        (0..n).map(|i| if w[i] == 0.0 { 0.0 } else { b[i] / s[i] - s[i] * (a[i] + shift[i]) }).collect();
    let mut half = vec![0.0; n];
    for (j, &x) in rhs.iter().enumerate() {
        for (o, &l) in half[j..].iter_mut().zip(&li.col_as_slice(j)[j..]) {
            *o += l * x;
        }
    }
    (0..n).map(|j| s[j] * dot(&li.col_as_slice(j)[j..], &half[j..]) + free[j]).collect()
}
