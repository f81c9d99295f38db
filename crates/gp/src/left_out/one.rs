//! Leave-one-out prediction by cavities: what the other points say of each labelled point, without a refit.
//!
//! q(x^c) is the prior times one Gaussian site for each point. Without the site of point n its marginal is the cavity
//! `1/v_- = 1/v - w`, `m_-/v_- = mu/v - b`; with `g = b - w mu` that is `v_- = v / (1 - w v)`, `m_- = mu - v_- g`, where
//! nothing large cancels. The other sites stay as they are: a refit would move them, which makes the cavity err a little on the
//! cautious side (the tests compare).

use crate::posterior::{Blocks, Latent};
use crate::quadrature::Resolution;
use crate::{Error, Result};
use faer::Mat;

/// The leave-one-out log-loss of a posterior and how often its largest probability is right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaveOneOut {
    /// Mean of `-log p(y_n | the other points)`, in nats.
    pub log_loss: f64,
    /// Fraction of points whose own class has the largest of these probabilities.
    pub accuracy: f64,
}

/// `-(1/N) sum_n log p(y_n | y_-n)` for labels `y`, each probability by the quadrature of Eq. (15a) at the cavity of its point.
pub(crate) fn leave_one_out(posterior: &Blocks, y: &[usize]) -> Result<LeaveOneOut> {
    let cavities = posterior.cavities();
    if y.len() != cavities.points() {
        return Err(Error::Shape { what: "labels", expected: cavities.points(), got: y.len() });
    }
    leave_one_out_of(&cavities.probs(Resolution::Standard)?, y)
}

/// [`leave_one_out`] from the class probabilities [N, C] of the points.
pub(crate) fn leave_one_out_of(probs: &Mat<f64>, y: &[usize]) -> Result<LeaveOneOut> {
    let (mut loss, mut right) = (0.0, 0);
    for (row, &label) in y.iter().enumerate() {
        if label >= probs.ncols() {
            return Err(Error::Label { row, label, classes: probs.ncols() });
        }
        let p = probs[(row, label)];
        // The rule knows a probability to its error: what underflows is that small, not impossible.
        loss -= p.max(f64::MIN_POSITIVE).ln();
        right += usize::from((0..probs.ncols()).all(|c| c == label || probs[(row, c)] < p));
    }
    let n = y.len() as f64;
    Ok(LeaveOneOut { log_loss: loss / n, accuracy: right as f64 / n })
}

impl Blocks {
    /// The latent values at the labelled points as the others have it: each point's own site taken out.
    pub(crate) fn cavities(&self) -> Latent {
        let (blocks, tau) = (self.of_classes(), self.tau());
        let table = |f: &dyn Fn(f64, f64) -> f64| {
            Mat::from_fn(blocks[0].g.len(), blocks.len(), |i, c| {
                let block = &blocks[c];
                // `1 - w v = (B^{-1})_nn > 0` up to rounding.
                let v = block.v[i] / (1.0 - block.w[i] * block.v[i]).max(f64::EPSILON);
                f(block.mu[i] - v * block.g[i], v)
            })
        };
        Latent::independent(table(&|m, _| tau * m), table(&|_, v| tau * tau * v), tau)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::Task;
    use crate::gaussian::{Digits, Sites};
    use crate::inference::natural::{NaturalOptions, natural};
    use crate::testing::normal;
    use faer::Mat;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// RBF on points around `classes` corners.
    fn clustered(n: usize, classes: usize, scale: f64, mean: f64) -> (Mat<f64>, Vec<usize>, f64, f64) {
        let noise = normal(&mut ChaCha8Rng::seed_from_u64(11), n, 2);
        let y: Vec<usize> = (0..n).map(|i| i % classes).collect();
        let x = Mat::from_fn(n, 2, |i, j| noise[(i, j)] + 2.0 * f64::from(y[i] % 2 == j) + y[i] as f64);
        let square = |i: usize, j: usize| (0..2).map(|d| (x[(i, d)] - x[(j, d)]).powi(2)).sum::<f64>();
        (Mat::from_fn(n, n, |i, j| scale * (-square(i, j) / 8.0).exp()), y, scale, mean)
    }

    fn fitted(k: &Mat<f64>, y: &[usize], classes: usize, mean: f64) -> Blocks {
        let a = Mat::from_fn(y.len(), classes, |_, _| mean);
        let task = Task::new(vec![k.clone(); classes], y.to_vec(), a, 1.0).unwrap();
        let fit = natural(&task.standardise(), NaturalOptions::default()).unwrap();
        Blocks::new(fit.blocks, 1.0).unwrap()
    }

    /// Against N refits, each without one point: near, and a little more cautious.
    #[test]
    fn cavities_are_near_to_refits() {
        for (n, classes, scale, mean) in [(12, 3, 20.0, -5.0), (15, 3, 100.0, -10.0), (15, 5, 17.0, 0.0)] {
            let (k, y, scale, mean) = clustered(n, classes, scale, mean);
            let by_cavity = leave_one_out(&fitted(&k, &y, classes, mean), &y).unwrap();
            let mut refit = 0.0;
            for out in 0..n {
                let rest: Vec<usize> = (0..n).filter(|&i| i != out).collect();
                let few = Mat::from_fn(n - 1, n - 1, |i, j| k[(rest[i], rest[j])]);
                let labels: Vec<usize> = rest.iter().map(|&i| y[i]).collect();
                let posterior = fitted(&few, &labels, classes, mean);
                let cross = vec![Mat::from_fn(n - 1, 1, |i, _| k[(rest[i], out)]); classes];
                let (own, prior) =
                    (Mat::from_fn(1, classes, |_, _| scale), Mat::from_fn(1, classes, |_, _| mean));
                let query = Query { ks: cross, kss: own, astar: prior };
                let p = posterior.latent(&query).unwrap().probs(Resolution::Standard).unwrap();
                refit -= p[(0, y[out])].ln() / n as f64;
            }
            let gap = by_cavity.log_loss - refit;
            assert!((-0.01..0.1).contains(&gap), "{n} {classes}: {} and {refit}", by_cavity.log_loss);
        }
    }

    /// One point alone: without it there is only the prior.
    #[test]
    fn without_its_only_point_the_prior_returns() {
        let k = Mat::from_fn(1, 1, |_, _| 2.0);
        let task = Task::new(vec![k.clone(), k], vec![0], Mat::from_fn(1, 2, |_, _| -1.5), 0.5).unwrap();
        let sites = Sites {
            b: Mat::from_fn(1, 2, |_, c| [0.7, -0.4][c]),
            w: Mat::from_fn(1, 2, |_, c| [0.3, -0.05][c]),
        };
        let out = Blocks::from_sites(&task, &sites, Digits::All).unwrap().cavities();
        for c in 0..2 {
            assert!((out.mean[(0, c)] + 1.5).abs() < 1e-13 && (out.var[(0, c)] - 2.0).abs() < 1e-13);
        }
    }

    #[test]
    fn labels_are_checked() {
        let (k, y, ..) = clustered(6, 2, 4.0, 0.0);
        let posterior = fitted(&k, &y, 2, 0.0);
        assert!(matches!(leave_one_out(&posterior, &y[..5]), Err(Error::Shape { expected: 6, got: 5, .. })));
        let wrong = [0, 1, 0, 1, 0, 2];
        assert!(matches!(leave_one_out(&posterior, &wrong), Err(Error::Label { row: 5, label: 2, .. })));
    }
}
