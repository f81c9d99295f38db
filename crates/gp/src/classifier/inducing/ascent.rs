//! The ascent on the direct bound over weights: `L = sum_n E log p(y_n | x_n) - sum_c KL(N(m_c, S_c) || N(0, I))`.
//!
//! Covariances move by natural-gradient steps, `G <- G + size (Phi' diag(w) Phi - G)`. Means move by L-BFGS whose first matrix is the
//! covariance: its first step is the natural gradient's, `S (d ell/dm - m)`, and the steps before it make up for what S leaves out.

use super::covariance::Covariance;
use super::rows::{Likelihood, Rows};
use crate::Result;
use crate::linalg::{dot, sum_any_order};
use faer::Mat;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rounds of covariances and means at most.
const ROUNDS: usize = 12;
/// Steps of the means in the first rounds and in the later ones.
const STEPS: (usize, usize) = (4, 10);
/// Steps that L-BFGS looks back on.
const HISTORY: usize = 6;
/// A fall of the bound by no more than this part is rounding.
const SLACK: f64 = 1e-6;
/// Halvings of a step at most.
const HALVINGS: usize = 8;

/// Weights of all classes.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// [M, C].
    pub(super) mean: Mat<f64>,
    pub(super) covariances: Arc<Vec<Covariance>>,
}

/// Where the ascent ended.
pub(super) struct Found {
    pub(super) weights: Weights,
    pub(super) bound: f64,
    pub(super) converged: bool,
}

struct State {
    weights: Weights,
    v: Arc<Vec<Mat<f64>>>,
    at: Likelihood,
    bound: f64,
}

impl Weights {
    pub(super) fn prior(rows: &Rows<'_>) -> Self {
        let (leading, others) = rows.sizes();
        let covariances = Arc::new(vec![Covariance::prior(leading, others); rows.classes()]);
        Weights { mean: Mat::zeros(leading + others, rows.classes()), covariances }
    }
}

impl State {
    fn new(rows: &Rows<'_>, weights: Weights) -> Result<Self> {
        let v = Arc::new(rows.variances(&weights.covariances)?);
        State::with(rows, weights, v)
    }

    fn with(rows: &Rows<'_>, weights: Weights, v: Arc<Vec<Mat<f64>>>) -> Result<Self> {
        let at = rows.likelihood(&weights.mean, &v)?;
        let kl = |c: usize| weights.covariances[c].kl(weights.mean.col_as_slice(c));
        let bound = at.value - sum_any_order(&mut (0..rows.classes()).map(kl).collect::<Vec<f64>>());
        Ok(State { weights, v, at, bound })
    }

    /// The slope of the bound in the means.
    fn slope(&self) -> Mat<f64> {
        &self.at.slope - &self.weights.mean
    }

    fn allows(&self, next: &State, least: f64) -> bool {
        next.bound >= self.bound + least - SLACK * (1.0 + self.bound.abs())
    }
}

/// Climbs from some weights until a round gains less than `rest` for each point. `on_round` gets, after every round, how many of
/// how many are done.
pub(super) fn ascend(
    rows: &Rows<'_>,
    start: Weights,
    rest: f64,
    on_round: &dyn Fn(usize, usize),
) -> Result<Found> {
    let mut state = State::new(rows, start)?;
    let mut converged = false;
    for round in 0..ROUNDS {
        let before = state.bound;
        state = narrowed(rows, state)?;
        state = climbed(rows, state, if round < 2 { STEPS.0 } else { STEPS.1 }, rest)?;
        on_round(round + 1, ROUNDS);
        if round > 0 && state.bound - before < rest * rows.points as f64 {
            converged = true;
            break;
        }
    }
    Ok(Found { weights: state.weights, bound: state.bound, converged })
}

/// A natural-gradient step of the covariances: the longest of 1, 1/2, ... that the bound allows.
fn narrowed(rows: &Rows<'_>, state: State) -> Result<State> {
    let target = rows.sites(&state.at)?;
    let mut size = 1.0;
    for _ in 0..HALVINGS {
        let moved = state.weights.covariances.iter().zip(&target).map(|(s, to)| s.towards(to, size));
        let covariances = Arc::new(moved.collect::<Result<Vec<_>>>()?);
        let next = State::new(rows, Weights { mean: state.weights.mean.clone(), covariances })?;
        if state.allows(&next, 0.0) {
            return Ok(next);
        }
        size *= 0.5;
    }
    Ok(state)
}

/// The inner product of two matrices, the same whatever the order of the columns.
fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let column = |c: usize| dot(a.col_as_slice(c), b.col_as_slice(c));
    sum_any_order(&mut (0..a.ncols()).map(column).collect::<Vec<f64>>())
}

/// L-BFGS steps of the means at given covariances.
fn climbed(rows: &Rows<'_>, mut state: State, steps: usize, rest: f64) -> Result<State> {
    let mut history: VecDeque<(Mat<f64>, Mat<f64>, f64)> = VecDeque::new();
    for _ in 0..steps {
        let slope = state.slope();
        let mut direction = direction(&state.weights.covariances, &history, &slope);
        let mut along = inner(&direction, &slope);
        if along <= 0.0 {
            history.clear();
            direction = self::direction(&state.weights.covariances, &history, &slope);
            along = inner(&direction, &slope);
        }
        // What a step would gain, were the bound quadratic.
        if 0.5 * along < 0.1 * rest * rows.points as f64 {
            break;
        }
        let mut size = 1.0;
        let mut next = None;
        for _ in 0..HALVINGS {
            let mean = &state.weights.mean + &direction * faer::Scale(size);
            let weights = Weights { mean, covariances: state.weights.covariances.clone() };
            let tried = State::with(rows, weights, state.v.clone())?;
            if state.allows(&tried, 1e-4 * size * along) {
                next = Some(tried);
                break;
            }
            size *= 0.5;
        }
        let Some(next) = next else { break };
        let (moved, turned) = (direction * faer::Scale(size), slope - next.slope());
        let curvature = inner(&moved, &turned);
        if curvature > 0.0 {
            history.push_back((moved, turned, 1.0 / curvature));
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        state = next;
    }
    Ok(state)
}

/// The two loops of L-BFGS around `S slope`.
fn direction(
    covariances: &[Covariance],
    history: &VecDeque<(Mat<f64>, Mat<f64>, f64)>,
    slope: &Mat<f64>,
) -> Mat<f64> {
    let mut q = slope.clone();
    let mut shares = Vec::new();
    for (moved, turned, inverse) in history.iter().rev() {
        let share = inverse * inner(moved, &q);
        q -= turned * faer::Scale(share);
        shares.push(share);
    }
    let applied: Vec<Vec<f64>> =
        covariances.iter().enumerate().map(|(c, s)| s.apply(q.col_as_slice(c))).collect();
    let mut out = Mat::from_fn(q.nrows(), q.ncols(), |j, c| applied[c][j]);
    for ((moved, turned, inverse), share) in history.iter().zip(shares.into_iter().rev()) {
        let back = inverse * inner(turned, &out);
        out += moved * faer::Scale(share - back);
    }
    out
}
