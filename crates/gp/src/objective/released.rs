//! What the authors' released code optimises. **It is not a bound**; it is here to reproduce the rows trained with it.
//!
//! It departs from the paper's ELBO as follows. The listed order, so the first Gaussian block uses the random `omega`. The
//! term `alpha_n / C` is summed over points only, where the ELBO has it for each class as well: `(1 - 1/C) sum_n alpha_n` too
//! much. The constants `N C/2` and `-N log C` are left out. `gamma` and `omega` are not below 1e-6, and 1e-6 stands inside two
//! logarithms. The tilts are constants for the gradient, and those in the objective belong to the state before the last
//! sweep. Means and variances start from those of the *previous episode*.
//!
//! Only the arithmetic differs from that code: f64 without `K^{-1}` and jitter, and `gamma` in logarithms, so that it does not
//! fall to the clamp when `exp` overflows (below `mu/tau = -175` in the released f32).

use faer::Mat;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use crate::Result;
use crate::inference::mean_field::{Start, Tape, Updates};
use crate::linalg::sum_any_order;
use crate::special::{digamma, gamma_entropy, log2cosh_half};
use crate::task::{Gradient, Task};

/// The released code's guard inside its logarithms.
const EPS: f64 = 1e-6;

/// Marginals handed from one episode to the next, in units of f.
#[derive(Debug, Clone)]
pub struct Carry {
    /// Means, [N, C].
    pub mu: Mat<f64>,
    /// Variances, [N, C].
    pub v: Mat<f64>,
}

impl Carry {
    /// The state before the first episode: `mu ~ N(0, 1)`, `v = 0.01`.
    pub fn first(points: usize, classes: usize, rng: &mut impl Rng) -> Self {
        let mu = Mat::from_fn(points, classes, |_, _| StandardNormal.sample(rng));
        Self { mu, v: Mat::from_fn(points, classes, |_, _| 0.01) }
    }
}

/// The local variables every episode draws again.
#[derive(Debug, Clone)]
pub struct Draw {
    /// `alpha ~ U(5, 10)`, `[N]`.
    pub alpha: Vec<f64>,
    /// `omega ~ U(0, 1)`, [N, C].
    pub omega: Mat<f64>,
}

impl Draw {
    /// New draws for one episode.
    pub fn new(points: usize, classes: usize, rng: &mut impl Rng) -> Self {
        let alpha = (0..points).map(|_| 5.0 + 5.0 * rng.random::<f64>()).collect();
        Self { alpha, omega: Mat::from_fn(points, classes, |_, _| rng.random::<f64>()) }
    }
}

/// The released objective (to be maximised) after `steps` sweeps, its gradient, and the state for the next episode.
///
/// `sum_nc { -(y + gamma) (log 2 + log(cosh(c/2) + e)) + (y - gamma) mu/2 - gamma (log(gamma + e) - 1) + gamma (psi(alpha) - log C) }
/// + sum_n { H(alpha) - alpha/C } - sum_c KL_c - N C/2` in units of x = f/tau, with `e = 1e-6`, `H(alpha)` the entropy of
/// Ga(alpha, 1), and the tilts `c` of the state before the last sweep.
///
/// The gradient passes through K, Sigma, mu, gamma, alpha and omega, not through the tilts and not into `carry`; `dtau` is
/// that of the same expression with the tilts held.
pub(super) fn released(task: &Task, carry: &Carry, draw: &Draw, steps: usize) -> Result<(Gradient, Carry)> {
    let start = Start::Given {
        mu0: carry.mu.clone(),
        v0: carry.v.clone(),
        alpha0: draw.alpha.clone(),
        omega0: draw.omega.clone(),
    };
    let tape = Tape::record(task, Updates::Released, &start, steps)?;
    let (mu, held) = (tape.mu(), tape.local());
    let (n, classes) = (mu.nrows(), mu.ncols());
    let log_c = (classes as f64).ln();
    let ln2 = std::f64::consts::LN_2;

    let mut top = tape.minus_kl();
    // -1/2 [ log|K| - log|Sigma| + tr K^{-1}(Sigma + (a - mu)(a - mu)') ] = -KL - N/2 for each class
    let mut value = -tape.kl() - 0.5 * (n * classes) as f64;
    for i in 0..n {
        let alpha = held.alpha[i];
        let psi = digamma(alpha);
        let mut terms: Vec<f64> = (0..classes)
            .map(|c| {
                let (gamma, m) = (held.gamma[(i, c)], mu[(i, c)]);
                let label = f64::from(task.y()[i] == c);
                let log_cosh = guarded_log_cosh(held.tilt[(i, c)]);
                let log_gamma = (gamma + EPS).ln();
                top.mu[(i, c)] += 0.5 * (label - gamma);
                top.local.gamma[(i, c)] =
                    -ln2 - 0.5 * m - log_gamma - gamma / (gamma + EPS) + 1.0 + psi - log_c - log_cosh;
                let sites = (label + gamma) * (-ln2 - log_cosh) + 0.5 * (label - gamma) * m;
                sites - gamma * (log_gamma - 1.0) + gamma * (psi - log_c)
            })
            .collect();
        value += sum_any_order(&mut terms) + gamma_entropy(alpha) - alpha / classes as f64;
        // H' = 1 + (1 - alpha) psi', and sum_c gamma = alpha - 1 makes the psi' terms cancel
        top.local.alpha[i] = 1.0 - 1.0 / classes as f64;
    }
    let carry =
        Carry { mu: mu * faer::Scale(task.tau()), v: tape.v() * faer::Scale(task.tau() * task.tau()) };
    let bar = tape.unroll(top)?;
    Ok((tape.gradient(value, bar), carry))
}

/// `log(cosh(c/2) + eps)` without overflow.
fn guarded_log_cosh(c: f64) -> f64 {
    let log_cosh = log2cosh_half(c) - std::f64::consts::LN_2;
    log_cosh + (EPS * (-log_cosh).exp()).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradient, ranked_task};
    use crate::twin::{self, inverse};
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// The released sweeps and objective, literally, with `K^{-1}`; tilts are taken from `frozen` if there are any.
    fn literal(
        task: &Task,
        carry: &Carry,
        draw: &Draw,
        steps: usize,
        frozen: Option<&[Mat<f64>]>,
    ) -> (f64, Vec<Mat<f64>>, Mat<f64>) {
        let (n, classes, tau) = (task.points(), task.classes(), task.tau());
        let y = |i: usize, c: usize| f64::from(task.y()[i] == c);
        let (mut mu, mut var) = (carry.mu.clone(), carry.v.clone());
        let (mut alpha, mut omega) = (draw.alpha.clone(), draw.omega.clone());
        let mut gamma = Mat::<f64>::zeros(n, classes);
        let mut sigmas = Vec::new();
        let mut tilts = Vec::new();
        for step in 0..steps {
            let tilt = match frozen {
                Some(frozen) => frozen[step].clone(),
                None => Mat::from_fn(n, classes, |i, c| (mu[(i, c)].powi(2) + var[(i, c)]).sqrt() / tau),
            };
            gamma = Mat::from_fn(n, classes, |i, c| {
                let top = (digamma(alpha[i]) - mu[(i, c)] / (2.0 * tau)).exp();
                (top / (2.0 * classes as f64 * (tilt[(i, c)] / 2.0).cosh())).max(1e-6)
            });
            alpha = (0..n).map(|i| 1.0 + (0..classes).map(|c| gamma[(i, c)]).sum::<f64>()).collect();
            sigmas.clear();
            for c in 0..classes {
                let ki = inverse(&task.k()[c]);
                let precision = Mat::from_fn(n, n, |i, j| {
                    ki[(i, j)] + if i == j { omega[(i, c)] / (tau * tau) } else { 0.0 }
                });
                let sigma = inverse(&precision);
                for i in 0..n {
                    let data: f64 =
                        (0..n).map(|j| sigma[(i, j)] * (y(j, c) - gamma[(j, c)]) / (2.0 * tau)).sum();
                    let prior: f64 = (0..n)
                        .map(|j| {
                            let ka: f64 = (0..n).map(|l| ki[(j, l)] * task.a()[(l, c)]).sum();
                            sigma[(i, j)] * ka
                        })
                        .sum();
                    mu[(i, c)] = data + prior;
                    var[(i, c)] = sigma[(i, i)];
                }
                sigmas.push((ki, sigma));
            }
            omega = Mat::from_fn(n, classes, |i, c| {
                let t = tilt[(i, c)];
                ((gamma[(i, c)] + y(i, c)) * (t / 2.0).tanh() / (2.0 * t)).max(1e-6)
            });
            tilts.push(tilt);
        }
        let mut total = 0.0;
        let tilt = &tilts[steps - 1];
        for i in 0..n {
            for c in 0..classes {
                let g = gamma[(i, c)];
                total -= std::f64::consts::LN_2 * (y(i, c) + g);
                total += (y(i, c) - g) * mu[(i, c)] / (2.0 * tau);
                total -= g * ((g + 1e-6).ln() - 1.0);
                total += g * (digamma(alpha[i]) - (classes as f64).ln());
                total -= (y(i, c) + g) * ((tilt[(i, c)] / 2.0).cosh() + 1e-6).ln();
            }
            total += gamma_entropy(alpha[i]) - alpha[i] / classes as f64;
        }
        for (c, (ki, sigma)) in sigmas.iter().enumerate() {
            let mut trace = 0.0;
            for i in 0..n {
                for j in 0..n {
                    let gap = |l: usize| task.a()[(l, c)] - mu[(l, c)];
                    trace += ki[(i, j)] * (sigma[(j, i)] + gap(i) * gap(j));
                }
            }
            total -= 0.5 * (twin::logdet(&task.k()[c]) - twin::logdet(sigma) + trace);
        }
        (total, tilts, mu)
    }

    fn problem(n: usize, c: usize, tau: f64, a: f64, seed: u64) -> (Task, Carry, Draw) {
        let task = ranked_task(n, c, n + 2, tau, a, seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let carry = Carry::first(n, c, &mut rng);
        let draw = Draw::new(n, c, &mut rng);
        (task, carry, draw)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn value_state_and_gradient_are_the_released_ones(
            seed in 0u64..1000, n in 3usize..6, c in 2usize..5, tau in 0.3..1.5f64, a in -2.0..1.0f64, steps in 1usize..4,
        ) {
            let (task, carry, draw) = problem(n, c, tau, a, seed);
            let (got, next) = released(&task, &carry, &draw, steps).unwrap();
            let (want, tilts, mu) = literal(&task, &carry, &draw, steps, None);
            prop_assert!((got.value - want).abs() < 1e-9 * want.abs(), "{} {want}", got.value);
            prop_assert!((next.mu - &mu).norm_max() < 1e-10 * (1.0 + mu.norm_max()));
            // The gradient is that of the expression with the tilts held.
            let value = |task: &Task| literal(task, &carry, &draw, steps, Some(&tilts)).0;
            assert_gradient(&task, &got, value, 2e-6);
        }
    }

    /// The released code adds 1e-6 to the diagonal while an eigenvalue is below that: once or twice where K has no full rank. Here
    /// no inverse of K is formed and nothing is added. What that leaves of a difference:
    #[test]
    fn the_jitter_that_is_left_out_changes_the_sixth_digit() {
        for (rank, tau) in [(3, 1.0), (3, 0.2), (9, 0.2)] {
            let task = ranked_task(8, 3, rank, tau, -0.5, 5);
            let mut rng = ChaCha8Rng::seed_from_u64(5);
            let (carry, draw) = (Carry::first(8, 3, &mut rng), Draw::new(8, 3, &mut rng));
            let at = |jitter: f64| {
                let k = task.k().iter().map(|k| k + Mat::<f64>::identity(8, 8) * faer::Scale(jitter));
                let task = Task::new(k.collect(), task.y().to_vec(), task.a().clone(), tau).unwrap();
                released(&task, &carry, &draw, 2).unwrap().0
            };
            let (without, with) = (at(0.0), at(2e-6));
            let change = (with.value / without.value - 1.0).abs();
            assert!(change > 0.0 && change < 2e-5, "rank {rank}, tau {tau}: {change:e}");
            let apart = (&with.dk[0] - &without.dk[0]).norm_max() / without.dk[0].norm_max();
            assert!(apart < 1e-4, "rank {rank}, tau {tau}: {apart:e}");
        }
    }

    #[test]
    fn the_lost_factor_is_there() {
        // For large T all orders reach one fixed point; there the released value exceeds the true ELBO by (1 - 1/C) sum alpha,
        // the constants and the guards apart.
        let (task, carry, draw) = problem(5, 3, 0.4, -0.5, 11);
        let (got, _) = released(&task, &carry, &draw, 400).unwrap();
        let fit = crate::inference::mean_field::infer(
            &task,
            Updates::Joint,
            &Start::Prior,
            crate::inference::mean_field::Stop::Tolerance { tol: 1e-12, max_steps: 2000 },
        )
        .unwrap();
        let alpha: f64 = fit.local().alpha.iter().sum();
        let constants = -7.5 + 5.0 * 3f64.ln();
        let want = fit.trace.last().unwrap() + (1.0 - 1.0 / 3.0) * alpha + constants;
        assert!((got.value - want).abs() < 1e-3, "{} {want}", got.value);
    }
}
