//! Proper scores: least, in expectation, for the true probabilities.

use crate::predictions::Predictions;

/// Negative log-likelihood `-mean_n log p(y_n)`, in nats. Infinite if a true class has probability zero.
pub fn nll(predictions: &Predictions) -> f64 {
    let sum: f64 = predictions.iter().map(|(p, y)| -p[y].ln()).sum();
    sum / predictions.len() as f64
}

/// Brier score `mean_n sum_c (p_nc - [c = y_n])²`, over all classes, so between 0 and 2.
pub fn brier(predictions: &Predictions) -> f64 {
    let sum: f64 = predictions.iter().map(|(p, y)| squared_distance(p, y)).sum();
    sum / predictions.len() as f64
}

/// `sum_c (p_c - [c = y])²`.
fn squared_distance(p: &[f64], y: usize) -> f64 {
    p.iter().enumerate().map(|(c, &p_c)| (p_c - f64::from(u8::from(c == y))).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Predictions {
        let probs = vec![0.7, 0.2, 0.1, 0.1, 0.1, 0.8, 0.25, 0.5, 0.25, 0.34, 0.33, 0.33];
        Predictions::new(probs, vec![0, 2, 0, 1], 3).unwrap()
    }

    #[test]
    fn scores_match_scikit_learn() {
        // scikit-learn 1.9: log_loss(y, p) and brier_score_loss(y, p, scale_by_half=False).
        let (sklearn_nll, sklearn_brier) = (0.768_693_870_223_611, 0.437_1);
        assert!((nll(&sample()) - sklearn_nll).abs() < 1e-15, "{}", nll(&sample()));
        assert!((brier(&sample()) - sklearn_brier).abs() < 1e-15, "{}", brier(&sample()));
    }

    #[test]
    fn certainty_is_best_when_right_and_worst_when_wrong() {
        let right = Predictions::new(vec![1.0, 0.0], vec![0], 2).unwrap();
        assert_eq!((nll(&right), brier(&right)), (0.0, 0.0));
        let wrong = Predictions::new(vec![1.0, 0.0], vec![1], 2).unwrap();
        assert_eq!((nll(&wrong), brier(&wrong)), (f64::INFINITY, 2.0));
    }
}
