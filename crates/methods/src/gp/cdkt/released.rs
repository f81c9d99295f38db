//! Training by the predictive likelihood and prediction at test as the paper's released code has them.

use crate::error::Result;
use crate::gp::deep_kernel::{Labelled, matrix};
use crate::{Episode, Features};
use faer::{Mat, MatRef};
use rand_distr::{Distribution, StandardNormal};
use siskin_gp::episode::{EpisodeGradient, Hyper, HyperGradient};
use siskin_gp::inference::released::{ReleasedPosterior, ReleasedStart};
use siskin_gp::objective::released_predictive::{ReleasedEpisode, ReleasedPredictive, released_predictive};
use siskin_gp::posterior::Latent;
use siskin_nn::stream;

/// Labels and the number of classes they count.
#[derive(Clone, Copy)]
pub(crate) struct Labels<'a> {
    pub labels: &'a [usize],
    pub way: usize,
}

/// The rows that the released code takes for its support: the first `way * shot` rows of a batch that is laid out class by
/// class, in each class the support first. They are rows of the first class or two, most of them queries.
pub(crate) fn support_rows(episode: &Episode<'_>) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..episode.labels.len()).collect();
    rows.sort_by_key(|row| (episode.labels[*row], !episode.support.contains(row), *row));
    rows.truncate(episode.support.len());
    rows
}

/// Standard normal numbers of an episode: for each class [rows, samples].
pub(crate) fn normals(seed: u64, index: u64, [rows, samples]: [usize; 2], way: usize) -> Vec<Mat<f64>> {
    let mut rng = stream(seed, "released predictive", index);
    (0..way).map(|_| Mat::from_fn(rows, samples, |_, _| StandardNormal.sample(&mut rng))).collect()
}

/// The start of the sweeps of test task `index`.
pub(crate) fn start(seed: u64, index: u64, points: usize, way: usize) -> ReleasedStart {
    ReleasedStart::new(points, way, &mut stream(seed, "released prediction", index))
}

/// The released predictive likelihood of all rows, taken back to features and hyperparameters.
pub(crate) fn predictive(
    hyper: &Hyper,
    features: &Features,
    Labels { labels, way }: Labels<'_>,
    drawn: ReleasedEpisode<'_>,
) -> Result<(EpisodeGradient, ReleasedPredictive)> {
    let means = vec![hyper.mean; way];
    let labelled = Labelled { kernel: &hyper.kernel, features, labels, means: &means, tau: hyper.tau };
    let mut outcome = None;
    let answer = labelled.over_all_rows(|task| {
        let found = released_predictive(task, drawn)?;
        let gradient = found.gradient.clone();
        outcome = Some(found);
        Ok(gradient)
    })?;
    let outcome = outcome.expect("the objective was evaluated");
    let features = MatRef::from_row_major_slice(&answer.features, labels.len(), features.dim).to_owned();
    let hyper =
        HyperGradient { kernel: answer.kernel, mean: answer.means.iter().sum(), log_tau: answer.log_tau };
    let gradient = EpisodeGradient { value: answer.value, features, hyper, converged: true, carry: None };
    Ok((gradient, outcome))
}

/// The posterior of a support as the released code finds it at test.
pub(crate) fn posterior(
    hyper: &Hyper,
    Labels { labels, way }: Labels<'_>,
    support: &Features,
    start: &ReleasedStart,
    steps: usize,
) -> Result<ReleasedPosterior> {
    let means = vec![hyper.mean; way];
    let labelled =
        Labelled { kernel: &hyper.kernel, features: support, labels, means: &means, tau: hyper.tau };
    Ok(ReleasedPosterior::new(&labelled.task()?, start, steps)?)
}

/// Latent Gaussians at the queries, given the support.
pub(crate) fn latent(
    hyper: &Hyper,
    labels: Labels<'_>,
    (support, query): (&Features, &Features),
    start: &ReleasedStart,
    steps: usize,
) -> Result<Latent> {
    let means = vec![hyper.mean; labels.way];
    let labelled = Labelled {
        kernel: &hyper.kernel,
        features: support,
        labels: labels.labels,
        means: &means,
        tau: hyper.tau,
    };
    Ok(posterior(hyper, labels, support, start, steps)?.latent(&labelled.query(query)?)?)
}

/// The kernel matrices of each class among some rows, [Q, Q].
pub(crate) fn own_kernels(hyper: &Hyper, rows: &Features, way: usize) -> Result<Vec<Mat<f64>>> {
    let z = hyper.kernel.features(matrix(rows))?;
    Ok(hyper.kernel.within(&z)?.of_classes(way))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Images;

    #[test]
    fn the_first_rows_of_a_class_major_batch_are_taken() {
        let labels = [0, 1, 2, 0, 0, 1, 1, 2, 2];
        let images = Images::new(&[], [0, 1, 1, 1]).unwrap();
        let episode =
            Episode { images, labels: &labels, support: &[0, 1, 2], query: &[3, 4, 5, 6, 7, 8], way: 3 };
        // Class 0 in one-shot: its support row and two of its queries.
        assert_eq!(support_rows(&episode), [0, 3, 4]);
        let five = Episode { support: &[0, 1, 2, 5, 7], query: &[3, 4, 6, 8], ..episode };
        assert_eq!(support_rows(&five), [0, 3, 4, 1, 5]);
    }
}
