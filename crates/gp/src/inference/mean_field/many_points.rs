//! Collapsed sweeps for many points: the same fixed point as [`super::infer`], with the cheaper Gaussian update.

use super::{Local, Updates};
use crate::gaussian::{Factor, History, Sites, squared_move};
use crate::inference::go_on;
use crate::linalg::{dot, mul_vec, sum_any_order};
use crate::{Error, Result, Standard};
use faer::Mat;
use std::sync::atomic::AtomicBool;

/// q(F) after some sweeps, in units of x = f / tau.
pub(crate) struct Collapsed {
    /// Marginal means and variances, [N, C].
    pub(crate) mu: Mat<f64>,
    pub(crate) v: Mat<f64>,
    /// The sites these come from.
    sites: Sites,
    /// The sites they lead to.
    pub(crate) next: Sites,
    /// The collapsed bound at the current q(F).
    pub(crate) bound: f64,
    /// Whether a further sweep would gain less than asked.
    pub(crate) rested: bool,
    /// Sweeps done, those that were tried in vain included.
    pub(crate) sweeps: usize,
}

impl Collapsed {
    /// At most `most` sweeps from sites (of the prior's marginals if none are given), or until a further one would gain less than `least` for each
    /// point. From the third on, the extrapolation of the last ones is tried first and taken if the bound does not fall.
    pub(crate) fn run(
        x: &Standard<'_>,
        start: Option<Sites>,
        (most, least): (usize, f64),
        cancelled: &AtomicBool,
    ) -> Result<Self> {
        let prior = || {
            let v = Mat::from_fn(x.points(), x.classes(), |i, c| x.k[c][(i, i)]);
            Self::sites_at(x.y, &x.a, &v)
        };
        let mut state = Self::sweep(x, start.unwrap_or_else(prior), cancelled)?;
        let mut history = History::default();
        let mut sweeps = 1;
        loop {
            let gain = 0.5 * squared_move(&state.sites, &state.next, &state.mu, &state.v);
            (state.rested, state.sweeps) = (gain < least * x.points() as f64, sweeps);
            if state.rested || sweeps >= most {
                return Ok(state);
            }
            history.push(state.sites.clone(), state.next.clone());
            if let Some(sites) = history.extrapolate(&state.mu, &state.v).filter(|sites| are_sites(&sites.w))
            {
                sweeps += 1;
                match Self::sweep(x, sites, cancelled) {
                    Ok(next) if next.bound >= state.bound => {
                        state = next;
                        continue;
                    }
                    Err(Error::Cancelled) => return Err(Error::Cancelled),
                    _ => history.restart(),
                }
            }
            sweeps += 1;
            state = Self::sweep(x, state.next, cancelled)?;
        }
    }

    /// One Gaussian update of every class, and the collapsed bound after it.
    fn sweep(x: &Standard<'_>, sites: Sites, cancelled: &AtomicBool) -> Result<Self> {
        let (n, classes) = (x.points(), x.classes());
        let (mut mu, mut v) = (Mat::zeros(n, classes), Mat::zeros(n, classes));
        let mut kl = Vec::with_capacity(classes);
        for c in 0..classes {
            go_on(cancelled)?;
            let (k, a, w) = (&x.k[c], x.a.col_as_slice(c), sites.w.col_as_slice(c));
            let block = Factor::new(k, w)?;
            let g = block.weights(k, sites.b.col_as_slice(c), a);
            let shift = mul_vec(k, &g);
            let variances = block.variances(k);
            kl.push(0.5 * (block.logdet() - dot(w, &variances) + dot(&shift, &g)));
            for i in 0..n {
                mu[(i, c)] = a[i] + shift[i];
                v[(i, c)] = variances[i];
            }
        }
        let next = Local::of(Updates::Collapsed, &[], x.y, &mu, &v);
        let bound = Updates::Collapsed.likelihood(x.y, &mu, &v, &next, &next) - sum_any_order(&mut kl);
        let next = Sites { w: next.w, b: next.b };
        Ok(Self { mu, v, sites, next, bound, rested: false, sweeps: 0 })
    }

    /// The sites that marginals `mu`, `v` [N, C] lead to.
    pub(crate) fn sites_at(y: &[usize], mu: &Mat<f64>, v: &Mat<f64>) -> Sites {
        let local = Local::of(Updates::Collapsed, &[], y, mu, v);
        Sites { w: local.w, b: local.b }
    }
}

/// Whether precisions are those of sites: not negative.
fn are_sites(w: &Mat<f64>) -> bool {
    (0..w.ncols()).all(|c| w.col_as_slice(c).iter().all(|w| *w >= 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;
    use crate::inference::Inference;
    use crate::inference::mean_field::{Start, Stop, infer};
    use crate::objective::bound;
    use crate::testing::random_task;

    #[test]
    fn the_same_sweeps_bound_and_gradient() {
        let task = random_task(8, 7, 3, 0.6);
        let x = task.standardise();
        let never = AtomicBool::new(false);
        let run = |most, least| Collapsed::run(&x, None, (most, least), &never).unwrap();
        let careful = infer(&task, Updates::Collapsed, &Start::Prior, Stop::Steps(2)).unwrap();
        let quick = run(2, 0.0);
        assert!((quick.bound - careful.trace[1]).abs() < 1e-10);
        assert!((&quick.mu * faer::Scale(task.tau()) - careful.mu_f()).norm_max() < 1e-11);
        let end = Inference::Collapsed { sweeps: 2000, gain: 1e-26 }.posterior(&task).unwrap();
        let end = end.evidence(&task).unwrap();
        let want = bound(
            &task,
            Updates::Collapsed,
            Updates::Collapsed,
            &Start::Prior,
            Stop::Tolerance { tol: 1e-12, max_steps: 2000 },
        )
        .unwrap();
        assert!((end.value - want.value).abs() < 1e-10);
        assert!(end.dk.iter().zip(&want.dk).all(|(a, b)| (a - b).norm_max() < 1e-9));
        assert!((end.dtau - want.dtau).abs() < 1e-8);
        // Running out of sweeps is reported.
        assert!(!run(2, 1e-9).rested);
        assert!(run(2000, 1e-9).rested);
    }

    /// No variance and a prior mean of -800 in units of tau: `1 - e^rho` underflows, and the bound is finite all the same.
    #[test]
    fn far_below_zero_the_bound_is_finite() {
        let a = Mat::from_fn(2, 2, |_, _| -800.0);
        let task = Task::new(vec![Mat::zeros(2, 2); 2], vec![0, 1], a, 1.0).unwrap();
        let never = AtomicBool::new(false);
        let fit = Collapsed::run(&task.standardise(), None, (2, 1e-9), &never).unwrap();
        assert!(fit.bound.is_finite(), "{}", fit.bound);
    }
}
