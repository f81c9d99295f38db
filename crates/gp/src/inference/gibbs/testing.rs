//! Random queries, and the exact log evidence of the smallest tasks by a tensor trapezoid rule.

use crate::special::log_sigmoid;
use crate::testing::{inner, moved, normal, slope, symmetric};
use crate::{Gradient, Query, QueryGradient, Standard, Task};
use faer::{Mat, Scale};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Small cross-kernels under prior variances large enough for them.
pub(super) fn random_query(rng: &mut ChaCha8Rng, n: usize, q: usize, c: usize) -> Query {
    let ks = (0..c).map(|_| normal(rng, n, q) * Scale(0.2)).collect();
    let kss = Mat::from_fn(q, c, |_, _| 1.5) + normal(rng, q, c) * Scale(0.1);
    Query { ks, kss, astar: normal(rng, q, c) * Scale(0.3) }
}

impl Query {
    /// Moved by `step` along the numbers of another query.
    pub(super) fn moved(&self, along: &Query, step: f64) -> Query {
        Query {
            ks: self.ks.iter().zip(&along.ks).map(|(k, d)| k + d * Scale(step)).collect(),
            kss: &self.kss + &along.kss * Scale(step),
            astar: &self.astar + &along.astar * Scale(step),
        }
    }
}

/// Nodes and weights of N(mean, k) in two dimensions: 31 x 31 trapezoid nodes through the Cholesky factor.
fn grid(k: &Mat<f64>, mean: [f64; 2]) -> Vec<([f64; 2], f64)> {
    let l11 = k[(0, 0)].sqrt();
    let l21 = k[(1, 0)] / l11;
    let l22 = (k[(1, 1)] - l21 * l21).sqrt();
    let h = 0.4;
    let mut nodes = Vec::new();
    for i in -15..=15 {
        for j in -15..=15 {
            let (z1, z2) = (h * i as f64, h * j as f64);
            let weight = h * h * (-0.5 * (z1 * z1 + z2 * z2)).exp() / (2.0 * std::f64::consts::PI);
            nodes.push(([mean[0] + l11 * z1, mean[1] + l21 * z1 + l22 * z2], weight));
        }
    }
    nodes
}

/// log p(Y) of logistic-softmax for two points and two classes.
pub(super) fn ls_evidence(task: &Task) -> f64 {
    let Standard { k, y, a, .. } = task.standardise();
    let class = |c: usize| grid(&k[c], [a[(0, c)], a[(1, c)]]);
    let second = class(1);
    let mut sum = 0.0;
    for (x0, w0) in class(0) {
        for (x1, w1) in &second {
            let mut log = 0.0;
            for n in 0..2 {
                let logs = [log_sigmoid(x0[n]), log_sigmoid(x1[n])];
                log += logs[y[n]] - (logs[0].exp() + logs[1].exp()).ln();
            }
            sum += w0 * w1 * log.exp();
        }
    }
    sum.ln()
}

/// log p(Y) of one-vs-each for two points and two classes: an integral over two differences.
pub(super) fn ove_evidence(task: &Task) -> f64 {
    let Standard { k, y, a, .. } = task.standardise();
    let differences = crate::inference::one_vs_each::Differences::new(y, 2);
    let mean = differences.apply(&a);
    grid(&differences.gram(&k), [mean[0], mean[1]])
        .iter()
        .map(|(psi, w)| w * (log_sigmoid(psi[0]) + log_sigmoid(psi[1])).exp())
        .sum::<f64>()
        .ln()
}

/// The gradients of ML and PL along random directions against central differences, the samples held.
pub(super) fn assert_estimators(
    task: &Task,
    seed: u64,
    ml: impl Fn(&Task) -> Gradient,
    pl: impl Fn(&Task, &Query, &[usize]) -> QueryGradient,
) {
    let (n, c) = (task.points(), task.classes());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (dk, da) = (symmetric(&mut rng, n, c), normal(&mut rng, n, c));
    let flat = crate::linalg::inner;
    let gradient = ml(task);
    let analytic = inner(&gradient.dk, &dk) + flat(&gradient.da, &da) + gradient.dtau;
    let numeric = slope(|h| ml(&moved(task, &dk, &da, 1.0, h)).value, 1e-3);
    assert!((analytic - numeric).abs() < 1e-7 * (1.0 + analytic.abs()), "ML {analytic} and {numeric}");

    let (query, along) = (random_query(&mut rng, n, 4, c), random_query(&mut rng, n, 4, c));
    let y = [0, 1, c - 1, 0];
    let gradient = pl(task, &query, &y);
    let analytic = inner(&gradient.dk, &dk)
        + flat(&gradient.da, &da)
        + inner(&gradient.dks, &along.ks)
        + flat(&gradient.dkss, &along.kss)
        + flat(&gradient.dastar, &along.astar)
        + gradient.dtau;
    let numeric = slope(|h| pl(&moved(task, &dk, &da, 1.0, h), &query.moved(&along, h), &y).value, 1e-3);
    assert!((analytic - numeric).abs() < 1e-7 * (1.0 + analytic.abs()), "PL {analytic} and {numeric}");
}

/// Fisher's identity for two points: the mean over converged chains is the gradient of the exact log evidence.
pub(super) fn assert_fisher(task: &Task, estimate: &Gradient, evidence: impl Fn(&Task) -> f64) {
    let (n, c) = (task.points(), task.classes());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..3 {
        let (dk, da) = (symmetric(&mut rng, n, c), normal(&mut rng, n, c));
        let exact = -slope(|h| evidence(&moved(task, &dk, &da, 0.0, h)), 1e-2) / n as f64;
        let got = inner(&estimate.dk, &dk) + crate::linalg::inner(&estimate.da, &da);
        assert!((got - exact).abs() < 0.015, "{got} and {exact}");
    }
}
