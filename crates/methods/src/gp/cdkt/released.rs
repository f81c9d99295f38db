//! Training by the predictive likelihood and prediction at test as the paper's released code has them.

use crate::EpisodeRows;
use crate::error::Result;
use faer::Mat;
use rand_distr::{Distribution, StandardNormal};
use siskin_gp::Support;
use siskin_gp::inference::ReleasedStart;
use siskin_gp::objective::{EpisodeGradient, ReleasedEpisode, ReleasedPredictive, released_predictive};
use siskin_nn::stream;

/// The rows that the released code takes for its support: the first `way * shot` rows of a batch that is laid out class by
/// class, in each class the support first. They are rows of the first class or two, most of them queries.
pub(crate) fn support_rows(episode: &EpisodeRows<'_>) -> Vec<usize> {
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

/// The released predictive likelihood of all points, taken back to features and hyperparameters.
pub(crate) fn predictive(
    points: &Support,
    drawn: ReleasedEpisode<'_>,
) -> Result<(EpisodeGradient, ReleasedPredictive)> {
    let mut outcome = None;
    let answer = points.through_kernel(|task| {
        let found = released_predictive(task, drawn)?;
        let gradient = found.gradient.clone();
        outcome = Some(found);
        Ok(gradient)
    })?;
    Ok((answer, outcome.expect("the objective was evaluated")))
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
            EpisodeRows { images, labels: &labels, support: &[0, 1, 2], query: &[3, 4, 5, 6, 7, 8], way: 3 };
        // Class 0 in one-shot: its support row and two of its queries.
        assert_eq!(support_rows(&episode), [0, 3, 4]);
        let five = EpisodeRows { support: &[0, 1, 2, 5, 7], query: &[3, 4, 6, 8], ..episode };
        assert_eq!(support_rows(&five), [0, 3, 4, 1, 5]);
    }
}
