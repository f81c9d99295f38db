//! The bounds of the mean-field family and their gradients.
//!
//! `L = (expected log-likelihood of the augmented model) - KL(q(F) || p(F))`. The kinds differ in which local factors
//! stand beside q(F); the collapsed one integrates the Gamma variable out and is the tightest.

use faer::Mat;

use crate::Result;
use crate::inference::{Map, Order, Sites, Start, Tape, Top};
use crate::linalg::sum_any_order;
use crate::special::{Tilt, digamma, gamma_entropy, log2cosh_half};
use crate::task::{Gradient, Task};

/// Which local factors stand beside q(F) in the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The ELBO of the q that is held: local factors as the last sweep left them.
    General,
    /// q(M, Omega) and q(lambda) optimal for q(F): the paper's objective, evaluated properly. Never below `General`.
    Profiled,
    /// Eq. (11) of the paper's appendix with its two tilt terms cancelled: **not a bound** unless the sweeps have converged.
    Paper,
    /// q(M, Omega) optimal for q(F), lambda integrated out. Never below `Profiled`.
    Collapsed,
}

impl Bound {
    /// The bound without `-KL(q(F) || p(F))`, x-units: `held` are the local factors of the last sweep, `fresh` those of the
    /// bound's own family at (mu, v), read by `Profiled` and `Collapsed`.
    pub(crate) fn likelihood(
        self,
        y: &[usize],
        mu: &Mat<f64>,
        v: &Mat<f64>,
        held: &Sites,
        fresh: &Sites,
    ) -> f64 {
        let classes = mu.ncols();
        let mut total = 0.0;
        for i in 0..y.len() {
            total += match self {
                Self::General => held_elbo(y, mu, held, i, |c| {
                    let mismatch =
                        mu[(i, c)] * mu[(i, c)] + v[(i, c)] - held.tilt[(i, c)] * held.tilt[(i, c)];
                    0.5 * held.w[(i, c)] * mismatch
                }),
                Self::Paper => held_elbo(y, mu, held, i, |_| 0.0),
                Self::Profiled | Self::Collapsed => {
                    // mu/2 - log 2cosh(c/2) is rho at -mu
                    let label = Tilt::new(-mu[(i, y[i])], v[(i, y[i])]).rho;
                    let alpha = fresh.alpha[i];
                    let rest = if self == Self::Profiled { gamma_entropy(alpha) - 1.0 } else { alpha.ln() };
                    label + rest - (classes as f64).ln()
                }
            };
        }
        total
    }

    /// The family in which `fresh` local factors are computed; `None` when the bound has none.
    fn family(self) -> Option<Map<'static>> {
        match self {
            Self::Profiled => Some(Map::Joint),
            Self::Collapsed => Some(Map::Collapsed),
            Self::General | Self::Paper => None,
        }
    }

    /// Whether sweeps of this order stop where this bound is stationary in q.
    fn is_climbed_by(self, order: Order) -> bool {
        match self {
            Self::Collapsed => order == Order::Collapsed,
            Self::General | Self::Profiled => matches!(order, Order::Joint | Order::Exact | Order::Paper),
            Self::Paper => false,
        }
    }
}

/// `sum_c [ y(mu/2 - l2c) + gamma(1 + eta - log gamma) - mismatch ] - alpha + H(alpha) - log C` of point `i`, where
/// `l2c = log 2cosh(c/2)`, `eta = psi(alpha) - log C - mu/2 - l2c` and c is the tilt q(Omega) holds.
fn held_elbo(y: &[usize], mu: &Mat<f64>, held: &Sites, i: usize, mismatch: impl Fn(usize) -> f64) -> f64 {
    let classes = mu.ncols();
    let mut terms: Vec<f64> = (0..classes)
        .map(|c| {
            let counts = held.gamma[(i, c)];
            let counted = if counts > 0.0 { counts * (1.0 + log_ratio(mu, held, i, c)) } else { 0.0 };
            let label = if y[i] == c { 0.5 * mu[(i, c)] - log2cosh_half(held.tilt[(i, c)]) } else { 0.0 };
            label + counted - mismatch(c)
        })
        .collect();
    let alpha = held.alpha[i];
    sum_any_order(&mut terms) - alpha + gamma_entropy(alpha) - (classes as f64).ln()
}

/// `eta - log gamma = psi(alpha) - log C - mu/2 - log 2cosh(c/2) - log gamma`.
fn log_ratio(mu: &Mat<f64>, held: &Sites, i: usize, c: usize) -> f64 {
    let eta = digamma(held.alpha[i])
        - (mu.ncols() as f64).ln()
        - 0.5 * mu[(i, c)]
        - log2cosh_half(held.tilt[(i, c)]);
    eta - held.gamma[(i, c)].ln()
}

/// The bound after `steps` sweeps and its gradient through all of them, start included.
pub fn bound(task: &Task, kind: Bound, order: Order, start: &Start, steps: usize) -> Result<Gradient> {
    let tape = Tape::record(task, order, start, steps)?;
    let (value, top) = value_and_top(&tape, kind);
    let bar = tape.unroll(top)?;
    Ok(tape.gradient(value, bar))
}

/// The bound at the fixed point of the sweeps and its gradient: by the envelope rule where the bound is stationary there
/// (`dK = (g g' - R)/2`, `da = g`), by the implicit rule elsewhere. An error if `max_steps` do not reach `tol`.
pub fn bound_at_fixed_point(
    task: &Task,
    kind: Bound,
    order: Order,
    start: &Start,
    tol: f64,
    max_steps: usize,
) -> Result<Gradient> {
    let tape = Tape::converge(task, order, start, tol, max_steps)?;
    let (value, top) = value_and_top(&tape, kind);
    if kind.is_climbed_by(order) {
        return Ok(task.gradient(value, top.k, top.a));
    }
    let bar = tape.implicit(top, max_steps)?;
    Ok(tape.gradient(value, bar))
}

/// The value of a bound at the end of a tape and its cotangents there.
fn value_and_top(tape: &Tape<'_>, kind: Bound) -> (f64, Top) {
    let (y, mu, v, held) = (tape.x().y, tape.mu(), tape.v(), tape.sites());
    let fresh = kind.family().map(|map| Sites::new(map, y, mu, v));
    let value = kind.likelihood(y, mu, v, held, fresh.as_ref().unwrap_or(held)) - tape.kl();
    let mut top = tape.minus_kl();
    let sites = fresh.as_ref().unwrap_or(held);
    for c in 0..mu.ncols() {
        for i in 0..mu.nrows() {
            let (m, w) = (mu[(i, c)], sites.w[(i, c)]);
            // d/dmu = b - w mu, d/dv = -w/2, with the optimal local factors as with held ones
            top.mu[(i, c)] += sites.b[(i, c)];
            if kind != Bound::Paper {
                top.mu[(i, c)] -= w * m;
                top.v[(i, c)] -= 0.5 * w;
            }
            // Held local factors move with the sweep that made them; alpha = 1 + sum gamma is optimal for gamma.
            match kind {
                Bound::Profiled | Bound::Collapsed => {}
                Bound::General => {
                    top.sites.gamma[(i, c)] = slope_in_counts(mu, held, i, c);
                    let tilt = held.tilt[(i, c)];
                    top.sites.w[(i, c)] = -0.5 * (m * m + v[(i, c)] - tilt * tilt);
                }
                Bound::Paper => {
                    top.sites.gamma[(i, c)] = slope_in_counts(mu, held, i, c);
                    // d/d(c^2/2) of -(y + gamma) log 2cosh(c/2) = -(y + gamma) theta(c)
                    top.sites.half_tilt2[(i, c)] = -w;
                }
            }
        }
    }
    (value, top)
}

/// Cotangent of `gamma`: `eta - log gamma`; where `gamma` has underflown nothing flows through it.
fn slope_in_counts(mu: &Mat<f64>, held: &Sites, i: usize, c: usize) -> f64 {
    if held.gamma[(i, c)] > 0.0 { log_ratio(mu, held, i, c) } else { 0.0 }
}
