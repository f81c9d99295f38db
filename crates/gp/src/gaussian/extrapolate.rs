//! Extrapolation of a fixed-point iteration from its last steps (Anderson's method).
//!
//! Of the last sites `s_k` and their targets `t_k` the combination `sum_k c_k t_k`, `sum_k c_k = 1`, is taken whose moves
//! `sum_k c_k (t_k - s_k)` are the smallest: where the iteration is linear, that is its fixed point.

use std::collections::VecDeque;

use faer::Mat;

use super::Sites;
use crate::linalg::{cholesky, dot, lower_inverse, mul_vec, sum_any_order, tmul_vec};

/// Steps that are remembered.
const DEPTH: usize = 5;
/// Added to the diagonal of the normal equations, relative to its largest entry.
const RIDGE: f64 = 1e-11;

/// The last sites and their targets, newest last.
#[derive(Default)]
pub(crate) struct History {
    steps: VecDeque<(Sites, Sites)>,
}

impl History {
    /// Remembers sites and the target computed from them.
    pub(crate) fn push(&mut self, sites: Sites, target: Sites) {
        self.steps.push_back((sites, target));
        if self.steps.len() > DEPTH {
            self.steps.pop_front();
        }
    }

    /// Forgets all but the newest.
    pub(crate) fn restart(&mut self) {
        self.steps.drain(..self.steps.len().saturating_sub(1));
    }

    /// The combination of targets with the smallest move, for marginals `mu`, `v` [N, C]; `None` with fewer than two steps.
    pub(crate) fn extrapolate(&self, mu: &Mat<f64>, v: &Mat<f64>) -> Option<Sites> {
        let older = self.steps.len().checked_sub(1).filter(|&older| older > 0)?;
        let moves: Vec<Vec<Vec<f64>>> = self.steps.iter().map(|(s, t)| whitened(s, t, mu, v)).collect();
        let newest = &moves[older];
        let change: Vec<Vec<Vec<f64>>> = moves[..older].iter().map(|m| minus(newest, m)).collect();
        let mut normal = Mat::from_fn(older, older, |i, j| inner(&change[i], &change[j]));
        let largest = (0..older).map(|i| normal[(i, i)]).fold(0.0, f64::max);
        for i in 0..older {
            normal[(i, i)] += RIDGE * largest;
        }
        let inverse = lower_inverse(&cholesky(normal, "the normal equations of an extrapolation").ok()?);
        let rhs: Vec<f64> = change.iter().map(|c| inner(c, newest)).collect();
        let weights = tmul_vec(&inverse, &mul_vec(&inverse, &rhs));
        let (_, target) = &self.steps[older];
        let mut out = target.clone();
        for (weight, (_, before)) in weights.iter().zip(&self.steps) {
            out.w -= (&target.w - &before.w) * faer::Scale(*weight);
            out.b -= (&target.b - &before.b) * faer::Scale(*weight);
        }
        Some(out)
    }
}

/// The move of each class's sites in units in which its square is the variance of the change of the log density,
/// `v (db - mu dw)^2 + v^2 dw^2 / 2`.
fn whitened(sites: &Sites, target: &Sites, mu: &Mat<f64>, v: &Mat<f64>) -> Vec<Vec<f64>> {
    (0..mu.ncols())
        .map(|c| {
            (0..mu.nrows())
                .flat_map(|i| {
                    let (dw, db) = (target.w[(i, c)] - sites.w[(i, c)], target.b[(i, c)] - sites.b[(i, c)]);
                    let v = v[(i, c)];
                    [v.sqrt() * (db - mu[(i, c)] * dw), v * dw * std::f64::consts::FRAC_1_SQRT_2]
                })
                .collect()
        })
        .collect()
}

/// The square of the move from sites to their target: the variance under q(F) of the change of its log density, point by
/// point. A step that makes the move gains about half of it.
pub(crate) fn squared_move(sites: &Sites, target: &Sites, mu: &Mat<f64>, v: &Mat<f64>) -> f64 {
    let step = whitened(sites, target, mu, v);
    inner(&step, &step)
}

fn minus(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b).collect()).collect()
}

/// A sum over classes that does not depend on their names.
fn inner(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    sum_any_order(&mut a.iter().zip(b).map(|(a, b)| dot(a, b)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A linear iteration with three rates: four steps give the fixed point, but for the ridge. Plain steps are 0.6 of it away.
    #[test]
    fn a_linear_iteration_is_solved() {
        let fixed = |i: usize, c: usize| (1 + i + 2 * c) as f64 / 3.0;
        let rate = |i: usize| [0.9, -0.5, 0.7][i];
        let map = |s: &Sites| Sites {
            w: Mat::from_fn(3, 2, |i, c| fixed(i, c) + rate(i) * (s.w[(i, c)] - fixed(i, c))),
            b: Mat::from_fn(3, 2, |i, c| fixed(i, c) + rate(i) * (s.b[(i, c)] - fixed(i, c))),
        };
        let (mu, v) = (Mat::zeros(3, 2), Mat::from_fn(3, 2, |_, _| 1.0));
        let mut history = History::default();
        let mut sites = Sites { w: Mat::zeros(3, 2), b: Mat::zeros(3, 2) };
        for _ in 0..4 {
            let target = map(&sites);
            history.push(sites, target.clone());
            sites = target;
        }
        let found = history.extrapolate(&mu, &v).unwrap();
        assert!((0..3).all(|i| (0..2).all(|c| (found.w[(i, c)] - fixed(i, c)).abs() < 1e-4)));
        history.restart();
        assert!(history.extrapolate(&mu, &v).is_none());
    }
}
