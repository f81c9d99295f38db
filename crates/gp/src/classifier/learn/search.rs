//! Kernel, temperature, prior mean and shapes by the least leave-one-out log-loss.
//!
//! One evaluation is one inference (from where the last one ended) and N integrals at the cavities
//! ([`crate::objective::leave_one_out`]). There are two numbers to find, mostly, and the loss is smooth in their logarithms: a pattern
//! search (Hooke and Jeeves) needs some tens of evaluations and no gradient.

use std::cell::{Cell, RefCell};

use super::super::GpClassifier;
use super::super::posterior::direct_blocks;
use super::parameters::{At, Parameters};
use super::starts::{Place, Starts};
use super::{Found, Points, evidence, nothing_evaluated};
use crate::gaussian::Sites;
use crate::inference::go_on;
use crate::objective::leave_one_out_at;
use crate::quadrature::Precision;
use crate::{Result, Task};
use faer::Mat;

/// Starts are compared on at most this many points.
const START_POINTS: usize = 75;
/// The first and the last step of the search, in logarithms.
const STEPS: (f64, f64) = (0.6, 0.3);
/// A round that gains less than this, in nats per point, is followed by shorter steps.
const GAIN: f64 = 1e-3;
/// Rounds at most.
const ROUNDS: usize = 4;
/// Another kernel must leave out this much better to be taken.
const CLEARLY: f64 = 0.9;
/// What a factor e of coldness costs, in nats per point times the root of N: about the standard error of the leave-one-out log-loss.
/// A surer model must earn it: one that is too sure pays far more on new points than one that is not sure enough.
const CAUTION: f64 = 0.15;

/// The leave-one-out log-loss on some points.
struct Problem<'a> {
    settings: &'a GpClassifier,
    points: Points<'a>,
    starts: &'a Starts<'a>,
    /// Sites of the last inference: the next one starts there, which only saves steps.
    warm: RefCell<Option<Sites>>,
    evaluations: Cell<usize>,
    unrested: Cell<usize>,
}

/// A place with its loss (with the price of coldness and without) and bound.
#[derive(Clone)]
struct Value {
    place: Place,
    penalised: f64,
    loss: f64,
    bound: f64,
}

impl<'a> Problem<'a> {
    fn new(settings: &'a GpClassifier, points: Points<'a>, starts: &'a Starts<'a>) -> Self {
        let (evaluations, unrested) = (Cell::new(0), Cell::new(0));
        Problem { settings, points, starts, warm: RefCell::new(None), evaluations, unrested }
    }

    fn value(&self, place: &Place) -> Result<Value> {
        go_on(&self.settings.cancelled)?;
        let At { kernel, level, mean } = self.starts.at(place)?;
        let Points { x, y, classes } = self.points;
        let k = kernel.within(&kernel.features(x.as_ref())?)?.of_classes(classes);
        let task = Task::new(k, y.to_vec(), Mat::from_fn(y.len(), classes, |_, _| mean), level)?;
        let found = direct_blocks(&task, self.warm.take(), &self.settings.cancelled, Precision::Fast)?;
        let loss = leave_one_out_at(&found.blocks, y, Precision::Fast)?.log_loss;
        self.warm.replace(Some(found.blocks.sites()));
        self.evaluations.set(self.evaluations.get() + 1);
        self.unrested.set(self.unrested.get() + usize::from(!found.converged));
        let penalised = loss + CAUTION * self.starts.coldness(place) / (y.len() as f64).sqrt();
        Ok(Value { place: place.clone(), penalised, loss, bound: found.bound })
    }

    /// The best of the starts.
    fn best_start(&self) -> Result<Value> {
        let mut best: Option<Value> = None;
        for place in self.starts.places() {
            self.warm.replace(None);
            let value = self.value(&place)?;
            if best.as_ref().is_none_or(|best| value.penalised < best.penalised) {
                best = Some(value);
            }
        }
        best.ok_or_else(nothing_evaluated)
    }
}

/// The best start of the best kernel, and the search from there on at most `learn_points` points.
///
/// Of several kernels a later one is taken only if it leaves out better by a tenth: the first is the one that says "I don't know" far
/// from the points.
pub(super) fn search(
    settings: &GpClassifier,
    kernels: &[Parameters],
    points: Points<'_>,
    order: &[usize],
) -> Result<Found> {
    let few = points.few(order, START_POINTS.min(settings.learn_points));
    let small = Points { x: &few.x, y: &few.y, classes: points.classes };
    let (mut evaluations, mut unrested) = (0, 0);
    let mut best: Option<(&Parameters, At, f64)> = None;
    for given in kernels {
        let starts = Starts::new(given, small)?;
        let problem = Problem::new(settings, small, &starts);
        let value = problem.best_start()?;
        evaluations += problem.evaluations.get();
        unrested += problem.unrested.get();
        if best.as_ref().is_none_or(|(_, _, loss)| value.penalised < CLEARLY * loss) {
            best = Some((given, starts.at(&value.place)?, value.penalised));
        }
    }
    let (given, start, _) = best.ok_or_else(nothing_evaluated)?;

    let few = points.few(order, settings.learn_points);
    let small = Points { x: &few.x, y: &few.y, classes: points.classes };
    let mut parameters = given.moved(&start);
    if parameters.has_more() {
        let climbed = evidence::climb(settings, parameters.clone(), small)?;
        evaluations += climbed.evaluations;
        parameters = parameters.moved(&climbed.at);
    }
    let starts = Starts::new(&parameters, small)?;
    let problem = Problem::new(settings, small, &starts);
    let (value, converged) = descend(&problem, problem.value(&starts.place_of(&parameters.here()))?)?;
    Ok(Found {
        at: starts.at(&value.place)?,
        bound: value.bound,
        loss: Some(value.loss),
        evaluations: evaluations + problem.evaluations.get(),
        converged,
        inner_converged: unrested + problem.unrested.get() == 0,
        kept: true,
    })
}

/// Pattern search: the temperature, then each shape, is moved up or down if that lowers the loss; what a round has moved is tried once
/// more at once; when a round gains little, the steps are halved. A lengthscale moves with the temperature over it held, for that is
/// the slope of the latent functions. The end, and whether the steps had become short before the rounds ran out.
fn descend(problem: &Problem<'_>, start: Value) -> Result<(Value, bool)> {
    let stationary = problem.starts.given.kernel.form.is_stationary();
    // A shape of a kernel that is not stationary is a scale, as the temperature is.
    let movable: Vec<usize> =
        if stationary { std::iter::once(0).chain(2..start.place.len()).collect() } else { vec![0] };
    let mut best = start;
    let mut step = STEPS.0;
    for _ in 0..ROUNDS {
        let before = best.clone();
        for &i in &movable {
            for move_by in [-step, step] {
                let mut place = best.place.clone();
                place[i] += move_by;
                if i == 2 {
                    place[0] -= move_by;
                }
                if !problem.starts.allows(&place) {
                    continue;
                }
                let value = problem.value(&place)?;
                if value.penalised < best.penalised {
                    best = value;
                    break;
                }
            }
        }
        if best.place != before.place {
            let further: Place =
                best.place.iter().zip(&before.place).map(|(now, then)| 2.0 * now - then).collect();
            if problem.starts.allows(&further) {
                let value = problem.value(&further)?;
                if value.penalised < best.penalised {
                    best = value;
                }
            }
        }
        if before.penalised - best.penalised < GAIN {
            if step <= STEPS.1 {
                return Ok((best, true));
            }
            step *= 0.5;
        }
    }
    Ok((best, false))
}
