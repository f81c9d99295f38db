//! What could tell a stranger from a member: facts about a query beside the examples of a task. Each is larger for strangers.

use crate::error::{Error, Result};
use faer::Mat;
use siskin_calib::top;

/// How many facts there are.
pub(crate) const COUNT: usize = 8;

/// Their names on the card of a model.
pub(crate) const NAMES: [&str; COUNT] = [
    // 1 - the largest similarity with an example.
    "distance",
    // 1 - the largest mean similarity with the examples of a class.
    "class-distance",
    // Minus the largest latent mean.
    "mean",
    // Latent variance of the most probable class.
    "variance",
    // Latent variance, mean over the classes.
    "mean-variance",
    // 1 - the largest probability.
    "doubt",
    // log of the distance over that between examples of different classes: a likelihood ratio to "some other class".
    "other-class",
    // log of the distance over that between examples of one class.
    "same-class",
];

/// Facts about one query.
pub(crate) type Facts = [f64; COUNT];

/// Latent moments and probabilities of one query.
pub(crate) struct Seen<'a> {
    pub probabilities: &'a [f64],
    pub mean: &'a [f64],
    pub variance: &'a [f64],
}

/// The examples of a task, and how far they lie from each other.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    labels: Vec<usize>,
    classes: usize,
    /// Mean distance of an example to the nearest one of another class.
    between: f64,
    /// Mean distance of an example to the nearest one of its class, where a class has two.
    within: Option<f64>,
}

/// Distances below this are as good as none.
const NEAR: f64 = 1e-3;

impl Surroundings {
    /// `similarity` [N, N] among the examples.
    pub fn new(similarity: &Mat<f64>, labels: &[usize], classes: usize) -> Surroundings {
        let nearest = |i: usize, same: bool| {
            let others = (0..labels.len()).filter(|&j| j != i && (labels[j] == labels[i]) == same);
            others.map(|j| 1.0 - similarity[(j, i)]).min_by(f64::total_cmp)
        };
        let mean = |same: bool| {
            let found: Vec<f64> = (0..labels.len()).filter_map(|i| nearest(i, same)).collect();
            (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
        };
        let between = mean(false).unwrap_or(1.0);
        Surroundings { labels: labels.to_vec(), classes, between, within: mean(true) }
    }

    /// The facts about a query with these similarities to the examples, as if those of `without` were not there.
    pub fn facts(&self, similarity: &[f64], without: &[usize], seen: &Seen<'_>) -> Facts {
        let (mut largest, mut sums) = (f64::NEG_INFINITY, vec![(0.0, 0.0); self.classes]);
        for (i, (&s, &label)) in similarity.iter().zip(&self.labels).enumerate() {
            if !without.contains(&i) {
                largest = s.max(largest);
                sums[label] = (sums[label].0 + s, sums[label].1 + 1.0);
            }
        }
        let means = sums.iter().filter(|(_, n)| *n > 0.0).map(|(sum, n)| sum / n);
        let (distance, class_distance) = (1.0 - largest, 1.0 - means.fold(f64::NEG_INFINITY, f64::max));
        let (best, probability) = top(seen.probabilities);
        let mean = seen.mean.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let ratio = |to: f64| ((distance.max(0.0) + NEAR) / (to.max(0.0) + NEAR)).ln();
        [
            distance,
            class_distance,
            -mean,
            seen.variance[best],
            seen.variance.iter().sum::<f64>() / self.classes as f64,
            1.0 - probability,
            ratio(self.between),
            self.within.map_or(0.0, ratio),
        ]
    }
}

/// A score: the sum of facts, each times its weight. The weights of all facts, by those that have one.
pub(crate) fn weights(named: &[(String, f64)]) -> Result<Facts> {
    let mut out = [0.0; COUNT];
    for (name, weight) in named {
        let at = NAMES.iter().position(|known| known == name);
        let unknown =
            || Error::Rules(format!("the score of \"none of these\" uses `{name}`, which is not known"));
        out[at.filter(|_| weight.is_finite()).ok_or_else(unknown)?] = *weight;
    }
    Ok(out)
}

/// The score of facts.
pub(crate) fn score(weights: &Facts, facts: &Facts) -> f64 {
    weights.iter().zip(facts).map(|(w, f)| w * f).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_by_hand_and_without_a_fold() {
        let labels = [0, 0, 1];
        let k = Mat::from_fn(3, 3, |i, j| {
            if i == j { 1.0 } else { [[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]][i][j] }
        });
        let near = Surroundings::new(&k, &labels, 2);
        assert!(
            (near.between - (0.9 + 0.7 + 0.7) / 3.0).abs() < 1e-12
                && (near.within.unwrap() - 0.2).abs() < 1e-12
        );
        let seen = Seen { probabilities: &[0.7, 0.3], mean: &[1.5, -2.0], variance: &[0.4, 0.8] };
        let facts = near.facts(&[0.9, 0.5, 0.2], &[], &seen);
        let want = [0.1, 0.3, -1.5, 0.4, 0.6, 0.3];
        assert!(facts.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-12), "{facts:?}");
        assert!(facts[6] < 0.0 && facts[7] < 0.0, "nearer than examples are to each other");
        let facts = near.facts(&[0.9, 0.5, 0.2], &[0], &seen);
        assert!(
            (facts[0] - 0.5).abs() < 1e-12 && (facts[1] - 0.5).abs() < 1e-12,
            "the first example is not there"
        );
        let alone = Surroundings::new(&Mat::from_fn(2, 2, |i, j| f64::from(i == j)), &[0, 1], 2);
        assert_eq!((alone.between, alone.within), (1.0, None));
        assert!(weights(&[("distance".into(), 2.0)]).is_ok_and(|w| score(&w, &facts) == 1.0));
        assert!(
            weights(&[("colour".into(), 1.0)]).is_err() && weights(&[("mean".into(), f64::NAN)]).is_err()
        );
    }
}
