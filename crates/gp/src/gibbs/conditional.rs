//! The Gaussian conditional of a sweep: `x ~ N(x | a, K) exp(b'x - x' W x / 2)`, one factorisation.

use crate::Result;
use crate::linalg::{cholesky, dot, gram_of_lower, logdet_of_factor, lower_inverse, mul_vec};
use faer::Mat;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// `B = I + S K S`, `S = W^1/2`, factored; `K` singular or `w_n = 0` are no special cases.
///
/// It knows less than [`crate::gauss::Gauss`]: no variances, so a third of the work.
#[derive(Debug, Clone)]
pub(super) struct Conditional {
    w: Vec<f64>,
    s: Vec<f64>,
    /// `L^-1`, lower triangular.
    li: Mat<f64>,
    logdet: f64,
}

impl Conditional {
    pub(super) fn new(k: &Mat<f64>, w: &[f64]) -> Result<Self> {
        let n = w.len();
        let s: Vec<f64> = w.iter().map(|w| w.sqrt()).collect();
        let mut b = Mat::zeros(n, n);
        for j in 0..n {
            let (kj, bj) = (k.col_as_slice(j), b.col_as_slice_mut(j));
            for i in j..n {
                bj[i] = s[i] * kj[i] * s[j];
            }
            bj[j] += 1.0;
        }
        let l = cholesky(b, "I + W^1/2 K W^1/2")?;
        Ok(Self { w: w.to_vec(), s, logdet: logdet_of_factor(&l), li: lower_inverse(&l) })
    }

    /// `R v = S B^-1 S v`, `R = (K + W^-1)^-1`.
    pub(super) fn r_times(&self, v: &[f64]) -> Vec<f64> {
        let scaled: Vec<f64> = v.iter().zip(&self.s).map(|(v, s)| v * s).collect();
        self.solve(&scaled).iter().zip(&self.s).map(|(x, s)| x * s).collect()
    }

    /// `g = K^-1 (mean - a)`, the weights of the kernel columns: `S B^-1 (b/s - S a)` where `w > 0`; a site with
    /// `w_n = 0` has `g_n = b_n` and shifts the prior mean of the others.
    pub(super) fn weights(&self, k: &Mat<f64>, b: &[f64], a: &[f64]) -> Vec<f64> {
        let n = b.len();
        let free: Vec<f64> = (0..n).map(|i| if self.w[i] == 0.0 { b[i] } else { 0.0 }).collect();
        let shift = if free.iter().any(|&f| f != 0.0) { mul_vec(k, &free) } else { vec![0.0; n] };
        let rhs: Vec<f64> = (0..n)
            .map(|i| if self.w[i] == 0.0 { 0.0 } else { b[i] / self.s[i] - self.s[i] * (a[i] + shift[i]) })
            .collect();
        self.solve(&rhs).iter().zip(&self.s).zip(&free).map(|((x, s), f)| x * s + f).collect()
    }

    /// A draw given a draw `x0 ~ N(a, K)` of the prior: `x = x0 + K S B^-1 (b/s - S x0 - e)`, `e ~ N(0, I)`.
    pub(super) fn draw<R: Rng + ?Sized>(&self, k: &Mat<f64>, b: &[f64], x0: &[f64], rng: &mut R) -> Vec<f64> {
        let noisy: Vec<f64> = b
            .iter()
            .zip(&self.s)
            .map(|(b, s)| {
                let e: f64 = rng.sample(StandardNormal);
                b - s * e
            })
            .collect();
        let shift = mul_vec(k, &self.weights(k, &noisy, x0));
        x0.iter().zip(&shift).map(|(x, d)| x + d).collect()
    }

    /// `log int N(x | a, K) exp(b'x - x' W x / 2) dx = -logdet B / 2 + b.a - a.W a / 2 + (b - W a).(K g) / 2`.
    pub(super) fn log_z(&self, k: &Mat<f64>, b: &[f64], a: &[f64], g: &[f64]) -> f64 {
        let shift = mul_vec(k, g);
        let sites: f64 = (0..b.len())
            .map(|i| {
                let r = b[i] - self.w[i] * a[i];
                b[i] * a[i] - 0.5 * self.w[i] * a[i] * a[i] + 0.5 * r * shift[i]
            })
            .sum();
        sites - 0.5 * self.logdet
    }

    /// Adds `scale (g g' - R)` to `kbar`: with `scale = 1/2` the kernel derivative of [`Conditional::log_z`].
    pub(super) fn add_slope(&self, scale: f64, g: &[f64], kbar: &mut Mat<f64>) {
        let inverse = gram_of_lower(&self.li);
        for j in 0..g.len() {
            let (out, inverse) = (kbar.col_as_slice_mut(j), inverse.col_as_slice(j));
            for i in 0..g.len() {
                out[i] += scale * (g[i] * g[j] - self.s[i] * inverse[i] * self.s[j]);
            }
        }
    }

    /// `B^-1 v`.
    fn solve(&self, v: &[f64]) -> Vec<f64> {
        let n = v.len();
        let mut half = vec![0.0; n];
        for (j, &x) in v.iter().enumerate() {
            for (h, &l) in half[j..].iter_mut().zip(&self.li.col_as_slice(j)[j..]) {
                *h += l * x;
            }
        }
        (0..n).map(|j| dot(&self.li.col_as_slice(j)[j..], &half[j..])).collect()
    }
}
