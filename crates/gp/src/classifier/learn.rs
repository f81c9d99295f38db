//! Hyperparameters by L-BFGS on the bound of the log evidence.

use super::posterior::{Objective, Warm, leave_one_out_loss, objective};
use super::{GpClassifier, Likelihood};
use crate::inference::go_on;
use crate::kernels::{Kernel, KernelGradient, inverse_softplus, softplus, softplus_slope};
use crate::linalg::sum_any_order;
use crate::{Error, Result};
use argmin::core::{CostFunction, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use faer::Mat;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// Learned hyperparameters (those of the kernel stand in the kernel).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learned {
    /// Temperature; 1 for [`Likelihood::Gaussian`].
    pub tau: f64,
    /// Prior mean of all latent functions.
    pub prior_mean: f64,
    /// Noise variance of [`Likelihood::Gaussian`]; 0 otherwise.
    pub noise: f64,
    /// The bound of the log evidence of the points the hyperparameters were learned on.
    pub bound: f64,
    /// Evaluations of the bound.
    pub evaluations: usize,
    /// Whether L-BFGS came to rest; if not, the best point met is used.
    pub converged: bool,
    /// Whether the inference within came to rest in every evaluation of the bound; if not, some values and slopes that led
    /// the search were not exact. A file from before this was kept says `false`.
    #[serde(default)]
    pub inner_converged: bool,
    /// Whether the posterior given all training points came to rest within its sweeps or steps; if not, it is the one
    /// reached.
    pub posterior_converged: bool,
    /// The leave-one-out log-loss of the points the hyperparameters were learned on, in nats per point; only
    /// [`Likelihood::LogisticSoftmax`] has one.
    #[serde(default)]
    pub leave_one_out: Option<f64>,
    /// Whether the hyperparameters are those of the best bound. `false`: by leave-one-out log-loss the start was better, and
    /// it was kept.
    #[serde(default = "yes")]
    pub learned_kept: bool,
}

fn yes() -> bool {
    true
}

/// A parameter moves at most this far from its start (in log units, the mean in its own): `start + REACH tanh(u / REACH)`.
const REACH: f64 = 6.0;
/// L-BFGS iterations at most.
const ITERATIONS: u64 = 25;
/// Rest: a slope or a change of the bound per point below this.
const REST_SLOPE: f64 = 2e-3;
const REST_CHANGE: f64 = 1e-4;

/// Kernel, level (temperature or noise) and prior mean for free parameters u, all 0 at the start.
#[derive(Debug, Clone)]
pub(super) struct Parameters {
    pub(super) kernel: Kernel,
    pub(super) level: f64,
    pub(super) mean: f64,
    scales: bool,
}

/// The hyperparameters at one u.
struct At {
    kernel: Kernel,
    level: f64,
    mean: f64,
}

impl Parameters {
    fn new(settings: &GpClassifier, kernel: Kernel) -> Self {
        let gaussian = settings.likelihood == Likelihood::Gaussian;
        let level = if gaussian { 0.1 * settings.tau * settings.tau } else { settings.tau };
        let scales = gaussian || kernel.raw_scale.len() > 1;
        Self { kernel, level, mean: settings.prior_mean, scales }
    }

    /// All that is learned, in the order mean, log level, log shape, log scales.
    fn start(&self) -> Vec<f64> {
        let mut start = vec![self.mean, self.level.ln()];
        start.extend(self.kernel.shapes().iter().map(|shape| shape.ln()));
        if self.scales {
            start.extend((0..self.kernel.raw_scale.len()).map(|c| softplus(self.kernel.raw_scale[c]).ln()));
        }
        start
    }

    fn at(&self, u: &[f64]) -> Result<At> {
        let log: Vec<f64> = self.start().iter().zip(u).map(|(s, u)| s + REACH * (u / REACH).tanh()).collect();
        let mut kernel = self.kernel.clone();
        let mut rest = log[2..].iter();
        for (raw_shape, l) in kernel.raw_shape.iter_mut().zip(&mut rest) {
            *raw_shape = inverse_softplus("kernel shape", l.exp())?;
        }
        for (raw_scale, l) in kernel.raw_scale.iter_mut().zip(rest) {
            *raw_scale = inverse_softplus("output scale", l.exp())?;
        }
        Ok(At { kernel, level: log[1].exp(), mean: log[0] })
    }

    /// The slope in u from those in mean, level and raw kernel parameters.
    fn slope(&self, u: &[f64], at: &At, got: &Objective, bar: &KernelGradient) -> Vec<f64> {
        let by_log = |raw: f64, bar: f64| bar / softplus_slope(raw) * softplus(raw);
        let kernel = &at.kernel;
        let mut slope = vec![got.dmean, got.dlevel * at.level];
        slope.extend(kernel.raw_shape.iter().zip(&bar.raw_shape).map(|(&r, &b)| by_log(r, b)));
        if self.scales {
            slope.extend(kernel.raw_scale.iter().zip(&bar.raw_scale).map(|(&r, &b)| by_log(r, b)));
        }
        slope.iter().zip(u).map(|(s, u)| s * (1.0 - (u / REACH).tanh().powi(2))).collect()
    }
}

/// The points hyperparameters are learned on.
#[derive(Clone, Copy)]
pub(super) struct Points<'a> {
    /// [N, D], standardised.
    pub(super) x: &'a Mat<f64>,
    pub(super) y: &'a [usize],
    pub(super) classes: usize,
}

/// The negative bound per point as a function of u, with what one evaluation leaves for the next.
struct Problem<'a> {
    settings: &'a GpClassifier,
    parameters: Parameters,
    points: Points<'a>,
    memory: RefCell<Memory>,
}

#[derive(Default)]
struct Memory {
    /// u, value and slope of the last evaluation: the optimiser asks for the two separately.
    last: Option<(Vec<f64>, f64, Vec<f64>)>,
    /// The value at the start, u = 0.
    first: Option<f64>,
    best: Option<(Vec<f64>, f64)>,
    warm: Warm,
    evaluations: usize,
    /// Those whose inference did not come to rest.
    unrested: usize,
    error: Option<Error>,
}

impl Problem<'_> {
    fn evaluate(&self, u: &[f64]) -> Result<(f64, Vec<f64>)> {
        let mut memory = self.memory.borrow_mut();
        if let Some((at, value, slope)) = &memory.last
            && at == u
        {
            return Ok((*value, slope.clone()));
        }
        go_on(&self.settings.cancelled)?;
        let at = self.parameters.at(u)?;
        let kernel = &at.kernel;
        let Points { x, y, classes } = self.points;
        let features = kernel.features(x.as_ref())?;
        let gram = kernel.within(&features)?;
        let got = objective(self.settings, gram.of_classes(classes), y, at.level, at.mean, &mut memory.warm)?;
        let mut bar = KernelGradient::zeros(kernel);
        gram.pull(&got.dk, &mut Mat::zeros(features.dim(), features.points()), &mut bar);
        let slope = self.parameters.slope(u, &at, &got, &bar);
        let per_point = -1.0 / y.len() as f64;
        let (value, slope) =
            (got.value * per_point, slope.iter().map(|s| s * per_point).collect::<Vec<f64>>());
        memory.evaluations += 1;
        memory.unrested += usize::from(!got.converged);
        memory.first.get_or_insert(value);
        if memory.best.as_ref().is_none_or(|(_, best)| value < *best) {
            memory.best = Some((u.to_vec(), value));
        }
        memory.last = Some((u.to_vec(), value, slope.clone()));
        Ok((value, slope))
    }

    /// The optimiser knows only its own kind of error: ours is kept aside.
    fn keep_error<T>(&self, result: Result<T>) -> std::result::Result<T, argmin::core::Error> {
        result.map_err(|error| {
            let text = argmin::core::Error::msg(error.to_string());
            self.memory.borrow_mut().error = Some(error);
            text
        })
    }
}

impl CostFunction for &Problem<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, u: &Vec<f64>) -> std::result::Result<f64, argmin::core::Error> {
        self.keep_error(self.evaluate(u)).map(|(value, _)| value)
    }
}

impl Gradient for &Problem<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, u: &Vec<f64>) -> std::result::Result<Vec<f64>, argmin::core::Error> {
        self.keep_error(self.evaluate(u)).map(|(_, slope)| slope)
    }
}

/// Maximises the bound over the hyperparameters, or evaluates it once if they stay fixed.
///
/// The bound alone may prefer hyperparameters that predict badly: where leave-one-out prediction says so, the start is kept.
pub(super) fn learn(
    settings: &GpClassifier,
    kernel: Kernel,
    points: Points<'_>,
) -> Result<(Kernel, Learned)> {
    let given = Parameters::new(settings, kernel);
    let (parameters, loss_at_start) = best_start(settings, given, points)?;
    let start = vec![0.0; parameters.start().len()];
    let problem = Problem { settings, parameters, points, memory: RefCell::default() };
    problem.evaluate(&start)?;
    let mut converged = true;
    if settings.learn {
        let search = MoreThuenteLineSearch::new();
        let solver = LBFGS::new(search, 5)
            .with_tolerance_grad(REST_SLOPE)
            .and_then(|solver| solver.with_tolerance_cost(REST_CHANGE));
        let outcome = solver.and_then(|solver| {
            let begin = start.clone();
            Executor::new(&problem, solver).configure(|state| state.param(begin).max_iters(ITERATIONS)).run()
        });
        converged = outcome.is_ok_and(|done| done.state.get_iter() < ITERATIONS);
    }
    let Problem { parameters, memory, .. } = problem;
    let memory = memory.into_inner();
    // A failed line search ends at the best point met; a failed evaluation is the caller's to know.
    if let Some(error) = memory.error {
        return Err(error);
    }
    let none = Error::Empty { what: "evaluations of the bound", needed: 1 };
    let ((u, value), first) = memory.best.zip(memory.first).ok_or(none)?;
    let (learned_at, start_at) = (parameters.at(&u)?, parameters.at(&start)?);
    let loss = if u == start { loss_at_start } else { loss(settings, points, &learned_at)? };
    let worse = loss.zip(loss_at_start).is_some_and(|(learned, start)| learned > start);
    let (At { kernel, level, mean }, value, loss) =
        if worse { (start_at, first, loss_at_start) } else { (learned_at, value, loss) };
    let gaussian = settings.likelihood == Likelihood::Gaussian;
    let learned = Learned {
        prior_mean: mean,
        tau: if gaussian { 1.0 } else { level },
        noise: if gaussian { level } else { 0.0 },
        bound: -value * points.y.len() as f64,
        evaluations: memory.evaluations,
        converged,
        inner_converged: memory.unrested == 0,
        posterior_converged: false,
        leave_one_out: loss,
        learned_kept: !worse,
    };
    Ok((kernel, learned))
}

/// The leave-one-out log-loss at some hyperparameters, for a likelihood that has one.
fn loss(settings: &GpClassifier, points: Points<'_>, at: &At) -> Result<Option<f64>> {
    if settings.likelihood != Likelihood::LogisticSoftmax {
        return Ok(None);
    }
    let Points { x, y, classes } = points;
    let k = at.kernel.within(&at.kernel.features(x.as_ref())?)?.of_classes(classes);
    leave_one_out_loss(settings, k, y, at.level, at.mean).map(Some)
}

/// Temperatures that are tried as starts, in units of the standard deviation of the prior.
const TEMPERATURES: [f64; 3] = [0.5, 0.2, 0.07];
/// Prior means that are tried with each, in units of the temperature.
const MEANS: [f64; 2] = [-3.0, -20.0];
/// Factors of the lengthscale that are tried with each.
const LENGTHS: [f64; 2] = [1.0, 2.5];

/// The start with the least leave-one-out log-loss, and that loss: the given one or one of a small grid. Where nothing is
/// learned, or the likelihood has no such loss, it is the given one.
fn best_start(
    settings: &GpClassifier,
    given: Parameters,
    points: Points<'_>,
) -> Result<(Parameters, Option<f64>)> {
    let at = |parameters: &Parameters| parameters.at(&vec![0.0; parameters.start().len()]);
    let least = loss(settings, points, &at(&given)?)?;
    let mut best = (given.clone(), least);
    if !settings.learn || least.is_none() {
        return Ok(best);
    }
    let kernel = &given.kernel;
    let own = kernel.own(&kernel.features(points.x.as_ref())?)?.own_of_classes(points.classes);
    let mut variances: Vec<f64> = own.col_iter().map(|own| own.iter().sum()).collect();
    let variance = sum_any_order(&mut variances) / (points.y.len() * points.classes) as f64;
    let lengths = if kernel.form.is_stationary() { &LENGTHS[..] } else { &LENGTHS[..1] };
    for temperature in TEMPERATURES {
        for mean in MEANS {
            for length in lengths {
                go_on(&settings.cancelled)?;
                let mut start = given.clone();
                start.level = temperature * variance.sqrt();
                start.mean = mean * start.level;
                if kernel.form.is_stationary() {
                    let mut shapes = kernel.shapes();
                    shapes[0] *= length;
                    start.kernel = start.kernel.with_shapes(&shapes)?;
                }
                let loss = loss(settings, points, &at(&start)?)?;
                if loss < best.1 {
                    best = (start, loss);
                }
            }
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::super::Inference;
    use super::*;
    use crate::kernels::{AnyForm, Rbf};
    use crate::testing::{normal, slope};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Every objective, and how far its slope may be from differences. The last three are stationary only so far: the collapsed
    /// sweeps and one-vs-each rest at a small gain, whose square root their slopes are off by; the direct bound has integrals
    /// good to 1e-5 besides.
    const OBJECTIVES: [(Likelihood, Inference, f64); 5] = [
        (Likelihood::Gaussian, Inference::Collapsed, 1e-7),
        (Likelihood::Softmax, Inference::Collapsed, 1e-7),
        (Likelihood::LogisticSoftmax, Inference::Collapsed, 1e-3),
        (Likelihood::LogisticSoftmax, Inference::Direct, 1e-3),
        (Likelihood::OneVsEach, Inference::Collapsed, 1e-3),
    ];

    /// Value and slope at u once q(F), which one evaluation leaves to the next, has come to rest.
    fn at_rest(problem: &Problem<'_>, u: &[f64]) -> (f64, Vec<f64>) {
        let mut before = f64::INFINITY;
        for _ in 0..5000 {
            problem.memory.borrow_mut().last = None;
            let (value, slope) = problem.evaluate(u).unwrap();
            if (value - before).abs() < 1e-14 {
                return (value, slope);
            }
            before = value;
        }
        panic!("no rest at {u:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6))]
        /// The whole chain from u to the bound.
        #[test]
        fn slope_against_differences(
            seed in 0u64..1000, n in 6usize..12, per_class in any::<bool>(), tau in 0.3..1.2f64, prior_mean in -2.0..0.5f64,
        ) {
            let x = normal(&mut ChaCha8Rng::seed_from_u64(seed), n, 2);
            let y: Vec<usize> = (0..n).map(|i| i % 3).collect();
            for (likelihood, inference, tolerance) in OBJECTIVES {
                for name in ["rbf", "cosine", "poly2"] {
                    let settings = GpClassifier { likelihood, inference, tau, prior_mean, ..Default::default() };
                    let kernel = Kernel::new(AnyForm::named(name).unwrap());
                    let kernel = if per_class { kernel.scale_per_class(3) } else { kernel };
                    let parameters = Parameters::new(&settings, kernel);
                    let u: Vec<f64> = (0..parameters.start().len()).map(|i| 0.3 - 0.2 * i as f64).collect();
                    let points = Points { x: &x, y: &y, classes: 3 };
                    let problem = Problem { settings: &settings, parameters, points, memory: RefCell::default() };
                    let (_, got) = at_rest(&problem, &u);
                    for i in 0..u.len() {
                        let at = |h: f64| {
                            let mut moved = u.clone();
                            moved[i] += h;
                            at_rest(&problem, &moved).0
                        };
                        let want = slope(at, 1e-2);
                        prop_assert!(
                            (got[i] - want).abs() < tolerance * (1.0 + want.abs()),
                            "{likelihood:?} {inference:?} {name} {i}: {} and {want}", got[i]
                        );
                    }
                }
            }
        }
    }

    /// What an evaluation finds does not depend on those before it, in either inference.
    #[test]
    fn the_bound_has_no_memory() {
        let x = normal(&mut ChaCha8Rng::seed_from_u64(4), 24, 2);
        let y: Vec<usize> = (0..24).map(|i| i % 3).collect();
        for inference in [super::super::Inference::Collapsed, super::super::Inference::Direct] {
            let settings = GpClassifier { inference, ..Default::default() };
            let new = || Problem {
                settings: &settings,
                parameters: Parameters::new(&settings, Kernel::new(Rbf)),
                points: Points { x: &x, y: &y, classes: 3 },
                memory: RefCell::default(),
            };
            let (here, there) = ([0.2, -0.3, 0.1], [2.5, 1.5, -2.0]);
            let (value, slope) = new().evaluate(&here).unwrap();
            let problem = new();
            problem.evaluate(&there).unwrap();
            let (value2, slope2) = problem.evaluate(&here).unwrap();
            assert!((value - value2).abs() < 1e-6, "{inference:?}: {value} {value2}");
            for (one, two) in slope.iter().zip(&slope2) {
                assert!((one - two).abs() < 5e-4, "{inference:?}: {slope:?} {slope2:?}");
            }
            assert_eq!(problem.memory.borrow().unrested, 0);
        }
    }

    #[test]
    fn a_file_without_inner_convergence_says_it_did_not() {
        let json = r#"{"tau":0.5,"prior_mean":-1.0,"noise":0.0,"bound":-3.0,"evaluations":4,"converged":true,"posterior_converged":true}"#;
        let learned: Learned = serde_json::from_str(json).unwrap();
        assert!(!learned.inner_converged && learned.converged);
        assert!(learned.learned_kept && learned.leave_one_out.is_none());
    }
}
