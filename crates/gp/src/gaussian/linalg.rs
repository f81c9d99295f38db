//! Dense f64 linear algebra on one thread: the few operations the Gaussian blocks need.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{
    LltError, LltRegularization, cholesky_in_place, cholesky_in_place_scratch,
};
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::matmul::{self};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::{Accum, Mat, MatRef, Par};

use crate::{Error, Result};

/// Asks glibc's allocator to keep what is freed. At first it gives every free stretch of 128 KiB back to the system, and an
/// objective with its gradient, which takes and frees some megabytes, would spend a third of its time on page faults. Once a
/// block of 16 MiB has been freed it keeps twice that. The block is never touched; to other allocators it means nothing.
///
/// A program that learns calls it once, at its start; the library never does.
pub fn keep_freed_memory() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(16 << 20))));
}

/// The lower Cholesky factor `L` of a symmetric matrix (its lower half is read): `A = L L'`, zeros above.
pub(crate) fn cholesky(mut a: Mat<f64>, what: &'static str) -> Result<Mat<f64>> {
    let n = a.nrows();
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default()));
    let done = cholesky_in_place(
        a.as_mut(),
        LltRegularization::default(),
        Par::Seq,
        MemStack::new(&mut memory),
        Default::default(),
    );
    if let Err(LltError::NonPositivePivot { index }) = done {
        return Err(Error::NotPositiveDefinite { what, pivot: index });
    }
    for j in 0..n {
        let column = a.col_as_slice_mut(j);
        column[..j].fill(0.0);
        // A NaN or an overflow passes the pivot test of the factorisation: it is no factor either.
        if !(column[j] > 0.0 && column[j].is_finite()) {
            return Err(Error::NotPositiveDefinite { what, pivot: j });
        }
    }
    Ok(a)
}

/// `log det(L L') = 2 sum_i log L_ii`.
pub(crate) fn logdet_of_factor(l: &Mat<f64>) -> f64 {
    2.0 * (0..l.nrows()).map(|i| l[(i, i)].ln()).sum::<f64>()
}

/// `log det(I + A)` from the diagonal of a semi-definite `A` and the factor `L L' = I + A`:
/// `sum_j log(1 + d_j)`, `d_j = A_jj - sum_{k<j} L_jk^2`. A small `A` keeps its digits, which `log L_jj` near 0 would lose.
pub(crate) fn logdet_of_one_plus(diagonal: &[f64], l: &Mat<f64>) -> f64 {
    // No pivot of a positive A is below 1: what falls below is rounding.
    logdet_by_pivots(diagonal, l, |j, d| if diagonal[j] > 0.0 { d.max(0.0) } else { d })
}

/// The same for an `A` of either sign: any of its pivots may lie below 1.
pub(crate) fn logdet_of_one_plus_signed(diagonal: &[f64], l: &Mat<f64>) -> f64 {
    logdet_by_pivots(diagonal, l, |_, d| d)
}

/// `sum_j log(1 + d_j)` with `d_j = known(j, A_jj - sum_{k<j} L_jk^2)`.
fn logdet_by_pivots(diagonal: &[f64], l: &Mat<f64>, known: impl Fn(usize, f64) -> f64) -> f64 {
    let n = diagonal.len();
    let mut d = diagonal.to_vec();
    for k in 0..n {
        for (d, l) in d[k + 1..].iter_mut().zip(&l.col_as_slice(k)[k + 1..]) {
            *d -= l * l;
        }
    }
    let log_pivot = |j: usize| {
        let d = known(j, d[j]);
        if d.abs() < 0.5 { d.ln_1p() } else { 2.0 * l[(j, j)].ln() }
    };
    (0..n).map(log_pivot).sum()
}

/// `L^{-1}` of a lower triangular matrix, zeros above.
pub(crate) fn lower_inverse(l: &Mat<f64>) -> Mat<f64> {
    let mut inverse = Mat::zeros(l.nrows(), l.ncols());
    invert_lower_triangular(inverse.as_mut(), l.as_ref(), Par::Seq);
    inverse
}

/// `A B`.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    matmul::matmul(out.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    out
}

/// `L B` with `L` lower triangular.
pub(crate) fn lower_product(l: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(l.nrows(), b.ncols());
    triangular::matmul(
        out.as_mut(),
        BlockStructure::Rectangular,
        Accum::Replace,
        l,
        BlockStructure::TriangularLower,
        b,
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
    out
}

/// `L' L` of a lower triangular matrix, both halves filled.
pub(crate) fn gram_of_lower(l: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(l.nrows(), l.ncols());
    triangular::matmul(
        out.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Replace,
        l.transpose(),
        BlockStructure::TriangularUpper,
        l.as_ref(),
        BlockStructure::TriangularLower,
        1.0,
        Par::Seq,
    );
    mirror(&mut out);
    out
}

/// Adds `alpha A B` to the lower half of `out`, for a product known to be symmetric; [`mirror`] completes it.
pub(crate) fn add_symmetric_product(out: &mut Mat<f64>, alpha: f64, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    triangular::matmul(
        out.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Add,
        a,
        BlockStructure::Rectangular,
        b,
        BlockStructure::Rectangular,
        alpha,
        Par::Seq,
    );
}

/// Copies the lower half of a square matrix over its upper half.
pub(crate) fn mirror(a: &mut Mat<f64>) {
    for j in 0..a.ncols() {
        for i in j + 1..a.nrows() {
            a[(j, i)] = a[(i, j)];
        }
    }
}

/// `A x`.
pub(crate) fn mul_vec(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; a.nrows()];
    for (j, &xj) in x.iter().enumerate() {
        for (o, &aij) in out.iter_mut().zip(a.col_as_slice(j)) {
            *o += aij * xj;
        }
    }
    out
}

/// `A' x`.
pub(crate) fn tmul_vec(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    (0..a.ncols()).map(|j| dot(a.col_as_slice(j), x)).collect()
}

/// `x'y`.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// `x'x`, in eight sums side by side.
pub(crate) fn squared_length(x: &[f64]) -> f64 {
    let (eights, rest) = x.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, x)| *sum += x * x);
    }
    sums.iter().sum::<f64>() + dot(rest, rest)
}

/// `<A, B> = sum_ij A_ij B_ij`.
pub(crate) fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    (0..a.ncols()).map(|j| dot(a.col_as_slice(j), b.col_as_slice(j))).sum()
}

/// A sum that does not depend on the order of its terms: they are sorted first. Sums over classes go through here, so
/// that renaming the classes permutes every result bit for bit.
pub(crate) fn sum_any_order(terms: &mut [f64]) -> f64 {
    terms.sort_unstable_by(f64::total_cmp);
    terms.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_inverse_and_gram_belong_together() {
        let n = 37;
        let x = Mat::from_fn(n, n, |i, j| ((i * 7 + j * 13) as f64).sin());
        let mut a = product(x.as_ref(), x.transpose());
        for i in 0..n {
            a[(i, i)] += 1.0;
        }
        let l = cholesky(a.clone(), "a").unwrap();
        let inverse = gram_of_lower(&lower_inverse(&l));
        let identity = product(a.as_ref(), inverse.as_ref());
        for i in 0..n {
            for j in 0..n {
                assert!((identity[(i, j)] - f64::from(i == j)).abs() < 1e-12);
            }
        }
        assert!((lower_product(l.as_ref(), l.transpose()) - &a).norm_max() < 1e-12);
    }

    #[test]
    fn what_has_no_factor_is_an_error() {
        let indefinite = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 2.0 });
        let error = cholesky(indefinite, "the matrix").unwrap_err();
        assert_eq!(error, Error::NotPositiveDefinite { what: "the matrix", pivot: 1 });
        let nan = Mat::from_fn(2, 2, |_, _| f64::NAN);
        assert!(cholesky(nan, "nan").is_err());
    }

    #[test]
    fn the_logarithm_of_a_determinant_near_one() {
        // A diagonal A at any scale, and A = s u u' of both signs.
        let u = [0.7, -1.3, 0.2, 0.9, 1.1];
        let length: f64 = u.iter().map(|u| u * u).sum();
        for exponent in -10..=7 {
            let s = 10f64.powi(exponent);
            let mut cases = vec![(Mat::from_fn(5, 5, |i, j| if i == j { s * u[i] * u[i] } else { 0.0 }), {
                u.iter().map(|u| (s * u * u).ln_1p()).sum::<f64>()
            })];
            if s <= 0.1 {
                for s in [s, -s] {
                    cases.push((Mat::from_fn(5, 5, |i, j| s * u[i] * u[j]), (s * length).ln_1p()));
                }
            }
            for (a, want) in cases {
                let diagonal: Vec<f64> = (0..5).map(|i| a[(i, i)]).collect();
                let l = cholesky(Mat::from_fn(5, 5, |i, j| f64::from(i == j) + a[(i, j)]), "a").unwrap();
                let got = logdet_of_one_plus(&diagonal, &l);
                assert!((got / want - 1.0).abs() < 4e-15, "{s:e}: {got:e} {want:e}");
            }
        }
    }

    #[test]
    fn the_order_of_terms_does_not_change_the_sum() {
        let terms = [1e16, 1.0, -1e16, 3.0, 1e-3, -2.5];
        let forward = sum_any_order(&mut terms.clone());
        let mut backward = terms;
        backward.reverse();
        assert_eq!(forward.to_bits(), sum_any_order(&mut backward).to_bits());
    }
}
