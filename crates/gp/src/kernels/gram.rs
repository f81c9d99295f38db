//! Kernel values of pairs of points.

use super::{Kernel, KernelFeatures, softplus};
use crate::{Error, Result};
use faer::{Mat, Scale};

/// The kernel between points, before the output scale, and what it was computed from.
#[derive(Debug, Clone)]
pub struct Gram<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) x: &'a KernelFeatures,
    /// The same as `x` but for [`Kernel::between`].
    pub(super) x2: &'a KernelFeatures,
    pub(super) pairs: Pairs,
    /// One if all classes share shapes and lengths, else one for each class.
    pub(super) sets: Vec<Set>,
}

/// Which pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairs {
    /// All of one set of points, [N, N].
    Within,
    /// All between two sets, [N, M].
    Between,
    /// Each point with itself, [N, 1].
    Own,
}

/// The values for one set of shapes and lengths.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) shape: Vec<f64>,
    /// Empty if all are 1.
    pub(super) lengths: Vec<f64>,
    /// The statistic of each pair.
    pub(super) pre: Mat<f64>,
    pub(super) value: Mat<f64>,
}

impl Kernel {
    /// The kernel of all pairs of two sets of points, [N, M].
    pub fn between<'a>(&'a self, x: &'a KernelFeatures, x2: &'a KernelFeatures) -> Result<Gram<'a>> {
        if x.dim() != x2.dim() {
            return Err(Error::Shape { what: "features of a point", expected: x.dim(), got: x2.dim() });
        }
        self.gram(x, x2, Pairs::Between)
    }

    /// The kernel of all pairs of one set of points, [N, N], symmetric to the bit.
    pub fn within<'a>(&'a self, x: &'a KernelFeatures) -> Result<Gram<'a>> {
        self.gram(x, x, Pairs::Within)
    }

    /// The kernel of each point with itself, a column [N, 1].
    pub fn own<'a>(&'a self, x: &'a KernelFeatures) -> Result<Gram<'a>> {
        self.gram(x, x, Pairs::Own)
    }

    /// Prior correlations `k(x, x')/sqrt(k(x, x) k(x', x'))` of all pairs, [N, M], averaged over sets of shapes: 1 for points that
    /// are alike to the kernel, 0 where a point has no variance.
    pub fn correlation(&self, x: &KernelFeatures, x2: &KernelFeatures) -> Result<Mat<f64>> {
        let (between, own, own2) = (self.between(x, x2)?, self.own(x)?, self.own(x2)?);
        let sets = between.sets.len();
        let mut total = Mat::zeros(x.points(), x2.points());
        for set in 0..sets {
            let (value, own, own2) = (&between.sets[set].value, &own.sets[set].value, &own2.sets[set].value);
            for j in 0..total.ncols() {
                for (i, k) in total.col_as_slice_mut(j).iter_mut().enumerate() {
                    let both = (own[(i, 0)] * own2[(j, 0)]).sqrt();
                    *k += if both > 0.0 { value[(i, j)] / both / sets as f64 } else { 0.0 };
                }
            }
        }
        Ok(total)
    }

    /// The values of all pairs of two sets of points before the output scale, [N, M], by matrix products: for many points. Squared
    /// distances have an error of some 1e-16 |x|^2 so. A white part is left out, for a point with itself too: inducing points know nothing of
    /// the noise of points. An error for a kernel that is not the same for all classes.
    pub(crate) fn by_products(&self, x: &KernelFeatures, x2: &KernelFeatures) -> Result<Mat<f64>> {
        if self.sets(x.dim())? > 1 {
            return Err(Error::PerClassKernel);
        }
        let part = |raw: &[f64]| raw.iter().map(|&raw| softplus(raw)).collect::<Vec<f64>>();
        let (shape, lengths) = (part(&self.raw_shape), part(&self.raw_lengths));
        let (z, z2) = (x.over(&lengths), x2.over(&lengths));
        let mut value = crate::linalg::product(z.transpose(), z2.as_ref().as_ref());
        let linear = self.form.beside().linear.map(|place| shape[place]);
        let square = |z: &Mat<f64>, i: usize| z.col_as_slice(i).iter().map(|v| v * v).sum::<f64>();
        let squares: Vec<f64> = (0..z.ncols()).map(|i| square(&z, i)).collect();
        for j in 0..value.ncols() {
            let column = value.col_as_slice_mut(j);
            let product = linear.map(|variance| column.iter().map(|p| variance * p).collect::<Vec<f64>>());
            if self.form.is_stationary() {
                let own = square(&z2, j);
                column.iter_mut().zip(&squares).for_each(|(p, s)| *p = (s + own - 2.0 * *p).max(0.0));
            }
            self.form.values(column, &shape);
            if let Some(product) = product {
                column.iter_mut().zip(product).for_each(|(k, product)| *k += product);
            }
        }
        Ok(value)
    }

    fn gram<'a>(&'a self, x: &'a KernelFeatures, x2: &'a KernelFeatures, pairs: Pairs) -> Result<Gram<'a>> {
        let sets = (0..self.sets(x.dim())?).map(|set| self.set(x, x2, pairs, set)).collect();
        Ok(Gram { kernel: self, x, x2, pairs, sets })
    }

    /// How many sets of shapes and lengths there are, for points of `dim` features.
    fn sets(&self, dim: usize) -> Result<usize> {
        let of_shapes = match self.form.shapes().len() {
            0 => 1,
            of_one => self.raw_shape.len() / of_one,
        };
        let of_lengths = self.raw_lengths.len() / dim;
        if !self.raw_lengths.len().is_multiple_of(dim) {
            let what = "lengths of the inputs (one per dimension)";
            return Err(Error::Shape { what, expected: dim, got: self.raw_lengths.len() });
        }
        let sets = of_shapes.max(of_lengths).max(1);
        for got in [of_shapes, of_lengths] {
            if got > 1 && got != sets {
                return Err(Error::Shape { what: "classes of the kernel", expected: sets, got });
            }
        }
        Ok(sets)
    }

    fn set(&self, x: &KernelFeatures, x2: &KernelFeatures, pairs: Pairs, set: usize) -> Set {
        let part = |raw: &[f64], of_one: usize| -> Vec<f64> {
            let first = if raw.len() > of_one { set * of_one } else { 0 };
            raw[first..raw.len().min(first + of_one)].iter().map(|&raw| softplus(raw)).collect()
        };
        let shape = part(&self.raw_shape, self.form.shapes().len());
        let lengths = part(&self.raw_lengths, x.dim());
        let (z, z2) = (x.over(&lengths), x2.over(&lengths));
        let product = !self.form.is_stationary();
        let pre = match (pairs, product) {
            (Pairs::Within, _) => within(&z, product),
            (Pairs::Between | Pairs::Own, true) => products(&z, &z2, pairs),
            (Pairs::Between, false) => Mat::from_fn(x.points(), x2.points(), |i, j| {
                squared_distance(z.col_as_slice(i), z2.col_as_slice(j))
            }),
            (Pairs::Own, false) => Mat::zeros(x.points(), 1),
        };
        let mut value = pre.clone();
        for j in 0..value.ncols() {
            self.form.values(value.col_as_slice_mut(j), &shape);
        }
        let beside = self.form.beside();
        if let Some(place) = beside.linear {
            value += products(&z, &z2, pairs) * Scale(shape[place]);
        }
        if let Some(place) = beside.white {
            match pairs {
                Pairs::Within => (0..value.ncols()).for_each(|i| value[(i, i)] += shape[place]),
                Pairs::Own => value.col_as_slice_mut(0).iter_mut().for_each(|value| *value += shape[place]),
                Pairs::Between => {}
            }
        }
        Set { shape, lengths, pre, value }
    }
}

/// The inner products of the pairs.
pub(super) fn products(z: &Mat<f64>, z2: &Mat<f64>, pairs: Pairs) -> Mat<f64> {
    match pairs {
        Pairs::Within => within(z, true),
        Pairs::Between => z.transpose() * z2,
        Pairs::Own => Mat::from_fn(z.ncols(), 1, |i, _| z.col_as_slice(i).iter().map(|v| v * v).sum()),
    }
}

impl Gram<'_> {
    /// The kernel of each class, with its output scale.
    pub fn of_classes(&self, classes: usize) -> Vec<Mat<f64>> {
        (0..classes).map(|c| &self.set_of(c).value * Scale(self.kernel.scale(c))).collect()
    }

    /// [`Kernel::own`] of each class as columns, [N, C].
    pub fn own_of_classes(&self, classes: usize) -> Mat<f64> {
        let rows = self.sets[0].value.nrows();
        Mat::from_fn(rows, classes, |i, c| self.kernel.scale(c) * self.set_of(c).value[(i, 0)])
    }

    /// [`Kernel::own`] of the first class before its output scale.
    pub(crate) fn own_before_scale(&self) -> Vec<f64> {
        self.sets[0].value.col_as_slice(0).to_vec()
    }

    pub(super) fn set_of(&self, class: usize) -> &Set {
        &self.sets[if self.sets.len() == 1 { 0 } else { class }]
    }
}

/// The statistics of all pairs of one set of points, the lower half copied to the upper.
fn within(z: &Mat<f64>, product: bool) -> Mat<f64> {
    let n = z.ncols();
    let mut pre = if product {
        z.transpose() * z
    } else {
        let distance = |i, j| squared_distance(z.col_as_slice(i), z.col_as_slice(j));
        Mat::from_fn(n, n, |i, j| if j < i { distance(i, j) } else { 0.0 })
    };
    crate::linalg::mirror(&mut pre);
    pre
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
