//! What the Gaussian process does in a training episode, and the shares of its parts: they are timed by doing them once more, alone.

use crate::error::Result;
use serde::Serialize;
use siskin_cpu::time;
use siskin_gp::equations::{Predictive, Slope, Start, direct, expected_log_lik, natural_bound, predictive};
use siskin_gp::faer::Mat;
use siskin_gp::inference::{Inference, Stop, Updates};
use siskin_gp::objective::Objective;
use siskin_gp::posterior::Latent;
use siskin_gp::{Labelled, Query, Resolution, Support, Task};
use siskin_methods::gp::cdkt::Cdkt;
use siskin_methods::{EpisodeRows, Features, matrix, select};

/// The work of the Gaussian process in one training episode. Shares are parts of its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Work {
    /// Sweeps or natural-gradient steps.
    pub steps: usize,
    /// How many times the integrals of all points were computed.
    pub evaluations: usize,
    /// From features to kernel matrices, and slopes back.
    pub kernel: f64,
    /// The integrals of the likelihood and their slopes.
    pub quadrature: f64,
    /// Everything else: factorisations, products, adjoints.
    pub algebra: f64,
}

/// Seconds of the parts of one episode.
struct Seconds {
    steps: usize,
    evaluations: usize,
    inference: f64,
    quadrature: f64,
}

impl Work {
    /// The work on an episode with these features; the least times of `repeats`. None for objectives that are timed as a whole only.
    pub(super) fn measure(
        method: &Cdkt,
        features: &Features,
        episode: &EpisodeRows<'_>,
        repeats: usize,
    ) -> Result<Option<Work>> {
        let gp = siskin_methods::Error::from;
        let Ok((objective, points)) = method.objective_and_points(features, episode) else { return Ok(None) };
        let whole = least(repeats, || objective.value_and_gradient(&points)).map_err(gp)?;
        let found = match &objective {
            Objective::Natural(options) => natural(&points.task().map_err(gp)?, *options, repeats),
            &Objective::Direct { steps, resolution } => {
                collapsed(&points.task().map_err(gp)?, steps, resolution, repeats)
            }
            &Objective::Predictive { order, stop, resolution, .. } => {
                let (task, query, labels) = split(&points, features, episode)?;
                let asked = Labelled { query: &query, y: &labels };
                let timed =
                    least(repeats, || predictive(&task, asked, order, &Start::Prior, stop, resolution));
                timed.and_then(|inference| {
                    by_queries(&task, asked, (order, stop), resolution, repeats, inference)
                })
            }
            _ => return Ok(None),
        };
        let found = found.map_err(gp)?;
        let whole = whole.max(f64::MIN_POSITIVE);
        let quadrature = (found.quadrature / whole).min(1.0);
        let kernel = (1.0 - found.inference / whole).clamp(0.0, 1.0 - quadrature);
        let algebra = 1.0 - kernel - quadrature;
        Ok(Some(Work { steps: found.steps, evaluations: found.evaluations, kernel, quadrature, algebra }))
    }
}

/// Least seconds of CPU time of some repeats: other programs can only add to it.
fn least<T>(repeats: usize, mut work: impl FnMut() -> siskin_gp::Result<T>) -> siskin_gp::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..=repeats {
        let (outcome, seconds) = time(&mut work);
        outcome?;
        best = best.min(seconds.busy());
    }
    Ok(best)
}

fn natural(
    task: &Task,
    options: siskin_gp::inference::NaturalOptions,
    repeats: usize,
) -> siskin_gp::Result<Seconds> {
    let inference = least(repeats, || natural_bound(task, options))?;
    let (_, fit) = natural_bound(task, options)?;
    let (n, classes) = (task.points(), task.classes());
    let mu = Mat::from_fn(n, classes, |i, c| fit.blocks[c].mu[i]);
    let v = Mat::from_fn(n, classes, |i, c| fit.blocks[c].v[i].max(0.0));
    let once = least(repeats, || expected_log_lik(mu.as_ref(), v.as_ref(), task.y(), options.resolution))?;
    let (steps, evaluations) = (fit.bounds.len() - 1, fit.evaluations);
    Ok(Seconds { steps, evaluations, inference, quadrature: evaluations as f64 * once })
}

fn collapsed(
    task: &Task,
    steps: usize,
    resolution: Resolution,
    repeats: usize,
) -> siskin_gp::Result<Seconds> {
    let stop = Stop::Steps(steps);
    let inference = least(repeats, || direct(task, stop, resolution))?;
    let fit = siskin_gp::equations::infer(task, Updates::Collapsed, &Start::Prior, stop)?;
    let (n, classes) = (task.points(), task.classes());
    let mu = Mat::from_fn(n, classes, |i, c| fit.blocks()[c].mu[i]);
    let v = Mat::from_fn(n, classes, |i, c| fit.blocks()[c].v[i].max(0.0));
    let quadrature = least(repeats, || expected_log_lik(mu.as_ref(), v.as_ref(), task.y(), resolution))?;
    Ok(Seconds { steps, evaluations: 1, inference, quadrature })
}

/// The probabilities of the labels of the queries, with their slopes.
fn by_queries(
    task: &Task,
    asked: Labelled<'_>,
    (order, stop): (Updates, Stop),
    resolution: Resolution,
    repeats: usize,
    inference: f64,
) -> siskin_gp::Result<Seconds> {
    let posterior = Inference::MeanField { order, stop }.posterior(task)?;
    let latent: Latent = posterior.latent(asked.query)?;
    let quadrature = least(repeats, || {
        let (mut rule, mut slope) = (Predictive::new(resolution), Slope::default());
        let mut sum = 0.0;
        for (q, &label) in asked.y.iter().enumerate() {
            // In units of x = f/tau.
            let row = |m: &Mat<f64>, unit: f64| {
                (0..latent.classes()).map(|c| m[(q, c)] / unit).collect::<Vec<f64>>()
            };
            let (mean, var) = (row(&latent.mean, latent.tau), row(&latent.var, latent.tau * latent.tau));
            sum += rule.prob_and_slope(&mean, &var, label, &mut slope)?;
        }
        Ok(sum)
    })?;
    Ok(Seconds { steps: posterior.steps, evaluations: 1, inference, quadrature })
}

/// Support and queries of an episode, as the predictive likelihood takes them.
fn split(
    points: &Support,
    features: &Features,
    episode: &EpisodeRows<'_>,
) -> Result<(Task, Query, Vec<usize>)> {
    let gp = siskin_methods::Error::from;
    let of = |rows: &[usize]| rows.iter().map(|&row| episode.labels[row]).collect::<Vec<usize>>();
    let (known, asked) = (select(features, episode.support), select(features, episode.query));
    let support = Support::new(matrix(&known), &of(episode.support), points.prior().clone()).map_err(gp)?;
    let query = support.query(matrix(&asked)).map_err(gp)?;
    Ok((support.task().map_err(gp)?, query, of(episode.query)))
}
