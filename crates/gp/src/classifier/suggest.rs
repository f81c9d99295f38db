//! Which rows of a pool to label next, and when to stop.

use super::inference::adapted;
use super::learn::Points;
use super::{GpClassifier, Hyper};
use crate::Result;
use crate::active::{Criterion, Suggestion, batch};
use crate::quadrature::Resolution;
use crate::stopping::{Stopping, stopping};
use faer::{Mat, MatRef};
use std::sync::atomic::AtomicBool;

impl GpClassifier {
    /// At most `count` rows of `pool` [M, D] whose labels would tell the most, the most telling first, unlike each other.
    pub fn suggest(&self, pool: MatRef<'_, f64>, count: usize, by: Criterion) -> Result<Vec<Suggestion>> {
        let model = self.model()?;
        let x = model.standardised(pool)?;
        let (latent, probs) = model.answer(x.as_ref())?;
        // As the answers are: a point that is answered for certain has little to tell.
        let scores = by.scores(&latent.narrowed(model.learned.spread), &probs)?;
        let kernel = model.kernel();
        let features = kernel.features(x.as_ref())?;
        batch(&scores, count, |row| {
            let one = features.select(&[row]);
            Ok(kernel.correlation(&features, &one)?.col_as_slice(0).to_vec())
        })
    }

    /// Whether more labels would change little, by points left out; hyperparameters stay as learned. `None` where a class has one point. An error
    /// where there are inducing points instead of all.
    pub fn stopping(&self) -> Result<Option<Stopping>> {
        self.stopping_until(&self.cancelled)
    }

    /// [`GpClassifier::stopping`] that ends with [`crate::Error::Cancelled`] soon after somebody sets `cancelled`.
    pub fn stopping_until(&self, cancelled: &AtomicBool) -> Result<Option<Stopping>> {
        let model = self.model()?;
        let (x, y, fitted) = model.all("advice when to stop")?;
        let prior = fitted.prior();
        let (classes, learned) = (prior.classes(), &model.learned);
        let hyper = Hyper { kernel: prior.kernel.clone(), mean: learned.prior_mean, tau: learned.tau };
        let select = |rows: &[usize]| Mat::from_fn(rows.len(), x.ncols(), |i, j| x[(rows[i], j)]);
        stopping(y, classes, |known, held| {
            let labels: Vec<usize> = known.iter().map(|&i| y[i]).collect();
            let x = select(known);
            let points = Points { x: &x, y: &labels, classes, weights: None };
            let part = adapted(self, &hyper, learned.noise, points, None, cancelled)?;
            let latent = part.posterior().latent(&part.support.query(select(held).as_ref())?)?;
            latent.narrowed(learned.spread).probs(Resolution::Fast)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normal;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn clumps(n: usize, classes: usize, apart: f64) -> (Mat<f64>, Vec<usize>) {
        let noise = normal(&mut ChaCha8Rng::seed_from_u64(3), n, 2);
        let y: Vec<usize> = (0..n).map(|i| i % classes).collect();
        let centre = |c: usize, j: usize| apart * [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]][c][j];
        (Mat::from_fn(n, 2, |i, j| noise[(i, j)] + centre(y[i], j)), y)
    }

    #[test]
    fn points_are_scored_by_the_distribution_that_is_answered_with() {
        let (x, y) = clumps(60, 3, 2.0);
        let mut model = GpClassifier { learn: false, spread: 0.1, ..GpClassifier::default() };
        model.fit(x.as_ref(), &y).unwrap();
        let pool = Mat::from_fn(12, 2, |i, j| 3.0 * ((7 * i + 3 * j) as f64).sin());
        let entropy = model.predictions(pool.as_ref()).unwrap().entropy;
        for next in model.suggest(pool.as_ref(), 12, Criterion::Bald).unwrap() {
            // A label cannot tell more than is open in the answer.
            assert!(next.score <= 1.01 * entropy[next.row] + 1e-9, "{next:?} {}", entropy[next.row]);
        }
    }

    #[test]
    fn a_few_labels_of_overlapping_classes_are_not_enough_and_many_of_clear_ones_are() {
        let (x, y) = clumps(12, 4, 1.2);
        let mut model = GpClassifier::default();
        model.fit(x.as_ref(), &y).unwrap();
        assert!(!model.stopping().unwrap().unwrap().enough);
        let (x, y) = clumps(120, 2, 5.0);
        model.fit(x.as_ref(), &y).unwrap();
        let found = model.stopping().unwrap().unwrap();
        assert!(found.enough, "{found:?}");
    }
}
