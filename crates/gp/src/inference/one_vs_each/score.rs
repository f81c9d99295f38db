//! The score of one-vs-each under a Gaussian prediction.

use crate::Result;
use crate::linalg::sum_any_order;
use crate::quadrature::{Resolution, log_sigmoid::e_log_sigmoid};
use faer::Mat;

/// Mean and variance of `x_k - x_c`: `m_k - m_c` and `V_kk + V_cc - 2 V_kc`.
pub(crate) fn difference(mean: &[f64], cov: &Mat<f64>, k: usize, c: usize) -> (f64, f64) {
    let var = cov[(k, k)] + cov[(c, c)] - cov[(k, c)] - cov[(c, k)];
    (mean[k] - mean[c], var.max(0.0))
}

/// `sum_{c != k} E log sigma(x_k - x_c)` of each class k, for `x ~ N(mean, cov)`; its softmax is the published prediction.
pub(crate) fn scores(mean: &[f64], cov: &Mat<f64>) -> Result<Vec<f64>> {
    (0..mean.len())
        .map(|k| {
            let mut terms = (0..mean.len())
                .filter(|&c| c != k)
                .map(|c| {
                    let (m, v) = difference(mean, cov, k, c);
                    Ok(e_log_sigmoid(m, v, Resolution::Standard)?.value)
                })
                .collect::<Result<Vec<f64>>>()?;
            Ok(sum_any_order(&mut terms))
        })
        .collect()
}
