//! Points that count more or less than once, and classes that are rarer or more frequent where the classifier is used.

use super::{GpClassifier, Predictions};
use crate::posterior::entropy;
use crate::{Error, Result};
use faer::{Mat, MatRef};

/// Weights that give every class the same part, `N / (C N_c)`: 1 on average, as scikit-learn's `class_weight="balanced"`.
pub fn balanced(y: &[usize]) -> Result<Vec<f64>> {
    let classes = super::inputs::count_classes(y)?;
    let mut counts = vec![0.0; classes];
    y.iter().for_each(|&c| counts[c] += 1.0);
    Ok(y.iter().map(|&c| y.len() as f64 / (classes as f64 * counts[c])).collect())
}

/// The share of each class, by weight.
pub(super) fn shares(y: &[usize], weights: Option<&[f64]>, classes: usize) -> Vec<f64> {
    let mut shares = vec![0.0; classes];
    for (i, &c) in y.iter().enumerate() {
        shares[c] += weights.map_or(1.0, |weights| weights[i]);
    }
    let all: f64 = shares.iter().sum();
    shares.iter().map(|share| share / all).collect()
}

impl GpClassifier {
    /// [`GpClassifier::fit`] where point n counts `weights[n]` times: its likelihood to that power, its log-loss that many times where
    /// hyperparameters are learned. Points of weight 0 are left out. Needs the logistic-softmax model with direct inference.
    ///
    /// At given hyperparameters a weight of 2 is two copies. Where they are learned it is not quite: copies may be held out one by
    /// one, a point of weight 2 is held out whole.
    pub fn fit_weighted(&mut self, x: MatRef<'_, f64>, y: &[usize], weights: &[f64]) -> Result<()> {
        if !self.searches() {
            return Err(Error::NoWeights);
        }
        if weights.len() != y.len() {
            return Err(Error::Shape {
                what: "weights (one for each label)",
                expected: y.len(),
                got: weights.len(),
            });
        }
        if let Some(&value) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
            return Err(Error::OutOfRange { what: "a weight", value, must: "0 or more, and finite" });
        }
        super::inputs::check_features(x, y.len())?;
        let kept: Vec<usize> = (0..y.len()).filter(|&i| weights[i] > 0.0).collect();
        let weights: Vec<f64> = kept.iter().map(|&i| weights[i]).collect();
        let labels: Vec<usize> = kept.iter().map(|&i| y[i]).collect();
        let points = Mat::from_fn(kept.len(), x.ncols(), |i, j| x[(kept[i], j)]);
        self.fit_points(points.as_ref(), &labels, Some(&weights))
    }

    /// [`GpClassifier::predictions`] where the classes have these shares and not those of the training points:
    /// `p'(c | x) = p(c | x) new_c / old_c`, divided by the sum. `prior`: positive, one for each class; their ratios matter.
    pub fn predictions_under(&self, x: MatRef<'_, f64>, prior: &[f64]) -> Result<Predictions> {
        self.under(self.predictions(x)?, prior)
    }

    /// The same of [`GpClassifier::predictions`] that were made.
    pub fn under(&self, mut at: Predictions, prior: &[f64]) -> Result<Predictions> {
        let (old, classes) = (&self.model()?.learned.shares, at.probs.ncols());
        if prior.len() != classes {
            return Err(Error::Shape {
                what: "class prior (one for each class)",
                expected: classes,
                got: prior.len(),
            });
        }
        if let Some(&value) = prior.iter().find(|p| !(p.is_finite() && **p > 0.0)) {
            return Err(Error::OutOfRange { what: "the prior of a class", value, must: "> 0 and finite" });
        }
        if old.len() != classes {
            return Err(Error::NoShares);
        }
        // Their ratios matter alone, to the last bit.
        let largest = prior.iter().fold(0.0, |largest: f64, p| largest.max(*p));
        for i in 0..at.probs.nrows() {
            let corrected: Vec<f64> =
                (0..classes).map(|c| at.probs[(i, c)] * (prior[c] / largest) / old[c]).collect();
            let sum = crate::linalg::sum_any_order(&mut corrected.clone());
            corrected.iter().enumerate().for_each(|(c, p)| at.probs[(i, c)] = p / sum);
        }
        at.entropy = entropy(&at.probs);
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::Likelihood;
    use crate::inference::{Inference, NaturalOptions};
    use crate::testing::normal;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Two overlapping clumps; three of four points are of class 0.
    fn points(n: usize) -> (Mat<f64>, Vec<usize>) {
        let noise = normal(&mut ChaCha8Rng::seed_from_u64(5), n, 2);
        let y: Vec<usize> = (0..n).map(|i| usize::from(i % 4 == 3)).collect();
        (Mat::from_fn(n, 2, |i, j| noise[(i, j)] + 1.2 * y[i] as f64), y)
    }

    #[test]
    fn a_weight_is_a_number_of_copies() {
        let (x, y) = points(24);
        let weights: Vec<f64> = (0..24).map(|i| [1.0, 3.0, 0.0][i % 3]).collect();
        let copies: Vec<usize> = (0..24).flat_map(|i| vec![i; weights[i] as usize]).collect();
        let many = Mat::from_fn(copies.len(), 2, |i, j| x[(copies[i], j)]);
        let labels: Vec<usize> = copies.iter().map(|&i| y[i]).collect();
        let kernel = crate::kernels::Kernel::new(crate::kernels::Rbf);
        let prior = crate::Hyper { kernel, mean: -2.0, tau: 0.5 }.prior(2);
        let posterior = |x: &Mat<f64>, y: &[usize], weights: Option<&[f64]>| {
            let support = crate::Support::new(x.as_ref(), y, prior.clone()).unwrap().weighted(weights);
            let way = Inference::Natural(NaturalOptions::default());
            let found = way.posterior(&support.task().unwrap()).unwrap();
            assert!(found.converged);
            (found.bound, found.latent(&support.query(points(10).0.as_ref()).unwrap()).unwrap())
        };
        let (bound, few) = posterior(&x, &y, Some(&weights));
        let (want, all) = posterior(&many, &labels, None);
        assert!((bound - want).abs() < 1e-6, "{bound} {want}");
        let off = (few.mean - all.mean).norm_max().max((few.var - all.var).norm_max());
        assert!(off < 1e-5, "{off}");
    }

    #[test]
    fn balanced_weights_move_the_border() {
        let (x, y) = points(60);
        let weights = balanced(&y).unwrap();
        assert!((weights.iter().sum::<f64>() - 60.0).abs() < 1e-9 && weights[3] == 3.0 * weights[0]);
        let (mut plain, mut even) = (GpClassifier::default(), GpClassifier::default());
        plain.fit(x.as_ref(), &y).unwrap();
        even.fit_weighted(x.as_ref(), &y, &weights).unwrap();
        assert_eq!(plain.learned().unwrap().shares, [0.75, 0.25]);
        assert!((even.learned().unwrap().shares[0] - 0.5).abs() < 1e-12);
        let rare = |model: &GpClassifier| {
            model.predict_proba(x.as_ref()).unwrap().col_as_slice(1).iter().sum::<f64>() / 60.0
        };
        assert!(
            (rare(&plain) - 0.25).abs() < 0.06 && rare(&even) > rare(&plain) + 0.08,
            "{} {}",
            rare(&plain),
            rare(&even)
        );
        // The prior of the training points changes nothing; an even one does what the weights do, about.
        let same = plain.predictions_under(x.as_ref(), &[3.0, 1.0]).unwrap().probs;
        assert!((same - plain.predict_proba(x.as_ref()).unwrap()).norm_max() < 1e-12);
        let under = plain.predictions_under(x.as_ref(), &[1.0, 1.0]).unwrap();
        let mean = under.probs.col_as_slice(1).iter().sum::<f64>() / 60.0;
        assert!((mean - rare(&even)).abs() < 0.08, "{mean} {}", rare(&even));
        assert!((0..60).all(|i| (under.probs[(i, 0)] + under.probs[(i, 1)] - 1.0).abs() < 1e-12));
    }

    #[test]
    fn what_makes_no_weight_is_refused() {
        let (x, y) = points(12);
        let mut model = GpClassifier::default();
        let mut fit = |weights: &[f64]| model.fit_weighted(x.as_ref(), &y, weights);
        assert!(matches!(fit(&[1.0; 11]), Err(Error::Shape { .. })));
        assert!(matches!(fit(&[-1.0; 12]), Err(Error::OutOfRange { .. })));
        assert!(matches!(fit(&[0.0; 12]), Err(Error::Empty { .. })));
        let mut other = GpClassifier { likelihood: Likelihood::Softmax, ..GpClassifier::default() };
        assert_eq!(other.fit_weighted(x.as_ref(), &y, &[1.0; 12]), Err(Error::NoWeights));
        model.fit(x.as_ref(), &y).unwrap();
        assert!(model.predictions_under(x.as_ref(), &[1.0]).is_err());
        assert!(model.predictions_under(x.as_ref(), &[1.0, 0.0]).is_err());
    }
}
