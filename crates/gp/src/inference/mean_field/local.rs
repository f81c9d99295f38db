//! The local updates: from Gaussian marginals (mu, v) to the sites (b, w) of the next Gaussian block, and back.
//!
//! The orders of updates differ only in how `gamma`, the expected counts of the Poisson variables, comes about; the tilts, the
//! sites and the larger part of the adjoint are shared:
//!
//! | order | gamma |
//! | --- | --- |
//! | `Paper`, `Exact` | Eq. (12b) with a stored `alpha` [N]: `gamma = exp(psi(alpha) - log C + rho)` |
//! | `Released` | the same as the authors' released code has it: `gamma` and `w` not below [`CLAMP`], and the tilt a constant for the adjoint, so that `gamma` depends on the marginals only through `exp(-mu/2)` and `w` only through `gamma` |
//! | `Joint` | Eqs. (12b), (12c) solved together: `gamma = u softmax(rho)`, `log u - psi(1+u) = log mean_c e^rho` |
//! | `Collapsed` | the Gamma variable integrated out: `gamma = e^rho / sum_c (1 - e^rho)` |

use faer::Mat;

use super::Updates;
use crate::linalg::sum_any_order;
use crate::special::{Tilt, digamma, digamma_minus_log, one_minus_trigamma1p, pg_var1, solve_u, trigamma};
use crate::task::{check_matrix, check_vector};
use crate::{Error, Result};

/// A sum of `1 - e^rho` below this is taken for this: reached only with `v = 0` and `mu < -660`.
const SMALLEST: f64 = 1e-290;

/// Counts above this enter the adjoint as this: their square is a slope, and must not overflow. Reached only with `v = 0` and
/// `mu < -340`.
const LARGEST_COUNT: f64 = 1e150;

/// The released code's smallest `gamma` and `omega`.
pub(super) const CLAMP: f64 = 1e-6;

/// The local factors of one sweep, in units of x = f/tau.
#[derive(Debug, Clone)]
pub struct Local {
    /// Eq. (12a). Tilts `c = sqrt(mu^2 + v)` of q(Omega), [N, C].
    pub tilt: Mat<f64>,
    /// Eq. (12b). Expected counts, [N, C].
    pub gamma: Mat<f64>,
    /// Eq. (12c). `alpha = 1 + sum_c gamma`, `[N]`; in the collapsed family no parameter of q, but `C / sum_c (1 - e^rho)`.
    pub alpha: Vec<f64>,
    /// Eq. (12f). `w = (y + gamma) theta(c)`, the expected Polya-Gamma variables, [N, C].
    pub w: Mat<f64>,
    /// `b = (y - gamma)/2`, [N, C].
    pub b: Mat<f64>,
    /// The means they were computed from, [N, C].
    pub mu: Mat<f64>,
    /// The variances they were computed from, [N, C].
    pub v: Mat<f64>,
    /// `psi(alpha) - log C + rho - log gamma`, [N, C]: how far `gamma` is from Eq. (12b) with the new `alpha`. It is known without
    /// the difference (0 in the joint update), which a bound with large `gamma` needs.
    pub slack: Mat<f64>,
}

/// Cotangents of the outputs of the local update; zero where an objective does not use them.
#[derive(Debug, Clone)]
pub struct LocalBar {
    /// Of `b`, [N, C].
    pub b: Mat<f64>,
    /// Of `w`, [N, C].
    pub w: Mat<f64>,
    /// Of `gamma` beyond its part in `b` and `w`, [N, C].
    pub gamma: Mat<f64>,
    /// Of `c^2/2` beyond its part in `w`, [N, C].
    pub half_tilt2: Mat<f64>,
    /// Of `alpha`, `[N]`.
    pub alpha: Vec<f64>,
}

impl LocalBar {
    /// All zero.
    pub fn zeros(n: usize, c: usize) -> Self {
        let zero = || Mat::zeros(n, c);
        Self { b: zero(), w: zero(), gamma: zero(), half_tilt2: zero(), alpha: vec![0.0; n] }
    }
}

/// Cotangents of the inputs of the local update.
#[derive(Debug, Clone)]
pub struct MarginalsBar {
    /// Of the means, [N, C].
    pub mu: Mat<f64>,
    /// Of the variances, [N, C].
    pub v: Mat<f64>,
    /// Of the stored `alpha`, `[N]`; zero for the maps that need none.
    pub alpha: Vec<f64>,
}

/// `1` if point `n` has label `c`.
pub(crate) fn one_hot(y: &[usize], n: usize, c: usize) -> f64 {
    f64::from(y[n] == c)
}

impl Local {
    /// Eqs. (12a), (12b), (12c), (12f) from the marginals `mu`, `v` [N, C] and labels `y` `[N]`; `alpha` `[N]` is read by the orders
    /// that store one.
    pub fn new(order: Updates, alpha: &[f64], y: &[usize], mu: &Mat<f64>, v: &Mat<f64>) -> Result<Self> {
        let (n, classes) = (mu.nrows(), mu.ncols());
        check_matrix("mu", mu, n, classes)?;
        check_matrix("v", v, n, classes)?;
        if y.len() != n {
            return Err(Error::Shape { what: "y", expected: n, got: y.len() });
        }
        if order.stores_alpha() {
            check_vector("alpha", alpha, n)?;
        }
        Ok(Self::of(order, alpha, y, mu, v))
    }

    /// [`Local::new`] of arguments that fit.
    pub(crate) fn of(order: Updates, alpha: &[f64], y: &[usize], mu: &Mat<f64>, v: &Mat<f64>) -> Self {
        let (n, classes) = (mu.nrows(), mu.ncols());
        let zero = || Mat::<f64>::zeros(n, classes);
        let mut out = Self {
            tilt: zero(),
            gamma: zero(),
            alpha: vec![0.0; n],
            w: zero(),
            b: zero(),
            mu: mu.clone(),
            v: v.clone(),
            slack: zero(),
        };
        let (mut tilts, mut gamma, mut buffer) =
            (Vec::with_capacity(classes), vec![0.0; classes], Vec::new());
        for i in 0..n {
            tilts.clear();
            tilts.extend((0..classes).map(|c| Tilt::new(mu[(i, c)], v[(i, c)])));
            match order {
                Updates::Paper | Updates::Exact => stored_counts(&tilts, alpha[i], &mut gamma),
                Updates::Released => {
                    stored_counts(&tilts, alpha[i], &mut gamma);
                    gamma.iter_mut().for_each(|g| *g = g.max(CLAMP));
                }
                Updates::Joint => joint_counts(&tilts, &mut gamma, &mut buffer),
                Updates::Collapsed => collapsed_counts(&tilts, &mut gamma, &mut buffer),
            }
            buffer.clear();
            buffer.extend_from_slice(&gamma);
            out.alpha[i] = 1.0 + sum_any_order(&mut buffer);
            let slack = match order {
                Updates::Paper | Updates::Exact | Updates::Released => {
                    digamma(out.alpha[i]) - digamma(alpha[i])
                }
                Updates::Joint => 0.0,
                Updates::Collapsed => digamma_minus_log(out.alpha[i]),
            };
            for c in 0..classes {
                let label = one_hot(y, i, c);
                out.slack[(i, c)] = match order {
                    Updates::Released if gamma[c] == CLAMP => {
                        digamma(out.alpha[i]) - (classes as f64).ln() + tilts[c].rho - CLAMP.ln()
                    }
                    _ => slack,
                };
                out.tilt[(i, c)] = tilts[c].c;
                out.gamma[(i, c)] = gamma[c];
                let w = (label + gamma[c]) * tilts[c].theta;
                out.w[(i, c)] = if order == Updates::Released { w.max(CLAMP) } else { w };
                out.b[(i, c)] = 0.5 * (label - gamma[c]);
            }
        }
        out
    }

    /// Adjoint of [`Local::new`], for the same `order`, `alpha`, `y`:
    ///
    /// `gammabar = -bbar/2 + wbar theta`, through `d gamma / d rho` of the map to `rhobar`, and with
    /// `t = -wbar (y + gamma) Var PG(1, c)`: `mubar = rhobar drho/dmu + t mu`, `vbar = (t - rhobar theta)/2`.
    pub fn pullback(&self, order: Updates, alpha: &[f64], y: &[usize], bar: &LocalBar) -> MarginalsBar {
        let (mu, v) = (&self.mu, &self.v);
        let (n, classes) = (mu.nrows(), mu.ncols());
        let mut out =
            MarginalsBar { mu: Mat::zeros(n, classes), v: Mat::zeros(n, classes), alpha: vec![0.0; n] };
        let (mut tilts, mut rhobar, mut buffer) =
            (Vec::with_capacity(classes), vec![0.0; classes], Vec::with_capacity(classes));
        for i in 0..n {
            tilts.clear();
            tilts.extend((0..classes).map(|c| Tilt::new(mu[(i, c)], v[(i, c)])));
            // Where the released code clamps, nothing flows back.
            let released = order == Updates::Released;
            let open = |x: f64| f64::from(!released || x > CLAMP);
            for c in 0..classes {
                let wbar = bar.w[(i, c)] * open(self.w[(i, c)]);
                let through_sites = -0.5 * bar.b[(i, c)] + wbar * tilts[c].theta;
                rhobar[c] = (through_sites + bar.gamma[(i, c)] + bar.alpha[i]) * open(self.gamma[(i, c)]);
            }
            let gamma = |c: usize| self.gamma[(i, c)].min(LARGEST_COUNT);
            match order {
                Updates::Paper | Updates::Exact | Updates::Released => {
                    (0..classes).for_each(|c| rhobar[c] *= gamma(c));
                    buffer.clear();
                    buffer.extend_from_slice(&rhobar);
                    out.alpha[i] = trigamma(alpha[i]) * sum_any_order(&mut buffer);
                }
                Updates::Joint => {
                    (0..classes).for_each(|c| rhobar[c] *= gamma(c));
                    buffer.clear();
                    buffer.extend_from_slice(&rhobar);
                    let sum = sum_any_order(&mut buffer);
                    let u = (self.alpha[i] - 1.0).min(LARGEST_COUNT);
                    let gain = sum * (1.0 / one_minus_trigamma1p(u) - 1.0);
                    let share = softmax_rho(&tilts, &mut buffer);
                    (0..classes).for_each(|c| rhobar[c] += gain * share(c));
                }
                Updates::Collapsed => {
                    buffer.clear();
                    buffer.extend((0..classes).map(|c| rhobar[c] * gamma(c)));
                    let sum = sum_any_order(&mut buffer);
                    (0..classes).for_each(|c| rhobar[c] = gamma(c) * (rhobar[c] + sum));
                }
            }
            for c in 0..classes {
                if released {
                    out.mu[(i, c)] = -0.5 * rhobar[c];
                    continue;
                }
                let (m, s2, tilt) = (mu[(i, c)], v[(i, c)], &tilts[c]);
                let through_w = -bar.w[(i, c)] * (one_hot(y, i, c) + gamma(c)) * pg_var1(tilt.c);
                let t = through_w + bar.half_tilt2[(i, c)];
                out.mu[(i, c)] = rhobar[c] * tilt.drho_dmu(m, s2) + t * m;
                out.v[(i, c)] = 0.5 * (t - rhobar[c] * tilt.theta);
            }
        }
        out
    }
}

/// Eq. (12b). `gamma = exp(psi(alpha) - log C + rho)`.
fn stored_counts(tilts: &[Tilt], alpha: f64, gamma: &mut [f64]) {
    let base = digamma(alpha) - (tilts.len() as f64).ln();
    for (g, t) in gamma.iter_mut().zip(tilts) {
        *g = (base + t.rho).exp();
    }
}

/// Eqs. (12b), (12c) solved together: the maximum of the ELBO over q(M, Omega) and q(lambda) for a given q(F).
fn joint_counts(tilts: &[Tilt], gamma: &mut [f64], buffer: &mut Vec<f64>) {
    let classes = tilts.len() as f64;
    buffer.clear();
    buffer.extend(tilts.iter().map(|t| -t.rho.exp_m1()));
    let eps = (sum_any_order(buffer) / classes).max(SMALLEST);
    let log_s = if eps < 0.5 {
        (-eps).ln_1p()
    } else {
        let largest = tilts.iter().fold(f64::NEG_INFINITY, |m, t| m.max(t.rho));
        buffer.clear();
        buffer.extend(tilts.iter().map(|t| (t.rho - largest).exp()));
        largest + sum_any_order(buffer).ln() - classes.ln()
    };
    let u = solve_u(eps, log_s);
    let share = softmax_rho(tilts, buffer);
    for c in 0..tilts.len() {
        gamma[c] = u * share(c);
    }
}

/// `gamma = e^rho / D`, `D = sum_c (1 - e^rho)`.
fn collapsed_counts(tilts: &[Tilt], gamma: &mut [f64], buffer: &mut Vec<f64>) {
    buffer.clear();
    buffer.extend(tilts.iter().map(|t| -t.rho.exp_m1()));
    let d = sum_any_order(buffer).max(SMALLEST);
    for (g, t) in gamma.iter_mut().zip(tilts) {
        *g = t.rho.exp() / d;
    }
}

/// `softmax_c(rho)` of one point.
fn softmax_rho<'t>(tilts: &'t [Tilt], buffer: &mut Vec<f64>) -> impl Fn(usize) -> f64 + 't {
    let largest = tilts.iter().fold(f64::NEG_INFINITY, |m, t| m.max(t.rho));
    buffer.clear();
    buffer.extend(tilts.iter().map(|t| (t.rho - largest).exp()));
    let sum = sum_any_order(buffer);
    move |c| (tilts[c].rho - largest).exp() / sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normal;
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    const N: usize = 2;
    const ALPHA: [f64; N] = [1.7, 4.2];
    const DALPHA: [f64; N] = [0.4, -1.1];

    /// Marginals, cotangents, and a direction: of the means, and of the variances relative to themselves.
    struct Problem {
        y: [usize; N],
        mu: Mat<f64>,
        v: Mat<f64>,
        bar: LocalBar,
        dmu: Mat<f64>,
        dv: Mat<f64>,
    }

    fn problem(seed: u64, c: usize, shift: f64) -> Problem {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut random = || normal(&mut rng, N, c);
        let (mu, v) = (random() + Mat::from_fn(N, c, |_, _| shift), random());
        let v = Mat::from_fn(N, c, |i, j| v[(i, j)].exp());
        let (b, w, gamma, half_tilt2) = (random(), random(), random(), random());
        let bar = LocalBar { b, w, gamma, half_tilt2, alpha: vec![0.3, -0.8] };
        Problem { y: [0, c - 1], mu, v, bar, dmu: random(), dv: random() }
    }

    impl Problem {
        /// The adjoint along the direction against differences of `value`, which is `<bar, outputs>`.
        fn check(
            &self,
            order: Updates,
            value: impl Fn(f64) -> f64,
        ) -> std::result::Result<(), TestCaseError> {
            let Problem { y, mu, v, bar, dmu, dv } = self;
            let got = Local::of(order, &ALPHA, y, mu, v).pullback(order, &ALPHA, y, bar);
            let (mut want, mut scale) = (0.0, 1e-3);
            for (i, j) in (0..N).flat_map(|i| (0..mu.ncols()).map(move |j| (i, j))) {
                for term in [got.mu[(i, j)] * dmu[(i, j)], got.v[(i, j)] * dv[(i, j)] * v[(i, j)]] {
                    want += term;
                    scale += term.abs();
                }
            }
            want += crate::linalg::dot(&got.alpha, &DALPHA);
            let fd = (value(1e-6) - value(-1e-6)) / 2e-6;
            let noise = 1e-9 * value(0.0).abs();
            prop_assert!((fd - want).abs() < 1e-6 * scale + noise, "{order:?}: {fd} {want} {scale}");
            Ok(())
        }
    }

    #[test]
    fn shapes_that_disagree_are_refused() {
        let m = |n: usize, c: usize| Mat::<f64>::from_fn(n, c, |_, _| 0.5);
        assert!(Local::new(Updates::Joint, &[], &[0, 1], &m(2, 3), &m(2, 3)).is_ok());
        assert!(Local::new(Updates::Joint, &[], &[0], &m(2, 3), &m(2, 3)).is_err());
        assert!(Local::new(Updates::Joint, &[], &[0, 1], &m(2, 3), &m(2, 2)).is_err());
        assert!(Local::new(Updates::Exact, &[1.0], &[0, 1], &m(2, 3), &m(2, 3)).is_err());
        assert!(
            Local::new(Updates::Joint, &[], &[0, 1], &m(2, 3), &(m(2, 3) * faer::Scale(f64::NAN))).is_err()
        );
    }

    proptest! {
        /// All exact maps, all cotangents.
        #[test]
        fn the_adjoint_agrees_with_differences(seed in 0u64..10_000, c in 2usize..6, shift in -12.0..6.0f64) {
            let p = problem(seed, c, shift);
            for order in [Updates::Exact, Updates::Joint, Updates::Collapsed] {
                p.check(order, |e| {
                    let alpha = [ALPHA[0] + e * DALPHA[0], ALPHA[1] + e * DALPHA[1]];
                    let v = Mat::from_fn(N, c, |i, j| p.v[(i, j)] * (1.0 + e * p.dv[(i, j)]));
                    let s = Local::of(order, &alpha, &p.y, &(&p.mu + &p.dmu * faer::Scale(e)), &v);
                    let half = Mat::from_fn(N, c, |i, j| 0.5 * s.tilt[(i, j)] * s.tilt[(i, j)]);
                    let (bar, inner) = (&p.bar, crate::linalg::inner);
                    inner(&bar.b, &s.b) + inner(&bar.w, &s.w) + inner(&bar.gamma, &s.gamma)
                        + inner(&bar.half_tilt2, &half) + crate::linalg::dot(&bar.alpha, &s.alpha)
                })?;
            }
        }

        /// The released map as its code has it: the tilts are constants, and where a clamp holds nothing flows back.
        #[test]
        fn the_released_adjoint_agrees_with_differences(seed in 0u64..10_000, c in 2usize..6, shift in -12.0..20.0f64) {
            let p = problem(seed, c, shift);
            p.check(Updates::Released, |e| {
                let mut total = 0.0;
                for i in 0..N {
                    let base = digamma(ALPHA[i] + e * DALPHA[i]) - (c as f64).ln();
                    let mut alpha = 1.0;
                    for j in 0..c {
                        let held = Tilt::new(p.mu[(i, j)], p.v[(i, j)]);
                        let moved = 0.5 * e * p.dmu[(i, j)];
                        let gamma = (base + held.rho - moved).exp().max(CLAMP);
                        let label = one_hot(&p.y, i, j);
                        let w = ((label + gamma) * held.theta).max(CLAMP);
                        total += p.bar.gamma[(i, j)] * gamma + p.bar.w[(i, j)] * w + p.bar.b[(i, j)] * 0.5 * (label - gamma);
                        alpha += gamma;
                    }
                    total += p.bar.alpha[i] * alpha;
                }
                total
            })?;
        }
    }

    #[test]
    fn far_marginals_stay_finite() {
        for (mu, v) in
            [(-1e4, 0.0), (-700.0, 0.0), (-160.0, 1e-10), (1e4, 0.0), (1e4, 1e8), (0.0, 0.0), (-1e4, 1e8)]
        {
            let (m, s2) = (Mat::from_fn(1, 3, |_, _| mu), Mat::from_fn(1, 3, |_, _| v));
            for order in [Updates::Joint, Updates::Collapsed] {
                let s = Local::of(order, &[], &[1], &m, &s2);
                let mut bar = LocalBar::zeros(1, 3);
                bar.b = Mat::from_fn(1, 3, |_, _| 1.0);
                let back = s.pullback(order, &[], &[1], &bar);
                for x in [&s.gamma, &s.w, &s.b, &s.tilt, &back.mu, &back.v] {
                    assert_finite(x, mu, v);
                }
                assert!(s.w[(0, 0)] >= 0.0 && s.gamma[(0, 0)] >= 0.0);
            }
        }
    }

    fn assert_finite(x: &Mat<f64>, mu: f64, v: f64) {
        assert!((0..3).all(|c| x[(0, c)].is_finite()), "mu = {mu}, v = {v}: {x:?}");
    }
}
