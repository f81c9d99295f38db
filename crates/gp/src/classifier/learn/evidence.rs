//! Hyperparameters by L-BFGS on the bound of the log evidence.

use super::super::inference::Effort;
use super::super::{GpClassifier, Likelihood};
use super::parameters::{At, Parameters};
use super::starts::Starts;
use super::{Found, Points, nothing_evaluated};
use crate::gaussian::Sites;
use crate::inference::go_on;
use crate::left_out::leave_one_out;
use crate::posterior::Blocks;
use crate::{Error, Result};
use argmin::core::{CostFunction, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use std::cell::RefCell;

/// L-BFGS iterations at most.
const ITERATIONS: u64 = 25;
/// Rest: a slope or a change of the bound per point below this.
const REST_SLOPE: f64 = 2e-3;
const REST_CHANGE: f64 = 1e-4;

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
    best: Option<(Vec<f64>, f64)>,
    /// Where the inference of the last evaluation ended, if it has sites: the next one starts there, which only saves steps.
    sites: Option<Sites>,
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
        let inference = self.settings.inference(Effort::Slope, at.noise);
        let (start, mut converged, mut dnoise) = (memory.sites.take(), false, 0.0);
        let got = self.points.support(&at)?.through_kernel(|task| {
            let posterior = inference.posterior_from(task, start, &self.settings.cancelled)?;
            (converged, dnoise) = (posterior.converged, posterior.slope_in_noise());
            memory.sites = posterior.blocks().map(Blocks::sites);
            posterior.evidence(task)
        })?;
        let slope = self.parameters.slope(u, &at, &got.hyper, dnoise);
        let per_point = -1.0 / self.points.y.len() as f64;
        let (value, slope) =
            (got.value * per_point, slope.iter().map(|s| s * per_point).collect::<Vec<f64>>());
        memory.evaluations += 1;
        memory.unrested += usize::from(!converged);
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

/// The bound at the start, evaluated once: nothing is learned.
pub(super) fn stay(settings: &GpClassifier, given: Parameters, points: Points<'_>) -> Result<Found> {
    let loss = loss(settings, points, &given.start)?;
    let start = vec![0.0; given.values().len()];
    let problem = Problem { settings, parameters: given, points, memory: RefCell::default() };
    problem.evaluate(&start)?;
    problem.found(loss, loss, true)
}

/// Maximises the bound over the hyperparameters.
///
/// The bound alone may prefer hyperparameters that predict badly: where leave-one-out prediction says so, the start is kept.
pub(super) fn climb(settings: &GpClassifier, given: Parameters, points: Points<'_>) -> Result<Found> {
    let (parameters, loss_at_start) = best_start(settings, given, points)?;
    let start = vec![0.0; parameters.values().len()];
    let problem = Problem { settings, parameters, points, memory: RefCell::default() };
    problem.evaluate(&start)?;
    let search = MoreThuenteLineSearch::new();
    let solver = LBFGS::new(search, 5)
        .with_tolerance_grad(REST_SLOPE)
        .and_then(|solver| solver.with_tolerance_cost(REST_CHANGE));
    let outcome = solver.and_then(|solver| {
        let begin = start.clone();
        Executor::new(&problem, solver).configure(|state| state.param(begin).max_iters(ITERATIONS)).run()
    });
    let converged = outcome.is_ok_and(|done| done.state.get_iter() < ITERATIONS);
    // A failed line search ends at the best point met; a failed evaluation is the caller's to know.
    if let Some(error) = problem.memory.borrow_mut().error.take() {
        return Err(error);
    }
    let best = problem.best()?;
    let loss =
        if best == start { loss_at_start } else { loss(settings, points, &problem.parameters.at(&best)?)? };
    problem.found(loss, loss_at_start, converged)
}

impl Problem<'_> {
    /// The best u met.
    fn best(&self) -> Result<Vec<f64>> {
        let memory = self.memory.borrow();
        Ok(memory.best.as_ref().ok_or_else(nothing_evaluated)?.0.clone())
    }

    /// The best of the search, or the start if that leaves out better.
    fn found(&self, loss: Option<f64>, loss_at_start: Option<f64>, converged: bool) -> Result<Found> {
        let memory = self.memory.borrow();
        let (u, _) = memory.best.as_ref().ok_or_else(nothing_evaluated)?;
        let worse = loss.zip(loss_at_start).is_some_and(|(learned, start)| learned > start);
        let (at, loss) = if worse {
            (self.parameters.start.clone(), loss_at_start)
        } else {
            (self.parameters.at(u)?, loss)
        };
        Ok(Found {
            at,
            spread: self.settings.spread,
            loss,
            evaluations: memory.evaluations,
            converged,
            inner_converged: memory.unrested == 0,
            kept: !worse,
        })
    }
}

/// The leave-one-out log-loss at some hyperparameters, for a likelihood that has one.
fn loss(settings: &GpClassifier, points: Points<'_>, at: &At) -> Result<Option<f64>> {
    if settings.likelihood != Likelihood::LogisticSoftmax {
        return Ok(None);
    }
    let inference = settings.inference(Effort::Answers, at.noise);
    let posterior = inference.posterior_until(&points.support(at)?.task()?, &settings.cancelled)?;
    posterior.blocks().map(|blocks| Ok(leave_one_out(blocks, points.y)?.log_loss)).transpose()
}

/// The best of a few starts by leave-one-out log-loss, and that loss; the given one for a likelihood that has no such loss.
fn best_start(
    settings: &GpClassifier,
    given: Parameters,
    points: Points<'_>,
) -> Result<(Parameters, Option<f64>)> {
    let least = loss(settings, points, &given.start)?;
    let mut best = (given.clone(), least);
    if least.is_none() {
        return Ok(best);
    }
    let starts = Starts::new(&given, points, false)?;
    for place in starts.others().into_iter().chain(starts.hot_to_cold()) {
        go_on(&settings.cancelled)?;
        let start = given.moved(starts.at(&place)?);
        let loss = loss(settings, points, &start.start)?;
        if loss < best.1 {
            best = (start, loss);
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::super::super::EvidenceBound;
    use super::*;
    use crate::kernels::{AnyForm, Kernel, Rbf};
    use crate::testing::{normal, slope};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Every objective, and how far its slope may be from differences. The last three are stationary only so far: the collapsed
    /// sweeps and one-vs-each rest at a small gain, whose square root their slopes are off by; the direct bound has integrals
    /// good to 1e-5 besides.
    const OBJECTIVES: [(Likelihood, EvidenceBound, f64); 5] = [
        (Likelihood::Gaussian, EvidenceBound::Collapsed, 1e-7),
        (Likelihood::Softmax, EvidenceBound::Collapsed, 1e-7),
        (Likelihood::LogisticSoftmax, EvidenceBound::Collapsed, 1e-3),
        (Likelihood::LogisticSoftmax, EvidenceBound::Direct, 1e-3),
        (Likelihood::OneVsEach, EvidenceBound::Collapsed, 1e-3),
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
            for (likelihood, bound, tolerance) in OBJECTIVES {
                for name in ["rbf", "cosine", "poly2"] {
                    let settings = GpClassifier { likelihood, bound, tau, prior_mean, ..Default::default() };
                    let kernel = Kernel::new(AnyForm::named(name).unwrap());
                    let kernel = if per_class { kernel.scale_per_class(3) } else { kernel };
                    let parameters = Parameters::new(&settings, kernel);
                    let u: Vec<f64> = (0..parameters.values().len()).map(|i| 0.3 - 0.2 * i as f64).collect();
                    let points = Points { x: &x, y: &y, classes: 3, weights: None };
                    let problem = Problem { settings: &settings, parameters, points, memory: RefCell::default() };
                    for i in 0..u.len() {
                        let at = |h: f64| {
                            let mut moved = u.clone();
                            moved[i] += h;
                            at_rest(&problem, &moved).0
                        };
                        // The collapsed bound can have several maxima. The first pass leaves q(F) at one that holds over
                        // the whole interval; the second compares there.
                        slope(at, 1e-2);
                        let want = slope(at, 1e-2);
                        let got = at_rest(&problem, &u).1[i];
                        prop_assert!(
                            (got - want).abs() < tolerance * (1.0 + want.abs()),
                            "{likelihood:?} {bound:?} {name} {i}: {got} and {want}"
                        );
                    }
                }
            }
        }
    }

    /// What an evaluation finds does not depend on those before it, with either bound.
    #[test]
    fn the_bound_has_no_memory() {
        let x = normal(&mut ChaCha8Rng::seed_from_u64(4), 24, 2);
        let y: Vec<usize> = (0..24).map(|i| i % 3).collect();
        for bound in [EvidenceBound::Collapsed, EvidenceBound::Direct] {
            let settings = GpClassifier { bound, ..Default::default() };
            let new = || Problem {
                settings: &settings,
                parameters: Parameters::new(&settings, Kernel::new(Rbf)),
                points: Points { x: &x, y: &y, classes: 3, weights: None },
                memory: RefCell::default(),
            };
            let (here, there) = ([0.2, -0.3, 0.1], [2.5, 1.5, -2.0]);
            let (value, slope) = new().evaluate(&here).unwrap();
            let problem = new();
            problem.evaluate(&there).unwrap();
            let (value2, slope2) = problem.evaluate(&here).unwrap();
            assert!((value - value2).abs() < 1e-6, "{bound:?}: {value} {value2}");
            for (one, two) in slope.iter().zip(&slope2) {
                assert!((one - two).abs() < 5e-4, "{bound:?}: {slope:?} {slope2:?}");
            }
            assert_eq!(problem.memory.borrow().unrested, 0);
        }
    }
}
