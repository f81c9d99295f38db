//! Mean-field inference of the latent functions of one task.
//!
//! A sweep is a local update of all points ([`Local`]) followed by one Gaussian block for each class ([`Block`]). [`infer`] runs sweeps to a fixed number or to a tolerance; `Tape` records them for gradients.

mod local;
mod many_points;
mod sweep;
mod tape;

use faer::Mat;
use std::sync::atomic::AtomicBool;

pub use local::{Local, LocalBar, MarginalsBar};
pub(crate) use many_points::Collapsed;
pub(crate) use sweep::{State, Sweep};
pub(crate) use tape::{Tape, Top};

use crate::gaussian::Block;
use crate::{Error, Result, Task};

/// Which updates a sweep makes, and in which order. Each has a bound of its own, the one its sweeps climb
/// ([`crate::objective::bound`] gives the formulas), so that the same word names both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Updates {
    /// Eqs. (12a) to (12f) as the paper lists them: the Gaussian block uses the `omega` of the sweep before, so this is not
    /// coordinate ascent and the bound may fall. As a bound: Eq. (A11) as printed, which is **no bound** before convergence.
    Paper,
    /// Eqs. (12a), (12b), (12f), then (12c), (12d), (12e): exact coordinate ascent. As a bound: Eq. (A11) of the q that is held.
    Exact,
    /// As `Exact`, with (12b) and (12c) solved together: fewer sweeps, no stored `alpha`. As a bound: q(M, Omega) and q(lambda)
    /// optimal for q(F), the paper's objective evaluated properly; never below that of `Exact`.
    Joint,
    /// The Gamma variable integrated out: a tighter bound, exact coordinate ascent. As a bound: never below that of `Joint`.
    Collapsed,
    /// The paper's order with the clamps and the constant tilt of the authors' released code, to reproduce its training.
    /// As a bound: that of `Exact`.
    Released,
}

impl Updates {
    /// Whether the Gaussian block uses the `omega` of the sweep before.
    pub(crate) fn lags(self) -> bool {
        matches!(self, Self::Paper | Self::Released)
    }

    /// Whether `alpha` is handed from one sweep to the next.
    pub(crate) fn stores_alpha(self) -> bool {
        matches!(self, Self::Paper | Self::Exact | Self::Released)
    }

    /// The bound these sweeps climb (`Paper` and `Released` climb none; theirs is the ELBO of the q they hold).
    pub(crate) fn climbs(self) -> Updates {
        match self {
            Self::Joint | Self::Collapsed => self,
            Self::Paper | Self::Exact | Self::Released => Self::Exact,
        }
    }
}

/// Where inference starts.
#[derive(Debug, Clone)]
pub enum Start {
    /// The prior marginals: `mu = a`, `v = diag K` (and, for the orders that read them, `alpha = 2`, `omega = 1/4`).
    Prior,
    /// Given values, constants for gradients. `mu0`, `v0` [N, C] in units of f; `alpha0` `[N]`; `omega0` [N, C].
    Given {
        /// Means.
        mu0: Mat<f64>,
        /// Variances.
        v0: Mat<f64>,
        /// `alpha`: read by `Paper`, `Exact`, `Released`.
        alpha0: Vec<f64>,
        /// Expected Polya-Gamma variables: read by `Paper`, `Released`.
        omega0: Mat<f64>,
    },
}

/// When inference stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stop {
    /// After this many sweeps (at least 1).
    Steps(usize),
    /// When a sweep changes no mean and no variance by more than `tol` times its scale, or after `max_steps`.
    Tolerance {
        /// Largest change of `mu / (1 + |mu|)` and of `v / (v_prior)`, in x-units.
        tol: f64,
        /// Sweeps after which it gives up (and says so in [`Fit::converged`]).
        max_steps: usize,
    },
}

/// The outcome of inference.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Sweeps done.
    pub steps: usize,
    /// Whether the tolerance was reached; with [`Stop::Steps`] always `false`, since no tolerance was given.
    pub converged: bool,
    /// The last sweep's change, as [`Stop::Tolerance`] measures it.
    pub change: f64,
    /// The bound that is climbed, after each sweep.
    pub trace: Vec<f64>,
    /// The prior's temperature: `f = tau x`.
    pub tau: f64,
    sweep: Sweep,
}

impl Fit {
    /// Means of q(F) in units of f, [N, C].
    pub fn mu_f(&self) -> Mat<f64> {
        self.sweep.output().mu * faer::Scale(self.tau)
    }

    /// Variances of q(F) in units of f, [N, C].
    pub fn v_f(&self) -> Mat<f64> {
        self.sweep.output().v * faer::Scale(self.tau * self.tau)
    }

    /// The local factors of the last sweep (x-units), computed from the state before it.
    pub fn local(&self) -> &Local {
        &self.sweep.local
    }

    /// The Gaussian block of each class (x-units): all that prediction needs.
    pub fn blocks(&self) -> &[Block] {
        &self.sweep.blocks
    }

    /// `sum_c KL(q(f^c) || N(a^c, K^c))`.
    pub fn kl(&self) -> f64 {
        self.sweep.kl()
    }

    pub(crate) fn into_sweep(self) -> Sweep {
        self.sweep
    }
}

/// Mean-field inference of q(F) for one task.
pub fn infer(task: &Task, order: Updates, start: &Start, stop: Stop) -> Result<Fit> {
    infer_until(task, order, start, stop, &AtomicBool::new(false))
}

/// [`infer`] until it is cancelled.
pub(crate) fn infer_until(
    task: &Task,
    order: Updates,
    start: &Start,
    stop: Stop,
    cancelled: &AtomicBool,
) -> Result<Fit> {
    let (max_steps, tol) = match stop {
        Stop::Steps(steps) => (steps, None),
        Stop::Tolerance { tol, max_steps } => (max_steps, Some(tol)),
    };
    if max_steps == 0 {
        return Err(Error::OutOfRange { what: "steps", value: 0.0, must: "at least 1" });
    }
    if let Some(value) = tol.filter(|tol| !(*tol > 0.0 && tol.is_finite())) {
        return Err(Error::OutOfRange { what: "tol", value, must: "> 0 and finite" });
    }
    let x = task.standardise();
    let state = State::new(&x, start, task.tau())?;
    let local = state.local(order, x.y);
    let mut sweep = Sweep::run(&x, order, state, local, cancelled)?;
    let mut trace = Vec::new();
    loop {
        let output = sweep.output();
        // The local update at the new marginals closes the bound now and opens the next sweep.
        let next = output.local(order, x.y);
        let likelihood = order.climbs().likelihood(x.y, &output.mu, &output.v, &sweep.local, &next);
        trace.push(likelihood - sweep.kl());
        let change = largest_change(&x, &sweep.input, &output);
        let converged = tol.is_some_and(|tol| change <= tol);
        if converged || trace.len() == max_steps {
            return Ok(Fit { steps: trace.len(), converged, change, trace, tau: task.tau(), sweep });
        }
        sweep = Sweep::run(&x, order, output, next, cancelled)?;
    }
}

/// The largest change of `mu` relative to `1 + |mu|` and of `v` relative to its prior value.
fn largest_change(x: &crate::Standard<'_>, before: &State, after: &State) -> f64 {
    let mut largest = 0.0f64;
    for c in 0..x.classes() {
        for i in 0..x.points() {
            let (mu, v) = (after.mu[(i, c)], after.v[(i, c)]);
            let dmu = (mu - before.mu[(i, c)]).abs() / (1.0 + mu.abs());
            let prior = x.k[c][(i, i)];
            let dv = if prior > 0.0 { (v - before.v[(i, c)]).abs() / prior } else { 0.0 };
            if dmu.is_nan() || dv.is_nan() {
                return f64::NAN;
            }
            largest = largest.max(dmu).max(dv);
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::bound;
    use crate::testing::{ranked_task, renamed};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Singular kernels, scales to 1e4, temperatures to 0.05, prior means to -8: the bound of an exact ascent never falls.
        #[test]
        fn ascents_never_fall(
            seed in 0u64..1000, n in 1usize..9, c in 2usize..8, rank in 1usize..9, tau in 0.05..1.5f64, a in -8.0..2.0f64,
            scale in prop::sample::select(vec![1e-4, 1.0, 1e4]),
        ) {
            let task = ranked_task(n, c, rank, tau, a, seed);
            let k = task.k().iter().map(|k| k * faer::Scale(scale)).collect();
            let task = Task::new(k, task.y().to_vec(), task.a().clone(), tau).unwrap();
            for order in [Updates::Joint, Updates::Exact, Updates::Collapsed] {
                let fit = infer(&task, order, &Start::Prior, Stop::Steps(25)).unwrap();
                for pair in fit.trace.windows(2) {
                    prop_assert!(pair[1] >= pair[0] - 1e-9 * (1.0 + pair[0].abs()), "{order:?} {pair:?}");
                }
            }
        }

        /// Renaming the classes renames every result, bit for bit.
        #[test]
        fn class_names_do_not_matter(seed in 0u64..1000, n in 2usize..8, tau in 0.1..1.5f64, a in -5.0..1.0f64) {
            let task = ranked_task(n, 4, 3, tau, a, seed);
            let names = [2, 0, 3, 1];
            let other = renamed(&task, &names);
            for (order, kind) in [(Updates::Joint, Updates::Joint), (Updates::Exact, Updates::Exact), (Updates::Paper, Updates::Paper), (Updates::Collapsed, Updates::Collapsed)] {
                let (one, two) = (
                    bound(&task, kind, order, &Start::Prior, Stop::Steps(3)).unwrap(),
                    bound(&other, kind, order, &Start::Prior, Stop::Steps(3)).unwrap(),
                );
                prop_assert_eq!(one.value.to_bits(), two.value.to_bits());
                prop_assert_eq!(one.dtau.to_bits(), two.dtau.to_bits());
                for (c, &name) in names.iter().enumerate() {
                    prop_assert_eq!(one.da.col_as_slice(c), two.da.col_as_slice(name));
                    prop_assert_eq!(&one.dk[c], &two.dk[name]);
                }
            }
        }
    }

    #[test]
    fn all_ascents_of_one_family_meet() {
        let task = ranked_task(6, 3, 8, 0.7, 0.0, 4);
        let stop = Stop::Tolerance { tol: 1e-13, max_steps: 5000 };
        let fits = [Updates::Joint, Updates::Exact, Updates::Paper]
            .map(|o| infer(&task, o, &Start::Prior, stop).unwrap());
        for fit in &fits {
            assert!(fit.converged && fit.change <= 1e-13);
            assert!((fit.mu_f() - fits[0].mu_f()).norm_max() < 1e-10);
            assert!((fit.v_f() - fits[0].v_f()).norm_max() < 1e-10);
        }
    }

    #[test]
    fn non_convergence_is_reported() {
        let task = ranked_task(8, 3, 10, 0.2, -5.0, 4);
        let fit = infer(&task, Updates::Exact, &Start::Prior, Stop::Tolerance { tol: 1e-12, max_steps: 3 })
            .unwrap();
        assert!(!fit.converged && fit.steps == 3 && fit.trace.len() == 3 && fit.change > 1e-12);
    }

    #[test]
    fn bad_starts_and_stops_are_named() {
        let task = ranked_task(3, 2, 5, 1.0, 0.0, 1);
        let zero = || Mat::<f64>::zeros(3, 2);
        let start = |v0: Mat<f64>, alpha0: Vec<f64>, omega0: Mat<f64>| Start::Given {
            mu0: zero(),
            v0,
            alpha0,
            omega0,
        };
        let run = |start: &Start| infer(&task, Updates::Exact, start, Stop::Steps(1)).map(|_| ());
        assert!(run(&start(zero(), vec![1.0; 3], zero())).is_ok());
        let negative = Mat::from_fn(3, 2, |_, _| -1.0);
        assert!(matches!(
            run(&start(negative.clone(), vec![1.0; 3], zero())),
            Err(Error::OutOfRange { what: "v0", .. })
        ));
        assert!(matches!(
            run(&start(zero(), vec![1.0; 3], negative)),
            Err(Error::OutOfRange { what: "omega0", .. })
        ));
        assert!(matches!(
            run(&start(zero(), vec![0.0; 3], zero())),
            Err(Error::OutOfRange { what: "alpha0", .. })
        ));
        assert!(matches!(
            run(&start(zero(), vec![1.0; 2], zero())),
            Err(Error::Shape { what: "alpha0", .. })
        ));
        assert!(matches!(
            run(&start(Mat::zeros(2, 2), vec![1.0; 3], zero())),
            Err(Error::ShapeOf { what: "v0", .. })
        ));
        assert!(infer(&task, Updates::Joint, &Start::Prior, Stop::Steps(0)).is_err());
        let stop = Stop::Tolerance { tol: f64::NAN, max_steps: 3 };
        assert!(matches!(
            infer(&task, Updates::Joint, &Start::Prior, stop),
            Err(Error::OutOfRange { what: "tol", .. })
        ));
    }
}
