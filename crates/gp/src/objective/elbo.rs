//! The bounds of the mean-field family and their gradients.
//!
//! `L = (expected log-likelihood of the augmented model) - KL(q(F) || p(F))`. The kinds differ in which local factors
//! stand beside q(F), and are named by the [`Updates`] that climb them. All in units of x = f/tau, with
//! `KL_c = KL(q(f^c) || N(a^c, K^c))` (Eq. (A10c)), `c = sqrt(mu^2 + v)`, `H(alpha)` the entropy of Ga(alpha, 1), and `y` the label, as an
//! index or one-hot:
//!
//! * `Exact` (and `Released`): Eq. (A11) of the q that is held, local factors gamma, alpha and w as the last sweep left them, with its
//!   tilts `c`. `L = sum_n { sum_c [ y (mu/2 - log 2cosh(c/2)) + gamma (1 + eta - log gamma) - w (mu^2 + v - c^2)/2 ] - alpha + H(alpha)
//!   - log C } - sum_c KL_c`, where `eta = psi(alpha) - log C - mu/2 - log 2cosh(c/2)`.
//! * `Joint`: q(M, Omega) and q(lambda) optimal for q(F), the paper's objective, evaluated properly. Never below `Exact`.
//!   `L = sum_n { mu_y/2 - log 2cosh(c_y/2) + H(alpha) - 1 - log C } - sum_c KL_c`, where `alpha = 1 + u` and
//!   `log u - psi(1 + u) = log mean_c e^rho`, `rho = -mu/2 - log 2cosh(c/2)`.
//! * `Paper`: Eq. (A11) as printed, its two tilt terms cancelled: **not a bound** unless the sweeps have converged. It is `Exact` without
//!   the term `w (mu^2 + v - c^2)/2`.
//! * `Collapsed`: q(M, Omega) optimal for q(F), lambda integrated out. Never below `Joint`.
//!   `L = sum_n { mu_y/2 - log 2cosh(c_y/2) - log D } - sum_c KL_c`, `D = sum_c (1 - e^rho)`.

use faer::Mat;

use crate::Result;
use crate::inference::mean_field::{Local, Start, Stop, Tape, Top, Updates};
use crate::linalg::sum_any_order;
use crate::special::{Tilt, gamma_entropy, log2cosh_half};
use crate::task::{Gradient, Task};

impl Updates {
    /// The bound without `-KL(q(F) || p(F))`, x-units: `held` are the local factors of the last sweep, `fresh` those of the
    /// bound's own family at (mu, v), read by `Profiled` and `Collapsed`.
    pub(crate) fn likelihood(
        self,
        y: &[usize],
        mu: &Mat<f64>,
        v: &Mat<f64>,
        held: &Local,
        fresh: &Local,
    ) -> f64 {
        let classes = mu.ncols();
        let mut total = 0.0;
        for i in 0..y.len() {
            total += match self {
                Self::Exact | Self::Released => {
                    held_elbo(y, mu, held, i, |c| 0.5 * held.w[(i, c)] * tilt_mismatch(mu, v, held, i, c))
                }
                Self::Paper => held_elbo(y, mu, held, i, |_| 0.0),
                Self::Joint | Self::Collapsed => {
                    // mu/2 - log 2cosh(c/2) is rho at -mu
                    let label = Tilt::new(-mu[(i, y[i])], v[(i, y[i])]).rho;
                    let alpha = fresh.alpha[i];
                    let rest = if self == Self::Joint { gamma_entropy(alpha) - 1.0 } else { alpha.ln() };
                    label + rest - (classes as f64).ln()
                }
            };
        }
        total
    }

    /// The order whose local factors at q(F) itself the bound takes; `None` when it takes those that are held.
    fn fresh(self) -> Option<Updates> {
        matches!(self, Self::Joint | Self::Collapsed).then_some(self)
    }

    /// Whether sweeps of this order stop where the bound `kind` is stationary in q.
    fn is_stationary_for(self, kind: Updates) -> bool {
        match kind {
            Self::Collapsed => self == Self::Collapsed,
            Self::Exact | Self::Released | Self::Joint => {
                matches!(self, Self::Joint | Self::Exact | Self::Paper)
            }
            Self::Paper => false,
        }
    }
}

/// `sum_c [ y(mu/2 - l2c) + gamma(1 + eta - log gamma) - mismatch ] - alpha + H(alpha) - log C` of point `i`, where
/// `l2c = log 2cosh(c/2)`, `eta = psi(alpha) - log C - mu/2 - l2c` and c is the tilt q(Omega) holds.
///
/// `sum_c gamma - alpha = -1` is used as such: gamma may be 1e12.
fn held_elbo(y: &[usize], mu: &Mat<f64>, held: &Local, i: usize, mismatch: impl Fn(usize) -> f64) -> f64 {
    let classes = mu.ncols();
    let mut terms: Vec<f64> = (0..classes)
        .map(|c| {
            let counted = held.gamma[(i, c)] * log_ratio(mu, held, i, c);
            let label = if y[i] == c { 0.5 * mu[(i, c)] - log2cosh_half(held.tilt[(i, c)]) } else { 0.0 };
            label + counted - mismatch(c)
        })
        .collect();
    sum_any_order(&mut terms) - 1.0 + gamma_entropy(held.alpha[i]) - (classes as f64).ln()
}

/// `eta - log gamma`: the slack of gamma where it was computed, and what the mean has moved since.
fn log_ratio(mu: &Mat<f64>, held: &Local, i: usize, c: usize) -> f64 {
    held.slack[(i, c)] + 0.5 * (held.mu[(i, c)] - mu[(i, c)])
}

/// `mu^2 + v - c^2`: what the second moment has moved since the tilt was computed.
fn tilt_mismatch(mu: &Mat<f64>, v: &Mat<f64>, held: &Local, i: usize, c: usize) -> f64 {
    let (new, old) = (mu[(i, c)], held.mu[(i, c)]);
    (new - old) * (new + old) + (v[(i, c)] - held.v[(i, c)])
}

/// A lower bound of the log evidence, Eqs. (13), (A9), in the form of `kind`, at the q(F) that sweeps reach, and its gradient.
///
/// After a number of sweeps: `L(q_T)`, `q_T = sweep^T(start)`, differentiated through all of them, start included. On top of the
/// sweeps: `mubar = b - w mu - g`, `vbar = (w_T - w)/2` with the (b, w) of the bound's own local factors and `w_T` of the last Gaussian
/// block, and directly `Kbar = (g g' - R)/2`, `abar = g`; then back through every sweep (`Tape::unroll`).
///
/// To a tolerance: by the envelope rule where the bound is stationary at the fixed point (`dK = (g g' - R)/2`, `da = g`), by the
/// implicit rule elsewhere. An error if the sweeps do not reach the tolerance.
pub fn bound(task: &Task, kind: Updates, order: Updates, start: &Start, stop: Stop) -> Result<Gradient> {
    let tape = Tape::new(task, order, start, stop)?;
    let (value, top) = value_and_top(&tape, kind);
    if matches!(stop, Stop::Tolerance { .. }) && order.is_stationary_for(kind) {
        return Ok(task.gradient(value, top.k, top.a));
    }
    let bar = tape.back(top, stop)?;
    Ok(tape.gradient(value, bar))
}

/// The value of a bound at the end of a tape and its cotangents there.
fn value_and_top(tape: &Tape<'_>, kind: Updates) -> (f64, Top) {
    let (y, mu, v, held) = (tape.x().y, tape.mu(), tape.v(), tape.local());
    let fresh = kind.fresh().map(|order| Local::of(order, &[], y, mu, v));
    let value = kind.likelihood(y, mu, v, held, fresh.as_ref().unwrap_or(held)) - tape.kl();
    let mut top = tape.minus_kl();
    let sites = fresh.as_ref().unwrap_or(held);
    for c in 0..mu.ncols() {
        for i in 0..mu.nrows() {
            let (m, w) = (mu[(i, c)], sites.w[(i, c)]);
            // d/dmu = b - w mu, d/dv = -w/2, with the optimal local factors as with held ones
            top.mu[(i, c)] += sites.b[(i, c)];
            if kind != Updates::Paper {
                top.mu[(i, c)] -= w * m;
                top.v[(i, c)] -= 0.5 * w;
            }
            // Held local factors move with the sweep that made them; alpha = 1 + sum gamma is optimal for gamma.
            match kind {
                Updates::Joint | Updates::Collapsed => {}
                Updates::Exact | Updates::Released => {
                    top.local.gamma[(i, c)] = log_ratio(mu, held, i, c);
                    top.local.w[(i, c)] = -0.5 * tilt_mismatch(mu, v, held, i, c);
                }
                Updates::Paper => {
                    top.local.gamma[(i, c)] = log_ratio(mu, held, i, c);
                    // d/d(c^2/2) of -(y + gamma) log 2cosh(c/2) = -(y + gamma) theta(c)
                    top.local.half_tilt2[(i, c)] = -w;
                }
            }
        }
    }
    (value, top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inference::mean_field::infer;
    use crate::testing::{assert_gradient, normal, ranked_task};
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    const ORDERS: [Updates; 4] = [Updates::Paper, Updates::Exact, Updates::Joint, Updates::Collapsed];
    const KINDS: [Updates; 4] = [Updates::Exact, Updates::Joint, Updates::Paper, Updates::Collapsed];

    fn given(n: usize, c: usize, seed: u64) -> Start {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let square = |m: Mat<f64>| Mat::from_fn(n, c, |i, j| 0.1 + m[(i, j)] * m[(i, j)]);
        Start::Given {
            mu0: normal(&mut rng, n, c),
            v0: square(normal(&mut rng, n, c)),
            alpha0: (0..n).map(|i| 1.5 + i as f64).collect(),
            omega0: square(normal(&mut rng, n, c)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        /// Every order, bound and start, full-rank and rank-2 kernels.
        #[test]
        fn gradients_agree_with_differences(
            seed in 0u64..1000, n in 3usize..6, c in 2usize..5, steps in 1usize..4, tau in 0.3..1.5f64, a in -2.0..1.0f64,
            singular in any::<bool>(),
        ) {
            let task = ranked_task(n, c, if singular { 2 } else { n + 2 }, tau, a, seed);
            for order in ORDERS {
                for kind in KINDS {
                    for start in [Start::Prior, given(n, c, seed)] {
                        let value = |task: &Task| bound(task, kind, order, &start, Stop::Steps(steps)).unwrap().value;
                        let got = bound(&task, kind, order, &start, Stop::Steps(steps)).unwrap();
                        assert_gradient(&task, &got, value, 1e-5);
                    }
                }
            }
        }

        /// General <= profiled <= collapsed at every q(F) the sweeps of any order pass.
        #[test]
        fn bounds_are_ordered(seed in 0u64..1000, n in 1usize..7, c in 2usize..6, tau in 0.05..1.5f64, a in -5.0..1.0f64) {
            let task = ranked_task(n, c, 3, tau, a, seed);
            for order in ORDERS {
                for steps in [1, 4] {
                    let value = |kind| bound(&task, kind, order, &Start::Prior, Stop::Steps(steps)).unwrap().value;
                    let (general, profiled, collapsed) =
                        (value(Updates::Exact), value(Updates::Joint), value(Updates::Collapsed));
                    let slack = 1e-9 * (1.0 + general.abs());
                    prop_assert!(general <= profiled + slack && profiled <= collapsed + slack, "{order:?}");
                    prop_assert!(collapsed < 0.0);
                }
            }
        }
    }

    #[test]
    fn no_bound_exceeds_the_evidence() {
        // N = 1, C = 2: log p(y) by a fine grid over two independent Gaussians.
        for (tau, a) in [(1.0, 0.0), (0.5, -1.0), (1.0, -3.0)] {
            let task = ranked_task(1, 2, 3, tau, a, 5);
            let evidence = {
                let grid: Vec<f64> = (-400..=400).map(|i| f64::from(i) * 0.02).collect();
                let weight = |z: f64| (-0.5 * z * z).exp() * 0.02 / (2.0 * std::f64::consts::PI).sqrt();
                let x = |c: usize, z: f64| (task.a()[(0, c)] + task.k()[c][(0, 0)].sqrt() * z) / tau;
                let mut p = 0.0;
                for &z0 in &grid {
                    let s0 = crate::special::sigmoid(x(0, z0));
                    for &z1 in &grid {
                        p += weight(z0) * weight(z1) * s0 / (s0 + crate::special::sigmoid(x(1, z1)));
                    }
                }
                p.ln()
            };
            let collapsed =
                bound(&task, Updates::Collapsed, Updates::Collapsed, &Start::Prior, Stop::Steps(50))
                    .unwrap()
                    .value;
            let profiled =
                bound(&task, Updates::Joint, Updates::Joint, &Start::Prior, Stop::Steps(50)).unwrap().value;
            assert!(profiled <= collapsed && collapsed <= evidence, "{profiled} {collapsed} {evidence}");
            assert!(evidence - collapsed < 3.0, "{collapsed} {evidence}");
        }
    }

    #[test]
    fn fixed_point_rules_equal_long_unrolling() {
        let task = ranked_task(6, 3, 8, 0.5, -0.3, 2);
        for (kind, order) in [
            (Updates::Joint, Updates::Joint),
            (Updates::Exact, Updates::Exact),
            (Updates::Collapsed, Updates::Collapsed),
            // not stationary there: the implicit rule
            (Updates::Collapsed, Updates::Joint),
            (Updates::Joint, Updates::Collapsed),
            (Updates::Paper, Updates::Exact),
        ] {
            let unrolled = bound(&task, kind, order, &Start::Prior, Stop::Steps(400)).unwrap();
            let fixed =
                bound(&task, kind, order, &Start::Prior, Stop::Tolerance { tol: 1e-14, max_steps: 5000 })
                    .unwrap();
            assert!(
                (unrolled.value - fixed.value).abs() < 1e-11 * unrolled.value.abs(),
                "{kind:?} {order:?}"
            );
            for c in 0..3 {
                let scale = unrolled.dk[c].norm_max();
                let error = (&unrolled.dk[c] - &fixed.dk[c]).norm_max() / scale;
                assert!(error < 1e-8, "{kind:?} {order:?} {error:e}");
            }
            let error = (&unrolled.da - &fixed.da).norm_max() / unrolled.da.norm_max();
            assert!(error < 1e-8, "{kind:?} {order:?} {error:e}");
            assert!((unrolled.dtau - fixed.dtau).abs() < 1e-7 * (1.0 + unrolled.dtau.abs()));
        }
    }

    #[test]
    fn a_gradient_without_convergence_is_refused() {
        let task = ranked_task(6, 3, 8, 0.2, -5.0, 2);
        let result = bound(
            &task,
            Updates::Collapsed,
            Updates::Collapsed,
            &Start::Prior,
            Stop::Tolerance { tol: 1e-12, max_steps: 2 },
        );
        assert!(matches!(result, Err(crate::Error::NotConverged { steps: 2, .. })));
    }

    #[test]
    fn the_trace_is_the_bound() {
        let task = ranked_task(5, 4, 7, 0.4, -1.0, 8);
        for order in ORDERS {
            let fit = infer(&task, order, &Start::Prior, Stop::Steps(3)).unwrap();
            for (step, traced) in fit.trace.iter().enumerate() {
                let value =
                    bound(&task, order.climbs(), order, &Start::Prior, Stop::Steps(step + 1)).unwrap().value;
                assert!((value - traced).abs() < 1e-12 * value.abs());
            }
        }
    }
}
