//! The expected log-likelihood of labels under independent Gaussian latent values.

use super::{Precision, log_sigmoid::trapezoid, log_z::LogZ};
use crate::{Error, Result};
use faer::{Mat, MatRef};

/// sum_n E log p(y_n | x_n) and its derivatives in the marginals.
#[derive(Debug, Clone)]
pub struct ExpectedLogLik {
    /// The sum over points.
    pub value: f64,
    /// Derivatives in the means, [N, C].
    pub dmu: Mat<f64>,
    /// Derivatives in the variances, [N, C].
    pub dv: Mat<f64>,
}

/// sum_n ( E log sigma(x_{n,y_n}) - E log Z_n ) for x_nc ~ N(`mu[n, c]`, `v[n, c]`), all independent, in units of tau.
///
/// `mu`, `v`: [N, C]; `y`: [N].
pub fn expected_log_lik(
    mu: MatRef<'_, f64>,
    v: MatRef<'_, f64>,
    y: &[usize],
    precision: Precision,
) -> Result<ExpectedLogLik> {
    let (n, classes) = (mu.nrows(), mu.ncols());
    check(mu, v, y)?;
    let rule = precision.bound_rule();
    let mut log_z = LogZ::new(precision);
    let (mut dmu, mut dv) = (Mat::zeros(n, classes), Mat::zeros(n, classes));
    let (mut row_mu, mut row_v) = (vec![0.0; classes], vec![0.0; classes]);
    let (mut z_mu, mut z_v) = (vec![0.0; classes], vec![0.0; classes]);
    let mut value = 0.0;
    for i in 0..n {
        for c in 0..classes {
            (row_mu[c], row_v[c]) = (mu[(i, c)], v[(i, c)]);
        }
        let e_log_z = log_z.eval(&row_mu, &row_v, &mut z_mu, &mut z_v).map_err(|e| in_row(e, i))?;
        let e_log_sigma = trapezoid(row_mu[y[i]], row_v[y[i]], &rule);
        value += e_log_sigma.value - e_log_z;
        for c in 0..classes {
            (dmu[(i, c)], dv[(i, c)]) = (-z_mu[c], -z_v[c]);
        }
        dmu[(i, y[i])] += e_log_sigma.dmu;
        dv[(i, y[i])] += e_log_sigma.dv;
    }
    Ok(ExpectedLogLik { value, dmu, dv })
}

fn check(mu: MatRef<'_, f64>, v: MatRef<'_, f64>, y: &[usize]) -> Result<()> {
    let (n, classes) = (mu.nrows(), mu.ncols());
    for (what, expected, got) in
        [("rows of v", n, v.nrows()), ("columns of v", classes, v.ncols()), ("labels", n, y.len())]
    {
        if got != expected {
            return Err(Error::Shape { what, expected, got });
        }
    }
    match y.iter().position(|&label| label >= classes) {
        Some(row) => Err(Error::Label { row, label: y[row], classes }),
        None => Ok(()),
    }
}

/// The same error with the row it happened in.
fn in_row(error: Error, row: usize) -> Error {
    match error {
        Error::NotFinite { what, col, value, .. } => Error::NotFinite { what, row, col, value },
        other => other,
    }
}
