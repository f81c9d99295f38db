//! Tasks with unequal numbers of examples, made of validation episodes: by them the power of a model's balance is chosen.

use crate::balance::Balance;
use crate::error::Result;
use crate::fitted::Fitted;
use crate::measure::ValidationEpisode;
use rayon::prelude::*;
use siskin_methods::{Features, GaussianProcess, select};
use std::sync::atomic::AtomicBool;

/// Numbers of examples of ten classes in one task.
pub const MIXED: [usize; 10] = [15, 10, 8, 5, 4, 3, 2, 2, 1, 1];
/// Numbers of examples of two classes that look alike.
const PAIRS: [[usize; 2]; 4] = [[15, 1], [1, 15], [5, 1], [1, 5]];
/// Powers that are tried: 0, 0.25, 0.5, ... below 20.
const TRIED: usize = 80;

/// The rows of the first `counts[c]` examples of each class.
pub fn keep(labels: &[usize], counts: &[usize]) -> Vec<usize> {
    let mut seen = vec![0; counts.len()];
    let kept = |&row: &usize| {
        let class = labels[row];
        seen[class] += 1;
        seen[class] <= counts[class]
    };
    (0..labels.len()).filter(kept).collect()
}

/// The two of `classes` classes whose mean features have the largest cosine.
pub fn alike(features: &Features, labels: &[usize], classes: usize) -> [usize; 2] {
    let mut means = vec![vec![0.0; features.dim]; classes];
    for (row, &label) in features.values.chunks_exact(features.dim).zip(labels) {
        let length = row.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-12);
        means[label].iter_mut().zip(row).for_each(|(mean, v)| *mean += v / length);
    }
    let dot = |a: usize, b: usize| means[a].iter().zip(&means[b]).map(|(x, y)| x * y).sum::<f64>();
    let cosine = |a: usize, b: usize| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12);
    let pairs = (0..classes).flat_map(|a| (a + 1..classes).map(move |b| [a, b]));
    pairs.max_by(|p, q| cosine(p[0], p[1]).total_cmp(&cosine(q[0], q[1]))).unwrap_or([0, 1])
}

/// The power of least mean NLL over tasks with unequal numbers of examples: of each episode (ten classes with as many examples each as
/// [`MIXED`] begins with) one of all classes, and those of the two classes most alike.
pub fn balance_power(process: &GaussianProcess, episodes: &[ValidationEpisode]) -> Result<f64> {
    let losses = episodes.par_iter().enumerate().map(|(turn, episode)| {
        // Every class has its turn at being large and at being small.
        let all: Vec<usize> = (0..MIXED.len()).map(|c| MIXED[(c + turn) % MIXED.len()]).collect();
        let pair = alike(&episode.support, &episode.labels, MIXED.len());
        let of_two = PAIRS.map(|counts| {
            let place = |c: usize| pair.iter().position(|&p| p == c);
            (0..MIXED.len()).map(|c| place(c).map_or(0, |k| counts[k])).collect::<Vec<usize>>()
        });
        let mut sums = vec![0.0; TRIED];
        for counts in of_two.iter().chain([&all]) {
            let of_task = task_losses(process, episode, counts)?;
            sums.iter_mut().zip(of_task).for_each(|(sum, loss)| *sum += loss);
        }
        Ok(sums)
    });
    let mut sums = vec![0.0; TRIED];
    for of_episode in losses.collect::<Result<Vec<_>>>()? {
        sums.iter_mut().zip(of_episode).for_each(|(sum, loss)| *sum += loss);
    }
    let best = (0..TRIED).min_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0);
    Ok(power(best))
}

fn power(tried: usize) -> f64 {
    0.25 * tried as f64
}

/// The mean NLL of a task with `counts[c]` examples of class c (classes without are left out), by each power.
fn task_losses(process: &GaussianProcess, episode: &ValidationEpisode, counts: &[usize]) -> Result<Vec<f64>> {
    let classes: Vec<usize> = (0..counts.len()).filter(|&c| counts[c] > 0).collect();
    let new = |old: usize| classes.iter().position(|&c| c == old);
    let rows = keep(&episode.labels, counts);
    let labels: Vec<usize> = rows.iter().filter_map(|&row| new(episode.labels[row])).collect();
    let (queries, truth): (Vec<usize>, Vec<usize>) =
        episode.truth.iter().enumerate().filter_map(|(q, &class)| Some((q, new(class)?))).unzip();
    let labelled = (labels.as_slice(), classes.len());
    // A power of 0 takes nothing out.
    let fitted = Fitted::fit_network(
        &select(&episode.support, &rows),
        labelled,
        (process, 0.0),
        &AtomicBool::new(false),
    )?;
    let raw = fitted.predict(&select(&episode.queries, &queries))?.probabilities;
    let loss = |tried: usize| {
        let mut p = faer::Mat::from_fn(truth.len(), classes.len(), |q, c| raw[q * classes.len() + c]);
        Balance::new(&labels, classes.len(), power(tried)).equalise(&mut p);
        let nll = |(q, &class): (usize, &usize)| -p[(q, class)].max(f64::MIN_POSITIVE).ln();
        truth.iter().enumerate().map(nll).sum::<f64>() / truth.len().max(1) as f64
    };
    Ok((0..TRIED).map(loss).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_examples_are_kept() {
        assert_eq!(keep(&[0, 1, 0, 2, 1, 0, 2], &[2, 1, 0]), [0, 1, 2]);
    }

    #[test]
    fn classes_in_one_direction_are_alike() {
        let values = vec![1.0, 0.0, 0.0, 1.0, -1.0, 0.1, 2.0, 0.3, 0.0, 3.0];
        let features = Features { values, rows: 5, dim: 2 };
        assert_eq!(alike(&features, &[0, 1, 2, 3, 1], 4), [0, 3]);
    }
}
