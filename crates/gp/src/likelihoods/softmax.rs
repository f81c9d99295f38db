//! The softmax likelihood with temperature: p(y = k | f) = exp(f_k / tau) / sum_c exp(f_c / tau).

use super::{check_latent, check_tau, log_normalise};
use crate::Result;
use faer::Mat;

/// log p(y = k | f) = f_k / tau - log sum_c exp(f_c / tau), for every k.
pub(crate) fn log_probs(f: &[f64], tau: f64) -> Result<Vec<f64>> {
    check_latent(f)?;
    check_tau(tau)?;
    let x: Vec<f64> = f.iter().map(|&f_c| f_c / tau).collect();
    Ok(log_normalise(&x))
}

/// The probabilities of `log_probs`.
pub fn probs(f: &[f64], tau: f64) -> Result<Vec<f64>> {
    Ok(log_probs(f, tau)?.into_iter().map(f64::exp).collect())
}

/// log softmax of each row of scores [M, C], at temperature 1.
pub(crate) fn log_rows(scores: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(scores.nrows(), scores.ncols());
    for i in 0..scores.nrows() {
        let row: Vec<f64> = (0..scores.ncols()).map(|j| scores[(i, j)]).collect();
        for (j, log) in log_normalise(&row).into_iter().enumerate() {
            out[(i, j)] = log;
        }
    }
    out
}

/// The probabilities of [`log_rows`].
pub(crate) fn rows(scores: &Mat<f64>) -> Mat<f64> {
    let log = log_rows(scores);
    Mat::from_fn(scores.nrows(), scores.ncols(), |i, j| log[(i, j)].exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_classes_are_the_logistic_function() {
        let p = log_probs(&[3.0, -1.0], 2.0).unwrap();
        assert!((p[0] - crate::special::log_sigmoid(2.0)).abs() < 1e-16);
        assert!((p[1] - crate::special::log_sigmoid(-2.0)).abs() < 1e-15);
    }
}
