//! Conformal sets: several answers where one would be a guess, with a promised rate of holding the truth.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::predictions::{Predictions, Probabilities};

/// How strange a class looks, the score that is thresholded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetRule {
    /// Least ambiguous classifier: `s(c) = 1 - p_c`. The smallest sets on average; a set may be empty,
    /// which says that no class fits.
    Lac,
    /// Adaptive prediction sets: `s(c) = sum_{j: p_j >= p_c} p_j`. Larger where the input is hard, and
    /// never empty: the most probable class is always in. Not randomised, so the same input gives the same set.
    Aps,
}

/// Sets that hold the true class with probability at least `1 - alpha`, for data like the calibration data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Conformal {
    /// The score.
    pub rule: SetRule,
    /// The rate of sets allowed to miss the truth.
    pub alpha: f64,
    /// Classes that score at most this are in the set; `None` if the calibration set was too small for
    /// `alpha` (`n < 1/alpha - 1`), and every class is in.
    pub threshold: Option<f64>,
}

impl Conformal {
    /// Takes as threshold the k-th smallest score of the true classes, `k = ceil((n + 1)(1 - alpha))`:
    /// the empirical quantile at `ceil((n + 1)(1 - alpha)) / n`. Coverage of the next example of the same
    /// distribution is then at least `1 - alpha`, and at most `1 - alpha + 1/(n + 1)` if no scores are equal.
    pub fn fit(calibration: &Predictions, rule: SetRule, alpha: f64) -> Result<Self, Error> {
        Self::of_scores(rule, &rule.scores(calibration), alpha)
    }

    /// The same from the scores of the true classes, as [`SetRule::scores`] gives them, in any order.
    pub fn of_scores(rule: SetRule, scores: &[f64], alpha: f64) -> Result<Self, Error> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::Parameter { name: "alpha", value: alpha, range: "between 0 and 1" });
        }
        if let Some(index) = scores.iter().position(|s| !s.is_finite()) {
            return Err(Error::BadValue { what: "conformal scores", index, value: scores[index] });
        }
        let mut scores = scores.to_vec();
        scores.sort_by(f64::total_cmp);
        // 1 <= k, since alpha < 1; k = n + 1 asks for more than there is.
        let threshold = scores.get(rank(scores.len(), alpha) - 1).copied();
        Ok(Self { rule, alpha, threshold })
    }

    /// The set of one row of probabilities, in rising class order.
    pub fn set(&self, p: &[f64]) -> Vec<usize> {
        let Some(threshold) = self.threshold else { return (0..p.len()).collect() };
        let p_max = p.iter().copied().fold(0.0, f64::max);
        let held = |&c: &usize| {
            let sure = self.rule == SetRule::Aps && p[c] == p_max;
            sure || self.rule.score(p, c) <= threshold
        };
        (0..p.len()).filter(held).collect()
    }

    /// The set of each row.
    pub fn sets(&self, probabilities: &Probabilities) -> Vec<Vec<usize>> {
        probabilities.rows().map(|p| self.set(p)).collect()
    }

    /// The share of sets that hold the truth, and their mean size, on `test`.
    pub fn evaluate(&self, test: &Predictions) -> SetQuality {
        let n = test.len() as f64;
        let (mut held, mut size) = (0usize, 0usize);
        for (p, y) in test.iter() {
            let set = self.set(p);
            held += usize::from(set.contains(&y));
            size += set.len();
        }
        SetQuality { coverage: held as f64 / n, mean_size: size as f64 / n }
    }
}

impl SetRule {
    /// The scores of the true classes.
    pub fn scores(self, calibration: &Predictions) -> Vec<f64> {
        calibration.iter().map(|(p, y)| self.score(p, y)).collect()
    }

    /// The score of class `c`. Equal probabilities enter together, so relabelling classes changes nothing.
    fn score(self, p: &[f64], c: usize) -> f64 {
        match self {
            Self::Lac => 1.0 - p[c],
            Self::Aps => {
                let mut at_least: Vec<f64> = p.iter().copied().filter(|p_j| *p_j >= p[c]).collect();
                // One order of summing for one set of numbers, whatever the classes are called.
                at_least.sort_by(|a, b| b.total_cmp(a));
                at_least.iter().sum()
            }
        }
    }
}

/// How a conformal rule did on a test set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SetQuality {
    /// The share of sets that hold the truth.
    pub coverage: f64,
    /// The mean number of classes in a set.
    pub mean_size: f64,
}

/// `ceil((n + 1)(1 - alpha))`, a product within 1e-9 of a whole number taken as that number.
fn rank(n: usize, alpha: f64) -> usize {
    let exact = (n + 1) as f64 * (1.0 - alpha);
    ((exact - 1e-9).ceil() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    /// `n` rows over five classes; probabilities that are systematically over-confident, labels drawn from
    /// flatter ones: conformal coverage must hold all the same.
    fn draw(n: usize, rng: &mut ChaCha8Rng) -> Predictions {
        let (mut probs, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let z: Vec<f64> = (0..5).map(|_| 3.0 * rng.random::<f64>()).collect();
            let softmax = |scale: f64| -> Vec<f64> {
                let e: Vec<f64> = z.iter().map(|z_c| (scale * z_c).exp()).collect();
                let sum: f64 = e.iter().sum();
                e.iter().map(|e_c| e_c / sum).collect()
            };
            let mut u: f64 = rng.random();
            let truth = softmax(1.0);
            let label = truth.iter().position(|p| {
                u -= p;
                u < 0.0
            });
            labels.push(label.unwrap_or(4));
            probs.extend(softmax(3.0));
        }
        Predictions::new(probs, labels, 5).unwrap()
    }

    #[test]
    fn coverage_is_within_binomial_bounds() {
        // Over calibration and test sets together coverage has mean in [1 - alpha, 1 - alpha + 1/(n + 1)].
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (trials, n, m) = (400, 60, 50);
        for rule in [SetRule::Lac, SetRule::Aps] {
            for alpha in [0.05, 0.1, 0.3] {
                let mut covered = 0.0;
                for _ in 0..trials {
                    let fitted = Conformal::fit(&draw(n, &mut rng), rule, alpha).unwrap();
                    covered += fitted.evaluate(&draw(m, &mut rng)).coverage;
                }
                let mean: f64 = covered / f64::from(trials);
                // Variance of one trial: Beta(k, n + 1 - k) for the calibration set, then binomial.
                let p: f64 = rank(n, alpha) as f64 / (n + 1) as f64;
                let variance = p * (1.0 - p) * (1.0 / (n + 2) as f64 + 1.0 / m as f64);
                let bound = 4.0 * (variance / f64::from(trials)).sqrt();
                assert!(mean >= 1.0 - alpha - bound, "{rule:?} alpha {alpha}: {mean}");
                // APS adds the most probable class, so only LAC has the upper bound.
                if rule == SetRule::Lac {
                    assert!(mean <= p + bound, "{rule:?} alpha {alpha}: {mean}");
                }
            }
        }
    }

    #[test]
    fn ranks_are_the_finite_sample_ones() {
        assert_eq!([rank(9, 0.1), rank(10, 0.1), rank(19, 0.05), rank(9, 0.7)], [9, 10, 19, 3]);
        assert_eq!([rank(99, 0.29), rank(1, 0.999)], [71, 1]);
        assert_eq!(rank(8, 0.1), 9);
    }

    #[test]
    fn too_small_a_calibration_set_gives_every_class() {
        let small = Predictions::new([0.9, 0.1].repeat(8), vec![0; 8], 2).unwrap();
        let fitted = Conformal::fit(&small, SetRule::Lac, 0.1).unwrap();
        assert_eq!(fitted.threshold, None);
        assert_eq!(fitted.set(&[1.0, 0.0]), [0, 1]);
    }

    #[test]
    fn sets_by_hand() {
        let lac = Conformal { rule: SetRule::Lac, alpha: 0.1, threshold: Some(0.75) };
        assert_eq!(lac.set(&[0.25, 0.5, 0.125, 0.125]), [0, 1]);
        assert_eq!(lac.set(&[0.2; 5]), [0usize; 0]);
        let aps = Conformal { rule: SetRule::Aps, alpha: 0.1, threshold: Some(0.75) };
        assert_eq!(aps.set(&[0.25, 0.5, 0.125, 0.125]), [0, 1]);
        assert_eq!(aps.set(&[0.0, 1.0]), [1]);
        assert_eq!(aps.set(&[0.25; 4]), [0, 1, 2, 3]);
    }

    #[test]
    fn relabelling_permutes_the_sets() {
        let aps = Conformal { rule: SetRule::Aps, alpha: 0.1, threshold: Some(0.6 + 0.2 + 0.1) };
        assert_eq!(aps.set(&[0.6, 0.2, 0.1, 0.05, 0.05]), [0, 1, 2]);
        assert_eq!(aps.set(&[0.05, 0.1, 0.05, 0.2, 0.6]), [1, 3, 4]);
    }

    #[test]
    fn a_score_that_is_no_number_is_refused() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = Conformal::of_scores(SetRule::Lac, &[0.1, 0.2, value], 0.3).unwrap_err();
            assert!(matches!(error, Error::BadValue { index: 2, .. }), "{error}");
        }
    }

    #[test]
    fn alpha_out_of_range_is_refused() {
        let data = Predictions::new(vec![0.9, 0.1], vec![0], 2).unwrap();
        for alpha in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(matches!(Conformal::fit(&data, SetRule::Lac, alpha), Err(Error::Parameter { .. })));
        }
    }
}
