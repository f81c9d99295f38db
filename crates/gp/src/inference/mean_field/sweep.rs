//! One sweep: the local update of all points, then the Gaussian block of each class.

use faer::Mat;
use std::sync::atomic::AtomicBool;

use super::local::Local;
use super::{Start, Updates};
use crate::gaussian::Block;
use crate::inference::go_on;
use crate::linalg::sum_any_order;
use crate::task::{Standard, check_matrix};
use crate::{Error, Result};

/// What one sweep hands to the next, in units of x = f/tau.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Marginal means, [N, C].
    pub mu: Mat<f64>,
    /// Marginal variances, [N, C].
    pub v: Mat<f64>,
    /// `alpha`, [N]: read by the orders `Paper`, `Exact` and `Released` only.
    pub alpha: Vec<f64>,
    /// Expected Polya-Gamma variables, [N, C]: read by the orders `Paper` and `Released` only.
    pub omega: Mat<f64>,
}

impl State {
    /// The start of the inference, checked and brought to x-units.
    pub(crate) fn new(x: &Standard<'_>, start: &Start, tau: f64) -> Result<Self> {
        let (n, c) = (x.points(), x.classes());
        match start {
            Start::Prior => Ok(Self {
                mu: x.a.clone(),
                v: Mat::from_fn(n, c, |i, j| x.k[j][(i, i)]),
                alpha: vec![2.0; n],
                omega: Mat::from_fn(n, c, |_, _| 0.25),
            }),
            Start::Given { mu0, v0, alpha0, omega0 } => {
                check_matrix("mu0", mu0, n, c)?;
                check_matrix("v0", v0, n, c)?;
                check_matrix("omega0", omega0, n, c)?;
                if alpha0.len() != n {
                    return Err(Error::Shape { what: "alpha0", expected: n, got: alpha0.len() });
                }
                let negative = |what, m: &Mat<f64>| {
                    let lowest = (0..c).flat_map(|j| m.col_as_slice(j)).fold(0.0f64, |a, b| a.min(*b));
                    if lowest < 0.0 {
                        return Err(Error::OutOfRange { what, value: lowest, must: ">= 0" });
                    }
                    Ok(())
                };
                negative("v0", v0)?;
                negative("omega0", omega0)?;
                if let Some(&value) = alpha0.iter().find(|&&a| !(a > 0.0 && a.is_finite())) {
                    return Err(Error::OutOfRange { what: "alpha0", value, must: "> 0 and finite" });
                }
                Ok(Self {
                    mu: mu0 * faer::Scale(1.0 / tau),
                    v: v0 * faer::Scale(1.0 / (tau * tau)),
                    alpha: alpha0.clone(),
                    omega: omega0.clone(),
                })
            }
        }
    }

    /// The local update at this state.
    pub(crate) fn local(&self, order: Updates, y: &[usize]) -> Local {
        Local::of(order, &self.alpha, y, &self.mu, &self.v)
    }
}

/// A sweep that was run: where it started, its local factors, its Gaussian blocks.
#[derive(Debug, Clone)]
pub(crate) struct Sweep {
    /// The state before the sweep.
    pub input: State,
    /// The local factors computed from it.
    pub local: Local,
    /// The Gaussian block of each class.
    pub blocks: Vec<Block>,
}

impl Sweep {
    /// The Gaussian blocks for local factors already computed from `input`.
    pub(crate) fn run(
        x: &Standard<'_>,
        order: Updates,
        input: State,
        local: Local,
        cancelled: &AtomicBool,
    ) -> Result<Self> {
        let blocks = blocks(x, order, &input, &local, cancelled)?;
        Ok(Self { input, local, blocks })
    }

    /// The state after the sweep.
    pub(crate) fn output(&self) -> State {
        let (n, c) = (self.local.w.nrows(), self.local.w.ncols());
        State {
            mu: Mat::from_fn(n, c, |i, j| self.blocks[j].mu[i]),
            v: Mat::from_fn(n, c, |i, j| self.blocks[j].v[i]),
            alpha: self.local.alpha.clone(),
            omega: self.local.w.clone(),
        }
    }

    /// `sum_c KL(q(x^c) || N(a^c, K^c))`.
    pub(crate) fn kl(&self) -> f64 {
        sum_any_order(&mut self.blocks.iter().map(|b| b.kl).collect::<Vec<_>>())
    }
}

/// Eqs. (12d), (12e) for each class. The paper's order takes the `omega` of the sweep before.
pub(super) fn blocks(
    x: &Standard<'_>,
    order: Updates,
    input: &State,
    local: &Local,
    cancelled: &AtomicBool,
) -> Result<Vec<Block>> {
    let w = if order.lags() { &input.omega } else { &local.w };
    let block = |c: usize| {
        go_on(cancelled)?;
        Block::new(&x.k[c], w.col_as_slice(c), local.b.col_as_slice(c), x.a.col_as_slice(c))
    };
    (0..x.classes()).map(block).collect()
}
