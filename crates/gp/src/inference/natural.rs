//! Natural-gradient ascent on the direct bound: the best Gaussian q(F), not only the best within the augmented family.
//!
//! `L_d(q) = sum_n ( E log sigma(x_{n,y}) - E log Z_n ) - KL(q || prior)`. A natural-gradient step of size e moves the sites,
//! `w <- w + e (w~ - w)`, `b <- b + e (b~ - b)` with `w~ = -2 d ell/dv`, `b~ = d ell/dmu + w~ mu`; at the optimum they stand still.
//! Between natural-gradient steps an extrapolation of the last ones (`History`) is tried first, and taken if the bound allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use faer::Mat;

use super::go_on;
use crate::gaussian::{Digits, History, Moments, Root, SignedBlock, Sites, squared_move};
use crate::linalg::sum_any_order;
use crate::parallel::{MANY_POINTS, over_ranges};
use crate::quadrature::{
    Resolution,
    expected::{ExpectedLogLik, expected_log_lik, weighted_log_lik},
};
use crate::{Error, Result, Standard};

/// When to stop, and how accurately to integrate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NaturalOptions {
    /// At most this many steps.
    pub max_steps: usize,
    /// Stop when no site moves by more than this fraction of the largest site; 0 takes all `max_steps` steps.
    pub tolerance: f64,
    /// Of the integrals.
    pub resolution: Resolution,
    /// Stop also when a further step would gain less than this for each point, in nats; 0: never.
    pub gain: f64,
    /// Of the Gaussian blocks.
    pub digits: Digits,
}

impl Default for NaturalOptions {
    fn default() -> Self {
        let (resolution, digits) = (Resolution::Standard, Digits::All);
        NaturalOptions { max_steps: 500, tolerance: 1e-8, resolution, gain: 0.0, digits }
    }
}

/// Where the ascent ended.
#[derive(Debug, Clone)]
pub struct Natural {
    /// q(F), one block for each class, in units of x = f/tau.
    pub blocks: Vec<SignedBlock>,
    /// The linear terms of the sites, [N, C].
    pub b: Mat<f64>,
    /// The bound at the start (q = prior) and after each step; it never falls beyond the error of the integrals, which are
    /// [`Resolution::Fast`] as long as the sites still move by more than a thousandth.
    pub bounds: Vec<f64>,
    /// The largest move the next full step would make, relative to the largest site.
    pub residual: f64,
    /// Whether `residual` is within the tolerance.
    pub converged: bool,
    /// How many times a step was halved.
    pub halvings: usize,
    /// How many times the integrals of all points were computed: once for each bound, also of steps that were not taken.
    pub evaluations: usize,
}

impl Natural {
    /// The sites of q(F).
    pub(crate) fn sites(&self) -> Sites {
        let w = Mat::from_fn(self.b.nrows(), self.b.ncols(), |i, c| self.blocks[c].w[i]);
        Sites { w, b: self.b.clone() }
    }

    /// The bound at the end.
    pub fn bound(&self) -> f64 {
        self.bounds[self.bounds.len() - 1]
    }
}

/// What every state of an ascent needs to know.
#[derive(Clone, Copy)]
struct Ascent<'a> {
    digits: Digits,
    /// A factor of each class's kernel matrix, where all have a low rank.
    roots: Option<&'a [Arc<Root>]>,
    /// It rests when a further step would gain less than this, in nats; 0: never.
    rest: f64,
    /// Set from another thread, it ends the ascent with [`Error::Cancelled`].
    cancelled: &'a AtomicBool,
    /// Counts [`Natural::evaluations`].
    evaluations: &'a AtomicUsize,
}

impl Ascent<'_> {
    /// The likelihood term at marginals `mu`, `v` [N, C].
    fn likelihood(
        &self,
        task: &Standard<'_>,
        (mu, v): (&Mat<f64>, &Mat<f64>),
        resolution: Resolution,
    ) -> Result<ExpectedLogLik> {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        weighted_log_lik((mu.as_ref(), v.as_ref()), task.y, task.weights, resolution)
    }
}

/// After this many halvings the iteration is taken to oscillate, and steps stay short.
const PATIENCE: usize = 3;
/// The size of short steps.
const SHORT: f64 = 0.35;
/// Steps below this are given up.
const SMALLEST: f64 = 1e-6;

/// From so many points on, the matrices of one state at a time are held.
const LARGE: usize = 500;

/// While a step moves the sites by more than this, rough integrals will do.
const ROUGH: f64 = 1e-3;

/// A state of the ascent: sites, q(F), the likelihood term and the bound.
struct State {
    sites: Sites,
    blocks: Vec<SignedBlock>,
    mu: Mat<f64>,
    v: Mat<f64>,
    fit: ExpectedLogLik,
    /// `KL(q || prior)`.
    kl: f64,
    bound: f64,
    resolution: Resolution,
}

impl State {
    fn new(task: &Standard<'_>, how: &Ascent<'_>, sites: Sites, resolution: Resolution) -> Result<Self> {
        let (n, classes) = (task.points(), task.classes());
        let (moments, blocks) = match how.roots {
            Some(roots) => (moments(task, how, roots, &sites)?, Vec::new()),
            None => {
                let blocks = blocks(task, how, &sites)?;
                (blocks.iter().map(Moments::of).collect(), blocks)
            }
        };
        let mu = Mat::from_fn(n, classes, |i, c| moments[c].mu[i]);
        let v = Mat::from_fn(n, classes, |i, c| moments[c].v[i].max(0.0));
        let fit = how.likelihood(task, (&mu, &v), resolution)?;
        let kl = sum_any_order(&mut moments.iter().map(|class| class.kl).collect::<Vec<_>>());
        let bound = fit.value - kl;
        Ok(State { sites, blocks, mu, v, kl, bound, fit, resolution })
    }

    /// Where the ascent starts: at these sites, if they make a Gaussian with a better bound than the prior's.
    fn first(
        task: &Standard<'_>,
        how: &Ascent<'_>,
        start: Option<Sites>,
        resolution: Resolution,
    ) -> Result<Self> {
        let prior = Self::prior(task, how, resolution)?;
        match start.map(|sites| Self::new(task, how, sites, resolution)) {
            Some(Ok(state)) if state.bound >= prior.bound => Ok(state),
            Some(Err(Error::Cancelled)) => Err(Error::Cancelled),
            // Sites of other hyperparameters, of either sign, may make no Gaussian with these, or a poor one.
            _ => Ok(prior),
        }
    }

    /// q = prior, its marginals without a factorisation.
    fn prior(task: &Standard<'_>, how: &Ascent<'_>, resolution: Resolution) -> Result<Self> {
        let (n, classes) = (task.points(), task.classes());
        let sites = Sites::none(n, classes);
        let (mu, v) = (task.a.clone(), Mat::from_fn(n, classes, |i, c| task.k[c][(i, i)]));
        let fit = how.likelihood(task, (&mu, &v), resolution)?;
        Ok(State { sites, blocks: Vec::new(), mu, v, kl: 0.0, bound: fit.value, fit, resolution })
    }

    /// The same q(F) with better integrals.
    fn refine(&mut self, task: &Standard<'_>, how: &Ascent<'_>, resolution: Resolution) -> Result<()> {
        if self.resolution != resolution {
            self.fit = how.likelihood(task, (&self.mu, &self.v), resolution)?;
            self.bound = self.fit.value - self.kl;
            self.resolution = resolution;
        }
        Ok(())
    }

    /// w~ and b~: where a full step would put the sites.
    fn target(&self) -> Sites {
        target(&self.fit, &self.mu)
    }

    /// Whether a step to the target would gain too little.
    fn rests(&self, target: &Sites, how: &Ascent<'_>) -> bool {
        how.rest > 0.0 && 0.5 * squared_move(&self.sites, target, &self.mu, &self.v) < how.rest
    }

    /// Whether another state may follow this one.
    fn allows(&self, next: &State) -> bool {
        next.bound >= self.bound - slack(self.bound, self.resolution)
    }
}

/// What `f` gives for each class, side by side where there are many points.
fn over_classes<T: Send>(
    task: &Standard<'_>,
    how: &Ascent<'_>,
    f: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let classes = task.classes();
    let least = if task.points() < MANY_POINTS { classes } else { 1 };
    let of_class = |c: usize| go_on(how.cancelled).and_then(|()| f(c));
    let parts = over_ranges(classes, least, |range| range.map(of_class).collect::<Vec<_>>());
    parts.into_iter().flatten().collect()
}

/// q(F) with these sites, a block for each class.
fn blocks(task: &Standard<'_>, how: &Ascent<'_>, sites: &Sites) -> Result<Vec<SignedBlock>> {
    over_classes(task, how, |c| {
        let (w, b) = (sites.w.col_as_slice(c), sites.b.col_as_slice(c));
        SignedBlock::to(how.digits, &task.k[c], w, b, task.a.col_as_slice(c))
    })
}

/// The marginals of q(F) with these sites from the factors of the kernel matrices.
fn moments(
    task: &Standard<'_>,
    how: &Ascent<'_>,
    roots: &[Arc<Root>],
    sites: &Sites,
) -> Result<Vec<Moments>> {
    over_classes(task, how, |c| {
        roots[c].moments(sites.w.col_as_slice(c), sites.b.col_as_slice(c), task.a.col_as_slice(c))
    })
}

/// The factor of each class's kernel matrix, made once for classes that share theirs; none unless all have a low rank.
fn roots(task: &Standard<'_>) -> Option<Vec<Arc<Root>>> {
    let mut roots: Vec<Arc<Root>> = Vec::new();
    for (c, k) in task.k.iter().enumerate() {
        let shared = (0..c).find(|&other| task.k[other] == *k);
        roots.push(match shared {
            Some(other) => Arc::clone(&roots[other]),
            None => Arc::new(Root::of(k)?),
        });
    }
    Some(roots)
}

/// `w~ = -2 d ell/dv`, `b~ = d ell/dmu + w~ mu` for means `mu` [N, C] and the likelihood term there.
fn target(fit: &ExpectedLogLik, mu: &Mat<f64>) -> Sites {
    let w = &fit.dv * faer::Scale(-2.0);
    let b = Mat::from_fn(w.nrows(), w.ncols(), |i, c| fit.dmu[(i, c)] + w[(i, c)] * mu[(i, c)]);
    Sites { w, b }
}

/// The sites that marginals `mu`, `v` [N, C] lead to, in units of x: a start for [`natural_from`].
pub(crate) fn sites_at(y: &[usize], mu: &Mat<f64>, v: &Mat<f64>) -> Result<Sites> {
    Ok(target(&expected_log_lik(mu.as_ref(), v.as_ref(), y, Resolution::Fast)?, mu))
}

/// Maximises the direct bound over q(F) for a task in units of x = f/tau, starting from the prior.
///
/// `L_d(q) = ell - KL(q || prior)`, `ell = sum_n ( E log sigma(x_y) - E log sum_c sigma(x_c) )`. A step of size e takes the sites
/// to `w + e (w~ - w)`, `b + e (b~ - b)`, where `w~ = -2 d ell/dv` and `b~ = d ell/dmu + w~ mu`; q has precision `K^{-1} + diag(w)`
/// and linear term `b + K^{-1} a`.
///
/// A step that would lower the bound, or leave no Gaussian, is halved. Running out of steps is reported in
/// [`Natural::converged`], not hidden.
pub fn natural(task: &Standard<'_>, options: NaturalOptions) -> Result<Natural> {
    natural_from(task, options, None, &AtomicBool::new(false))
}

/// [`natural`] from given sites (the prior if none, or if that has the better bound), until it is cancelled.
pub(crate) fn natural_from(
    task: &Standard<'_>,
    options: NaturalOptions,
    start: Option<Sites>,
    cancelled: &AtomicBool,
) -> Result<Natural> {
    let (rest, evaluations) = (options.gain * task.points() as f64, AtomicUsize::new(0));
    // A factor costs about as much as a step, and is tried where matrices are small.
    let roots = if task.points() < LARGE { roots(task) } else { None };
    let plain = Ascent { digits: options.digits, roots: None, rest, cancelled, evaluations: &evaluations };
    if let Some(roots) = roots.as_deref() {
        match climb(task, options, start.clone(), &Ascent { roots: Some(roots), ..plain }) {
            // By rounding, a Gaussian of the factors may be none of the kernel matrices.
            Err(Error::NotPositiveDefinite { .. }) => {}
            other => return other,
        }
    }
    climb(task, options, start, &plain)
}

/// The ascent.
fn climb(
    task: &Standard<'_>,
    options: NaturalOptions,
    start: Option<Sites>,
    how: &Ascent<'_>,
) -> Result<Natural> {
    let mut state = State::first(task, how, start, Resolution::Fast)?;
    let mut bounds = vec![state.bound];
    let mut halvings = 0;
    let mut history = History::default();
    for _ in 0..options.max_steps {
        let mut target = state.target();
        if state.sites.distance(&target) <= ROUGH.max(options.tolerance)
            && state.resolution != options.resolution
        {
            refine(task, how, &mut state, options.resolution, &mut bounds)?;
            target = state.target();
        }
        if state.sites.distance(&target) <= options.tolerance || state.rests(&target, how) {
            break;
        }
        history.push(state.sites.clone(), target.clone());
        if task.points() >= LARGE {
            // The next state has blocks of its own; if there is none, these are made again at the end.
            state.blocks = Vec::new();
        }
        match step(task, how, &state, &target, (&mut history, &mut halvings))? {
            Some(next) => {
                state = next;
                bounds.push(state.bound);
            }
            // No step of any size raises the bound beyond the error of the integrals.
            None if state.resolution == options.resolution => break,
            None => {
                refine(task, how, &mut state, options.resolution, &mut bounds)?;
                history = History::default();
            }
        }
    }
    refine(task, how, &mut state, options.resolution, &mut bounds)?;
    if state.blocks.is_empty() {
        // No step was taken, or the last one was tried in vain, or steps needed no blocks.
        state.blocks = blocks(task, how, &state.sites)?;
        state.kl = sum_any_order(&mut state.blocks.iter().map(|block| block.kl).collect::<Vec<_>>());
        state.bound = state.fit.value - state.kl;
        bounds.pop();
        bounds.push(state.bound);
    }
    let residual = state.sites.distance(&state.target());
    let converged = residual <= options.tolerance || state.rests(&state.target(), how);
    let evaluations = how.evaluations.load(Ordering::Relaxed);
    Ok(Natural { blocks: state.blocks, b: state.sites.b, bounds, residual, converged, halvings, evaluations })
}

/// The same q(F) with better integrals: no step, but the last bound known better.
fn refine(
    task: &Standard<'_>,
    how: &Ascent<'_>,
    state: &mut State,
    resolution: Resolution,
    bounds: &mut [f64],
) -> Result<()> {
    state.refine(task, how, resolution)?;
    if let Some(last) = bounds.last_mut() {
        *last = state.bound;
    }
    Ok(())
}

/// The extrapolation of the last steps if there is one that the bound allows, else a step towards the target.
fn step(
    task: &Standard<'_>,
    how: &Ascent<'_>,
    state: &State,
    target: &Sites,
    (history, halvings): (&mut History, &mut usize),
) -> Result<Option<State>> {
    if let Some(sites) = history.extrapolate(&state.mu, &state.v) {
        // An extrapolation may leave what is a Gaussian or what can be integrated: then it is no step.
        match State::new(task, how, sites, state.resolution) {
            Ok(next) if state.allows(&next) => return Ok(Some(next)),
            _ => history.restart(),
        }
    }
    let size = if *halvings >= PATIENCE { SHORT } else { 1.0 };
    ascend(task, how, state, target, (size, halvings))
}

/// The longest of the steps `size`, `size/2`, ... towards the target that does not lower the bound.
fn ascend(
    task: &Standard<'_>,
    how: &Ascent<'_>,
    state: &State,
    target: &Sites,
    (mut size, halvings): (f64, &mut usize),
) -> Result<Option<State>> {
    while size > SMALLEST {
        match State::new(task, how, state.sites.towards(target, size), state.resolution) {
            Ok(next) if state.allows(&next) => return Ok(Some(next)),
            Ok(_) | Err(Error::NotPositiveDefinite { .. }) => {
                size *= 0.5;
                *halvings += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// A fall of the bound by no more than this is the error of the integrals.
fn slack(bound: f64, resolution: Resolution) -> f64 {
    let relative = match resolution {
        Resolution::Fast => 1e-6,
        Resolution::Standard => 1e-10,
        Resolution::Learning | Resolution::Fine | Resolution::Golden => 1e-12,
    };
    relative * (1.0 + bound.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inference::mean_field::{Start, Stop, Updates, infer};
    use crate::testing::ranked_task;
    use proptest::prelude::*;

    /// What the rough integrals may be wrong by: 1e-5 a point, and the fall a step may hide in them.
    fn error(bound: f64, points: usize) -> f64 {
        1e-5 * points as f64 + slack(bound, Resolution::Fast)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Temperatures to 0.05, prior means to -8, singular kernels: the bound never falls, and it ends above the
        /// collapsed family's.
        #[test]
        fn the_bound_never_falls(
            seed in 0u64..1000, n in 1usize..7, c in 2usize..6, rank in 1usize..4, tau in 0.05..1.5f64, a in -8.0..1.0f64,
        ) {
            let task = ranked_task(n, c, rank, tau, a, seed);
            let fit = natural(&task.standardise(), NaturalOptions { max_steps: 60, ..Default::default() }).unwrap();
            for pair in fit.bounds.windows(2) {
                prop_assert!(pair[1] >= pair[0] - error(pair[0], n), "{pair:?} of {:?}", fit.bounds);
            }
            prop_assert!(fit.bounds.len() <= 61);
            prop_assert_eq!(fit.converged, fit.residual <= 1e-8);
            if fit.converged {
                let collapsed = infer(&task, Updates::Collapsed, &Start::Prior, Stop::Steps(20)).unwrap();
                let other = collapsed.trace[19];
                prop_assert!(fit.bound() >= other - 1e-8 * (1.0 + other.abs()), "{} {other}", fit.bound());
            }
        }
    }

    /// Kernel matrices of low rank, with factors and without: the same optimum by about as many integrals, also from prior
    /// means and temperatures that lead through sites of both signs.
    #[test]
    fn factors_of_the_kernel_matrices_change_the_work_and_not_the_answer() {
        for (tau, a, seed) in [(0.2, 0.0, 3), (0.2, -4.0, 4), (1.0, 0.0, 5)] {
            let task = ranked_task(60, 8, 20, tau, a, seed);
            let (standard, never) = (task.standardise(), AtomicBool::new(false));
            let options = NaturalOptions { max_steps: 200, ..Default::default() };
            let climbed = |roots: Option<&[Arc<Root>]>| {
                let evaluations = AtomicUsize::new(0);
                let digits = options.digits;
                let how = Ascent { digits, roots, rest: 0.0, cancelled: &never, evaluations: &evaluations };
                climb(&standard, options, None, &how).unwrap()
            };
            let factors = roots(&standard).unwrap();
            let (with, without) = (climbed(Some(&factors)), climbed(None));
            assert!(with.converged && without.converged);
            let apart = (with.bound() - without.bound()).abs();
            assert!(apart < 1e-9 * without.bound().abs(), "{} {}", with.bound(), without.bound());
            let (sites, others) = (with.sites(), without.sites());
            assert!(sites.distance(&others) < 1e-6, "{}", sites.distance(&others));
            assert!(
                with.evaluations <= without.evaluations + 4,
                "{} {}",
                with.evaluations,
                without.evaluations
            );
        }
    }

    #[test]
    fn too_few_steps_are_told() {
        let task = ranked_task(6, 3, 4, 0.3, -2.0, 1);
        let options = NaturalOptions { max_steps: 2, ..Default::default() };
        let fit = natural(&task.standardise(), options).unwrap();
        assert!(!fit.converged && fit.residual > options.tolerance);
        assert_eq!(fit.bounds.len(), 3);
        // The prior, two steps that were taken, and the last one once more with better integrals.
        assert_eq!((fit.halvings, fit.evaluations), (0, 4));
        assert!(natural(&task.standardise(), NaturalOptions::default()).unwrap().converged);
    }
}
