//! Inference and prediction at test as the authors' released code has them, to reproduce its rows.
//!
//! They depart from the paper as follows. The sweeps begin at random local variables and means near 0, in the listed order, so
//! that `omega` is a sweep behind; there are 30 of them; `omega` is not below 1e-6. The predictive mean is `k*' K^{-1} mu`,
//! without the prior mean at the query: far from the support it returns to 0 and not to the prior mean.

use faer::Mat;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::gaussian::Block;
use crate::linalg::{cholesky, dot, lower_inverse, mul_vec, product, sum_any_order};
use crate::posterior::Latent;
use crate::special::{Tilt, digamma};
use crate::{Error, Query, Result, Task};

/// The released code's smallest `omega`.
const CLAMP: f64 = 1e-6;

/// Where the sweeps begin, in units of f.
#[derive(Debug, Clone)]
pub struct ReleasedStart {
    /// `alpha ~ U(5, 10)`, `[N]`.
    pub alpha: Vec<f64>,
    /// `omega ~ U(0, 1)`, [N, C].
    pub omega: Mat<f64>,
    /// `mu ~ N(0, 0.01^2)`, [N, C].
    pub mu: Mat<f64>,
    /// 0.01: the variance of every latent value.
    pub variance: f64,
}

impl ReleasedStart {
    /// New draws for one task.
    pub fn new(points: usize, classes: usize, rng: &mut impl Rng) -> Self {
        let alpha = (0..points).map(|_| 5.0 + 5.0 * rng.random::<f64>()).collect();
        let omega = Mat::from_fn(points, classes, |_, _| rng.random::<f64>());
        let mu = Mat::from_fn(points, classes, |_, _| 0.01 * rng.sample::<f64, _>(StandardNormal));
        Self { alpha, omega, mu, variance: 0.01 }
    }
}

/// q(F) of a task after the released sweeps.
#[derive(Debug, Clone)]
pub struct ReleasedPosterior {
    /// In units of x = f/tau.
    blocks: Vec<Block>,
    /// `K/tau^2` of each class.
    k: Vec<Mat<f64>>,
    /// `K^{-1} mu` of each class.
    weights: Vec<Vec<f64>>,
    tau: f64,
}

impl ReleasedPosterior {
    /// `steps >= 1` sweeps: Eqs. (12a) to (12f) in the listed order with the `omega` of the sweep before.
    pub fn new(task: &Task, start: &ReleasedStart, steps: usize) -> Result<Self> {
        let (n, classes, tau) = (task.points(), task.classes(), task.tau());
        for (what, got) in
            [("alpha", start.alpha.len()), ("omega", start.omega.nrows()), ("mu", start.mu.nrows())]
        {
            if got != n {
                return Err(Error::Shape { what, expected: n, got });
            }
        }
        let x = task.standardise();
        let (mut mu, mut omega) = (&start.mu * faer::Scale(1.0 / tau), start.omega.clone());
        let mut v = Mat::from_fn(n, classes, |_, _| start.variance / (tau * tau));
        let mut alpha = start.alpha.clone();
        let mut blocks = Vec::new();
        for _ in 0..steps.max(1) {
            let tilts: Vec<Vec<Tilt>> =
                (0..n).map(|i| (0..classes).map(|c| Tilt::new(mu[(i, c)], v[(i, c)])).collect()).collect();
            let gamma = Mat::from_fn(n, classes, |i, c| {
                (digamma(alpha[i]) - (classes as f64).ln() + tilts[i][c].rho).exp()
            });
            let own = |i: usize, c: usize| f64::from(x.y[i] == c);
            for i in 0..n {
                let mut counts: Vec<f64> = (0..classes).map(|c| gamma[(i, c)]).collect();
                alpha[i] = 1.0 + sum_any_order(&mut counts);
            }
            blocks.clear();
            for c in 0..classes {
                let b: Vec<f64> = (0..n).map(|i| 0.5 * (own(i, c) - gamma[(i, c)])).collect();
                let block = Block::new(&x.k[c], omega.col_as_slice(c), &b, x.a.col_as_slice(c))?;
                mu.col_as_slice_mut(c).copy_from_slice(&block.mu);
                v.col_as_slice_mut(c).copy_from_slice(&block.v);
                blocks.push(block);
            }
            omega =
                Mat::from_fn(n, classes, |i, c| ((gamma[(i, c)] + own(i, c)) * tilts[i][c].theta).max(CLAMP));
        }
        let weights = (0..classes)
            .map(|c| with_prior_mean(&blocks[c].g, &x.k[c], x.a.col_as_slice(c)))
            .collect::<Result<_>>()?;
        Ok(Self { blocks, k: x.k.clone(), weights, tau })
    }

    /// Means of the latent values in units of f, [N, C].
    pub fn mu(&self) -> Mat<f64> {
        Mat::from_fn(self.blocks[0].mu.len(), self.blocks.len(), |i, c| self.tau * self.blocks[c].mu[i])
    }

    /// Covariance of the latent values of a class in units of f, [N, N].
    pub fn sigma(&self, class: usize) -> Mat<f64> {
        self.blocks[class].sigma(&self.k[class]) * faer::Scale(self.tau * self.tau)
    }

    /// Latent means and variances at queries, in units of f.
    pub fn latent(&self, query: &Query) -> Result<Latent> {
        let classes = self.blocks.len();
        query.check(self.blocks[0].mu.len(), classes)?;
        // K/tau^2 and k*/tau^2: m = tau (k*' w)/tau^2, s2 = k** - k*' R k* / tau^2.
        let scale = 1.0 / (self.tau * self.tau);
        let q = query.points();
        let (mut mean, mut var) = (Mat::zeros(q, classes), Mat::zeros(q, classes));
        for c in 0..classes {
            for i in 0..q {
                let ks = query.ks[c].col_as_slice(i);
                let white = self.blocks[c].whiten(ks);
                mean[(i, c)] = self.tau * scale * dot(ks, &self.weights[c]);
                var[(i, c)] = (query.kss[(i, c)] - scale * dot(&white, &white)).max(0.0);
            }
        }
        Ok(Latent { mean, var, cov: Vec::new(), tau: self.tau })
    }

    /// The joint covariance of the latent values of a class at queries, in units of f, [Q, Q]: `own` is their kernel matrix.
    pub(crate) fn joint(&self, query: &Query, class: usize, own: &Mat<f64>) -> Mat<f64> {
        let ks = &query.ks[class];
        let taken = product(ks.transpose(), product(self.blocks[class].r().as_ref(), ks.as_ref()).as_ref());
        let scale = 1.0 / (self.tau * self.tau);
        Mat::from_fn(own.nrows(), own.ncols(), |i, j| own[(i, j)] - scale * taken[(i, j)])
    }

    /// The Cholesky factor of the joint covariance; where that is singular, with jitter as the released code adds it.
    pub fn joint_factor(&self, query: &Query, class: usize, own: &Mat<f64>) -> Result<Mat<f64>> {
        jittered_cholesky(self.joint(query, class, own), 1.0)
    }
}

/// The factor of a covariance in units of f / `tau`; where it is singular, with 1e-6 times 1, 10, ... (of f^2) on its diagonal, as
/// the released code does.
pub(crate) fn jittered_cholesky(covariance: Mat<f64>, tau: f64) -> Result<Mat<f64>> {
    let first = cholesky(covariance.clone(), "the predictive covariance");
    (0..8).fold(first, |found, power| {
        found.or_else(|_| {
            let mut with = covariance.clone();
            let jitter = 1e-6 * 10f64.powi(power) / (tau * tau);
            (0..with.nrows()).for_each(|i| with[(i, i)] += jitter);
            cholesky(with, "the predictive covariance")
        })
    })
}

/// `K^{-1} mu = g + K^{-1} a`.
fn with_prior_mean(g: &[f64], k: &Mat<f64>, a: &[f64]) -> Result<Vec<f64>> {
    if a.iter().all(|&a| a == 0.0) {
        return Ok(g.to_vec());
    }
    let li = lower_inverse(&cholesky(k.clone(), "K of the support")?);
    let ka = crate::linalg::tmul_vec(&li, &mul_vec(&li, a));
    Ok(g.iter().zip(ka).map(|(g, ka)| g + ka).collect())
}
