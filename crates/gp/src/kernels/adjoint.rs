//! From cotangents of kernel values to those of features and raw parameters.

use super::gram::{Pairs, Set, products};
use super::{Beside, Gram, Kernel, softplus_slope};
use crate::linalg::{inner, sum_any_order};
use faer::{Mat, Scale};
use std::cmp::Ordering;

/// Cotangents of the raw parameters of a kernel, each as long as the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelGradient {
    /// Of `raw_shape`.
    pub raw_shape: Vec<f64>,
    /// Of `raw_lengths`.
    pub raw_lengths: Vec<f64>,
    /// Of `raw_scale`.
    pub raw_scale: Vec<f64>,
}

impl KernelGradient {
    /// Nothing yet.
    pub fn zeros(kernel: &Kernel) -> Self {
        KernelGradient {
            raw_shape: vec![0.0; kernel.raw_shape.len()],
            raw_lengths: vec![0.0; kernel.raw_lengths.len()],
            raw_scale: vec![0.0; kernel.raw_scale.len()],
        }
    }
}

impl Gram<'_> {
    /// From the cotangents `kbar` of the kernel of every class (symmetric or not), those of the features, added to `zbar` [D, N],
    /// and of the raw parameters, added to `gradient`. For [`Kernel::within`] and [`Kernel::own`].
    pub fn pull(&self, kbar: &[Mat<f64>], zbar: &mut Mat<f64>, gradient: &mut KernelGradient) {
        self.pull_between(kbar, zbar, &mut Mat::zeros(0, 0), gradient);
    }

    /// [`Gram::pull`] for [`Kernel::between`]: adds to `zbar` [D, N] and `z2bar` [D, M].
    pub fn pull_between(
        &self,
        kbar: &[Mat<f64>],
        zbar: &mut Mat<f64>,
        z2bar: &mut Mat<f64>,
        gradient: &mut KernelGradient,
    ) {
        for (index, (set, bar)) in self.sets.iter().zip(self.pull_scales(kbar, gradient)).enumerate() {
            let linear = self.linear_bar(set, &bar);
            let prebar = self.pull_form(set, index, bar, gradient);
            let pull_points = |zbar: &mut Mat<f64>, z2bar: &mut Mat<f64>| {
                self.pull_points(set, (&prebar, self.kernel.form.is_stationary()), zbar, z2bar);
                if let Some(bar) = &linear {
                    self.pull_points(set, (bar, false), zbar, z2bar);
                }
            };
            if set.lengths.is_empty() {
                pull_points(zbar, z2bar);
                continue;
            }
            // The form saw z / lengths.
            let mut seen = [&*zbar, &*z2bar].map(|bar| Mat::zeros(bar.nrows(), bar.ncols()));
            let [seen1, seen2] = &mut seen;
            pull_points(seen1, seen2);
            for (x, seen, bar) in [(self.x, &seen[0], &mut *zbar), (self.x2, &seen[1], &mut *z2bar)] {
                let raw_bar = part_mut(&mut gradient.raw_lengths, set.lengths.len(), index);
                let raw = part(&self.kernel.raw_lengths, set.lengths.len(), index);
                for j in 0..seen.ncols() {
                    for (d, length) in set.lengths.iter().enumerate() {
                        let back = seen[(d, j)] / length;
                        bar[(d, j)] += back;
                        raw_bar[d] -= back * x.z[(d, j)] / length * softplus_slope(raw[d]);
                    }
                }
            }
        }
    }

    /// From the cotangents of `scale_c * value`, those of the values of each set; adds to those of the scales.
    fn pull_scales(&self, kbar: &[Mat<f64>], gradient: &mut KernelGradient) -> Vec<Mat<f64>> {
        let kernel = self.kernel;
        let along = |c: usize| inner(&kbar[c], &self.set_of(c).value);
        let mut along: Vec<f64> = (0..kbar.len()).map(along).collect();
        if kernel.raw_scale.len() == 1 {
            gradient.raw_scale[0] += sum_any_order(&mut along) * softplus_slope(kernel.raw_scale[0]);
        } else {
            for (c, along) in along.iter().enumerate() {
                gradient.raw_scale[c] += along * softplus_slope(kernel.raw_scale[c]);
            }
        }
        if self.sets.len() > 1 {
            return kbar.iter().enumerate().map(|(c, kbar)| kbar * Scale(kernel.scale(c))).collect();
        }
        // One order for all entries, and one that does not depend on the names of the classes.
        let mut order: Vec<usize> = (0..kbar.len()).collect();
        order.sort_by(|&c, &d| {
            kernel.scale(c).total_cmp(&kernel.scale(d)).then_with(|| lexicographic(&kbar[c], &kbar[d]))
        });
        let mut bar = Mat::zeros(self.sets[0].value.nrows(), self.sets[0].value.ncols());
        for c in order {
            let scale = kernel.scale(c);
            for j in 0..bar.ncols() {
                for (bar, k) in bar.col_as_slice_mut(j).iter_mut().zip(kbar[c].col_as_slice(j)) {
                    *bar += scale * k;
                }
            }
        }
        vec![bar]
    }

    /// From the cotangents of the values of a set, those of the statistics; adds to those of its raw shapes.
    fn pull_form(
        &self,
        set: &Set,
        index: usize,
        mut bar: Mat<f64>,
        gradient: &mut KernelGradient,
    ) -> Mat<f64> {
        let mut shape_bar = vec![0.0; set.shape.len()];
        self.pull_beside(set, &bar, &mut shape_bar);
        for j in 0..bar.ncols() {
            let (pre, value) = (set.pre.col_as_slice(j), set.value.col_as_slice(j));
            self.kernel.form.pull(pre, value, bar.col_as_slice_mut(j), &set.shape, &mut shape_bar);
        }
        let raw = part(&self.kernel.raw_shape, set.shape.len(), index);
        let raw_bar = part_mut(&mut gradient.raw_shape, set.shape.len(), index);
        for ((total, shape), &raw) in raw_bar.iter_mut().zip(shape_bar).zip(raw) {
            *total += shape * softplus_slope(raw);
        }
        bar
    }

    /// The cotangents of the inner products of a linear part, from those of the values.
    fn linear_bar(&self, set: &Set, bar: &Mat<f64>) -> Option<Mat<f64>> {
        self.kernel.form.beside().linear.map(|place| bar * Scale(set.shape[place]))
    }

    /// Adds to the cotangents of the variances of a linear and a white part.
    fn pull_beside(&self, set: &Set, bar: &Mat<f64>, shape_bar: &mut [f64]) {
        let Beside { linear, white } = self.kernel.form.beside();
        if let Some(place) = linear {
            let (z, z2) = (self.x.over(&set.lengths), self.x2.over(&set.lengths));
            shape_bar[place] += inner(bar, &products(&z, &z2, self.pairs));
        }
        if let Some(place) = white {
            shape_bar[place] += match self.pairs {
                Pairs::Within => (0..bar.ncols()).map(|i| bar[(i, i)]).sum(),
                Pairs::Own => bar.col_as_slice(0).iter().sum::<f64>(),
                Pairs::Between => 0.0,
            };
        }
    }

    /// From the cotangents of the statistics (squared distances if it `is_stationary`, else products), those of the points as the form
    /// sees them.
    fn pull_points(
        &self,
        set: &Set,
        (prebar, is_stationary): (&Mat<f64>, bool),
        zbar: &mut Mat<f64>,
        z2bar: &mut Mat<f64>,
    ) {
        let (z, z2) = (self.x.over(&set.lengths), self.x2.over(&set.lengths));
        let sum = |column: &[f64]| column.iter().sum::<f64>();
        match (self.pairs, is_stationary) {
            (Pairs::Own, true) => {}
            (Pairs::Own, false) => (0..z.ncols()).for_each(|i| add_column(zbar, &z, i, prebar[(i, 0)])),
            (Pairs::Within, true) => {
                // d|x - y|^2 = 2 (x - y) (dx - dy)
                let prebar = prebar + prebar.transpose();
                *zbar -= &*z * (&prebar * Scale(2.0));
                (0..z.ncols()).for_each(|i| add_column(zbar, &z, i, sum(prebar.col_as_slice(i))));
            }
            (Pairs::Within, false) => *zbar += &*z * (prebar + prebar.transpose()),
            (Pairs::Between, true) => {
                *zbar -= &*z2 * (prebar.transpose() * Scale(2.0));
                *z2bar -= &*z * (prebar * Scale(2.0));
                for i in 0..z.ncols() {
                    let total: f64 = (0..z2.ncols()).map(|j| prebar[(i, j)]).sum();
                    add_column(zbar, &z, i, total);
                }
                (0..z2.ncols()).for_each(|j| add_column(z2bar, &z2, j, sum(prebar.col_as_slice(j))));
            }
            (Pairs::Between, false) => {
                *zbar += &*z2 * prebar.transpose();
                *z2bar += &*z * prebar;
            }
        }
    }
}

/// Adds `2 factor z_i` to column i.
fn add_column(zbar: &mut Mat<f64>, z: &Mat<f64>, i: usize, factor: f64) {
    zbar.col_mut(i).iter_mut().zip(z.col_as_slice(i)).for_each(|(bar, z)| *bar += 2.0 * factor * z);
}

/// The parameters of set `index`, `of_one` for each set or shared by all.
fn part(all: &[f64], of_one: usize, index: usize) -> &[f64] {
    let first = if all.len() > of_one { index * of_one } else { 0 };
    &all[first..first + of_one]
}

/// [`part`], to write.
fn part_mut(all: &mut [f64], of_one: usize, index: usize) -> &mut [f64] {
    let first = if all.len() > of_one { index * of_one } else { 0 };
    &mut all[first..first + of_one]
}

/// The order of the first entries that differ.
fn lexicographic(a: &Mat<f64>, b: &Mat<f64>) -> Ordering {
    let pairs = (0..a.ncols()).flat_map(|j| a.col_as_slice(j).iter().zip(b.col_as_slice(j)));
    pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
