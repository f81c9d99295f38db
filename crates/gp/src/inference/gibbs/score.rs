//! From class scores to the predictive loss: cross-entropy of `softmax(score)`.

use crate::likelihoods::softmax;
use crate::{Error, Result};
use faer::Mat;

/// `-1/Q sum_q log softmax(score_q)_{y_q}` and its cotangent `(softmax - onehot)/Q`, [Q, C].
pub(super) fn cross_entropy(scores: &Mat<f64>, y: &[usize]) -> Result<(f64, Mat<f64>)> {
    let (q, c) = (scores.nrows(), scores.ncols());
    if y.len() != q {
        return Err(Error::Shape { what: "labels of the queries", expected: q, got: y.len() });
    }
    if q == 0 {
        return Err(Error::Empty { what: "queries", needed: 1 });
    }
    if let Some((row, &label)) = y.iter().enumerate().find(|&(_, &label)| label >= c) {
        return Err(Error::Label { row, label, classes: c });
    }
    let log = softmax::log_rows(scores);
    let value = -(0..q).map(|i| log[(i, y[i])]).sum::<f64>() / q as f64;
    let bar = Mat::from_fn(q, c, |i, j| (log[(i, j)].exp() - f64::from(y[i] == j)) / q as f64);
    Ok((value, bar))
}
