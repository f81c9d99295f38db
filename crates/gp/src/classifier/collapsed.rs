//! Collapsed sweeps for many points: the same fixed point as [`crate::inference::infer`], with the cheaper Gaussian update.

use super::go_on;
use crate::conditional::Conditional;
use crate::inference::{Map, Sites};
use crate::linalg::{dot, mul_vec, sum_any_order};
use crate::special::Tilt;
use crate::{Gradient, Result, Standard, Task};
use faer::Mat;
use std::sync::atomic::AtomicBool;

/// q(F) after some sweeps, in units of x = f / tau.
pub(super) struct Collapsed {
    /// Marginal means and variances, [N, C].
    pub(super) mu: Mat<f64>,
    pub(super) v: Mat<f64>,
    /// The sites these come from.
    pub(super) sites: Sites,
    /// The collapsed bound at the current q(F).
    pub(super) bound: f64,
    /// Whether the last sweep gained less than asked.
    pub(super) rested: bool,
    blocks: Vec<(Conditional, Vec<f64>)>,
}

/// Marginal means and variances to start from, [N, C] each.
pub(super) type Marginals = (Mat<f64>, Mat<f64>);

impl Collapsed {
    /// Sweeps from `start` (the prior if none) until one gains less than `rest` per point, or `most` are done.
    pub(super) fn run(
        x: &Standard<'_>,
        start: Option<Marginals>,
        most: usize,
        rest: f64,
        cancelled: &AtomicBool,
    ) -> Result<Self> {
        let (mu, v) = start
            .unwrap_or_else(|| (x.a.clone(), Mat::from_fn(x.points(), x.classes(), |i, c| x.k[c][(i, i)])));
        let mut state = Self::sweep(x, Sites::new(Map::Collapsed, x.y, &mu, &v), cancelled)?;
        for _ in 1..most {
            let next = Self::sweep(x, Sites::new(Map::Collapsed, x.y, &state.mu, &state.v), cancelled)?;
            let gain = next.bound - state.bound;
            state = next;
            state.rested = gain < rest * x.points() as f64;
            if state.rested {
                break;
            }
        }
        Ok(state)
    }

    /// One Gaussian update of every class, and the bound
    /// `sum_n (mu_y/2 - log 2cosh(c_y/2) - log sum_c (1 - e^rho_c)) - sum_c KL_c` after it.
    fn sweep(x: &Standard<'_>, sites: Sites, cancelled: &AtomicBool) -> Result<Self> {
        let (n, classes) = (x.points(), x.classes());
        let (mut mu, mut v) = (Mat::zeros(n, classes), Mat::zeros(n, classes));
        let mut blocks = Vec::with_capacity(classes);
        let mut terms = Vec::with_capacity(classes);
        for c in 0..classes {
            go_on(cancelled)?;
            let (k, a, w) = (&x.k[c], x.a.col_as_slice(c), sites.w.col_as_slice(c));
            let block = Conditional::new(k, w)?;
            let g = block.weights(k, sites.b.col_as_slice(c), a);
            let shift = mul_vec(k, &g);
            let variances = block.variances(k);
            terms.push(-0.5 * (block.logdet() - dot(w, &variances) + dot(&shift, &g)));
            for i in 0..n {
                mu[(i, c)] = a[i] + shift[i];
                v[(i, c)] = variances[i];
            }
            blocks.push((block, g));
        }
        let mut bound = sum_any_order(&mut terms);
        for i in 0..n {
            let own = x.y[i];
            let mut missing: Vec<f64> =
                (0..classes).map(|c| -Tilt::new(mu[(i, c)], v[(i, c)]).rho.exp_m1()).collect();
            bound += Tilt::new(-mu[(i, own)], v[(i, own)]).rho - sum_any_order(&mut missing).ln();
        }
        Ok(Self { mu, v, sites, bound, rested: false, blocks })
    }

    /// The bound and its slope by the envelope rule, `dK = (g g' - R)/2`, `da = g`, in the units of the task.
    pub(super) fn gradient(&self, task: &Task) -> Gradient {
        let n = task.points();
        let mut abar = Mat::zeros(n, task.classes());
        let mut kbar = Vec::with_capacity(task.classes());
        for (c, (block, g)) in self.blocks.iter().enumerate() {
            let mut slope = Mat::zeros(n, n);
            block.add_slope(0.5, g, &mut slope);
            abar.col_as_slice_mut(c).copy_from_slice(g);
            kbar.push(slope);
        }
        task.gradient(self.bound, kbar, abar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inference::{Order, Start, Stop, infer};
    use crate::objective::{Bound, bound_at_fixed_point};
    use crate::testing::random_task;

    #[test]
    fn the_same_sweeps_bound_and_gradient() {
        let task = random_task(8, 7, 3, 0.6);
        let x = task.standardise();
        let never = AtomicBool::new(false);
        let careful = infer(&task, Order::Collapsed, &Start::Prior, Stop::Steps(3)).unwrap();
        let quick = Collapsed::run(&x, None, 3, f64::NEG_INFINITY, &never).unwrap();
        assert!((quick.bound - careful.trace[2]).abs() < 1e-10);
        assert!((&quick.mu * faer::Scale(task.tau()) - careful.mu_f()).norm_max() < 1e-11);
        let end = Collapsed::run(&x, None, 2000, f64::NEG_INFINITY, &never).unwrap().gradient(&task);
        let want =
            bound_at_fixed_point(&task, Bound::Collapsed, Order::Collapsed, &Start::Prior, 1e-12, 2000)
                .unwrap();
        assert!((end.value - want.value).abs() < 1e-10);
        assert!(end.dk.iter().zip(&want.dk).all(|(a, b)| (a - b).norm_max() < 1e-9));
        assert!((end.dtau - want.dtau).abs() < 1e-8);
        // Running out of sweeps is told.
        assert!(!Collapsed::run(&x, None, 2, 1e-9, &never).unwrap().rested);
        assert!(Collapsed::run(&x, None, 2000, 1e-9, &never).unwrap().rested);
    }
}
