//! Kernel values.

use super::{Features, Kernel, KernelKind, MAX_POWER};
use crate::{Error, Result};
use faer::{Mat, Scale};

/// Values of a kernel before its output scale, and what they were computed from.
#[derive(Debug, Clone)]
pub struct Base {
    /// Inner products <x, x'>, or squared distances |x - x'|^2 for RBF and Matern.
    pub(super) pre: Mat<f64>,
    /// The values, [N, M].
    pub value: Mat<f64>,
}

impl Kernel {
    /// base(x_i, x'_j) for all pairs, [N, M].
    pub fn between(&self, x: &Features, x2: &Features) -> Result<Base> {
        if x.dim() != x2.dim() {
            return Err(Error::Shape { what: "features of a point", expected: x.dim(), got: x2.dim() });
        }
        let pre = if self.is_stationary() {
            Mat::from_fn(x.points(), x2.points(), |i, j| squared_distance(x.point(i), x2.point(j)))
        } else {
            x.z.transpose() * &x2.z
        };
        Ok(self.base(pre))
    }

    /// base(x_i, x_j) for all pairs, [N, N], symmetric to the bit.
    pub fn within(&self, x: &Features) -> Base {
        let n = x.points();
        let mut pre = if self.is_stationary() {
            Mat::from_fn(n, n, |i, j| if j < i { squared_distance(x.point(i), x.point(j)) } else { 0.0 })
        } else {
            x.z.transpose() * &x.z
        };
        for j in 0..n {
            for i in j + 1..n {
                pre[(j, i)] = pre[(i, j)];
            }
        }
        self.base(pre)
    }

    /// base(x_i, x_i), as a column [N, 1].
    pub fn diag(&self, x: &Features) -> Base {
        let own = |i: usize| if self.is_stationary() { 0.0 } else { x.point(i).iter().map(|v| v * v).sum() };
        let pre = Mat::from_fn(x.points(), 1, |i, _| own(i));
        self.base(pre)
    }

    /// Prior correlations `k(x, x')/sqrt(k(x, x) k(x', x'))` of all pairs, [N, M]: 1 for points that are alike to the kernel,
    /// 0 where a point has no variance.
    pub fn correlation(&self, x: &Features, x2: &Features) -> Result<Mat<f64>> {
        let mut value = self.between(x, x2)?.value;
        let (own, own2) = (self.diag(x).value, self.diag(x2).value);
        for j in 0..value.ncols() {
            for (i, k) in value.col_as_slice_mut(j).iter_mut().enumerate() {
                let both = (own[(i, 0)] * own2[(j, 0)]).sqrt();
                *k = if both > 0.0 { *k / both } else { 0.0 };
            }
        }
        Ok(value)
    }

    /// The kernel values of every class: scale_c * base.
    pub fn scaled(&self, base: &Base, classes: usize) -> Vec<Mat<f64>> {
        (0..classes).map(|c| &base.value * Scale(self.scale(c))).collect()
    }

    /// Whether the kernel is a function of the distance; its shape is then a lengthscale.
    pub(crate) fn is_stationary(&self) -> bool {
        matches!(self.kind, KernelKind::Rbf | KernelKind::Matern52)
    }

    /// The values for inner products or squared distances.
    fn base(&self, pre: Mat<f64>) -> Base {
        let (shape, mut value) = (self.shape(), pre.clone());
        for j in 0..value.ncols() {
            for value in value.col_as_slice_mut(j) {
                *value = self.base_value(*value, shape);
            }
        }
        Base { pre, value }
    }

    fn base_value(&self, pre: f64, shape: f64) -> f64 {
        match self.kind {
            KernelKind::Cosine => pre,
            KernelKind::Linear => shape * pre,
            KernelKind::Rbf => (-0.5 * pre / (shape * shape)).exp(),
            KernelKind::Matern52 => {
                let u = (5.0 * pre).sqrt() / shape;
                (1.0 + u + u * u / 3.0) * (-u).exp()
            }
            KernelKind::Polynomial { power } => (pre + shape).powi(power.min(MAX_POWER) as i32),
        }
    }
}

/// |x - y|^2 by differences: exactly 0 for points that coincide, and no cancellation for points that nearly do.
fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    let mut lanes = [0.0; 4];
    let (x4, y4) = (x.chunks_exact(4), y.chunks_exact(4));
    let rest: f64 = x4.remainder().iter().zip(y4.remainder()).map(|(x, y)| (x - y) * (x - y)).sum();
    for (x, y) in x4.zip(y4) {
        for l in 0..4 {
            lanes[l] += (x[l] - y[l]) * (x[l] - y[l]);
        }
    }
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + rest
}
