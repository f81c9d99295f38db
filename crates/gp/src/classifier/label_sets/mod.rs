//! Label sets: points that have any number of labels, by the logistic-softmax likelihood (Theorem 1).
//!
//! `p(S | x) = p(m | x) p(S | m, x)`, m the size of the set. The size has a [`GpClassifier`] of its own. Given the size, every label of
//! the set is a draw from the logistic-softmax likelihood, no label twice: `p(S | m, f) = prod_(c in S) sigma(f_c/tau) / e_m(sigma(f/tau))`,
//! e_m the elementary symmetric polynomial. As tau falls to 0, all labels with positive latent values are equally likely, whatever the
//! values: they share. By Maclaurin's inequality, `e_m <= binomial(L, m) (Z / L)^m` with `Z = sum_c sigma(f_c/tau)`, so that
//!
//! `E log p(S | m, f) >= sum_(c in S) E log sigma(f_c/tau) - m E log Z + m log L - log binomial(L, m)`,
//!
//! the integrals of the classifier of one label; inference climbs this bound, hyperparameters and predictions use e_m itself.

mod learn;
mod members;
mod store;
mod symmetric;
#[cfg(test)]
mod tests;

use super::inducing::{Inducing, Sizes};
use super::inputs::{Standardiser, check_features, details_on_a_trend, order_of_values};
use super::learn::{self as one_label, Parameters, Starts};
use super::{GpClassifier, Progress};
use crate::kernels::Kernel;
use crate::parallel::over_ranges;
use crate::{Error, Result};
use faer::{Mat, MatRef};
use learn::{GAIN, Points, search};
use members::{Members, draws};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use symmetric::Symmetric;

/// Up to so many points all are inducing points, unless somebody asks for another number.
const ALL: usize = 512;

/// A classifier of label sets: settings first, then [`LabelSetClassifier::fit`].
///
/// ```
/// use siskin_gp::classifier::LabelSetClassifier;
/// use siskin_gp::faer::Mat;
/// // On a line: label 0 left of 2, label 1 right of 1, both between.
/// let x = Mat::from_fn(30, 1, |i, _| i as f64 / 10.0);
/// let of = |x: f64| (0..2).filter(|&c| if c == 0 { x < 2.0 } else { x > 1.0 }).collect::<Vec<usize>>();
/// let sets: Vec<Vec<usize>> = (0..30).map(|i| of(x[(i, 0)])).collect();
/// let mut model = LabelSetClassifier::default();
/// model.fit(x.as_ref(), &sets, 2)?;
/// let at = model.predictions(Mat::from_fn(2, 1, |i, _| [0.3, 1.5][i]).as_ref())?;
/// assert!(at.labels[(0, 0)] > 0.8 && at.labels[(0, 1)] < 0.2);
/// assert_eq!(at.sets[1].0, [0, 1]);
/// # Ok::<(), siskin_gp::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LabelSetClassifier {
    /// The kernel; `None` is that of [`GpClassifier`].
    pub kernel: Option<Kernel>,
    /// As in [`GpClassifier`].
    pub standardise: bool,
    /// Inducing points; `None`: all points up to 512, beyond as many as [`GpClassifier`] takes.
    pub inducing: Option<usize>,
    /// How far a running fit is.
    pub progress: Arc<Progress>,
    /// Set from another thread, it ends a running fit.
    pub cancelled: Arc<AtomicBool>,
    fitted: Option<Trained>,
}

#[derive(Debug, Clone)]
struct Trained {
    standardiser: Standardiser,
    members: Option<Inducing>,
    sizes: SetSizes,
    learned: LearnedSets,
}

/// The sizes that sets have, and what says which.
#[derive(Debug, Clone)]
struct SetSizes {
    /// Those that occur, ascending.
    values: Vec<usize>,
    /// `None` where there is one.
    by: Option<Box<GpClassifier>>,
}

/// What was learned of the labels given the size of their set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedSets {
    /// Number of labels L.
    pub labels: usize,
    /// Temperature.
    pub tau: f64,
    /// Prior mean of all latent functions.
    pub prior_mean: f64,
    /// The part of the posterior deviation that probabilities are averaged over.
    pub spread: f64,
    /// Mean of `-log p(S | size)` of the sets held out; none where there were too few.
    pub held_out: Option<f64>,
    /// Fits while hyperparameters were learned.
    pub evaluations: usize,
    /// Number of inducing points.
    pub inducing: usize,
    /// Whether the fit to all points came to rest.
    pub converged: bool,
}

/// What is predicted at M points.
#[derive(Debug, Clone)]
pub struct SetPredictions {
    /// The chance of each label to be in the set, [M, L].
    pub labels: Mat<f64>,
    /// The sizes that sets may have, ascending.
    pub size_values: Vec<usize>,
    /// The chance of each of them, [M, sizes].
    pub sizes: Mat<f64>,
    /// The most probable set of each point, ascending labels, and its probability.
    pub sets: Vec<(Vec<usize>, f64)>,
}

impl Default for LabelSetClassifier {
    fn default() -> Self {
        LabelSetClassifier {
            kernel: None,
            standardise: true,
            inducing: None,
            progress: Arc::default(),
            cancelled: Arc::default(),
            fitted: None,
        }
    }
}

impl LabelSetClassifier {
    /// Learns from N points `x` [N, D] with their label sets: labels in `0..labels`, none twice; a set may be empty, a label may not occur.
    pub fn fit(&mut self, x: MatRef<'_, f64>, sets: &[Vec<usize>], labels: usize) -> Result<()> {
        self.fitted = None;
        check_features(x, sets.len())?;
        let sets = checked(sets, labels)?;
        self.progress.start();
        let order = order_of_values(x, &ranks(&sets));
        let standardiser = match self.standardise {
            true => Standardiser::of(x, &order),
            false => Standardiser::none(x.ncols()),
        };
        let sizes = self.fit_sizes(x, &sets)?;
        self.progress.reach(0.3);
        let x = standardiser.apply(x);
        let kernel = match &self.kernel {
            Some(kernel) => kernel.clone(),
            None => details_on_a_trend(&x, &order)?,
        };
        kernel.check(labels)?;
        // An empty set, and that of all labels, say nothing beyond their size.
        let telling: Vec<usize> =
            order.into_iter().filter(|&i| !sets[i].is_empty() && sets[i].len() < labels).collect();
        let (members, learned) = match telling.len() {
            0 => (None, LearnedSets::none(labels)),
            _ => {
                let (members, learned) = self.fit_members(&points(&x, &sets, labels, &telling), kernel)?;
                (Some(members), learned)
            }
        };
        self.fitted = Some(Trained { standardiser, members, sizes, learned });
        self.progress.reach(1.0);
        Ok(())
    }

    /// What says how many labels a point has.
    fn fit_sizes(&self, x: MatRef<'_, f64>, sets: &[Vec<usize>]) -> Result<SetSizes> {
        let mut values: Vec<usize> = sets.iter().map(Vec::len).collect();
        values.sort_unstable();
        values.dedup();
        let place = |set: &Vec<usize>| values.partition_point(|&size| size < set.len());
        let y: Vec<usize> = sets.iter().map(place).collect();
        if values.len() < 2 {
            return Ok(SetSizes { values, by: None });
        }
        let mut by = GpClassifier {
            kernel: self.kernel.clone(),
            standardise: self.standardise,
            inducing: self.inducing,
            cancelled: self.cancelled.clone(),
            ..GpClassifier::default()
        };
        by.fit(x, &y)?;
        Ok(SetSizes { values, by: Some(Box::new(by)) })
    }

    fn fit_members(&self, points: &Points, kernel: Kernel) -> Result<(Inducing, LearnedSets)> {
        let settings = GpClassifier { kernel: self.kernel.clone(), ..GpClassifier::default() };
        let given = Parameters::new(&settings, kernel);
        let some = points.select(&points.spread(settings.learn_points));
        // The deviations of the latent functions do not depend on the labels.
        let labelled =
            one_label::Points { x: &some.x, y: &some.rarest, classes: points.labels, weights: None };
        let starts = Starts::new(&given, labelled, self.kernel.is_none())?;
        let report = |part: f64| self.progress.reach(0.3 + 0.5 * part);
        let found = search(points, &starts, &self.cancelled, &report)?;
        let (hyper, spread, held_out, evaluations) = match found {
            Some(found) => (found.hyper, found.spread, Some(found.held_out), found.evaluations),
            None => (starts.at(&starts.centre())?.hyper, 1.0, None, 0),
        };
        let rows = points.sets.len();
        let asked = self.inducing.filter(|&count| count > 0).or((rows <= ALL).then_some(rows));
        let sizes = Sizes::new(asked, rows, points.x.ncols(), points.labels)?;
        let z = points.select(&points.spread(sizes.points)).x;
        let report = |round: usize, of: usize| self.progress.reach(0.8 + 0.2 * round as f64 / of as f64);
        let done = points.fit(&z, sizes.leading, &hyper, (0.1 * GAIN, &self.cancelled), &report)?;
        let learned = LearnedSets {
            labels: points.labels,
            tau: hyper.tau,
            prior_mean: hyper.mean,
            spread,
            held_out,
            evaluations,
            inducing: done.points(),
            converged: done.converged,
        };
        Ok((done.classifier(), learned))
    }

    /// Chances of labels and sizes, and the most probable set, at M points `x` [M, D].
    pub fn predictions(&self, x: MatRef<'_, f64>) -> Result<SetPredictions> {
        let model = self.model()?;
        check_features(x, x.nrows())?;
        let (expected, got) = (model.standardiser.mean.len(), x.ncols());
        if got != expected {
            return Err(Error::Shape { what: "columns of x", expected, got });
        }
        let (rows, labels, values) = (x.nrows(), model.learned.labels, &model.sizes.values);
        let sizes = match &model.sizes.by {
            Some(by) => by.predict_proba(x)?,
            None => Mat::from_fn(rows, 1, |_, _| 1.0),
        };
        let latent = match &model.members {
            Some(members) => {
                let latent = members.latent(model.standardiser.apply(x).as_ref())?;
                Some(latent.narrowed(model.learned.spread))
            }
            None => None,
        };
        let (draws, most) = (draws(labels), values.last().copied().unwrap_or(0));
        let of = |range: std::ops::Range<usize>| {
            let mut symmetric = Symmetric::default();
            let one = |i: usize| {
                let mut by_size = vec![0.0; most + 1];
                values.iter().enumerate().for_each(|(k, &m)| by_size[m] = sizes[(i, k)]);
                match &latent {
                    Some(latent) => {
                        let members = Members { latent, draws: &draws };
                        (
                            members.chances(i, &by_size, &mut symmetric),
                            members.best(i, &by_size, &mut symmetric),
                        )
                    }
                    None => all_or_none(&by_size, labels),
                }
            };
            range.map(one).collect::<Vec<_>>()
        };
        let found: Vec<_> = over_ranges(rows, 16, of).into_iter().flatten().collect();
        let chances = Mat::from_fn(rows, labels, |i, c| found[i].0[c]);
        let sets = found.into_iter().map(|(_, set)| set).collect();
        Ok(SetPredictions { labels: chances, size_values: values.clone(), sizes, sets })
    }

    /// What was learned of the labels.
    pub fn learned(&self) -> Result<&LearnedSets> {
        Ok(&self.model()?.learned)
    }

    fn model(&self) -> Result<&Trained> {
        self.fitted.as_ref().ok_or(Error::NotFitted)
    }
}

impl LearnedSets {
    /// Of sets that are empty or have all labels.
    fn none(labels: usize) -> Self {
        let (tau, prior_mean, spread) = (1.0, 0.0, 1.0);
        let (held_out, evaluations, inducing) = (None, 0, 0);
        LearnedSets { labels, tau, prior_mean, spread, held_out, evaluations, inducing, converged: true }
    }
}

/// Where sets are empty or have all labels: chances, and the more probable of the two.
fn all_or_none(by_size: &[f64], labels: usize) -> (Vec<f64>, (Vec<usize>, f64)) {
    let all = by_size.get(labels).copied().unwrap_or(0.0);
    let best = if all > 1.0 - all { ((0..labels).collect(), all) } else { (Vec::new(), 1.0 - all) };
    (vec![all; labels], best)
}

/// The sets with their labels ascending; an error for a label that there is not, or twice.
fn checked(sets: &[Vec<usize>], labels: usize) -> Result<Vec<Vec<usize>>> {
    if sets.is_empty() {
        return Err(Error::Empty { what: "label sets", needed: 1 });
    }
    if labels < 2 {
        return Err(Error::LabelSets("label sets need at least 2 labels"));
    }
    let check = |(row, set): (usize, &Vec<usize>)| {
        let mut sorted = set.clone();
        sorted.sort_unstable();
        if let Some(&label) = sorted.last().filter(|&&label| label >= labels) {
            return Err(Error::Label { row, label, classes: labels });
        }
        match sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(Error::LabelSets("a label set names a label twice")),
            false => Ok(sorted),
        }
    };
    sets.iter().enumerate().map(check).collect()
}

/// A number for each set, the same for the same set.
fn ranks(sets: &[Vec<usize>]) -> Vec<usize> {
    let mut sorted: Vec<&Vec<usize>> = sets.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    sets.iter().map(|set| sorted.partition_point(|other| *other < set)).collect()
}

/// Some points with their sets, in this order.
fn points(x: &Mat<f64>, sets: &[Vec<usize>], labels: usize, rows: &[usize]) -> Points {
    let mut counts = vec![0usize; labels];
    rows.iter().flat_map(|&i| &sets[i]).for_each(|&c| counts[c] += 1);
    let rarest = |set: &Vec<usize>| set.iter().copied().min_by_key(|&c| counts[c]).unwrap_or(0);
    Points {
        x: Mat::from_fn(rows.len(), x.ncols(), |i, j| x[(rows[i], j)]),
        sets: rows.iter().map(|&i| sets[i].clone()).collect(),
        rarest: rows.iter().map(|&i| rarest(&sets[i])).collect(),
        labels,
    }
}
