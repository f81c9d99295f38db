//! Scores of queries for classes, and what follows from them: probabilities, loss, accuracy.

use crate::Prediction;

/// Unnormalised log-probabilities, row-major `[queries, way]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// The scores.
    pub values: Vec<f64>,
    /// Number of classes.
    pub way: usize,
}

impl Scores {
    /// Softmax of every row, `[queries, way]`.
    pub fn softmax(&self) -> Vec<f64> {
        self.values.chunks_exact(self.way).flat_map(softmax).collect()
    }

    /// The softmax as a method's answer.
    pub fn prediction(&self) -> Prediction {
        Prediction { probabilities: self.softmax(), way: self.way, latent: None }
    }

    /// The share of rows whose highest score (the first of equal ones) is at `truth`.
    pub fn accuracy(&self, truth: &[usize]) -> f64 {
        let best = |row: &[f64]| (0..self.way).fold(0, |best, c| if row[c] > row[best] { c } else { best });
        let rows = self.values.chunks_exact(self.way).zip(truth);
        rows.filter(|(row, label)| best(row) == **label).count() as f64 / truth.len() as f64
    }
}

/// exp(s_c) / sum_k exp(s_k), computed from the differences to the largest score.
fn softmax(row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = row.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

/// `-mean_q log softmax(s_q)[y_q]`, and its gradient with respect to the scores, `[queries, way]`.
pub fn softmax_cross_entropy(scores: &Scores, truth: &[usize]) -> (f64, Vec<f64>) {
    let n = truth.len() as f64;
    let (mut loss, mut gradient) = (0.0, Vec::with_capacity(scores.values.len()));
    for (row, &label) in scores.values.chunks_exact(scores.way).zip(truth) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Relative to the largest score: with far scores their own digits would be lost.
        let log_sum = row.iter().map(|s| (s - largest).exp()).sum::<f64>().ln();
        let log_p = |s: f64| s - largest - log_sum;
        loss -= log_p(row[label]) / n;
        let truth = |c: usize| f64::from(u8::from(c == label));
        gradient.extend(row.iter().enumerate().map(|(c, &s)| (log_p(s).exp() - truth(c)) / n));
    }
    (loss, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_scores_give_probabilities_and_a_loss_without_overflow() {
        let scores = Scores { values: vec![-2000.0, -1000.0, 800.0, 799.0], way: 2 };
        let p = scores.softmax();
        assert_eq!(&p[..2], &[0.0, 1.0]);
        let one = 1.0 / (1.0 + (-1.0f64).exp());
        assert!((p[2] - one).abs() < 1e-15);
        let (loss, gradient) = softmax_cross_entropy(&scores, &[0, 0]);
        assert!((loss - 0.5 * (1000.0 - one.ln())).abs() < 1e-9, "{loss}");
        assert!((gradient[0] + 0.5).abs() < 1e-15 && (gradient[2] - 0.5 * (one - 1.0)).abs() < 1e-15);
        assert_eq!(scores.accuracy(&[1, 1]), 0.5);
        let tie = Scores { values: vec![1.0, 1.0], way: 2 };
        assert_eq!(tie.accuracy(&[0]), 1.0, "of equal scores the first class is taken");
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let scores = Scores { values: vec![0.3, -1.2, 2.0, 0.1, 0.4, -0.7], way: 3 };
        let (_, gradient) = softmax_cross_entropy(&scores, &[2, 0]);
        for i in 0..6 {
            let at = |h: f64| {
                let mut moved = scores.clone();
                moved.values[i] += h;
                softmax_cross_entropy(&moved, &[2, 0]).0
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - gradient[i]).abs() < 1e-9, "{i}: {slope} {}", gradient[i]);
        }
    }
}
