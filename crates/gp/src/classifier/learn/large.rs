//! Many points: hyperparameters by held-out points that fits by inducing points predict, then the fit to all.
//!
//! The search for few points ([`super::search`]) gives the start. From there temperature and shapes move while some thousand points are
//! known; the temperature moves once more with more of them, for the more are known, the less strong the prior need be.

use super::super::GpClassifier;
use super::super::inducing::{Done, Drawn, Job, Labelled, Sizes, centres};
use super::super::inference::{GAIN, ROUGH_GAIN};
use super::folds::{Fold, one_fold};
use super::parameters::Parameters;
use super::search::{SIMPLER, SMALLEST, SPREADS};
use super::starts::{Place, Starts};
use super::{Few, Learned, Points, search};
use crate::Result;
use crate::kernels::Kernel;
use crate::left_out::{LeaveOneOut, leave_one_out_of};
use crate::posterior::Latent;
use crate::quadrature::Resolution;
use faer::Mat;

/// Points that are known, first and later, and held out at most.
const KNOWN: [usize; 2] = [4096, 16_384];
const HELD: usize = 2000;
/// Inducing points while shapes move, at most.
const FEW: usize = 512;
/// Leading features while shapes move, at most.
const SMALL_COVARIANCE: usize = 256;
/// Steps of the search, in logarithms.
const STEPS: [f64; 2] = [0.7, 0.35];
/// Fits of a search, as its progress counts them.
const FITS: f64 = 10.0;

/// What was learned of many points.
pub(in super::super) struct Large {
    pub(in super::super) done: Done,
    pub(in super::super) learned: Learned,
    pub(in super::super) held: HeldOut,
}

/// The points that were held out last, as the others predicted them.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct HeldOut {
    /// The probability of each point's own class, by class.
    pub(in super::super) own: Vec<(usize, f64)>,
    /// Mean of `-log p(y)`.
    pub(in super::super) log_loss: f64,
    pub(in super::super) accuracy: f64,
}

/// Fits to points that are known, judged by those held out.
struct Problem<'a> {
    settings: &'a GpClassifier,
    starts: &'a Starts<'a>,
    fold: &'a Fold,
    z: &'a Mat<f64>,
    leading: usize,
}

struct Value {
    place: Place,
    spread: f64,
    held: HeldOut,
    /// What is compared: the loss and the price of details.
    guarded: f64,
    done: Done,
}

impl Problem<'_> {
    fn value(&self, place: &Place, from: Option<&Done>) -> Result<Value> {
        let hyper = self.starts.at(place)?.hyper;
        let job = Job {
            points: labelled(self.fold.known.points()),
            classes: self.fold.known.points().classes,
            z: self.z,
            hyper: &hyper,
            leading: self.leading,
            rest: ROUGH_GAIN,
            cancelled: &self.settings.cancelled,
            on_round: &|_, _| {},
        };
        let done = job.run(from)?;
        let latent = done.classifier().latent(self.fold.held.x.as_ref())?;
        let mut best: Option<(f64, HeldOut)> = None;
        let spreads: &[f64] = if self.settings.learn { &SPREADS } else { &[self.settings.spread] };
        for &spread in spreads {
            let held = judged(&latent.clone().narrowed(spread), &self.fold.held)?;
            if best.as_ref().is_none_or(|(_, best)| held.log_loss < best.log_loss) {
                best = Some((spread, held));
            }
        }
        let (spread, held) = best.ok_or_else(super::nothing_evaluated)?;
        let price = SIMPLER * self.starts.roughness(place) / (held.own.len() as f64).sqrt();
        Ok(Value { place: place.clone(), spread, guarded: held.log_loss + price, held, done })
    }
}

/// Points as fits by inducing points take them.
fn labelled(points: Points<'_>) -> Labelled<'_> {
    Labelled { x: points.x.as_ref(), drawn: Drawn::One(points.y), weights: points.weights }
}

fn judged(latent: &Latent, held: &Few) -> Result<HeldOut> {
    let y = &held.y;
    let probs = latent.probs_of_many(Resolution::Fast)?;
    let own: Vec<(usize, f64)> = y.iter().enumerate().map(|(i, &c)| (c, probs[(i, c)])).collect();
    let LeaveOneOut { accuracy, .. } = leave_one_out_of(&probs, y)?;
    let weight = |i: usize| held.weight(i);
    let loss = own.iter().enumerate().map(|(i, (_, p))| -weight(i) * p.max(SMALLEST).ln()).sum::<f64>();
    let log_loss = loss / (0..y.len()).map(weight).sum::<f64>();
    Ok(HeldOut { own, log_loss, accuracy })
}

/// Hyperparameters, and the fit to all points, which come in an order that is the same whatever the order of the rows.
pub(in super::super) fn learn_large(
    settings: &GpClassifier,
    kernel: Kernel,
    points: Points<'_>,
    sizes: Sizes,
) -> Result<Large> {
    let order: &[usize] = &(0..points.y.len()).collect::<Vec<usize>>();
    let given = Parameters::new(settings, kernel);
    let few = points.few(order, settings.learn_points);
    let (parameters, found) = match settings.learn {
        true => {
            let found = search::search(settings, &given, points, order, false)?;
            (given.moved(found.at.clone()), Some(found))
        }
        false => (given, None),
    };
    settings.progress.reach(0.1);
    let starts = Starts::new(&parameters, few.points(), settings.kernel.is_none())?;
    let held = HELD.min(points.y.len() / 5);
    let fold = |known: usize| one_fold(points, order, known.min(points.y.len() - held), held);
    let Sizes { points: count, leading } = sizes;
    let (mut place, mut converged) = (starts.place_of(&parameters.start), true);
    let mut evaluations = found.as_ref().map_or(0, |found| found.evaluations);
    if settings.learn {
        let (fold, z) = (fold(KNOWN[0]), centres(points, order, count.min(FEW)));
        let leading = leading.min(SMALL_COVARIANCE);
        let problem = Problem { settings, starts: &starts, fold: &fold, z: &z, leading };
        let walk = walk(&problem, &place, &starts.directions(), 0.1)?;
        (place, converged) = (walk.best.place, walk.converged);
        evaluations += walk.evaluations;
    }
    let (fold, z) = (fold(KNOWN[1]), centres(points, order, count));
    let problem = Problem { settings, starts: &starts, fold: &fold, z: &z, leading };
    let temperature = starts.directions().into_iter().take(usize::from(settings.learn));
    let walk = walk(&problem, &place, &temperature.collect::<Vec<Place>>(), 0.4)?;
    settings.progress.reach(0.6);
    let hyper = starts.at(&walk.best.place)?.hyper;
    let job = Job {
        points: labelled(points),
        classes: points.classes,
        z: &z,
        hyper: &hyper,
        leading,
        rest: GAIN,
        cancelled: &settings.cancelled,
        on_round: &|round, of| settings.progress.reach(0.6 + 0.4 * round as f64 / of as f64),
    };
    let done = job.run(Some(&walk.best.done))?;
    let learned = Learned {
        prior_mean: hyper.mean,
        tau: hyper.tau,
        noise: 0.0,
        spread: walk.best.spread,
        any_label: 0.0,
        bound: done.bound,
        evaluations: evaluations + walk.evaluations,
        converged: converged && walk.converged,
        inner_converged: found.is_none_or(|found| found.inner_converged) && walk.best.done.converged,
        posterior_converged: done.converged,
        held_out: Some(walk.best.held.log_loss),
        learned_kept: true,
        shares: Vec::new(),
        inducing: done.points(),
    };
    Ok(Large { done, learned, held: walk.best.held })
}

/// Where a search ended.
struct Walk {
    best: Value,
    evaluations: usize,
    converged: bool,
}

/// Moves along each direction, up or down, while that lowers the loss; long steps first, then short ones. `begun` is how far the whole fit is
/// when it starts.
fn walk(problem: &Problem<'_>, start: &Place, directions: &[Place], begun: f64) -> Result<Walk> {
    let mut best = problem.value(start, None)?;
    let (mut evaluations, mut moved) = (1, false);
    for step in STEPS {
        moved = false;
        for direction in directions {
            for move_by in [-step, step] {
                let mut gained = false;
                loop {
                    let place: Place =
                        direction.iter().zip(&best.place).map(|(d, at)| at + move_by * d).collect();
                    if !problem.starts.allows(&place) || evaluations as f64 >= FITS {
                        break;
                    }
                    let value = problem.value(&place, Some(&best.done))?;
                    evaluations += 1;
                    problem.settings.progress.reach(begun + 0.2 * evaluations as f64 / FITS);
                    if value.guarded >= best.guarded {
                        break;
                    }
                    (best, gained, moved) = (value, true, true);
                }
                if gained {
                    break;
                }
            }
        }
    }
    Ok(Walk { best, evaluations, converged: !moved || (evaluations as f64) < FITS })
}
