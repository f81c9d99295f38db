//! A fresh head fitted to the support of one task by stochastic gradient descent, as Chen et al. (2019) adapt their
//! baselines: batches of 4, 100 passes in shuffled order, rate 0.01, momentum 0.9 with dampening 0.9, weight decay 0.001.

use crate::shared::scores::{Scores, softmax_cross_entropy};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use siskin_nn::Features;

const PASSES: usize = 100;

/// Options of the stochastic gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sgd {
    /// The rate.
    pub rate: f64,
    /// Share of the old velocity that stays.
    pub momentum: f64,
    /// Share of a new gradient that is left out of the velocity.
    pub dampening: f64,
    /// Added to the gradient: this times the parameters.
    pub weight_decay: f64,
    /// Rows of a step.
    pub batch: usize,
}

impl Default for Sgd {
    fn default() -> Self {
        Sgd { rate: 0.01, momentum: 0.9, dampening: 0.9, weight_decay: 1e-3, batch: 4 }
    }
}

/// A classifier of feature vectors with parameters in one list.
pub trait SupportClassifier {
    /// All parameters.
    fn parameters(&mut self) -> &mut [f64];

    /// Scores of rows of features, `[rows, way]`.
    fn scores(&self, x: &Features) -> Scores;

    /// The gradient of a loss with respect to the parameters, given its gradient with respect to the scores.
    fn backward(&self, x: &Features, dscores: &[f64]) -> Vec<f64>;
}

/// Shuffled orders of `count` rows, one for each pass.
pub(crate) fn orders(count: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..count).collect();
    let pass = |_| {
        order.shuffle(rng);
        order.clone()
    };
    (0..PASSES).map(pass).collect()
}

/// Fits `head` to labelled rows, taken in the given orders.
///
/// SGD as PyTorch has it: d = gradient + decay p; the first v is d itself, then v <- momentum v + (1 - dampening) d;
/// p <- p - rate v.
pub(crate) fn fit(
    head: &mut impl SupportClassifier,
    support: &Features,
    labels: &[usize],
    orders: &[Vec<usize>],
    sgd: &Sgd,
) {
    let mut velocity: Option<Vec<f64>> = None;
    for rows in orders.iter().flat_map(|order| order.chunks(sgd.batch)) {
        let x = crate::select(support, rows);
        let truth: Vec<usize> = rows.iter().map(|&r| labels[r]).collect();
        let (_, dscores) = softmax_cross_entropy(&head.scores(&x), &truth);
        let mut d = head.backward(&x, &dscores);
        let p = head.parameters();
        d.iter_mut().zip(p.iter()).for_each(|(d, p)| *d += sgd.weight_decay * p);
        let v = match velocity.take() {
            None => d,
            Some(mut v) => {
                v.iter_mut().zip(&d).for_each(|(v, d)| *v = sgd.momentum * *v + (1.0 - sgd.dampening) * d);
                v
            }
        };
        p.iter_mut().zip(&v).for_each(|(p, v)| *p -= sgd.rate * v);
        velocity = Some(v);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::shared::golden::{Golden, assert_close};

    /// Fits `head` to the support of a golden file: its parameters and its probabilities of the queries are PyTorch's.
    pub(crate) fn fits_as_pytorch(golden: &Golden, mut head: impl SupportClassifier, fitted: [&str; 2]) {
        let (support, query) = (golden.table("support", 4), golden.table("query", 4));
        fit(&mut head, &support, &golden.usizes("labels"), &golden.lists("orders"), &Sgd::default());
        let wanted = fitted.map(|name| golden.f64s(name)).concat();
        assert_close("fitted", head.parameters(), &wanted, 1e-8);
        let found = head.scores(&query).softmax();
        assert_close("probabilities", &found, &golden.f64s("probabilities"), 1e-8);
    }
}
