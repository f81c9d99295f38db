//! One factorisation, from which everything about `q(x) ~ N(x | a, K) exp(b'x - x' W x / 2)` follows.

use crate::Result;
use crate::linalg::{cholesky, dot, gram_of_lower, logdet_of_one_plus, lower_inverse, mul_vec};
use faer::Mat;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use std::sync::OnceLock;

/// `B = I + S K S`, `S = W^1/2`, factored; `K` singular or `w_n = 0` are no special cases.
///
/// By itself it does less than a [`crate::gaussian::Block`], so it costs a third: variances only on demand and, where `w_n K_nn` is
/// small, to fewer digits (some 1e-12 of the prior's instead of all). Samplers and sweeps over many points use it so.
#[derive(Debug, Clone)]
pub(crate) struct Factor {
    pub(super) w: Vec<f64>,
    /// `s = sqrt(w)`, [N].
    pub(super) s: Vec<f64>,
    /// `L^-1`, `L = chol B`, [N, N] lower triangular.
    pub(super) li: Mat<f64>,
    logdet: f64,
    /// `B^-1`, once somebody has asked for it.
    b_inverse: OnceLock<Mat<f64>>,
}

impl Factor {
    pub(crate) fn new(k: &Mat<f64>, w: &[f64]) -> Result<Self> {
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
        let diagonal: Vec<f64> = (0..n).map(|i| w[i] * k[(i, i)]).collect();
        let logdet = logdet_of_one_plus(&diagonal, &l);
        Ok(Self { w: w.to_vec(), s, logdet, li: lower_inverse(&l), b_inverse: OnceLock::new() })
    }

    /// `log det B`.
    pub(crate) fn logdet(&self) -> f64 {
        self.logdet
    }

    /// Marginal variances: `(1 - (B^-1)_nn) / w_n`, or `K_nn - |L^-1 S k_n|^2` where `w_n K_nn` is too small for that, [N].
    pub(crate) fn variances(&self, k: &Mat<f64>) -> Vec<f64> {
        (0..self.w.len())
            .map(|i| {
                if self.w[i] * k[(i, i)] > 1e-4 {
                    let column = &self.li.col_as_slice(i)[i..];
                    (1.0 - dot(column, column)).max(0.0) / self.w[i]
                } else {
                    let white = self.whiten(k.col_as_slice(i));
                    (k[(i, i)] - dot(&white, &white)).max(0.0)
                }
            })
            .collect()
    }

    /// `R v = S B^-1 S v`, `R = (K + W^-1)^-1`.
    pub(crate) fn r_times(&self, v: &[f64]) -> Vec<f64> {
        let scaled: Vec<f64> = v.iter().zip(&self.s).map(|(v, s)| v * s).collect();
        self.solve(&scaled).iter().zip(&self.s).map(|(x, s)| x * s).collect()
    }

    /// `g = K^-1 (mean - a)`, the weights of the kernel columns: `S B^-1 (b/s - S a)` where `w > 0`; a site with
    /// `w_n = 0` has `g_n = b_n` and shifts the prior mean of the others.
    pub(crate) fn weights(&self, k: &Mat<f64>, b: &[f64], a: &[f64]) -> Vec<f64> {
        let n = b.len();
        let free: Vec<f64> = (0..n).map(|i| if self.w[i] == 0.0 { b[i] } else { 0.0 }).collect();
        let shift = if free.iter().any(|&f| f != 0.0) { mul_vec(k, &free) } else { vec![0.0; n] };
        let rhs: Vec<f64> = (0..n)
            .map(|i| if self.w[i] == 0.0 { 0.0 } else { b[i] / self.s[i] - self.s[i] * (a[i] + shift[i]) })
            .collect();
        self.solve(&rhs).iter().zip(&self.s).zip(&free).map(|((x, s), f)| x * s + f).collect()
    }

    /// A draw given a draw `x0 ~ N(a, K)` of the prior: `x = x0 + K S B^-1 (b/s - S x0 - e)`, `e ~ N(0, I)`.
    pub(crate) fn draw<R: Rng + ?Sized>(&self, k: &Mat<f64>, b: &[f64], x0: &[f64], rng: &mut R) -> Vec<f64> {
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
    pub(crate) fn log_z(&self, k: &Mat<f64>, b: &[f64], a: &[f64], g: &[f64]) -> f64 {
        let shift = mul_vec(k, g);
        let sites: f64 = (0..b.len())
            .map(|i| {
                let r = b[i] - self.w[i] * a[i];
                b[i] * a[i] - 0.5 * self.w[i] * a[i] * a[i] + 0.5 * r * shift[i]
            })
            .sum();
        sites - 0.5 * self.logdet
    }

    /// Adds `scale (g g' - R)` to `kbar`: with `scale = 1/2` the kernel derivative of [`Factor::log_z`].
    pub(crate) fn add_slope(&self, scale: f64, g: &[f64], kbar: &mut Mat<f64>) {
        let inverse = self.b_inverse();
        for j in 0..g.len() {
            let (out, inverse) = (kbar.col_as_slice_mut(j), inverse.col_as_slice(j));
            for i in 0..g.len() {
                out[i] += scale * (g[i] * g[j] - self.s[i] * inverse[i] * self.s[j]);
            }
        }
    }

    /// `B^-1`, [N, N].
    pub(super) fn b_inverse(&self) -> &Mat<f64> {
        self.b_inverse.get_or_init(|| gram_of_lower(&self.li))
    }

    /// `L^-1 S k*`: its squared length is what the data take from the prior variance at a new point.
    pub(super) fn whiten(&self, k_star: &[f64]) -> Vec<f64> {
        let sk: Vec<f64> = self.s.iter().zip(k_star).map(|(s, k)| s * k).collect();
        self.half_solve(&sk)
    }

    /// `B^-1 v`.
    fn solve(&self, v: &[f64]) -> Vec<f64> {
        let half = self.half_solve(v);
        (0..v.len()).map(|j| dot(&self.li.col_as_slice(j)[j..], &half[j..])).collect()
    }

    /// `L^-1 v`.
    fn half_solve(&self, v: &[f64]) -> Vec<f64> {
        let mut half = vec![0.0; v.len()];
        for (j, &x) in v.iter().enumerate() {
            for (h, &l) in half[j..].iter_mut().zip(&self.li.col_as_slice(j)[j..]) {
                *h += l * x;
            }
        }
        half
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::Block;
    use crate::testing::random_task;

    /// The same numbers as the careful block, sites of no, little and much weight included.
    #[test]
    fn agrees_with_the_careful_block() {
        let task = random_task(3, 6, 2, 1.0);
        let k = &task.k()[0];
        let (w, b) = ([0.0, 1e-7, 0.02, 0.3, 2.0, 400.0], [0.3, -0.1, 0.5, -0.5, 0.2, -3.0]);
        let a = task.a().col_as_slice(0);
        let careful = Block::new(k, &w, &b, a).unwrap();
        let quick = Factor::new(k, &w).unwrap();
        let g = quick.weights(k, &b, a);
        let close =
            |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-11 * (1.0 + y.abs()));
        assert!(close(&g, &careful.g) && close(&quick.variances(k), &careful.v));
        assert!((quick.logdet() - careful.logdet).abs() < 1e-12);
        assert!((quick.log_z(k, &b, a, &g) - careful.log_z(&b, a)).abs() < 1e-11);
    }
}
