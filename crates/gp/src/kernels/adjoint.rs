//! From cotangents of kernel values to those of features and raw parameters.

use super::{Base, Features, Kernel, KernelKind, MAX_POWER, softplus_slope};
use crate::linalg::{inner, sum_any_order};
use faer::{Mat, Scale};
use std::cmp::Ordering;

/// Cotangents of the parameters of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelGradient {
    /// Of `raw_shape`; 0 for the cosine kernel.
    pub raw_shape: f64,
    /// Of `raw_scale`.
    pub raw_scale: Vec<f64>,
}

impl KernelGradient {
    /// Nothing yet.
    pub fn zeros(kernel: &Kernel) -> Self {
        KernelGradient { raw_shape: 0.0, raw_scale: vec![0.0; kernel.raw_scale.len()] }
    }
}

impl Kernel {
    /// From the cotangents `kbar` of `scale_c * base` for every class, that of `base`; adds to those of the scales.
    pub fn pull_scale(&self, base: &Base, kbar: &[Mat<f64>], gradient: &mut KernelGradient) -> Mat<f64> {
        let mut along: Vec<f64> = kbar.iter().map(|kbar| inner(kbar, &base.value)).collect();
        if self.raw_scale.len() == 1 {
            gradient.raw_scale[0] += sum_any_order(&mut along) * softplus_slope(self.raw_scale[0]);
        } else {
            for (c, along) in along.iter().enumerate() {
                gradient.raw_scale[c] += along * softplus_slope(self.raw_scale[c]);
            }
        }
        // One order for all entries, and one that does not depend on the names of the classes.
        let mut order: Vec<usize> = (0..kbar.len()).collect();
        order.sort_by(|&c, &d| {
            self.scale(c).total_cmp(&self.scale(d)).then_with(|| lexicographic(&kbar[c], &kbar[d]))
        });
        let mut bar = Mat::zeros(base.value.nrows(), base.value.ncols());
        for c in order {
            let scale = self.scale(c);
            for j in 0..bar.ncols() {
                for (bar, k) in bar.col_as_slice_mut(j).iter_mut().zip(kbar[c].col_as_slice(j)) {
                    *bar += scale * k;
                }
            }
        }
        bar
    }

    /// From the cotangent `bar` of [`Kernel::between`], those of the features (added to `zbar` and `z2bar`, [D, N] and [D, M]).
    pub fn pull_between(
        &self,
        x: &Features,
        x2: &Features,
        base: &Base,
        bar: &Mat<f64>,
        zbar: &mut Mat<f64>,
        z2bar: &mut Mat<f64>,
        gradient: &mut KernelGradient,
    ) {
        let prebar = self.pull_value(base, bar, gradient);
        if self.is_stationary() {
            // d|x - y|^2 = 2 (x - y) (dx - dy)
            *zbar -= &x2.z * (prebar.transpose() * Scale(2.0));
            *z2bar -= &x.z * (&prebar * Scale(2.0));
            for i in 0..x.points() {
                let total: f64 = (0..x2.points()).map(|j| prebar[(i, j)]).sum();
                zbar.col_mut(i).iter_mut().zip(x.point(i)).for_each(|(g, v)| *g += 2.0 * total * v);
            }
            for j in 0..x2.points() {
                let total: f64 = prebar.col_as_slice(j).iter().sum();
                z2bar.col_mut(j).iter_mut().zip(x2.point(j)).for_each(|(g, v)| *g += 2.0 * total * v);
            }
        } else {
            *zbar += &x2.z * prebar.transpose();
            *z2bar += &x.z * &prebar;
        }
    }

    /// From the cotangent `bar` of [`Kernel::within`] (symmetric or not), that of the features, added to `zbar`, [D, N].
    pub fn pull_within(
        &self,
        x: &Features,
        base: &Base,
        bar: &Mat<f64>,
        zbar: &mut Mat<f64>,
        gradient: &mut KernelGradient,
    ) {
        let half = self.pull_value(base, bar, gradient);
        let prebar = &half + half.transpose();
        if self.is_stationary() {
            *zbar -= &x.z * (&prebar * Scale(2.0));
            for i in 0..x.points() {
                let total: f64 = prebar.col_as_slice(i).iter().sum();
                zbar.col_mut(i).iter_mut().zip(x.point(i)).for_each(|(g, v)| *g += 2.0 * total * v);
            }
        } else {
            *zbar += &x.z * &prebar;
        }
    }

    /// From the cotangent `bar` [N, 1] of [`Kernel::diag`], that of the features, added to `zbar`, [D, N].
    pub fn pull_diag(
        &self,
        x: &Features,
        base: &Base,
        bar: &Mat<f64>,
        zbar: &mut Mat<f64>,
        gradient: &mut KernelGradient,
    ) {
        let prebar = self.pull_value(base, bar, gradient);
        if !self.is_stationary() {
            for i in 0..x.points() {
                zbar.col_mut(i).iter_mut().zip(x.point(i)).for_each(|(g, v)| *g += 2.0 * prebar[(i, 0)] * v);
            }
        }
    }

    /// From the cotangent of the values, that of the inner products or squared distances; adds to that of the raw shape.
    fn pull_value(&self, base: &Base, bar: &Mat<f64>, gradient: &mut KernelGradient) -> Mat<f64> {
        let shape = self.shape();
        let mut shape_bar = 0.0;
        let prebar = Mat::from_fn(bar.nrows(), bar.ncols(), |i, j| {
            let (bar, pre, value) = (bar[(i, j)], base.pre[(i, j)], base.value[(i, j)]);
            let (by_pre, by_shape) = match self.kind {
                KernelKind::Cosine => (1.0, 0.0),
                KernelKind::Linear => (shape, pre),
                KernelKind::Rbf => (-0.5 * value / (shape * shape), value * pre / (shape * shape * shape)),
                KernelKind::Matern52 => {
                    let u = (5.0 * pre).sqrt() / shape;
                    // dk/d(d^2/l^2), finite at 0.
                    let slope = -5.0 / 6.0 * (1.0 + u) * (-u).exp();
                    (slope / (shape * shape), -2.0 * slope * pre / (shape * shape * shape))
                }
                KernelKind::Polynomial { power } => {
                    let power = power.min(MAX_POWER) as i32;
                    let slope = f64::from(power) * (pre + shape).powi(power - 1);
                    (slope, slope)
                }
            };
            shape_bar += bar * by_shape;
            bar * by_pre
        });
        if self.has_shape() {
            gradient.raw_shape += shape_bar * softplus_slope(self.raw_shape);
        }
        prebar
    }
}

/// The order of the first entries that differ.
fn lexicographic(a: &Mat<f64>, b: &Mat<f64>) -> Ordering {
    let pairs = (0..a.ncols()).flat_map(|j| a.col_as_slice(j).iter().zip(b.col_as_slice(j)));
    pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [KernelKind; 6] = [
        KernelKind::Cosine,
        KernelKind::Linear,
        KernelKind::Rbf,
        KernelKind::Matern52,
        KernelKind::Polynomial { power: 1 },
        KernelKind::Polynomial { power: 2 },
    ];

    struct Problem {
        kernel: Kernel,
        x: Mat<f64>,
        x2: Mat<f64>,
        within: Vec<Mat<f64>>,
        between: Vec<Mat<f64>>,
        diag: Vec<Mat<f64>>,
    }

    /// sum of G * K over K(X, X), K(X, X2), diag K(X2), each with weights of its own per class.
    fn value(p: &Problem) -> f64 {
        let (f, f2) = (p.kernel.features(p.x.as_ref()).unwrap(), p.kernel.features(p.x2.as_ref()).unwrap());
        let parts = [
            (p.kernel.within(&f), &p.within),
            (p.kernel.between(&f, &f2).unwrap(), &p.between),
            (p.kernel.diag(&f2), &p.diag),
        ];
        let one = |(base, g): &(Base, &Vec<Mat<f64>>)| -> f64 {
            p.kernel.scaled(base, g.len()).iter().zip(*g).map(|(k, g)| inner(k, g)).sum()
        };
        parts.iter().map(one).sum()
    }

    fn gradient(p: &Problem) -> (Mat<f64>, Mat<f64>, KernelGradient) {
        let (f, f2) = (p.kernel.features(p.x.as_ref()).unwrap(), p.kernel.features(p.x2.as_ref()).unwrap());
        let mut g = KernelGradient::zeros(&p.kernel);
        let (mut z, mut z2) = (Mat::zeros(f.dim(), f.points()), Mat::zeros(f2.dim(), f2.points()));
        let base = p.kernel.within(&f);
        let bar = p.kernel.pull_scale(&base, &p.within, &mut g);
        p.kernel.pull_within(&f, &base, &bar, &mut z, &mut g);
        let base = p.kernel.between(&f, &f2).unwrap();
        let bar = p.kernel.pull_scale(&base, &p.between, &mut g);
        p.kernel.pull_between(&f, &f2, &base, &bar, &mut z, &mut z2, &mut g);
        let base = p.kernel.diag(&f2);
        let bar = p.kernel.pull_scale(&base, &p.diag, &mut g);
        p.kernel.pull_diag(&f2, &base, &bar, &mut z2, &mut g);
        (f.pull_back(&z), f2.pull_back(&z2), g)
    }

    fn matrix(rows: usize, cols: usize, values: &mut impl Iterator<Item = f64>) -> Mat<f64> {
        let mut m = Mat::zeros(rows, cols);
        for j in 0..cols {
            for i in 0..rows {
                m[(i, j)] = values.next().unwrap();
            }
        }
        m
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_adjoint_matches_differences(
            kind in 0usize..6, normalise: bool, per_class: bool, raw_shape in -0.5..2.0f64,
            numbers in prop::collection::vec(-2.0..2.0f64, 120),
        ) {
            let (n, m, d, classes) = (4, 3, 3, 2);
            let mut numbers = numbers.into_iter();
            let kernel = Kernel {
                kind: KINDS[kind], normalise, raw_shape,
                raw_scale: numbers.by_ref().take(if per_class { classes } else { 1 }).collect(),
            };
            let mut p = Problem {
                kernel, x: matrix(n, d, &mut numbers), x2: matrix(m, d, &mut numbers),
                within: (0..classes).map(|_| matrix(n, n, &mut numbers)).collect(),
                between: (0..classes).map(|_| matrix(n, m, &mut numbers)).collect(),
                diag: (0..classes).map(|_| matrix(m, 1, &mut numbers)).collect(),
            };
            // Vectors near the origin turn fast: differences need a smaller step there than the test takes.
            prop_assume!((0..n).all(|i| p.x.row(i).norm_l2() > 0.3) && (0..m).all(|i| p.x2.row(i).norm_l2() > 0.3));
            let (dx, dx2, g) = gradient(&p);
            let h = 1e-5;
            let scale = 1.0 + dx.norm_max().max(dx2.norm_max());
            macro_rules! check {
                ($entry:expr, $got:expr) => {{
                    let kept = $entry;
                    $entry = kept + h;
                    let up = value(&p);
                    $entry = kept - h;
                    let down = value(&p);
                    $entry = kept;
                    let want = (up - down) / (2.0 * h);
                    prop_assert!(($got - want).abs() < 1e-7 * scale, "{} {}: {:?}", $got, want, p.kernel);
                }};
            }
            for i in 0..n { for c in 0..d { check!(p.x[(i, c)], dx[(i, c)]); } }
            for i in 0..m { for c in 0..d { check!(p.x2[(i, c)], dx2[(i, c)]); } }
            check!(p.kernel.raw_shape, g.raw_shape);
            for c in 0..p.kernel.raw_scale.len() { check!(p.kernel.raw_scale[c], g.raw_scale[c]); }
        }
    }

    #[test]
    fn coincident_points_and_the_zero_vector_are_harmless() {
        let x = Mat::from_fn(3, 2, |i, j| if i == 2 { 0.0 } else { 1.0 + j as f64 });
        for kind in KINDS {
            let kernel = Kernel::new(kind);
            let f = kernel.features(x.as_ref()).unwrap();
            let base = kernel.within(&f);
            let mut g = KernelGradient::zeros(&kernel);
            let mut z = Mat::zeros(2, 3);
            kernel.pull_within(&f, &base, &Mat::from_fn(3, 3, |_, _| 1.0), &mut z, &mut g);
            assert!(f.pull_back(&z).norm_max().is_finite() && g.raw_shape.is_finite());
            assert_eq!(base.value[(0, 1)], base.value[(0, 0)]);
            assert_eq!(kernel.diag(&f).value[(1, 0)], base.value[(1, 1)]);
        }
    }
}
