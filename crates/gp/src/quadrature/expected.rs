//! The expected log-likelihood of labels under independent Gaussian latent values.

use super::{Resolution, log_sigmoid::trapezoid, log_z::LogZ};
use crate::parallel::over_ranges;
use crate::{Error, Result};
use faer::{Mat, MatRef};
use std::ops::Range;

/// Points whose integrals are worth a thread of their own.
const LEAST: usize = 8;

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
/// `mu`, `v`: [N, C]; `y`: `[N]`.
pub fn expected_log_lik(
    mu: MatRef<'_, f64>,
    v: MatRef<'_, f64>,
    y: &[usize],
    resolution: Resolution,
) -> Result<ExpectedLogLik> {
    weighted_log_lik((mu, v), y, None, resolution)
}

/// [`expected_log_lik`] where point n counts `weights[n]` times; once if there are none.
pub(crate) fn weighted_log_lik(
    (mu, v): (MatRef<'_, f64>, MatRef<'_, f64>),
    y: &[usize],
    weights: Option<&[f64]>,
    resolution: Resolution,
) -> Result<ExpectedLogLik> {
    let (n, classes) = (mu.nrows(), mu.ncols());
    check(mu, v, y)?;
    if let Some(weights) = weights.filter(|weights| weights.len() != n) {
        return Err(Error::Shape { what: "weights", expected: n, got: weights.len() });
    }
    let rule = resolution.bound_rule();
    // Of each point: the value, then the derivatives in means and variances.
    let points = |range: Range<usize>| -> Result<Vec<f64>> {
        let mut log_z = LogZ::new(resolution);
        let (mut row_mu, mut row_v) = (vec![0.0; classes], vec![0.0; classes]);
        let (mut z_mu, mut z_v) = (vec![0.0; classes], vec![0.0; classes]);
        let mut out = Vec::with_capacity(range.len() * (1 + 2 * classes));
        for i in range {
            for c in 0..classes {
                (row_mu[c], row_v[c]) = (mu[(i, c)], v[(i, c)]);
            }
            let e_log_z = log_z.eval(&row_mu, &row_v, &mut z_mu, &mut z_v).map_err(|e| e.in_row(i))?;
            let e_log_sigma = trapezoid(row_mu[y[i]], row_v[y[i]], &rule);
            z_mu[y[i]] -= e_log_sigma.dmu;
            z_v[y[i]] -= e_log_sigma.dv;
            out.push(e_log_sigma.value - e_log_z);
            out.extend(z_mu.iter().chain(&z_v).map(|z| -z));
        }
        Ok(out)
    };
    let (mut dmu, mut dv) = (Mat::zeros(n, classes), Mat::zeros(n, classes));
    let mut value = 0.0;
    let mut i = 0;
    for part in over_ranges(n, LEAST, points) {
        for row in part?.chunks_exact(1 + 2 * classes) {
            let weight = weights.map_or(1.0, |weights| weights[i]);
            value += weight * row[0];
            for c in 0..classes {
                (dmu[(i, c)], dv[(i, c)]) = (weight * row[1 + c], weight * row[1 + classes + c]);
            }
            i += 1;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::log_sigmoid;
    use crate::testing::{normal, slope};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// `log sigma(x_y) - log sum_c sigma(x_c)` of one point.
    fn log_lik(x: &[f64], y: usize) -> f64 {
        let l: Vec<f64> = x.iter().map(|&x| log_sigmoid(x)).collect();
        let max = l.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        l[y] - max - l.iter().map(|l| (l - max).exp()).sum::<f64>().ln()
    }

    /// The slow twin: the mean of the log-likelihood itself over a tensor grid of three classes.
    fn tensor(mu: &[f64], v: &[f64], y: usize) -> f64 {
        let h = 0.15;
        let nodes: Vec<(f64, f64)> = (-54..=54)
            .map(|i| f64::from(i) * h)
            .map(|z| (z, (-0.5 * z * z).exp() * h / (2.0 * std::f64::consts::PI).sqrt()))
            .collect();
        let x = |c: usize, z: f64| mu[c] + v[c].sqrt() * z;
        let mut total = 0.0;
        for &(z0, w0) in &nodes {
            for &(z1, w1) in &nodes {
                let row: f64 =
                    nodes.iter().map(|&(z2, w2)| w2 * log_lik(&[x(0, z0), x(1, z1), x(2, z2)], y)).sum();
                total += w0 * w1 * row;
            }
        }
        total
    }

    fn at(mu: &Mat<f64>, v: &Mat<f64>, y: &[usize], resolution: Resolution) -> ExpectedLogLik {
        expected_log_lik(mu.as_ref(), v.as_ref(), y, resolution).unwrap()
    }

    #[test]
    fn agrees_with_a_tensor_rule() {
        let mu = Mat::from_fn(2, 3, |i, c| [[0.4, -1.2, 2.0], [-6.0, -5.0, -7.5]][i][c]);
        let v = Mat::from_fn(2, 3, |i, c| [[1.0, 0.2, 2.5], [3.0, 0.0, 1.5]][i][c]);
        let row = |m: &Mat<f64>, i: usize| (0..3).map(|c| m[(i, c)]).collect::<Vec<_>>();
        for y in [[0, 2], [1, 1]] {
            let want: f64 = (0..2).map(|i| tensor(&row(&mu, i), &row(&v, i), y[i])).sum();
            for (resolution, tol) in
                [(Resolution::Fast, 4e-5), (Resolution::Standard, 2e-8), (Resolution::Fine, 2e-11)]
            {
                let got = at(&mu, &v, &y, resolution).value;
                assert!((got - want).abs() < tol, "{resolution:?} {y:?}: {got} {want}");
            }
        }
    }

    #[test]
    fn without_variance_it_is_the_log_likelihood() {
        let mu = Mat::from_fn(3, 4, |i, c| [2.0, -30.0, -300.0][i] + (c as f64 * 1.7).sin());
        let y = [3, 0, 1];
        let want: f64 = (0..3).map(|i| log_lik(&(0..4).map(|c| mu[(i, c)]).collect::<Vec<_>>(), y[i])).sum();
        let got = at(&mu, &Mat::zeros(3, 4), &y, Resolution::Golden).value;
        assert!((got - want).abs() < 1e-11, "{got} {want}");
    }

    #[test]
    fn derivatives_match_differences() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let (mu, v) = (normal(&mut rng, 3, 4), normal(&mut rng, 3, 4));
        let v = Mat::from_fn(3, 4, |i, c| v[(i, c)].exp());
        let y = [1, 3, 0];
        let got = at(&mu, &v, &y, Resolution::Golden);
        for (i, c) in (0..3).flat_map(|i| (0..4).map(move |c| (i, c))) {
            let moved = |m: &Mat<f64>, h: f64| {
                let mut m = m.clone();
                m[(i, c)] += h;
                m
            };
            let dmu = slope(|h| at(&moved(&mu, h), &v, &y, Resolution::Golden).value, 1e-2);
            let dv = slope(|h| at(&mu, &moved(&v, h), &y, Resolution::Golden).value, 1e-2 * v[(i, c)]);
            assert!((got.dmu[(i, c)] - dmu).abs() < 1e-8, "{} {dmu}", got.dmu[(i, c)]);
            assert!((got.dv[(i, c)] - dv).abs() < 1e-8, "{} {dv}", got.dv[(i, c)]);
        }
    }

    #[test]
    fn bad_input_is_named() {
        let (mu, v) = (Mat::<f64>::zeros(2, 3), Mat::from_fn(2, 3, |_, _| 1.0));
        let run = |mu: &Mat<f64>, v: &Mat<f64>, y: &[usize]| {
            expected_log_lik(mu.as_ref(), v.as_ref(), y, Resolution::Fast).map(|_| ()).unwrap_err()
        };
        assert_eq!(run(&mu, &v, &[0, 3]), Error::Label { row: 1, label: 3, classes: 3 });
        assert!(matches!(run(&mu, &v, &[0]), Error::Shape { what: "labels", .. }));
        assert!(matches!(run(&mu, &Mat::zeros(2, 2), &[0, 1]), Error::Shape { what: "columns of v", .. }));
        let mut nan = mu.clone();
        nan[(1, 2)] = f64::NAN;
        assert!(matches!(run(&nan, &v, &[0, 1]), Error::NotFinite { row: 1, col: 2, .. }));
    }
}
