//! Hyperparameters of the labels of a set, given its size: by the log-loss of sets that are held out.

use super::super::inducing::{Done, Drawn, Job, Labelled};
use super::super::inputs::spread_subset;
use super::super::learn::{SPREADS, Starts, nothing_evaluated};
use super::members::{Members, draws};
use super::symmetric::Symmetric;
use crate::inference::go_on;
use crate::parallel::over_ranges;
use crate::posterior::Latent;
use crate::{Hyper, Result};
use faer::Mat;
use std::sync::atomic::AtomicBool;

/// Points that are known and held out while hyperparameters are learned, at most, and inducing points.
const KNOWN: usize = 800;
const HELD: usize = 500;
const FEW: usize = 300;
/// Folds of fewer points.
const PARTS: usize = 4;
/// The temperature that is expected, in units of the deviation of the latent functions over the points, and the deviation of its logarithm.
const EXPECTED: (f64, f64) = (0.35, 1.0);
/// Prior means that are tried, in prior deviations. Near 0 labels with positive values share (Theorem 1); far below, the model is a softmax.
const MEANS: [f64; 3] = [0.0, -2.0, -6.0];
/// Steps of the search, in logarithms, and for the mean in asinh of deviations.
const STEPS: [f64; 2] = [0.7, 0.35];
/// A fit rests when a round would gain less than this for each point.
pub(super) const GAIN: f64 = 2e-3;

/// Points with label sets, in an order that does not depend on how they came.
pub(super) struct Points {
    /// [N, D], standardised.
    pub(super) x: Mat<f64>,
    /// Neither empty nor all labels.
    pub(super) sets: Vec<Vec<usize>>,
    /// The rarest label of each: subsets have points of every label by it.
    pub(super) rarest: Vec<usize>,
    pub(super) labels: usize,
}

/// What was found.
pub(super) struct Found {
    pub(super) hyper: Hyper,
    pub(super) spread: f64,
    /// Mean of `-log p(S | size)` of the sets held out.
    pub(super) held_out: f64,
    pub(super) evaluations: usize,
}

impl Points {
    pub(super) fn select(&self, rows: &[usize]) -> Points {
        Points {
            x: Mat::from_fn(rows.len(), self.x.ncols(), |i, j| self.x[(rows[i], j)]),
            sets: rows.iter().map(|&i| self.sets[i].clone()).collect(),
            rarest: rows.iter().map(|&i| self.rarest[i]).collect(),
            labels: self.labels,
        }
    }

    /// At most `most` of them, spread over the labels.
    pub(super) fn spread(&self, most: usize) -> Vec<usize> {
        let order: Vec<usize> = (0..self.sets.len()).collect();
        spread_subset(&order, &self.rarest, self.labels, most)
    }

    /// The fit by inducing points `z` at some hyperparameters.
    pub(super) fn fit(
        &self,
        z: &Mat<f64>,
        leading: usize,
        hyper: &Hyper,
        (rest, cancelled): (f64, &AtomicBool),
        on_round: &dyn Fn(usize, usize),
    ) -> Result<Done> {
        let points = Labelled { x: self.x.as_ref(), drawn: Drawn::Sets(&self.sets), weights: None };
        Job { points, classes: self.labels, z, hyper, leading, rest, cancelled, on_round }.run(None)
    }
}

/// Sum of `-log p(S | size)` of these points under a latent posterior.
fn loss(latent: &Latent, held: &Points, draws: &Mat<f64>) -> f64 {
    let members = Members { latent, draws };
    let of = |range: std::ops::Range<usize>| {
        let mut symmetric = Symmetric::default();
        range.map(|i| -members.log_prob(i, &held.sets[i], &mut symmetric)).collect::<Vec<f64>>()
    };
    over_ranges(held.sets.len(), 16, of).iter().flatten().sum::<f64>()
}

/// Points that are known, points that are held out, and inducing points.
struct Fold {
    known: Points,
    held: Points,
    z: Mat<f64>,
}

struct Problem<'a> {
    starts: &'a Starts<'a>,
    folds: Vec<Fold>,
    draws: Mat<f64>,
    cancelled: &'a AtomicBool,
}

#[derive(Clone)]
struct Value {
    place: Vec<f64>,
    spread: f64,
    loss: f64,
    /// What is compared: the loss, and the price of an unusual temperature, which fades with the number of points.
    guarded: f64,
}

impl Problem<'_> {
    fn value(&self, place: &[f64]) -> Result<Value> {
        let hyper = self.starts.at(&place.to_vec())?.hyper;
        let (mut losses, mut points) = ([0.0; SPREADS.len()], 0.0);
        for Fold { known, held, z } in &self.folds {
            go_on(self.cancelled)?;
            let done = known.fit(z, z.nrows(), &hyper, (GAIN, self.cancelled), &|_, _| {})?;
            let latent = done.classifier().latent(held.x.as_ref())?;
            for (total, spread) in losses.iter_mut().zip(SPREADS) {
                *total += loss(&latent.clone().narrowed(spread), held, &self.draws);
            }
            points += held.sets.len() as f64;
        }
        let best = (0..losses.len()).fold(0, |best, i| if losses[i] < losses[best] { i } else { best });
        let off = (self.starts.temperature(&place.to_vec()) / EXPECTED.0).ln() / EXPECTED.1;
        let (loss, price) = (losses[best] / points, 0.5 * off * off / points);
        Ok(Value { place: place.to_vec(), spread: SPREADS[best], loss, guarded: loss + price })
    }
}

/// Where there are many points some are held out; of few every one is, in one of several folds. None where nothing can be.
fn folds(points: &Points) -> Vec<Fold> {
    let all = points.sets.len();
    let fold = |known: &[usize], held: &[usize]| {
        let (known, held) = (points.select(known), points.select(held));
        let z = known.select(&known.spread(FEW)).x;
        Fold { known, held, z }
    };
    if all > KNOWN {
        let known = points.spread(KNOWN.min(all - all / 4));
        let mut is_known = vec![false; all];
        known.iter().for_each(|&i| is_known[i] = true);
        let rest: Vec<usize> = (0..all).filter(|&i| !is_known[i]).collect();
        let held: Vec<usize> = rest.iter().copied().step_by(rest.len().div_ceil(HELD).max(1)).collect();
        return vec![fold(&known, &held)];
    }
    let parts = if all < 2 { 0 } else { PARTS.min(all) };
    let of_part = |part: usize| {
        let (held, known): (Vec<usize>, Vec<usize>) = (0..all).partition(|i| i % parts == part);
        fold(&known, &held)
    };
    (0..parts).map(of_part).collect()
}

/// The best of some starts, then steps of temperature, mean and length for the least loss. `None` where nothing can be held out.
pub(super) fn search(
    points: &Points,
    starts: &Starts<'_>,
    cancelled: &AtomicBool,
    report: &dyn Fn(f64),
) -> Result<Option<Found>> {
    let folds = folds(points);
    if folds.is_empty() {
        return Ok(None);
    }
    let problem = Problem { starts, folds, draws: draws(points.labels), cancelled };
    let (mut best, mut evaluations): (Option<Value>, usize) = (None, 0);
    for mean in MEANS {
        let mut before = f64::INFINITY;
        for mut place in starts.hot_to_cold() {
            place[1] = mean.asinh();
            let value = problem.value(&place)?;
            evaluations += 1;
            report(f64::from(evaluations as u32) / 24.0);
            let rises = value.guarded > before;
            before = value.guarded;
            if best.as_ref().is_none_or(|best| value.guarded < best.guarded) {
                best = Some(value);
            }
            if rises {
                break;
            }
        }
    }
    let mut best = best.ok_or_else(nothing_evaluated)?;
    let mut directions = starts.directions();
    let mut along_mean = vec![0.0; best.place.len()];
    along_mean[1] = 1.0;
    directions.push(along_mean);
    for step in STEPS {
        for direction in &directions {
            for move_by in [-step, step] {
                let place: Vec<f64> =
                    best.place.iter().zip(direction).map(|(at, d)| at + move_by * d).collect();
                if !starts.allows(&place) {
                    continue;
                }
                let value = problem.value(&place)?;
                evaluations += 1;
                report(f64::from(evaluations as u32) / 24.0);
                if value.guarded < best.guarded {
                    best = value;
                    break;
                }
            }
        }
    }
    let hyper = starts.at(&best.place)?.hyper;
    Ok(Some(Found { hyper, spread: best.spread, held_out: best.loss, evaluations }))
}
