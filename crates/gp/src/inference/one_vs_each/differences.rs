//! The matrix A of the differences `psi = A f`, never formed: its products with what is given class by class.

use faer::Mat;

/// Row `j = (n, c)` is `psi_j = f_n^{y_n} - f_n^c`: n-major, c over the classes other than `y_n` in the order in which they
/// first appear in y. So the rows, and all that is computed from them, do not depend on the names of the classes; classes
/// without an example come last, ascending, and only their names matter.
#[derive(Debug, Clone)]
pub struct Differences {
    /// (point, own class, other class) of each row.
    rows: Vec<(usize, usize, usize)>,
    points: usize,
    classes: usize,
}

impl Differences {
    /// The rows of N labels in C classes: N (C - 1) of them.
    pub fn new(y: &[usize], classes: usize) -> Self {
        let first = |c: &usize| y.iter().position(|label| label == c).unwrap_or(y.len());
        let mut order: Vec<usize> = (0..classes).collect();
        order.sort_by_key(first);
        let others = |own: usize| order.iter().copied().filter(move |&c| c != own);
        let rows = y.iter().enumerate().flat_map(|(n, &own)| others(own).map(move |c| (n, own, c))).collect();
        Self { rows, points: y.len(), classes }
    }

    /// Number of rows, N (C - 1).
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The places of the rows when the other classes of each point are listed in ascending order: entry j is the row of the j-th of them.
    pub fn ascending(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.len()).collect();
        places.sort_by_key(|&j| (self.rows[j].0, self.rows[j].2));
        places
    }

    /// Number of points N.
    pub(crate) fn points(&self) -> usize {
        self.points
    }

    /// Number of classes C.
    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// `A f` for f [N, C].
    pub(crate) fn apply(&self, f: &Mat<f64>) -> Vec<f64> {
        self.rows.iter().map(|&(n, own, c)| f[(n, own)] - f[(n, c)]).collect()
    }

    /// `A' g` as [N, C].
    pub(crate) fn transpose_apply(&self, g: &[f64]) -> Mat<f64> {
        let mut out = Mat::zeros(self.points, self.classes);
        for (&(n, own, c), &g) in self.rows.iter().zip(g) {
            out[(n, own)] += g;
            out[(n, c)] -= g;
        }
        out
    }

    /// `A K A'` for kernel matrices of independent classes, C of [N, N]:
    /// each of the two terms of a row meets a term of the other row where their classes agree.
    pub(crate) fn gram(&self, k: &[Mat<f64>]) -> Mat<f64> {
        Mat::from_fn(self.len(), self.len(), |i, j| {
            let (n, own, c) = self.rows[i];
            let (m, own_m, d) = self.rows[j];
            let mut sum = 0.0;
            if own == own_m {
                sum += k[own][(n, m)];
            }
            if own == d {
                sum -= k[own][(n, m)];
            }
            if c == own_m {
                sum -= k[c][(n, m)];
            }
            if c == d {
                sum += k[c][(n, m)];
            }
            sum
        })
    }

    /// Adjoint of [`Differences::gram`]: the class blocks of `A' G A`, C of [N, N], for symmetric G.
    pub(crate) fn gram_pullback(&self, g: &Mat<f64>) -> Vec<Mat<f64>> {
        let mut out = vec![Mat::zeros(self.points, self.points); self.classes];
        for (j, &(m, own_m, d)) in self.rows.iter().enumerate() {
            for (i, &(n, own, c)) in self.rows.iter().enumerate() {
                let g = g[(i, j)];
                if own == own_m {
                    out[own][(n, m)] += g;
                }
                if own == d {
                    out[own][(n, m)] -= g;
                }
                if c == own_m {
                    out[c][(n, m)] -= g;
                }
                if c == d {
                    out[c][(n, m)] += g;
                }
            }
        }
        out
    }

    /// The covariance of psi with the C latent values at query q: `U = A k*`, [N (C-1), C], from cross-kernels
    /// `ks`, C of [N, Q].
    pub(crate) fn cross(&self, ks: &[Mat<f64>], q: usize) -> Mat<f64> {
        let mut out = Mat::zeros(self.len(), self.classes);
        for (j, &(n, own, c)) in self.rows.iter().enumerate() {
            out[(j, own)] += ks[own][(n, q)];
            out[(j, c)] -= ks[c][(n, q)];
        }
        out
    }

    /// Adjoint of [`Differences::cross`]: adds to `dks`, C of [N, Q].
    pub(crate) fn cross_pullback(&self, ubar: &Mat<f64>, q: usize, dks: &mut [Mat<f64>]) {
        for (j, &(n, own, c)) in self.rows.iter().enumerate() {
            dks[own][(n, q)] += ubar[(j, own)];
            dks[c][(n, q)] -= ubar[(j, c)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A as a dense [N(C-1), C N] matrix, columns class-major.
    fn dense(d: &Differences) -> Mat<f64> {
        let mut a = Mat::zeros(d.len(), d.classes * d.points);
        for (j, &(n, own, c)) in d.rows.iter().enumerate() {
            a[(j, own * d.points + n)] += 1.0;
            a[(j, c * d.points + n)] -= 1.0;
        }
        a
    }

    #[test]
    fn rows_follow_the_first_appearance_of_the_classes() {
        let rows = Differences::new(&[2, 0, 2], 4).rows;
        assert_eq!(rows[..6], [(0, 2, 0), (0, 2, 1), (0, 2, 3), (1, 0, 2), (1, 0, 1), (1, 0, 3)]);
    }

    #[test]
    fn products_agree_with_the_dense_matrix() {
        let y = [0, 2, 1, 2];
        let (n, c) = (y.len(), 3);
        let d = Differences::new(&y, c);
        assert_eq!(d.len(), 8);
        let a = dense(&d);
        let k: Vec<Mat<f64>> =
            (0..c).map(|c| Mat::from_fn(n, n, |i, j| ((i + j + i * j) as f64 + c as f64).sin())).collect();
        let block =
            Mat::from_fn(c * n, c * n, |i, j| if i / n == j / n { k[i / n][(i % n, j % n)] } else { 0.0 });
        assert!((&a * &block * a.transpose() - d.gram(&k)).norm_max() < 1e-14);
        let f = Mat::from_fn(n, c, |i, j| (i as f64 - 1.3 * j as f64).cos());
        let column = Mat::from_fn(c * n, 1, |i, _| f[(i % n, i / n)]);
        let psi = &a * &column;
        assert!(d.apply(&f).iter().enumerate().all(|(j, p)| (p - psi[(j, 0)]).abs() < 1e-14));
        let back = a.transpose() * &psi;
        let folded = d.transpose_apply(&d.apply(&f));
        assert!((0..c * n).all(|i| (back[(i, 0)] - folded[(i % n, i / n)]).abs() < 1e-13));
        let g = Mat::from_fn(d.len(), d.len(), |i, j| ((i * j + 1) as f64).sqrt().cos());
        let full = a.transpose() * &g * &a;
        for (c, pulled) in d.gram_pullback(&g).iter().enumerate() {
            assert!((Mat::from_fn(n, n, |i, j| full[(c * n + i, c * n + j)]) - pulled).norm_max() < 1e-13);
        }
        let ks: Vec<Mat<f64>> = (0..c).map(|c| Mat::from_fn(n, 2, |i, q| (i + 3 * q + c) as f64)).collect();
        let stacked = Mat::from_fn(c * n, c, |i, j| if i / n == j { ks[j][(i % n, 1)] } else { 0.0 });
        assert!((&a * &stacked - d.cross(&ks, 1)).norm_max() < 1e-14);
    }
}
