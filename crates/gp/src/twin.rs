//! Slow, literal counterparts for the tests: dense inverses by elimination.

use faer::Mat;

/// `A^{-1}` by Gauss-Jordan elimination with pivoting.
pub(crate) fn inverse(a: &Mat<f64>) -> Mat<f64> {
    eliminate(a).0
}

/// `log |det A|` by the same elimination.
pub(crate) fn logdet(a: &Mat<f64>) -> f64 {
    eliminate(a).1
}

fn eliminate(a: &Mat<f64>) -> (Mat<f64>, f64) {
    let n = a.nrows();
    let mut m = Mat::from_fn(n, 2 * n, |i, j| if j < n { a[(i, j)] } else { f64::from(i == j - n) });
    let mut logdet = 0.0;
    for col in 0..n {
        let pivot = (col..n).max_by(|&i, &j| m[(i, col)].abs().total_cmp(&m[(j, col)].abs())).unwrap();
        for j in 0..2 * n {
            (m[(col, j)], m[(pivot, j)]) = (m[(pivot, j)], m[(col, j)]);
        }
        let p = m[(col, col)];
        logdet += p.abs().ln();
        (0..2 * n).for_each(|j| m[(col, j)] /= p);
        for i in (0..n).filter(|&i| i != col) {
            let f = m[(i, col)];
            for j in 0..2 * n {
                let x = m[(col, j)];
                m[(i, j)] -= f * x;
            }
        }
    }
    (Mat::from_fn(n, n, |i, j| m[(i, j + n)]), logdet)
}
