//! Leaving folds out: what the other points say of the points of a fold, without a refit.
//!
//! The cavity of several points F, class by class: with `Sigma_F` their covariance and `g = b - w mu`,
//! `V_- = (I - Sigma_F W_F)^{-1} Sigma_F`, `m_- = mu_F - V_- g_F`. For one point that is the cavity of `one.rs`. A
//! fold with one point of each class leaves the others as balanced as they were, which one point alone does not.

use crate::gaussian::SignedBlock;
use crate::linalg::{mul_vec, product};
use crate::parallel::over_ranges;
use crate::posterior::{Blocks, Latent, Posterior};
use crate::{Error, Result, Task};
use faer::Mat;
use faer::linalg::solvers::Solve;

impl Posterior {
    /// Latent values at labelled points, each without its fold. An error for a posterior that is no
    /// Gaussian with sites.
    pub fn left_out(&self, task: &Task, folds: &[Vec<usize>]) -> Result<Latent> {
        let none = Error::Empty { what: "sites of the posterior", needed: 1 };
        self.blocks().ok_or(none)?.fold_cavities(task, folds)
    }
}

impl Blocks {
    /// The latent values at the points of each fold without the sites of that fold; rows as in `folds`, one fold after the
    /// other. `task`: the one this posterior belongs to.
    pub(crate) fn fold_cavities(&self, task: &Task, folds: &[Vec<usize>]) -> Result<Latent> {
        let (blocks, tau) = (self.of_classes(), self.tau());
        task.check_size(blocks[0].g.len(), blocks.len())?;
        if let Some(&point) = folds.iter().flatten().find(|&&point| point >= task.points()) {
            return Err(Error::OutOfRange {
                what: "point of a fold",
                value: point as f64,
                must: "a labelled point",
            });
        }
        let scale = 1.0 / (tau * tau);
        let of_class = |c: usize| {
            let sigma = blocks[c].sigma(&(&task.k()[c] * faer::Scale(scale)));
            folds.iter().flat_map(|fold| cavity(&blocks[c], &sigma, fold)).collect::<Vec<_>>()
        };
        let moments: Vec<Vec<(f64, f64)>> =
            over_ranges(blocks.len(), 1, |classes| classes.map(of_class).collect::<Vec<_>>()).concat();
        let rows = moments[0].len();
        let mean = Mat::from_fn(rows, blocks.len(), |i, c| tau * moments[c][i].0);
        let var = Mat::from_fn(rows, blocks.len(), |i, c| tau * tau * moments[c][i].1);
        Ok(Latent::independent(mean, var, tau))
    }
}

/// Means and variances of one class at the points of one fold.
fn cavity(block: &SignedBlock, sigma: &Mat<f64>, fold: &[usize]) -> Vec<(f64, f64)> {
    let n = fold.len();
    let own = Mat::from_fn(n, n, |i, j| sigma[(fold[i], fold[j])]);
    let kept = Mat::from_fn(n, n, |i, j| f64::from(i == j) - own[(i, j)] * block.w[fold[j]]);
    let variance = kept.partial_piv_lu().solve(&own);
    let g: Vec<f64> = fold.iter().map(|&i| block.g[i]).collect();
    let shift = mul_vec(&variance, &g);
    fold.iter().enumerate().map(|(i, &at)| (block.mu[at] - shift[i], variance[(i, i)].max(0.0))).collect()
}

impl SignedBlock {
    /// `Sigma = (K^{-1} + W)^{-1}`, [N, N], with the kernel matrix `k` that the block was made with.
    pub(crate) fn sigma(&self, k: &Mat<f64>) -> Mat<f64> {
        let mut sigma = self.positive().sigma(k);
        if let Some(u) = self.given_back() {
            sigma += product(u.transpose(), u.as_ref());
        }
        sigma
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::{Digits, Sites};
    use crate::testing::normal;
    use crate::{Query, Task};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn select(task: &Task, sites: &Sites, rows: &[usize]) -> (Task, Sites) {
        let part = |m: &Mat<f64>| Mat::from_fn(rows.len(), m.ncols(), |i, j| m[(rows[i], j)]);
        let k = task.k().iter().map(|k| Mat::from_fn(rows.len(), rows.len(), |i, j| k[(rows[i], rows[j])]));
        let y = rows.iter().map(|&i| task.y()[i]).collect();
        let few = Task::new(k.collect(), y, part(task.a()), task.tau()).unwrap();
        (few, Sites { b: part(&sites.b), w: part(&sites.w) })
    }

    /// The same as a posterior that never had those sites; also with sites of negative precision.
    #[test]
    fn a_fold_left_out_is_a_posterior_without_its_sites() {
        let (n, classes, tau) = (8, 3, 0.6);
        let x = normal(&mut ChaCha8Rng::seed_from_u64(3), n, 4);
        let k = (product(x.as_ref(), x.transpose()) + Mat::<f64>::identity(n, n) * faer::Scale(0.1))
            * faer::Scale(0.3);
        let y: Vec<usize> = (0..n).map(|i| i % classes).collect();
        let a = Mat::from_fn(n, classes, |_, _| -1.2);
        let task = Task::new(vec![k.clone(); classes], y, a, tau).unwrap();
        let noise = normal(&mut ChaCha8Rng::seed_from_u64(4), n, 2 * classes);
        let sites = Sites {
            b: Mat::from_fn(n, classes, |i, c| noise[(i, c)]),
            w: Mat::from_fn(n, classes, |i, c| {
                0.3 * noise[(i, classes + c)].abs() - 0.02 * f64::from(i == 3)
            }),
        };
        let blocks = Blocks::from_sites(&task, &sites, Digits::All).unwrap();
        let folds = [vec![0, 1, 2], vec![5, 3], vec![7]];
        let got = blocks.fold_cavities(&task, &folds).unwrap();
        let mut row = 0;
        for fold in &folds {
            let rest: Vec<usize> = (0..n).filter(|i| !fold.contains(i)).collect();
            let (few, few_sites) = select(&task, &sites, &rest);
            let posterior = Blocks::from_sites(&few, &few_sites, Digits::All).unwrap();
            let cross = Mat::from_fn(rest.len(), fold.len(), |i, j| k[(rest[i], fold[j])]);
            let own = Mat::from_fn(fold.len(), classes, |i, _| k[(fold[i], fold[i])]);
            let prior = Mat::from_fn(fold.len(), classes, |_, _| -1.2);
            let query = Query { ks: vec![cross; classes], kss: own, astar: prior };
            let want = posterior.latent(&query).unwrap();
            for i in 0..fold.len() {
                for c in 0..classes {
                    assert!((got.mean[(row, c)] - want.mean[(i, c)]).abs() < 1e-10, "{fold:?} {i} {c}");
                    assert!((got.var[(row, c)] - want.var[(i, c)]).abs() < 1e-10, "{fold:?} {i} {c}");
                }
                row += 1;
            }
        }
        assert!(blocks.fold_cavities(&task, &[vec![8]]).is_err());
        // One point at a time: the cavities of one.rs.
        let alone: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
        let (each, cavities) = (blocks.fold_cavities(&task, &alone).unwrap(), blocks.cavities());
        assert!((&each.mean - &cavities.mean).norm_max() < 1e-10);
        assert!((&each.var - &cavities.var).norm_max() < 1e-10);
    }
}
