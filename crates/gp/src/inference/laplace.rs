//! Laplace's approximation for the softmax likelihood (Rasmussen and Williams 2006, section 3.5), with its gradient.
//!
//! With `pi = softmax(x)` the Hessian of a point is `W = diag(pi) - pi pi'`. Everything follows from the class blocks
//! `E_c = D_c^1/2 B_c^-1 D_c^1/2`, `D_c = diag(pi^c)`, `B_c = I + D_c^1/2 K_c D_c^1/2`, and `M = chol(sum_c E_c)`:
//! `(K + W^-1)^-1 = E - E R (R' E R)^-1 R' E` where R stacks C identity matrices.

use super::gibbs::root;
use super::go_on;
use crate::likelihoods::softmax;
use crate::linalg::{
    cholesky, dot, gram_of_lower, logdet_of_factor, logdet_of_one_plus, lower_inverse, lower_product,
    mul_vec, product, sum_any_order, tmul_vec,
};
use crate::posterior::Latent;
use crate::{Gradient, Query, Result, Standard, Task};
use faer::Mat;
use rand::RngExt;
use rand_distr::StandardNormal;
use siskin_random::stream;
use std::sync::atomic::AtomicBool;

/// The Gaussian approximation at the mode, in units of x = f / tau.
#[derive(Debug, Clone)]
pub struct Laplace {
    /// The mode in the units of f, [N, C].
    pub mode: Mat<f64>,
    /// The approximate log evidence: `log p(Y | x) - (x - a)' K^{-1} (x - a) / 2 - log det(I + K W) / 2` at the mode, x-units.
    pub log_marginal: f64,
    /// Newton steps taken.
    pub steps: usize,
    /// Whether the mode is one: `|x - a - K (y - pi)|` within 1e-8 of `1 + |x - a|`, the largest of each.
    pub converged: bool,
    /// `y - pi = K^-1 (x - a)` at the mode, [N, C].
    residual: Mat<f64>,
    pi: Mat<f64>,
    blocks: Blocks,
    tau: f64,
}

/// The factors of one Hessian.
#[derive(Debug, Clone)]
struct Blocks {
    /// `E_c`, C of [N, N].
    e: Vec<Mat<f64>>,
    /// `M^-1` with `M M' = sum_c E_c`.
    mi: Mat<f64>,
    /// `log det(I + K W) = sum_c log det B_c + log det sum_c E_c`.
    logdet: f64,
}

impl Laplace {
    /// Newton's method from the prior mean, each step halved until the log posterior does not fall.
    pub fn new(task: &Task, max_steps: usize) -> Result<Self> {
        Laplace::until(task, max_steps, &AtomicBool::new(false))
    }

    /// [`Laplace::new`] until it is cancelled.
    pub(crate) fn until(task: &Task, max_steps: usize, cancelled: &AtomicBool) -> Result<Self> {
        let Standard { k, y, a, .. } = task.standardise();
        let (n, classes) = (y.len(), k.len());
        let mut x = a.clone();
        let mut alpha = Mat::zeros(n, classes);
        let mut psi = log_posterior(&x, &alpha, &a, y);
        let mut steps = 0;
        let mut pi = softmax::rows(&x);
        let mut converged = is_mode(&k, &a, y, &x, &pi);
        // One step more once the mode is reached: the evidence feels its error to first order, and Newton squares it.
        let mut polished = false;
        'newton: while steps < max_steps && !polished {
            steps += 1;
            polished = converged;
            let blocks = Blocks::new(&k, &pi, cancelled)?;
            let target = newton_alpha(&k, &a, y, &x, &pi, &blocks);
            let mut step = 1.0;
            loop {
                let trial_alpha = &alpha + (&target - &alpha) * faer::Scale(step);
                let trial_x = forward(&k, &a, &trial_alpha);
                let trial = log_posterior(&trial_x, &trial_alpha, &a, y);
                let gain = trial - psi;
                if gain >= -1e-12 * (1.0 + psi.abs()) {
                    (x, alpha, psi) = (trial_x, trial_alpha, trial);
                    break;
                }
                step /= 2.0;
                if step < 1e-8 {
                    // Rounding hides what a further step gains.
                    break 'newton;
                }
            }
            pi = softmax::rows(&x);
            converged = converged || is_mode(&k, &a, y, &x, &pi);
        }
        let blocks = Blocks::new(&k, &pi, cancelled)?;
        let residual = Mat::from_fn(n, classes, |i, c| f64::from(y[i] == c) - pi[(i, c)]);
        let log_marginal = psi - 0.5 * blocks.logdet;
        let mode = x * faer::Scale(task.tau());
        Ok(Self { mode, log_marginal, steps, converged, residual, pi, blocks, tau: task.tau() })
    }

    /// The temperature of its task.
    pub fn tau(&self) -> f64 {
        self.tau
    }

    /// Latent mean `a* + k*' (y - pi)` and covariance `k** I - k*' (E - E R (R'ER)^-1 R'E) k*` of f at Q points.
    pub fn latent(&self, query: &Query) -> Result<Latent> {
        let (n, c, q) = (self.pi.nrows(), self.pi.ncols(), query.points());
        query.check(n, c)?;
        let Query { ks, kss, astar } = query;
        let mut mean = Mat::zeros(q, c);
        let mut cov = Vec::with_capacity(q);
        for i in 0..q {
            // In units of x a cross-covariance is k*/tau^2, so a covariance of f is tau^2 (..) of these.
            let ek: Vec<Vec<f64>> =
                (0..c).map(|j| mul_vec(&self.blocks.e[j], ks[j].col_as_slice(i))).collect();
            let white: Vec<Vec<f64>> = ek.iter().map(|v| mul_vec(&self.blocks.mi, v)).collect();
            for j in 0..c {
                mean[(i, j)] =
                    astar[(i, j)] + dot(ks[j].col_as_slice(i), self.residual.col_as_slice(j)) / self.tau;
            }
            let scale = 1.0 / (self.tau * self.tau);
            cov.push(Mat::from_fn(c, c, |r, s| {
                let own = if r == s { kss[(i, r)] - scale * dot(ks[r].col_as_slice(i), &ek[r]) } else { 0.0 };
                own + scale * dot(&white[r], &white[s])
            }));
        }
        Ok(Latent::correlated(mean, cov, self.tau))
    }

    /// The log evidence and its gradient, through the mode too:
    ///
    /// `Kbar_c = (r_c r_c' - T_cc)/2 + sym(u_c r_c')`, `r = y - pi`, `T = (K + W^-1)^-1`, `u = (I + W K)^-1 s`,
    /// `s_nj = -1/2 tr(Sigma_n dW_n/dx_nj)` with the posterior covariance `Sigma_n` [C, C] of point n; `abar = r + u`.
    /// `task` is the one it was built from; one of another size is an error.
    pub(crate) fn gradient(&self, task: &Task) -> Result<Gradient> {
        let (n, c) = (self.pi.nrows(), self.pi.ncols());
        task.check_size(n, c)?;
        let Standard { k, .. } = task.standardise();
        let Blocks { e, mi, .. } = &self.blocks;
        let white_e: Vec<Mat<f64>> = e.iter().map(|e| lower_product(mi.as_ref(), e.as_ref())).collect();
        let ek: Vec<Mat<f64>> = (0..c).map(|j| product(e[j].as_ref(), k[j].as_ref())).collect();
        let white_ek: Vec<Mat<f64>> = (0..c).map(|j| product(white_e[j].as_ref(), k[j].as_ref())).collect();
        let mut s = Mat::zeros(n, c);
        for i in 0..n {
            let sigma = Mat::from_fn(c, c, |r, t| {
                let own = if r == t {
                    k[r][(i, i)] - dot(k[r].col_as_slice(i), ek[r].col_as_slice(i))
                } else {
                    0.0
                };
                own + dot(white_ek[r].col_as_slice(i), white_ek[t].col_as_slice(i))
            });
            let pi: Vec<f64> = (0..c).map(|j| self.pi[(i, j)]).collect();
            let weighted = |x: &dyn Fn(usize) -> f64| {
                sum_any_order(&mut (0..c).map(|j| pi[j] * x(j)).collect::<Vec<_>>())
            };
            let sigma_pi: Vec<f64> = (0..c).map(|r| weighted(&|t| sigma[(r, t)])).collect();
            let trace = weighted(&|j| sigma[(j, j)]);
            let quadratic = weighted(&|j| sigma_pi[j]);
            for j in 0..c {
                s[(i, j)] = -0.5 * pi[j] * (sigma[(j, j)] - trace - 2.0 * sigma_pi[j] + 2.0 * quadratic);
            }
        }
        // u = s - T K s.
        let eks: Vec<Vec<f64>> = (0..c).map(|j| mul_vec(&ek[j], s.col_as_slice(j))).collect();
        let total: Vec<f64> =
            (0..n).map(|i| sum_any_order(&mut eks.iter().map(|v| v[i]).collect::<Vec<_>>())).collect();
        let solved = tmul_vec(mi, &mul_vec(mi, &total));
        let mut abar = Mat::zeros(n, c);
        let mut kbar = Vec::with_capacity(c);
        for j in 0..c {
            let coupled = mul_vec(&e[j], &solved);
            let u: Vec<f64> = (0..n).map(|i| s[(i, j)] - eks[j][i] + coupled[i]).collect();
            let r = self.residual.col_as_slice(j);
            let mut t = e[j].clone();
            t -= white_e[j].transpose() * &white_e[j];
            kbar.push(Mat::from_fn(n, n, |i, m| {
                0.5 * (r[i] * r[m] - t[(i, m)]) + 0.5 * (u[i] * r[m] + u[m] * r[i])
            }));
            for i in 0..n {
                abar[(i, j)] = r[i] + u[i];
            }
        }
        Ok(task.gradient(self.log_marginal, kbar, abar))
    }
}

impl Blocks {
    fn new(k: &[Mat<f64>], pi: &Mat<f64>, cancelled: &AtomicBool) -> Result<Self> {
        let n = pi.nrows();
        let mut logdets = Vec::with_capacity(k.len() + 1);
        let mut e = Vec::with_capacity(k.len());
        for (c, k) in k.iter().enumerate() {
            go_on(cancelled)?;
            let d: Vec<f64> = pi.col_as_slice(c).iter().map(|p| p.sqrt()).collect();
            let b = Mat::from_fn(n, n, |i, j| f64::from(i == j) + d[i] * k[(i, j)] * d[j]);
            let l = cholesky(b, "I + D^1/2 K D^1/2")?;
            let diagonal: Vec<f64> = (0..n).map(|i| pi[(i, c)] * k[(i, i)]).collect();
            logdets.push(logdet_of_one_plus(&diagonal, &l));
            let inverse = gram_of_lower(&lower_inverse(&l));
            e.push(Mat::from_fn(n, n, |i, j| d[i] * inverse[(i, j)] * d[j]));
        }
        let total =
            Mat::from_fn(n, n, |i, j| sum_any_order(&mut e.iter().map(|e| e[(i, j)]).collect::<Vec<_>>()));
        let m = cholesky(total, "sum of the class blocks E")?;
        logdets.push(logdet_of_factor(&m));
        Ok(Self { e, mi: lower_inverse(&m), logdet: sum_any_order(&mut logdets) })
    }
}

/// Draws of [`softmax_probabilities`].
const DRAWS: usize = 1000;

/// `E softmax(f / tau)` over correlated Gaussians by `DRAWS` draws of a fixed stream, each with its mirror image, `[Q, C]`. The draws
/// go by the index of a class: here alone renaming the classes permutes the probabilities only within the Monte Carlo error.
pub(crate) fn softmax_probabilities(latent: &Latent) -> Result<Mat<f64>> {
    let (mean, c) = (&latent.mean, latent.classes());
    let mut probs = Mat::zeros(mean.nrows(), c);
    for (i, cov) in latent.cov.iter().enumerate() {
        let root = root(cov)?;
        let mut rng = stream(0, "softmax", i as u64);
        for _ in 0..DRAWS / 2 {
            let z: Vec<f64> = (0..c).map(|_| rng.sample(StandardNormal)).collect();
            let shift = mul_vec(&root, &z);
            for sign in [1.0, -1.0] {
                let f: Vec<f64> = (0..c).map(|j| mean[(i, j)] + sign * shift[j]).collect();
                for (j, p) in softmax::probs(&f, latent.tau)?.into_iter().enumerate() {
                    probs[(i, j)] += p / (2 * (DRAWS / 2)) as f64;
                }
            }
        }
    }
    Ok(probs)
}

/// The log posterior is stationary where `x = a + K (y - pi)`.
const STATIONARY: f64 = 1e-8;

/// Whether the log posterior is stationary at x to [`STATIONARY`].
fn is_mode(k: &[Mat<f64>], a: &Mat<f64>, y: &[usize], x: &Mat<f64>, pi: &Mat<f64>) -> bool {
    let residual = Mat::from_fn(x.nrows(), x.ncols(), |i, c| f64::from(y[i] == c) - pi[(i, c)]);
    let gap = x - forward(k, a, &residual);
    gap.norm_max() <= STATIONARY * (1.0 + (x - a).norm_max())
}

/// The full Newton step as `alpha = K^-1 (x_new - a)`: `b = W (x - a) + y - pi`, `alpha = b - T K b`.
fn newton_alpha(
    k: &[Mat<f64>],
    a: &Mat<f64>,
    y: &[usize],
    x: &Mat<f64>,
    pi: &Mat<f64>,
    blocks: &Blocks,
) -> Mat<f64> {
    let (n, c) = (x.nrows(), x.ncols());
    let b = Mat::from_fn(n, c, |i, j| {
        let mut terms: Vec<f64> = (0..c).map(|m| pi[(i, m)] * (x[(i, m)] - a[(i, m)])).collect();
        let average = sum_any_order(&mut terms);
        pi[(i, j)] * (x[(i, j)] - a[(i, j)] - average) + f64::from(y[i] == j) - pi[(i, j)]
    });
    let ekb: Vec<Vec<f64>> =
        (0..c).map(|j| mul_vec(&blocks.e[j], &mul_vec(&k[j], b.col_as_slice(j)))).collect();
    let total: Vec<f64> =
        (0..n).map(|i| sum_any_order(&mut ekb.iter().map(|v| v[i]).collect::<Vec<_>>())).collect();
    let solved = tmul_vec(&blocks.mi, &mul_vec(&blocks.mi, &total));
    let mut alpha = Mat::zeros(n, c);
    for j in 0..c {
        let coupled = mul_vec(&blocks.e[j], &solved);
        for i in 0..n {
            alpha[(i, j)] = b[(i, j)] - ekb[j][i] + coupled[i];
        }
    }
    alpha
}

/// `x = a + K alpha`.
fn forward(k: &[Mat<f64>], a: &Mat<f64>, alpha: &Mat<f64>) -> Mat<f64> {
    let shifts: Vec<Vec<f64>> =
        k.iter().enumerate().map(|(c, k)| mul_vec(k, alpha.col_as_slice(c))).collect();
    Mat::from_fn(a.nrows(), a.ncols(), |i, c| a[(i, c)] + shifts[c][i])
}

/// `sum_n log softmax(x_n)_{y_n} - (x - a)' K^-1 (x - a) / 2`.
fn log_posterior(x: &Mat<f64>, alpha: &Mat<f64>, a: &Mat<f64>, y: &[usize]) -> f64 {
    let log = softmax::log_rows(x);
    let likelihood: f64 = (0..x.nrows()).map(|i| log[(i, y[i])]).sum();
    let mut quadratic: Vec<f64> = (0..x.ncols())
        .map(|c| (0..x.nrows()).map(|i| alpha[(i, c)] * (x[(i, c)] - a[(i, c)])).sum())
        .collect();
    likelihood - 0.5 * sum_any_order(&mut quadratic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::testing::{inner, moved, normal, random_task, slope, symmetric};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn gradient_against_differences(seed in 0u64..10_000, n in 3usize..7, c in 2usize..5, tau in 0.4f64..1.5) {
            let task = random_task(seed, n, c, tau);
            let value = |task: &Task| Laplace::new(task, 100).unwrap().log_marginal;
            let gradient = Laplace::new(&task, 100).unwrap().gradient(&task).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (dk, da) = (symmetric(&mut rng, n, c), normal(&mut rng, n, c));
            let analytic = inner(&gradient.dk, &dk) + crate::linalg::inner(&gradient.da, &da) + gradient.dtau;
            let numeric = slope(|h| value(&moved(&task, &dk, &da, 1.0, h)), 1e-3);
            prop_assert!((analytic - numeric).abs() < 1e-6 * (1.0 + analytic.abs()), "{analytic} and {numeric}");
        }
    }

    /// A task whose mode was once left at a residual of 1e-8, which its differences felt.
    #[test]
    fn the_evidence_is_smooth() {
        let task = random_task(3206, 6, 2, 0.426871323575031);
        let gradient = Laplace::new(&task, 100).unwrap().gradient(&task).unwrap();
        let da = Mat::from_fn(6, 2, |i, c| if i == c { 1.0 } else { 0.0 });
        let dk = vec![Mat::zeros(6, 6); 2];
        let value = |h: f64| Laplace::new(&moved(&task, &dk, &da, 0.0, h), 100).unwrap().log_marginal;
        let (numeric, analytic) = (slope(value, 1e-3), crate::linalg::inner(&gradient.da, &da));
        assert!((analytic - numeric).abs() < 1e-8, "{analytic} and {numeric}");
    }

    #[test]
    fn the_mode_is_a_fixed_point() {
        let task = random_task(5, 6, 3, 0.7);
        let laplace = Laplace::new(&task, 100).unwrap();
        assert!(laplace.converged);
        for c in 0..3 {
            let shift = mul_vec(&task.k()[c], laplace.residual.col_as_slice(c));
            for i in 0..6 {
                let fixed = task.a()[(i, c)] + shift[i] / task.tau();
                assert!((laplace.mode[(i, c)] - fixed).abs() < 1e-8, "{} and {fixed}", laplace.mode[(i, c)]);
            }
        }
    }

    #[test]
    fn hard_tasks_converge() {
        // Strong kernels and a low temperature: full Newton steps alone overshoot here.
        for seed in 0..5 {
            assert!(Laplace::new(&random_task(seed, 8, 4, 0.05), 200).unwrap().converged, "seed {seed}");
        }
    }

    #[test]
    fn too_few_steps_are_told() {
        let task = random_task(2, 8, 4, 0.05);
        for steps in 0..3 {
            let fit = Laplace::new(&task, steps).unwrap();
            assert!(!fit.converged && fit.steps == steps);
        }
    }

    #[test]
    fn another_task_is_refused() {
        let fit = Laplace::new(&random_task(1, 5, 3, 1.0), 100).unwrap();
        for (n, c) in [(6, 3), (5, 2)] {
            assert!(matches!(fit.gradient(&random_task(1, n, c, 1.0)), Err(Error::Shape { .. })));
        }
    }
}
