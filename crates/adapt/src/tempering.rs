//! Temperatures: one for a model by its validation classes, and more caution where a task's own examples ask for it.

use crate::error::Result;
use siskin_calib::Probabilities;

/// Probabilities of some points with the true class of each.
pub(crate) struct Known<'a> {
    /// [M, C] row-major.
    pub probabilities: &'a [f64],
    pub labels: &'a [usize],
    pub classes: usize,
}

/// What is expected of a task's own temperature before its examples speak: its logarithm is near `centre`, give or take `width`, and
/// may be anything from 0 up: a Cauchy prior.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doubt {
    centre: f64,
    width: f64,
}

impl Doubt {
    /// Of images like those that the model was trained on: 1, or little more.
    pub(crate) const USUAL: Doubt = Doubt { centre: 0.0, width: 0.1 };
    /// Of images of the right kind that are unlike those of the model's training and validation. Chosen on EMNIST's validation classes with a
    /// model of Omniglot, and on validation classes of photos with models of other photos (docs/trust.md).
    pub(crate) const UNLIKE: Doubt = Doubt { centre: 1.4, width: 0.5 };
    /// Of another kind of images: the model's certainty has no ground there. Chosen on validation classes of photos with a model of
    /// drawn characters (docs/trust.md).
    pub(crate) const OTHER_KIND: Doubt = Doubt { centre: 2.5, width: 0.5 };
}

/// Temperatures tried: steps of the logarithm.
const STEP: f64 = 0.02;
/// The largest and the smallest temperature, as logarithms.
const WIDEST: f64 = 4.0;

impl Known<'_> {
    /// `-sum log p` of the true classes at this temperature.
    fn loss(&self, log_temperature: f64) -> f64 {
        let t = log_temperature.exp();
        let row = |(row, &label): (&[f64], &usize)| {
            let log = |p: f64| p.max(f64::MIN_POSITIVE).ln() / t;
            let most = row.iter().map(|&p| log(p)).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|&p| (log(p) - most).exp()).sum();
            most + sum.ln() - log(row[label])
        };
        self.probabilities.chunks_exact(self.classes).zip(self.labels).map(row).sum()
    }

    /// At this temperature.
    pub(crate) fn at(&self, temperature: f64) -> Result<Vec<f64>> {
        let all = Probabilities::new(self.probabilities.to_vec(), self.classes)?.sharpened(temperature)?;
        Ok(all.rows().flatten().copied().collect())
    }
}

/// The temperature, at least 1, that left-out examples of a task ask for on top of the model's. With few of them, or none
/// that surprise, it is about as expected.
pub(crate) fn caution(known: &Known<'_>, doubt: Doubt) -> f64 {
    let Doubt { centre, width } = doubt;
    let cost = |log: f64| known.loss(log) + (1.0 + ((log - centre) / width).powi(2)).ln();
    least((0..=(WIDEST / STEP) as i32).map(|i| STEP * f64::from(i)), cost).exp()
}

/// One temperature for predictions of several shapes, each shape of equal weight: that of least NLL. 1 where the least is at an
/// edge: without a mistake there is none.
pub(crate) fn common(shapes: &[Known<'_>]) -> f64 {
    let cost = |log: f64| shapes.iter().map(|s| s.loss(log) / s.labels.len().max(1) as f64).sum();
    let most = (WIDEST / STEP) as i32;
    let found = least((-most..=most).map(|i| STEP * f64::from(i)), cost);
    if found.abs() + STEP / 2.0 >= WIDEST { 1.0 } else { found.exp() }
}

fn least(places: impl Iterator<Item = f64>, cost: impl Fn(f64) -> f64) -> f64 {
    let costs = places.map(|place| (cost(place), place));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(right: usize, wrong: usize, p: f64) -> (Vec<f64>, Vec<usize>) {
        let labels = (0..right + wrong).map(|i| usize::from(i >= right)).collect();
        ([p, 1.0 - p].repeat(right + wrong), labels)
    }

    #[test]
    fn caution_follows_the_evidence() {
        let of = |(p, labels): (Vec<f64>, Vec<usize>)| {
            caution(&Known { probabilities: &p, labels: &labels, classes: 2 }, Doubt::USUAL)
        };
        // What 90 % should be, and better than that.
        assert_eq!(of(table(18, 2, 0.9)), 1.0);
        assert_eq!(of(table(20, 0, 0.9)), 1.0);
        // One surprise among few is no proof; half wrong at 99.99 % is.
        assert!(of(table(3, 1, 0.9)) < 1.1, "{}", of(table(3, 1, 0.9)));
        assert!(of(table(5, 5, 0.9999)) > 5.0, "{}", of(table(5, 5, 0.9999)));
    }

    #[test]
    fn another_kind_of_images_starts_with_doubt_that_examples_can_remove() {
        let of = |(p, labels): (Vec<f64>, Vec<usize>)| {
            caution(&Known { probabilities: &p, labels: &labels, classes: 2 }, Doubt::OTHER_KIND)
        };
        let nothing = of((vec![], vec![]));
        assert!((nothing.ln() - Doubt::OTHER_KIND.centre).abs() <= STEP, "{nothing}");
        assert!(of(table(95, 5, 0.95)) < 1.2, "{}", of(table(95, 5, 0.95)));
        assert!(of(table(2, 2, 0.99)) > nothing, "{}", of(table(2, 2, 0.99)));
    }

    #[test]
    fn one_temperature_for_all_shapes() {
        let (p, labels) = table(28, 12, 0.9);
        let shape = || Known { probabilities: &p, labels: &labels, classes: 2 };
        // log(0.9/0.1) / log(0.7/0.3) = 2.593: 90 % said, 70 % true.
        assert!((common(&[shape(), shape()]) / 2.593 - 1.0).abs() < 0.02, "{}", common(&[shape()]));
        let (sure, right) = table(40, 0, 0.9);
        assert_eq!(common(&[Known { probabilities: &sure, labels: &right, classes: 2 }]), 1.0);
        let same = shape().at(1.0).unwrap();
        assert!(same.iter().zip(shape().probabilities).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
