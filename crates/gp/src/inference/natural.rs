//! Natural-gradient ascent on the direct bound: the best Gaussian q(F), not only the best within the augmented family.
//!
//! `L_d(q) = sum_n ( E log sigma(x_{n,y}) - E log Z_n ) - KL(q || prior)`. A natural-gradient step of size e moves the sites,
//! `w <- w + e (w~ - w)`, `b <- b + e (b~ - b)` with `w~ = -2 d ell/dv`, `b~ = d ell/dmu + w~ mu`; at the optimum they stand still.

use faer::Mat;

use super::signed::SignedGauss;
use crate::linalg::sum_any_order;
use crate::quadrature::{
    Precision,
    expected::{ExpectedLogLik, expected_log_lik},
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
    pub precision: Precision,
}

impl Default for NaturalOptions {
    fn default() -> Self {
        NaturalOptions { max_steps: 500, tolerance: 1e-8, precision: Precision::Standard }
    }
}

/// Where the ascent ended.
#[derive(Debug, Clone)]
pub struct Natural {
    /// q(F), one block for each class, in units of x = f/tau.
    pub blocks: Vec<SignedGauss>,
    /// The linear terms of the sites, [N, C].
    pub b: Mat<f64>,
    /// The bound at the start (q = prior) and after each step; it never falls beyond the error of the integrals.
    pub bounds: Vec<f64>,
    /// The largest move the next full step would make, relative to the largest site.
    pub residual: f64,
    /// Whether `residual` is within the tolerance.
    pub converged: bool,
    /// How many times a step was halved.
    pub halvings: usize,
}

impl Natural {
    /// The bound at the end.
    pub fn bound(&self) -> f64 {
        self.bounds[self.bounds.len() - 1]
    }
}

/// After this many halvings the iteration is taken to oscillate, and steps stay short.
const PATIENCE: usize = 3;
/// The size of short steps.
const SHORT: f64 = 0.35;
/// Steps below this are given up.
const SMALLEST: f64 = 1e-6;

/// A state of the ascent: sites, q(F), the likelihood term and the bound.
struct State {
    w: Mat<f64>,
    b: Mat<f64>,
    blocks: Vec<SignedGauss>,
    mu: Mat<f64>,
    fit: ExpectedLogLik,
    bound: f64,
}

impl State {
    fn new(task: &Standard<'_>, w: Mat<f64>, b: Mat<f64>, precision: Precision) -> Result<Self> {
        let (n, classes) = (task.points(), task.classes());
        let blocks = (0..classes)
            .map(|c| {
                SignedGauss::new(&task.k[c], w.col_as_slice(c), b.col_as_slice(c), task.a.col_as_slice(c))
            })
            .collect::<Result<Vec<_>>>()?;
        let mu = Mat::from_fn(n, classes, |i, c| blocks[c].mu[i]);
        let v = Mat::from_fn(n, classes, |i, c| blocks[c].v[i].max(0.0));
        let fit = expected_log_lik(mu.as_ref(), v.as_ref(), task.y, precision)?;
        let kl = sum_any_order(&mut blocks.iter().map(|block| block.kl).collect::<Vec<_>>());
        let bound = fit.value - kl;
        Ok(State { w, b, blocks, mu, fit, bound })
    }

    /// w~ and b~: where a full step would put the sites.
    fn target(&self) -> (Mat<f64>, Mat<f64>) {
        let w = &self.fit.dv * faer::Scale(-2.0);
        let b = Mat::from_fn(w.nrows(), w.ncols(), |i, c| self.fit.dmu[(i, c)] + w[(i, c)] * self.mu[(i, c)]);
        (w, b)
    }
}

/// The largest move from `from` to `to` over both kinds of sites, relative to the largest site of its kind.
fn residual(state: &State, w: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let move_of = |from: &Mat<f64>, to: &Mat<f64>| {
        let size = to.norm_max().max(f64::MIN_POSITIVE);
        (to - from).norm_max() / size
    };
    move_of(&state.w, w).max(move_of(&state.b, b))
}

/// Maximises the direct bound over q(F) for a task in units of x = f/tau, starting from the prior.
///
/// A step that would lower the bound, or leave no Gaussian, is halved. Running out of steps is reported in
/// [`Natural::converged`], not hidden.
pub fn natural(task: &Standard<'_>, options: NaturalOptions) -> Result<Natural> {
    let (n, classes) = (task.points(), task.classes());
    let mut state = State::new(task, Mat::zeros(n, classes), Mat::zeros(n, classes), options.precision)?;
    let mut bounds = vec![state.bound];
    let mut halvings = 0;
    for _ in 0..options.max_steps {
        let (w, b) = state.target();
        if residual(&state, &w, &b) <= options.tolerance {
            break;
        }
        let largest = if halvings >= PATIENCE { SHORT } else { 1.0 };
        match ascend(task, &state, &w, &b, largest, options.precision, &mut halvings)? {
            Some(next) => state = next,
            // No step of any size raises the bound beyond the error of the integrals.
            None => break,
        }
        bounds.push(state.bound);
    }
    let (w, b) = state.target();
    let residual = residual(&state, &w, &b);
    let converged = residual <= options.tolerance;
    Ok(Natural { blocks: state.blocks, b: state.b, bounds, residual, converged, halvings })
}

/// The longest of the steps `size`, `size/2`, ... towards the target that does not lower the bound.
fn ascend(
    task: &Standard<'_>,
    state: &State,
    w: &Mat<f64>,
    b: &Mat<f64>,
    size: f64,
    precision: Precision,
    halvings: &mut usize,
) -> Result<Option<State>> {
    let mut size = size;
    while size > SMALLEST {
        let between = |from: &Mat<f64>, to: &Mat<f64>| {
            Mat::from_fn(from.nrows(), from.ncols(), |i, c| from[(i, c)] + size * (to[(i, c)] - from[(i, c)]))
        };
        match State::new(task, between(&state.w, w), between(&state.b, b), precision) {
            Ok(next) if next.bound >= state.bound - slack(state.bound, precision) => return Ok(Some(next)),
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
fn slack(bound: f64, precision: Precision) -> f64 {
    let relative = match precision {
        Precision::Fast => 1e-6,
        Precision::Standard => 1e-10,
        Precision::Fine | Precision::Golden => 1e-12,
    };
    relative * (1.0 + bound.abs())
}
