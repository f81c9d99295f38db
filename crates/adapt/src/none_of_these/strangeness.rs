//! What could tell a stranger from a member: facts about a query beside the examples of a task. Each is larger for strangers.

use crate::error::{Error, Result};
use faer::Mat;
use siskin_calib::top;

/// How many facts there are.
pub(crate) const COUNT: usize = 11;
/// How many of them every task has: the last one needs other images.
pub(crate) const ALWAYS: usize = APART;
/// The place of the fact that [`crate::none_of_these::others`] completes.
pub(crate) const APART: usize = 10;

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
    // Minus the largest cosine with the mean of a class, both seen from the mean of all examples: what all examples share tells
    // nobody apart.
    "centred",
    // The distance to the nearest class over the mean distance of examples: the same for every kernel.
    "relative",
    // Minus the largest cosine with the mean of a class, both seen from the mean of other images of the same kind; 0 without them.
    "apart",
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

/// The mean of the examples that count, in the space of the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Centre {
    /// Which examples do not count, sorted.
    without: Vec<usize>,
    /// Of each example, its mean similarity with those that count.
    rows: Vec<f64>,
    /// The mean of these.
    all: f64,
    /// Distance of the mean of each class from the mean of all.
    lengths: Vec<f64>,
}

impl Centre {
    /// `similarity` [N, N] among the examples; those of `without` do not count.
    pub(crate) fn new(similarity: &Mat<f64>, labels: &[usize], classes: usize, without: &[usize]) -> Centre {
        let mut without = without.to_vec();
        without.sort_unstable();
        let own: Vec<usize> = (0..labels.len()).filter(|i| without.binary_search(i).is_err()).collect();
        let count = own.len().max(1) as f64;
        let mean = |i: usize| own.iter().map(|&j| similarity[(j, i)]).sum::<f64>() / count;
        let rows: Vec<f64> = (0..labels.len()).map(mean).collect();
        let all = own.iter().map(|&i| rows[i]).sum::<f64>() / count;
        let length = |class: usize| {
            let members: Vec<usize> = own.iter().copied().filter(|&i| labels[i] == class).collect();
            let pairs = members.iter().flat_map(|&i| members.iter().map(move |&j| (i, j)));
            let sum: f64 = pairs.map(|(i, j)| similarity[(i, j)] - rows[i] - rows[j] + all).sum();
            (sum / (members.len() * members.len()).max(1) as f64).max(0.0).sqrt()
        };
        let lengths = (0..classes).map(length).collect();
        Centre { without, rows, all, lengths }
    }

    fn counts(&self, example: usize) -> bool {
        self.without.binary_search(&example).is_err()
    }
}

/// Distances below this are as good as none.
const NEAR: f64 = 1e-3;

impl Surroundings {
    /// `similarity` [N, N] among the examples.
    pub(crate) fn new(similarity: &Mat<f64>, labels: &[usize], classes: usize) -> Surroundings {
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

    /// The facts about a query with these similarities to the examples, as if those that do not count for `centre` were not there.
    pub(crate) fn facts(&self, similarity: &[f64], centre: &Centre, seen: &Seen<'_>) -> Facts {
        let (mut largest, mut sums) = (f64::NEG_INFINITY, vec![(0.0, 0.0); self.classes]);
        let (mut around, mut all, mut count) = (vec![0.0; self.classes], 0.0, 0.0f64);
        for (i, (&s, &label)) in similarity.iter().zip(&self.labels).enumerate() {
            if centre.counts(i) {
                largest = s.max(largest);
                sums[label] = (sums[label].0 + s, sums[label].1 + 1.0);
                around[label] += s - centre.rows[i];
                (all, count) = (all + s, count + 1.0);
            }
        }
        let all = all / count.max(1.0);
        let length = (1.0 - 2.0 * all + centre.all).max(NEAR * NEAR).sqrt();
        let cosines = sums
            .iter()
            .zip(&around)
            .zip(&centre.lengths)
            .filter(|(((_, n), _), _)| *n > 0.0)
            .map(|(((_, n), around), to)| (around / n - all + centre.all) / (length * to.max(NEAR)));
        let centred = -cosines.fold(f64::NEG_INFINITY, f64::max);
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
            centred,
            class_distance / (1.0 - centre.all).max(NEAR),
            0.0,
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
        let without = |gone: &[usize]| Centre::new(&k, &labels, 2, gone);
        let facts = near.facts(&[0.9, 0.5, 0.2], &without(&[]), &seen);
        let want = [0.1, 0.3, -1.5, 0.4, 0.6, 0.3];
        assert!(facts.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-12), "{facts:?}");
        assert!(facts[6] < 0.0 && facts[7] < 0.0, "nearer than examples are to each other");
        let facts = near.facts(&[0.9, 0.5, 0.2], &without(&[0]), &seen);
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

    /// With the cosine kernel the space of the kernel is that of the vectors: the same by their coordinates.
    #[test]
    fn the_centred_facts_are_those_of_vectors() {
        let unit = |a: f64, b: f64| [a.cos() * b.cos(), a.sin() * b.cos(), b.sin()];
        let points = [unit(0.1, 0.2), unit(0.3, 0.1), unit(1.2, -0.3), unit(1.0, 0.4), unit(2.0, 0.0)];
        let (labels, query) = ([0, 0, 1, 1, 2], unit(0.5, 0.5));
        let dot = |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let k = Mat::from_fn(5, 5, |i, j| dot(&points[i], &points[j]));
        let near: Vec<f64> = points.iter().map(|p| dot(p, &query)).collect();
        let seen = Seen { probabilities: &[0.4, 0.3, 0.3], mean: &[0.0; 3], variance: &[1.0; 3] };
        for gone in [&[][..], &[1, 3]] {
            let own: Vec<usize> = (0..5).filter(|i| !gone.contains(i)).collect();
            let mean = |of: &[usize]| -> [f64; 3] {
                std::array::from_fn(|d| of.iter().map(|&i| points[i][d]).sum::<f64>() / of.len() as f64)
            };
            let minus = |a: [f64; 3], b: [f64; 3]| -> [f64; 3] { std::array::from_fn(|d| a[d] - b[d]) };
            let (centre, mut best, mut nearest) = (mean(&own), f64::NEG_INFINITY, f64::NEG_INFINITY);
            for class in 0..3 {
                let members: Vec<usize> = own.iter().copied().filter(|&i| labels[i] == class).collect();
                let (x, m) = (minus(query, centre), minus(mean(&members), centre));
                best = best.max(dot(&x, &m) / (dot(&x, &x) * dot(&m, &m)).sqrt());
                nearest = nearest.max(dot(&query, &mean(&members)));
            }
            let facts =
                Surroundings::new(&k, &labels, 3).facts(&near, &Centre::new(&k, &labels, 3, gone), &seen);
            assert!((facts[8] + best).abs() < 1e-9, "{gone:?}: {} {best}", facts[8]);
            let relative = (1.0 - nearest) / (1.0 - dot(&centre, &centre));
            assert!((facts[9] - relative).abs() < 1e-9, "{gone:?}: {} {relative}", facts[9]);
        }
    }
}
