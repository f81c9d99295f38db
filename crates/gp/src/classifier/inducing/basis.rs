//! Whitened features of points: `phi(x) = L^-1 k(Z, x)`, `L L' = K(Z, Z)`. With v ~ N(0, 1), `phi' v` is what the inducing points Z know of
//! the latent function.

use crate::kernels::{Kernel, KernelFeatures};
use crate::linalg::{cholesky, lower_inverse};
use crate::{Error, Result};
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef, Par};

/// An inducing point whose own variance, given those before it, is below this part of the largest says nothing new.
const NOTHING_NEW: f64 = 1e-7;

/// Inducing points and the factor of their kernel.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    kernel: Kernel,
    points: KernelFeatures,
    /// `L^-1`, [M, M].
    inverse: Mat<f64>,
}

/// Whitened features of some points.
pub(super) struct Whitened {
    /// [N, M].
    pub(super) phi: Mat<f64>,
    /// The prior variance that the inducing points say nothing about, before the output scale.
    pub(super) rest: Vec<f64>,
}

impl Basis {
    /// Of inducing points `z` [M, D], none of which the others determine: see [`telling`].
    pub(super) fn new(kernel: &Kernel, z: MatRef<'_, f64>) -> Result<Self> {
        let points = kernel.features(z)?;
        let l = cholesky(kernel.by_products(&points, &points)?, "kernel of the inducing points")?;
        Ok(Basis { kernel: kernel.clone(), points, inverse: lower_inverse(&l) })
    }

    /// Number of features M.
    pub(super) fn len(&self) -> usize {
        self.points.points()
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Of points `x` [N, D].
    pub(super) fn at(&self, x: MatRef<'_, f64>) -> Result<Whitened> {
        let features = self.kernel.features(x)?;
        let k = self.kernel.by_products(&features, &self.points)?;
        let phi = times_transposed(k.as_ref(), &self.inverse);
        let own = self.kernel.own(&features)?.own_before_scale();
        let mut rest = own;
        for j in 0..phi.ncols() {
            rest.iter_mut().zip(phi.col_as_slice(j)).for_each(|(rest, phi)| *rest -= phi * phi);
        }
        rest.iter_mut().for_each(|rest| *rest = rest.max(0.0));
        Ok(Whitened { phi, rest })
    }
}

/// `A L'` with `L` lower triangular: half the work of a product.
fn times_transposed(a: MatRef<'_, f64>, l: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), l.nrows());
    triangular::matmul(
        out.as_mut(),
        BlockStructure::Rectangular,
        Accum::Replace,
        a,
        BlockStructure::Rectangular,
        l.transpose(),
        BlockStructure::TriangularUpper,
        1.0,
        Par::Seq,
    );
    out
}

/// Which of some points `z` [M, D] say something that those before them do not, in the order of how much: greedy variance, the largest
/// pivot of Cholesky's factor first. It ends where the rest is rounding.
pub(super) fn telling(kernel: &Kernel, z: MatRef<'_, f64>) -> Result<Vec<usize>> {
    let features = kernel.features(z)?;
    let k = kernel.by_products(&features, &features)?;
    let n = k.nrows();
    let mut left: Vec<f64> = (0..n).map(|i| k[(i, i)]).collect();
    let least = NOTHING_NEW * left.iter().fold(0.0f64, |m, &v| m.max(v));
    let (mut order, mut l) = (Vec::new(), Mat::<f64>::zeros(n, n));
    while order.len() < n {
        let best = (0..n).fold(0, |best, i| if left[i] > left[best] { i } else { best });
        if left[best] <= least {
            break;
        }
        let j = order.len();
        let mut column = k.col_as_slice(best).to_vec();
        for t in 0..j {
            let along = l[(best, t)];
            column.iter_mut().zip(l.col_as_slice(t)).for_each(|(c, l)| *c -= along * l);
        }
        let pivot = left[best].sqrt();
        for (i, (left, c)) in left.iter_mut().zip(&column).enumerate() {
            l[(i, j)] = c / pivot;
            *left -= l[(i, j)] * l[(i, j)];
        }
        left[best] = f64::NEG_INFINITY;
        order.push(best);
    }
    match order.is_empty() {
        true => Err(Error::Empty { what: "inducing points at which the kernel is not 0", needed: 1 }),
        false => Ok(order),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Linear, Rbf};
    use crate::linalg::product;

    fn rows(n: usize, d: usize) -> Mat<f64> {
        Mat::from_fn(n, d, |i, j| ((i * 13 + j * j * 7 + i * j) as f64).sin() * 2.0)
    }

    #[test]
    fn at_the_inducing_points_the_features_make_the_kernel() {
        let (z, kernel) = (rows(20, 3), Kernel::new(Rbf));
        let basis = Basis::new(&kernel, z.as_ref()).unwrap();
        let features = kernel.features(z.as_ref()).unwrap();
        let k = kernel.by_products(&features, &features).unwrap();
        let at = basis.at(z.as_ref()).unwrap();
        assert_eq!(basis.len(), 20);
        assert!((product(at.phi.as_ref(), at.phi.transpose()) - k).norm_max() < 1e-7);
        assert!(at.rest.iter().all(|rest| *rest < 1e-7), "{:?}", at.rest);
        // Elsewhere something is left, and never more than the prior.
        let far = basis.at((rows(5, 3) * faer::Scale(30.0)).as_ref()).unwrap();
        assert!(far.rest.iter().all(|rest| *rest > 0.99 && *rest <= 1.0), "{:?}", far.rest);
    }

    #[test]
    fn points_that_say_nothing_new_are_left_out() {
        let twice = Mat::from_fn(12, 3, |i, j| rows(6, 3)[(i % 6, j)]);
        assert_eq!(telling(&Kernel::new(Rbf), twice.as_ref()).unwrap().len(), 6);
        // A linear kernel of three inputs has three features.
        let linear = Kernel::new(Linear);
        let order = telling(&linear, rows(12, 3).as_ref()).unwrap();
        assert_eq!(order.len(), 3);
        // The first is the one of the largest variance.
        let square = |i: usize| (0..3).map(|j| rows(12, 3)[(i, j)].powi(2)).sum::<f64>();
        assert!((0..12).all(|i| square(i) <= square(order[0])));
        assert!(telling(&linear, Mat::<f64>::zeros(3, 3).as_ref()).is_err());
    }
}
