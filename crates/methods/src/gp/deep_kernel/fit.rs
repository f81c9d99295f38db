//! The scalars of a head fitted to convergence on features of many episodes, by BFGS within bounds.

use super::GpHead;
use crate::error::Result;
use crate::{EpisodeRows, FeatureEpisode, Images, ScalarFit};
use rayon::prelude::*;

/// The least share of the promised decrease that a step must bring (Armijo).
const SUFFICIENT: f64 = 1e-4;
/// Steps are halved so often before the search gives up.
const HALVINGS: usize = 30;
/// The first step's length at most: the curvature is not known yet.
const FIRST_STEP: f64 = 0.5;
/// It has converged when no number's slope (those at a bound that push outwards aside) exceeds this, in units of the loss.
const FLAT: f64 = 1e-5;

/// A point of the search.
struct At {
    x: Vec<f64>,
    loss: f64,
    slope: Vec<f64>,
}

/// Minimises the mean loss of `episodes` over the learned numbers, starting at `x`. The result is their new values.
pub(super) fn fit<H: GpHead>(
    head: &H,
    x: &[f64],
    episodes: &[FeatureEpisode],
    iterations: usize,
) -> Result<(Vec<f64>, ScalarFit)> {
    let bounds: Vec<(f64, f64)> = head.bounds().into_iter().map(|(_, low, high)| (low, high)).collect();
    let clamp = |x: Vec<f64>| -> Vec<f64> {
        x.into_iter().zip(&bounds).map(|(x, (low, high))| x.clamp(*low, *high)).collect()
    };
    let n = x.len();
    let mut at = evaluate(head, clamp(x.to_vec()), episodes)?;
    let before = at.loss;
    let mut inverse = identity(n);
    let mut converged = is_flat(&at, &bounds);
    let mut taken = 0;
    while taken < iterations && !converged {
        let Some(next) = line_search(head, &at, &direction(&inverse, &at, taken), episodes, &clamp)? else {
            // Once more along the slope itself, before giving up.
            if inverse == identity(n) {
                break;
            }
            inverse = identity(n);
            continue;
        };
        update(&mut inverse, &at, &next);
        taken += 1;
        let gain = at.loss - next.loss;
        at = next;
        converged = is_flat(&at, &bounds) || gain < 1e-10 * at.loss.abs();
    }
    let fit = ScalarFit { before, after: at.loss, iterations: taken, converged };
    Ok((at.x, fit))
}

/// Mean loss and slope at `x`. Episodes run side by side and are summed in order: the same bits on any number of threads.
fn evaluate<H: GpHead>(head: &H, x: Vec<f64>, episodes: &[FeatureEpisode]) -> Result<At> {
    let mut moved = head.clone();
    moved.put_learned(&x);
    let parts = episodes
        .par_iter()
        .map(|e| {
            let images = Images::new(&[], [0, 1, 1, 1])?;
            let (labels, support, query) = (&e.labels, &e.support, &e.query);
            let episode = EpisodeRows { images, labels, support, query, way: e.way };
            let found = moved.clone().loss(&e.features, &episode)?;
            Ok((found.loss, found.dhyper))
        })
        .collect::<Result<Vec<_>>>()?;
    let share = 1.0 / episodes.len() as f64;
    let (mut loss, mut slope) = (0.0, vec![0.0; x.len()]);
    for (part, dhyper) in parts {
        loss += share * part;
        slope.iter_mut().zip(dhyper).for_each(|(sum, g)| *sum += share * g);
    }
    Ok(At { x, loss, slope })
}

fn identity(n: usize) -> Vec<Vec<f64>> {
    (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// -H slope; the slope itself where that is no way down.
fn direction(inverse: &[Vec<f64>], at: &At, taken: usize) -> Vec<f64> {
    let newton: Vec<f64> = inverse.iter().map(|row| -dot(row, &at.slope)).collect();
    let down = if dot(&newton, &at.slope) < 0.0 { newton } else { at.slope.iter().map(|g| -g).collect() };
    let longest = down.iter().fold(0.0f64, |most, d| most.max(d.abs()));
    // Before the first step the unit of the inverse Hessian means nothing.
    let most = if taken == 0 { FIRST_STEP } else { 4.0 * FIRST_STEP };
    let shrink = if longest > most { most / longest } else { 1.0 };
    down.into_iter().map(|d| shrink * d).collect()
}

/// The first of ever shorter steps within the bounds that lowers the loss enough; none if none does.
fn line_search<H: GpHead>(
    head: &H,
    at: &At,
    direction: &[f64],
    episodes: &[FeatureEpisode],
    clamp: &impl Fn(Vec<f64>) -> Vec<f64>,
) -> Result<Option<At>> {
    let mut length = 1.0;
    for _ in 0..HALVINGS {
        let x = clamp(at.x.iter().zip(direction).map(|(x, d)| x + length * d).collect());
        let moved: Vec<f64> = x.iter().zip(&at.x).map(|(new, old)| new - old).collect();
        match evaluate(head, x, episodes) {
            Ok(next) if next.loss <= at.loss + SUFFICIENT * dot(&at.slope, &moved) && next.loss < at.loss => {
                return Ok(Some(next));
            }
            // A step into a place without a finite value is too long.
            Ok(_) => {}
            Err(e) if e.is_not_finite() => {}
            Err(e) => return Err(e),
        }
        length *= 0.5;
    }
    Ok(None)
}

/// BFGS: H <- (I - r s y') H (I - r y s') + r s s', r = 1 / y's.
fn update(inverse: &mut [Vec<f64>], at: &At, next: &At) {
    let s: Vec<f64> = next.x.iter().zip(&at.x).map(|(new, old)| new - old).collect();
    let y: Vec<f64> = next.slope.iter().zip(&at.slope).map(|(new, old)| new - old).collect();
    let curvature = dot(&y, &s);
    // Without positive curvature along the step the old matrix is the better one.
    if curvature <= 1e-12 * dot(&s, &s).sqrt() * dot(&y, &y).sqrt() {
        return;
    }
    let hy: Vec<f64> = inverse.iter().map(|row| dot(row, &y)).collect();
    let factor = (1.0 + dot(&y, &hy) / curvature) / curvature;
    for (i, row) in inverse.iter_mut().enumerate() {
        for (j, h) in row.iter_mut().enumerate() {
            *h += factor * s[i] * s[j] - (s[i] * hy[j] + hy[i] * s[j]) / curvature;
        }
    }
}

fn is_flat(at: &At, bounds: &[(f64, f64)]) -> bool {
    let stuck = |((x, g), (low, high)): ((&f64, &f64), &(f64, f64))| {
        (x <= low && *g > 0.0) || (x >= high && *g < 0.0) || g.abs() < FLAT
    };
    at.x.iter().zip(&at.slope).zip(bounds).all(stuck)
}
