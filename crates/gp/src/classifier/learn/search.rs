//! Temperature, shapes and spread by the least log-loss of points that are held out ([`super::folds`]).
//!
//! The folds are fitted anew (from where the last evaluation ended): cavities cost less, but their errors, cautious here and
//! over-confident there, are as large as the differences that are to be judged. There are three numbers to find, mostly, and the loss
//! is smooth in their logarithms: a pattern search (Hooke and Jeeves) needs some tens of evaluations and no gradient.

use std::cell::{Cell, RefCell};

use super::super::GpClassifier;
use super::super::inference::Effort;
use super::folds::{Fold, are_many, folds, one_fold};
use super::parameters::Parameters;
use super::starts::{Place, Starts};
use super::{Found, Points, evidence, nothing_evaluated};
use crate::Result;
use crate::gaussian::Sites;
use crate::inference::go_on;
use crate::posterior::Latent;
use crate::quadrature::Resolution;

/// The first and the last step of the search, in logarithms.
const STEPS: (f64, f64) = (0.7, 0.35);
/// A round that gains less than this, in nats per point, is followed by shorter steps.
const GAIN: f64 = 1e-3;
/// Rounds at most.
const ROUNDS: usize = 5;
/// Steps of the temperature alone at most, once more points are known.
const RETEMPERED: usize = 3;
/// Other spreads are tried only where the loss is less than this many times the least.
const NEAR: f64 = 1.1;
/// Spreads that are tried, in this order.
pub(in super::super) const SPREADS: [f64; 6] = [1.0, 0.7, 0.5, 0.3, 0.15, 0.05];
/// What a factor e of a shorter lengthscale costs, in nats per point times the root of the number of points held out: a fraction of the
/// standard error of their log-loss. Rougher functions must earn it.
pub(super) const SIMPLER: f64 = 0.2;
/// What the rough integrals know of a small probability.
pub(super) const SMALLEST: f64 = 1e-6;

/// The log-loss of the points held out.
struct Problem<'a> {
    settings: &'a GpClassifier,
    folds: &'a [Fold],
    starts: &'a Starts<'a>,
    /// Sites of the last inference of each fold: the next one starts there, which only saves steps.
    warm: RefCell<Vec<Option<Sites>>>,
    /// The spread that was best last, and the least loss.
    spread: Cell<usize>,
    least: Cell<f64>,
    evaluations: Cell<usize>,
    unrested: Cell<usize>,
}

/// A place with its best spread and its losses there.
#[derive(Clone)]
struct Value {
    place: Place,
    spread: f64,
    /// Mean of `-log p(y)` of the points held out.
    loss: f64,
    /// The loss that is compared: one more point than there are may have any label. However well all are predicted, a model that is sure of
    /// everything does not win. Where temperature and spread are expected somewhere ([`super::Expected`]), that prior takes the place of the
    /// one more point. Nor do details win that gain next to nothing ([`SIMPLER`]).
    guarded: f64,
}

impl<'a> Problem<'a> {
    fn new(settings: &'a GpClassifier, folds: &'a [Fold], starts: &'a Starts<'a>) -> Self {
        let expected = settings.expected.map_or(1.0, |expected| expected.spread);
        let off = |i: &usize| (SPREADS[*i] / expected).ln().abs();
        let first = (0..SPREADS.len()).min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(0);
        let (evaluations, unrested, spread) = (Cell::new(0), Cell::new(0), Cell::new(first));
        let warm = RefCell::new(vec![None; folds.len()]);
        let least = Cell::new(f64::INFINITY);
        Problem { settings, folds, starts, warm, spread, least, evaluations, unrested }
    }

    fn value(&self, place: &Place) -> Result<Value> {
        let at = self.starts.at(place)?;
        let inference = self.settings.inference(Effort::Comparison, at.noise);
        let mut latents = Vec::new();
        for (fold, warm) in self.folds.iter().zip(self.warm.borrow_mut().iter_mut()) {
            go_on(&self.settings.cancelled)?;
            let support = fold.known.points().support(&at)?;
            let found = inference.posterior_from(&support.task()?, warm.take(), &self.settings.cancelled)?;
            self.unrested.set(self.unrested.get() + usize::from(!found.converged));
            latents.push(found.latent(&support.query(fold.held.x.as_ref())?)?);
            *warm = Some(found.sites()?);
        }
        self.evaluations.set(self.evaluations.get() + 1);
        self.best_spread(place, &latents)
    }

    /// The best spread near the last one: it costs integrals, no inference.
    fn best_spread(&self, place: &Place, latents: &[Latent]) -> Result<Value> {
        let mut best = self.at_spread(place, latents, self.spread.get())?;
        if best.guarded > NEAR * self.least.get() {
            return Ok(best);
        }
        for down in [false, true] {
            loop {
                let at = self.spread.get();
                let next =
                    if down { at.checked_sub(1) } else { Some(at + 1).filter(|&at| at < SPREADS.len()) };
                let Some(next) = next else { break };
                let value = self.at_spread(place, latents, next)?;
                if value.guarded >= best.guarded {
                    break;
                }
                best = value;
                self.spread.set(next);
            }
        }
        self.least.set(self.least.get().min(best.guarded));
        Ok(best)
    }

    fn at_spread(&self, place: &Place, latents: &[Latent], spread: usize) -> Result<Value> {
        let spread = SPREADS[spread];
        let (mut loss, mut any, mut points) = (0.0, 0.0, 0.0);
        for (latent, fold) in latents.iter().zip(self.folds) {
            let probs = latent.clone().narrowed(spread).probs(Resolution::Fast)?;
            for (i, &y) in fold.held.y.iter().enumerate() {
                let cost = |c: usize| -probs[(i, c)].max(SMALLEST).ln();
                let mut costs: Vec<f64> = (0..probs.ncols()).map(cost).collect();
                let weight = fold.held.weight(i);
                loss += weight * costs[y];
                any += weight * crate::linalg::sum_any_order(&mut costs) / probs.ncols() as f64;
                points += weight;
            }
        }
        (loss, any) = (loss / points, any / points);
        let guard = match &self.settings.expected {
            None => (any - loss) / (points + 1.0),
            Some(expected) => {
                let off = [self.starts.temperature(place) / expected.temperature, spread / expected.spread];
                off.iter().map(|ratio| 0.5 * (ratio.ln() / expected.deviation).powi(2)).sum::<f64>() / points
            }
        };
        let guarded = loss + guard + SIMPLER * self.starts.roughness(place) / points.sqrt();
        Ok(Value { place: place.clone(), spread, loss, guarded })
    }

    /// The best of the starts.
    fn best_start(&self) -> Result<Value> {
        let mut best: Option<(Value, usize)> = None;
        let mut keep = |value: Value| {
            if best.as_ref().is_none_or(|(best, _)| value.guarded < best.guarded) {
                best = Some((value, self.spread.get()));
            }
        };
        for place in self.starts.others() {
            keep(self.value(&place)?);
        }
        let mut before = f64::INFINITY;
        for place in self.starts.hot_to_cold() {
            let value = self.value(&place)?;
            let rises = value.guarded > before;
            before = value.guarded;
            keep(value);
            // Colder still, the integrals are the costly ones.
            if rises {
                break;
            }
        }
        let (best, spread) = best.ok_or_else(nothing_evaluated)?;
        self.spread.set(spread);
        Ok(best)
    }
}

/// The best start, and the search from there, on at most `learn_points` points; then, with `retempered`, the temperature with more of them.
pub(super) fn search(
    settings: &GpClassifier,
    given: &Parameters,
    points: Points<'_>,
    order: &[usize],
    retempered: bool,
) -> Result<Found> {
    let few = points.few(order, settings.learn_points);
    let mut parameters = given.clone();
    let mut evaluations = 0;
    if parameters.has_more() {
        let climbed = evidence::climb(settings, parameters.clone(), few.points())?;
        evaluations += climbed.evaluations;
        parameters = parameters.moved(climbed.at);
    }
    let folds = folds(points, order, settings.learn_points);
    let starts = Starts::new(&parameters, few.points(), settings.kernel.is_none())?;
    if folds.is_empty() {
        // No class has two examples: nothing can be judged.
        let (place, spread) = match settings.expected {
            None => (starts.centre(), settings.spread),
            Some(expected) => (starts.centre_at(expected.temperature), expected.spread),
        };
        let at = starts.at(&place)?;
        return Ok(Found {
            at,
            spread,
            loss: None,
            evaluations,
            converged: true,
            inner_converged: true,
            kept: true,
        });
    }
    let problem = Problem::new(settings, &folds, &starts);
    let start = problem.best_start()?;
    let (mut value, converged) = descend(&problem, start)?;
    let mut rested = problem.unrested.get() == 0;
    evaluations += problem.evaluations.get();
    if retempered && are_many(points, settings.learn_points) {
        let (known, held) = (settings.learn_points * 5 / 2, 2 * settings.learn_points);
        let larger = [one_fold(points, order, known, held)];
        let problem = Problem { spread: problem.spread, ..Problem::new(settings, &larger, &starts) };
        value = retemper(&problem, &value.place)?;
        rested &= problem.unrested.get() == 0;
        evaluations += problem.evaluations.get();
    }
    Ok(Found {
        at: starts.at(&value.place)?,
        spread: value.spread,
        loss: Some(value.loss),
        evaluations,
        converged,
        inner_converged: rested,
        kept: true,
    })
}

/// The temperature once more, with more points known: the more there are, the less the prior need be strong.
fn retemper(problem: &Problem<'_>, place: &Place) -> Result<Value> {
    let mut best = problem.value(place)?;
    for move_by in [STEPS.1, -STEPS.1] {
        let before = best.guarded;
        for _ in 0..RETEMPERED {
            let mut place = best.place.clone();
            place[0] += move_by;
            let value = problem.value(&place)?;
            if value.guarded >= best.guarded {
                break;
            }
            best = value;
        }
        if best.guarded < before {
            break;
        }
    }
    Ok(best)
}

/// Pattern search: the temperature, then each shape, is moved up or down if that lowers the loss; what a round has moved is tried once
/// more at once; when a round gains little, the steps are halved. The end, and whether the steps had become short before the rounds
/// ran out.
fn descend(problem: &Problem<'_>, start: Value) -> Result<(Value, bool)> {
    let mut best = start;
    let mut step = STEPS.0;
    for _ in 0..ROUNDS {
        let before = best.clone();
        for direction in problem.starts.directions() {
            for move_by in [-step, step] {
                let place = direction.iter().zip(&best.place).map(|(d, at)| at + move_by * d).collect();
                if !problem.starts.allows(&place) {
                    continue;
                }
                let value = problem.value(&place)?;
                if value.guarded < best.guarded {
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
                if value.guarded < best.guarded {
                    best = value;
                }
            }
        }
        if before.guarded - best.guarded < GAIN {
            if step <= STEPS.1 {
                return Ok((best, true));
            }
            step *= 0.5;
        }
    }
    Ok((best, false))
}
