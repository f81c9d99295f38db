//! Unequal numbers of examples: how many images of a class a person happened to have says nothing about queries.
//!
//! Without a correction, a class with many examples pulls the queries of a class with few that looks like it, for two reasons.
//! Every example is a term of the likelihood, so many of them outvote few; here the examples of a class together weigh as much as those
//! of the smallest class: `p(y_n | f)^(n_min / n_c)`, to first order by scaling the sites. And the posterior answers "which
//! class is next" as if classes came as often as their examples, and the nearest of many examples is nearer than the nearest of few:
//! probabilities are divided by a power of `n_c`. With equal numbers nothing changes, to the last bit.
//!
//! The power is a choice by measurement, on the validation classes of each model ([`crate::unequal`]): the less well a model tells
//! classes apart, the more its larger classes pull.

use faer::Mat;
use siskin_gp::Sites;

/// The power for a model whose card does not say: chosen on Omniglot's validation alphabets and on drawn glyphs.
pub(crate) const UNMEASURED: f64 = 2.0;

/// The power for a head that is learned from features of an added network: chosen on validation classes of CUB and mini-ImageNet with an
/// EfficientNet-Lite0 (docs/trust.md).
pub(crate) const FEATURES: f64 = 5.0;
/// The power for a head that is learned from other vectors, whose columns are scaled: there equal weights are nearly enough. Chosen on
/// scikit-learn's digits (docs/trust.md).
pub(crate) const COLUMNS: f64 = 0.25;
/// The power of tasks with a head of their own from before they kept it.
pub(crate) const NONE: f64 = 0.0;

/// Numbers of examples of each class, and the power by which they count.
#[derive(Debug, Clone)]
pub(crate) struct Balance {
    counts: Vec<f64>,
    pub(crate) power: f64,
}

impl Balance {
    pub(crate) fn new(labels: &[usize], classes: usize, power: f64) -> Balance {
        let mut counts = vec![0.0; classes];
        labels.iter().for_each(|&label| counts[label] += 1.0);
        Balance { counts, power }
    }

    /// Number of classes.
    pub(crate) fn classes(&self) -> usize {
        self.counts.len()
    }

    fn smallest(&self) -> f64 {
        self.counts.iter().copied().filter(|&count| count > 0.0).fold(f64::INFINITY, f64::min)
    }

    /// What each example counts where those of every class together have the weight of the smallest class; `None` where numbers are
    /// equal.
    pub(crate) fn weights(&self, labels: &[usize]) -> Option<Vec<f64>> {
        let smallest = self.smallest();
        let unequal = self.counts.iter().any(|&count| count != smallest);
        unequal.then(|| labels.iter().map(|&label| smallest / self.counts[label]).collect())
    }

    /// Gives the examples of every class together the weight of the smallest class.
    pub(crate) fn weigh(&self, sites: &mut Sites, labels: &[usize]) {
        for (row, &label) in labels.iter().enumerate() {
            let weight = self.smallest() / self.counts[label];
            for class in 0..self.counts.len() {
                sites.w[(row, class)] *= weight;
                sites.b[(row, class)] *= weight;
            }
        }
    }

    /// Takes out of probabilities [M, C] what the numbers of examples say: `p_c / n_c^power`, scaled to sum to 1.
    pub(crate) fn equalise(&self, probabilities: &mut Mat<f64>) {
        let smallest = self.smallest();
        if self.counts.iter().all(|&count| count == smallest) {
            return;
        }
        for row in 0..probabilities.nrows() {
            let share = |class: usize| (smallest / self.counts[class].max(1.0)).powf(self.power);
            let scaled = |class: usize| probabilities[(row, class)] * share(class);
            let scaled: Vec<f64> = (0..self.counts.len()).map(scaled).collect();
            let sum: f64 = scaled.iter().sum();
            scaled.iter().enumerate().for_each(|(class, p)| probabilities[(row, class)] = p / sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> Sites {
        let table = |step: f64| Mat::from_fn(4, 2, |i, c| 0.3 + step * (2 * i + c) as f64);
        Sites { w: table(0.1), b: table(0.7) }
    }

    #[test]
    fn equal_numbers_change_no_bit() {
        let balance = Balance::new(&[0, 1, 1, 0], 2, 2.0);
        let (mut weighed, mut p) = (sites(), Mat::from_fn(2, 2, |i, c| [[0.3, 0.7], [0.1, 0.9]][i][c]));
        let before = p.clone();
        balance.weigh(&mut weighed, &[0, 1, 1, 0]);
        balance.equalise(&mut p);
        assert_eq!((weighed.w, weighed.b, p), (sites().w, sites().b, before));
    }

    #[test]
    fn many_examples_weigh_as_much_as_few() {
        let labels = [0, 0, 0, 1];
        let balance = Balance::new(&labels, 2, 2.0);
        let mut weighed = sites();
        balance.weigh(&mut weighed, &labels);
        for class in 0..2 {
            for row in 0..4 {
                let weight = if row < 3 { 1.0 / 3.0 } else { 1.0 };
                assert_eq!(weighed.w[(row, class)], sites().w[(row, class)] * weight);
                assert_eq!(weighed.b[(row, class)], sites().b[(row, class)] * weight);
            }
        }
        // Odds of 9 : 1 are what three examples against one say by their numbers.
        let mut p = Mat::from_fn(1, 2, |_, c| [0.9, 0.1][c]);
        balance.equalise(&mut p);
        assert!((p[(0, 0)] - 0.5).abs() < 1e-15 && (p[(0, 0)] + p[(0, 1)] - 1.0).abs() < 1e-15);
    }
}
