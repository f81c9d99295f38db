//! Mean field for the one-vs-each likelihood: `q(psi) q(omega)` with `psi ~ N(A a, A K A')`.

use super::Differences;
use crate::gaussian::Block;
use crate::inference::go_on;
use crate::likelihoods::softmax;
use crate::linalg::dot;
use crate::posterior::Latent;
use crate::special::{log2cosh_half, pg_mean1};
use crate::{Error, Gradient, Query, Result, Standard, Task};
use faer::Mat;
use std::sync::atomic::AtomicBool;

/// The mean-field posterior of a task under one-vs-each, in the differences `psi` of x = f / tau.
#[derive(Debug, Clone)]
pub struct OveMeanField {
    differences: Differences,
    gauss: Block,
    tau: f64,
    /// The tilt `c` of q(omega) in the last sweep, `[M]`.
    pub tilt: Vec<f64>,
    /// The bound after each sweep; it never falls.
    pub bounds: Vec<f64>,
    /// Whether the last sweep changed the bound by less than the tolerance.
    pub converged: bool,
}

impl OveMeanField {
    /// Sweeps from the prior until the bound changes by less than `tolerance` (0: never) or `sweeps` are done.
    ///
    /// A sweep is `c = sqrt(mu^2 + v)`, `w = tanh(c/2)/(2c)`, then the Gaussian with precision `(A K A')^-1 + W` and
    /// linear term 1/2; the bound is `sum_j (mu_j/2 - log 2cosh(c_j/2)) - KL` at the current `c`.
    pub fn new(task: &Task, sweeps: usize, tolerance: f64) -> Result<Self> {
        OveMeanField::until(task, sweeps, tolerance, &AtomicBool::new(false))
    }

    /// [`OveMeanField::new`] until it is cancelled.
    pub(crate) fn until(task: &Task, sweeps: usize, tolerance: f64, cancelled: &AtomicBool) -> Result<Self> {
        if sweeps == 0 {
            return Err(Error::OutOfRange { what: "sweeps", value: 0.0, must: "at least 1" });
        }
        let Standard { k, y, a, .. } = task.standardise();
        let differences = Differences::new(y, task.classes());
        let gram = differences.gram(&k);
        let prior_mean = differences.apply(&a);
        let half = vec![0.5; differences.len()];
        let mut tilt: Vec<f64> = prior_mean.iter().enumerate().map(|(j, m)| tilt(*m, gram[(j, j)])).collect();
        let mut bounds = Vec::new();
        loop {
            go_on(cancelled)?;
            let w: Vec<f64> = tilt.iter().map(|&c| pg_mean1(c)).collect();
            let gauss = Block::new(&gram, &w, &half, &prior_mean)?;
            let next: Vec<f64> = gauss.mu.iter().zip(&gauss.v).map(|(&m, &v)| self::tilt(m, v)).collect();
            let expected: f64 = gauss.mu.iter().zip(&next).map(|(m, &c)| m / 2.0 - log2cosh_half(c)).sum();
            let bound = expected - gauss.kl;
            let converged = bounds.last().is_some_and(|last: &f64| (bound - last).abs() < tolerance);
            bounds.push(bound);
            if converged || bounds.len() == sweeps {
                let tau = task.tau();
                return Ok(Self { differences, gauss, tau, tilt, bounds, converged });
            }
            tilt = next;
        }
    }

    /// Mean of `psi`, [N (C-1)], in the row order of [`Differences`].
    pub fn psi_mean(&self) -> &[f64] {
        &self.gauss.mu
    }

    /// Variance of `psi`, [N (C-1)].
    pub fn psi_var(&self) -> &[f64] {
        &self.gauss.v
    }

    /// The bound and its gradient by the envelope rule: `d/d(AKA') = (g g' - R)/2`, `d/d(Aa) = g`.
    /// Exact where the sweeps have converged; the caller checks [`OveMeanField::converged`]. `task` is the one it was built
    /// from; one of another size is an error.
    pub(crate) fn gradient(&self, task: &Task) -> Result<Gradient> {
        task.check_size(self.differences.points(), self.differences.classes())?;
        let m = self.differences.len();
        let mut slope = Mat::zeros(m, m);
        self.gauss.add_evidence_slope(0.5, &mut slope);
        let kbar = self.differences.gram_pullback(&slope);
        let abar = self.differences.transpose_apply(&self.gauss.g);
        let value = self.bounds.last().copied().unwrap_or(f64::NEG_INFINITY);
        Ok(task.gradient(value, kbar, abar))
    }

    /// Latent mean and covariance of f at Q points: `a* + k*' A' g` and `k** I - k*' A' R A k*`.
    pub fn latent(&self, query: &Query) -> Result<Latent> {
        let (q, c) = (query.points(), self.differences.classes());
        query.check(self.differences.points(), c)?;
        let Query { ks, kss, astar } = query;
        let scale = 1.0 / (self.tau * self.tau);
        let mut mean = Mat::zeros(q, c);
        let mut cov = Vec::with_capacity(q);
        for i in 0..q {
            // U = A k*/tau^2 in units of x; mean_f = a* + tau U'g, cov_f = k** - tau^2 |L^-1 S U|^2.
            let u = self.differences.cross(ks, i) * faer::Scale(scale);
            let white: Vec<Vec<f64>> = (0..c).map(|j| self.gauss.whiten(u.col_as_slice(j))).collect();
            for j in 0..c {
                mean[(i, j)] = astar[(i, j)] + self.tau * dot(u.col_as_slice(j), &self.gauss.g);
            }
            cov.push(Mat::from_fn(c, c, |r, s| {
                let prior = if r == s { kss[(i, r)] } else { 0.0 };
                prior - dot(&white[r], &white[s]) / scale
            }));
        }
        Ok(Latent::correlated(mean, cov, self.tau))
    }

    /// `softmax_k sum_{c != k} E log sigma((f_k - f_c) / tau)` at predicted points, [Q, C]: the published prediction.
    pub fn published_probabilities(&self, at: &Latent) -> Result<Mat<f64>> {
        let (q, c) = (at.mean.nrows(), at.mean.ncols());
        let mut out = Mat::zeros(q, c);
        for i in 0..q {
            let mean: Vec<f64> = (0..c).map(|j| at.mean[(i, j)] / self.tau).collect();
            let cov = &at.cov[i] * faer::Scale(1.0 / (self.tau * self.tau));
            for (j, p) in softmax::probs(&super::scores(&mean, &cov)?, 1.0)?.into_iter().enumerate() {
                out[(i, j)] = p;
            }
        }
        Ok(out)
    }
}

/// `sqrt(mu^2 + v)`.
fn tilt(mu: f64, v: f64) -> f64 {
    (mu * mu + v).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{inner, moved, normal, random_task, slope, symmetric};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// The envelope gradient at the fixed point, and the bound never falls.
        #[test]
        fn gradient_against_differences(seed in 0u64..10_000, n in 3usize..6, c in 2usize..4, tau in 0.5f64..1.5) {
            let task = random_task(seed, n, c, tau);
            let fit = |task: &Task| OveMeanField::new(task, 5000, 1e-15).unwrap();
            let posterior = fit(&task);
            prop_assert!(posterior.bounds.windows(2).all(|b| b[1] >= b[0] - 1e-12 * b[0].abs()));
            let gradient = posterior.gradient(&task).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (dk, da) = (symmetric(&mut rng, n, c), normal(&mut rng, n, c));
            let analytic = inner(&gradient.dk, &dk) + crate::linalg::inner(&gradient.da, &da) + gradient.dtau;
            let numeric = slope(|h| *fit(&moved(&task, &dk, &da, 1.0, h)).bounds.last().unwrap(), 2e-3);
            prop_assert!((analytic - numeric).abs() < 1e-6 * (1.0 + analytic.abs()), "{analytic} and {numeric}");
        }
    }

    #[test]
    fn non_convergence_is_told() {
        let task = random_task(3, 5, 3, 0.3);
        assert!(!OveMeanField::new(&task, 2, 1e-12).unwrap().converged);
        assert!(OveMeanField::new(&task, 2000, 1e-12).unwrap().converged);
        assert!(matches!(OveMeanField::new(&task, 0, 1e-3), Err(Error::OutOfRange { what: "sweeps", .. })));
    }
}
