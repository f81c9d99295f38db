//! What comes in: checks that name the fact, standardisation, the subset hyperparameters are learned on.

use crate::kernels::{Kernel, Rbf, TwoScale};
use crate::{Error, Result};
use faer::{Mat, MatRef};

/// Lengthscales of the classifier's own kernel, in units of the median distance: where that of the details starts, and that of the trend.
const DETAIL: f64 = 1.0;
const TREND: f64 = 3.0;

/// The number of classes `1 + max y`; every one must occur, and at least two.
pub(super) fn count_classes(y: &[usize]) -> Result<usize> {
    let largest = y.iter().max().ok_or(Error::Empty { what: "y", needed: 2 })?;
    let classes = largest.saturating_add(1);
    // More classes than points means a class without an example; found without allocating by a label's size.
    let mut seen = vec![false; classes.min(y.len() + 1)];
    for &label in y {
        if let Some(seen) = seen.get_mut(label) {
            *seen = true;
        }
    }
    if let Some(class) = seen.iter().position(|seen| !seen) {
        return Err(Error::EmptyClass { class });
    }
    if classes < 2 {
        return Err(Error::OneClass);
    }
    Ok(classes)
}

/// `x` has `rows` rows, at least one column, and only finite numbers.
pub(super) fn check_features(x: MatRef<'_, f64>, rows: usize) -> Result<()> {
    if x.nrows() != rows {
        return Err(Error::Shape { what: "rows of x (one for each label)", expected: rows, got: x.nrows() });
    }
    if x.ncols() == 0 {
        return Err(Error::Empty { what: "columns of x", needed: 1 });
    }
    for row in 0..rows {
        for col in 0..x.ncols() {
            let value = x[(row, col)];
            if !value.is_finite() {
                return Err(Error::NotFinite { what: "x", row, col, value });
            }
        }
    }
    Ok(())
}

/// `(x - mean) / scale` column by column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Standardiser {
    pub(super) mean: Vec<f64>,
    pub(super) scale: Vec<f64>,
}

impl Standardiser {
    /// Mean and standard deviation of each column; a column that does not vary keeps scale 1.
    /// Sums run over the rows in this order.
    pub(super) fn of(x: MatRef<'_, f64>, order: &[usize]) -> Self {
        let n = x.nrows() as f64;
        let columns = |f: &dyn Fn(usize) -> f64| (0..x.ncols()).map(f).collect::<Vec<f64>>();
        let mean = columns(&|j| order.iter().map(|&i| x[(i, j)] / n).sum());
        let scale = columns(&|j| {
            let var: f64 = order.iter().map(|&i| (x[(i, j)] - mean[j]).powi(2) / n).sum();
            let largest = (0..x.nrows()).fold(0.0f64, |m, i| m.max(x[(i, j)].abs()));
            // Rounding alone makes a constant column vary by some 1e-16 of its size.
            if var.sqrt() > 1e-12 * largest { var.sqrt() } else { 1.0 }
        });
        Self { mean, scale }
    }

    /// Leaves d columns as they are.
    pub(super) fn none(d: usize) -> Self {
        Self { mean: vec![0.0; d], scale: vec![1.0; d] }
    }

    pub(super) fn apply(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        Mat::from_fn(x.nrows(), x.ncols(), |i, j| (x[(i, j)] - self.mean[j]) / self.scale[j])
    }
}

/// The rows sorted by their values (and equal ones by their labels), so that what is learned does not depend on the order they come in.
pub(super) fn order_of_values(x: MatRef<'_, f64>, y: &[usize]) -> Vec<usize> {
    let by_value = |&a: &usize, &b: &usize| {
        let mut columns = (0..x.ncols()).map(|j| x[(a, j)].total_cmp(&x[(b, j)]));
        columns.find(|order| order.is_ne()).unwrap_or_else(|| y[a].cmp(&y[b]))
    };
    let mut order: Vec<usize> = (0..x.nrows()).collect();
    order.sort_by(by_value);
    order
}

/// At most `most` points (but one of each class at least), the same fraction of each class, spread over its members, in
/// `order`.
pub(super) fn spread_subset(order: &[usize], y: &[usize], classes: usize, most: usize) -> Vec<usize> {
    if y.len() <= most {
        return order.to_vec();
    }
    let mut seen = vec![0usize; classes];
    let mut keyed: Vec<(f64, usize)> = order
        .iter()
        .enumerate()
        .map(|(place, &i)| {
            let rank = seen[y[i]];
            seen[y[i]] += 1;
            // Multiples of the golden ratio modulo 1: any leading part of them is spread evenly. First members come first.
            let key = if rank == 0 { -1.0 } else { (rank as f64 * 0.618_033_988_749_894_9).fract() };
            (key, place)
        })
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = keyed[..most.max(classes)].iter().map(|&(_, place)| place).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|place| order[place]).collect()
}

/// The median distance of (at most 200, spread over `order`) points; 1 if none differ.
fn median_distance(x: &Mat<f64>, order: &[usize]) -> f64 {
    let step = x.nrows().div_ceil(200);
    let rows: Vec<usize> = order.iter().copied().step_by(step).collect();
    let mut squares = Vec::new();
    for (a, &i) in rows.iter().enumerate() {
        for &j in &rows[..a] {
            let square: f64 = (0..x.ncols()).map(|k| (x[(i, k)] - x[(j, k)]).powi(2)).sum();
            if square > 0.0 {
                squares.push(square);
            }
        }
    }
    squares.sort_by(f64::total_cmp);
    squares.get(squares.len() / 2).map_or(1.0, |s| s.sqrt())
}

/// RBF with the median distance as lengthscale, output scale 1.
pub(super) fn rbf_at_median_distance(x: &Mat<f64>, order: &[usize]) -> Result<Kernel> {
    Kernel::new(Rbf).with_shapes(&[median_distance(x, order)])?.with_scale(1.0)
}

/// RBF on a trend at three times the median distance, whose variance gives its plane about as much slope as the RBF has.
pub(super) fn details_on_a_trend(x: &Mat<f64>, order: &[usize]) -> Result<Kernel> {
    let median = median_distance(x, order);
    let shapes = [DETAIL * median, TREND * median, 2.0 * TREND * TREND];
    Kernel::new(TwoScale).with_shapes(&shapes)?.with_scale(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_checked() {
        assert_eq!(count_classes(&[0, 2, 1, 1]), Ok(3));
        assert_eq!(count_classes(&[]), Err(Error::Empty { what: "y", needed: 2 }));
        assert_eq!(count_classes(&[0, 0]), Err(Error::OneClass));
        assert_eq!(count_classes(&[0, 2]), Err(Error::EmptyClass { class: 1 }));
        assert_eq!(count_classes(&[1, usize::MAX - 1]), Err(Error::EmptyClass { class: 0 }));
        assert_eq!(count_classes(&[0, usize::MAX]), Err(Error::EmptyClass { class: 1 }));
    }

    #[test]
    fn a_subset_keeps_every_class_and_its_share() {
        let y: Vec<usize> = (0..300).map(|i| if i < 3 { 2 } else { i % 2 }).collect();
        let order: Vec<usize> = (0..300).rev().collect();
        let chosen = spread_subset(&order, &y, 3, 60);
        assert_eq!(chosen.len(), 60);
        let count = |c| chosen.iter().filter(|&&i| y[i] == c).count();
        assert!(count(2) >= 1 && count(0).abs_diff(count(1)) <= 2, "{} {} {}", count(0), count(1), count(2));
        assert_eq!(spread_subset(&order, &y, 3, 1000), order);
    }

    #[test]
    fn rows_are_sorted_by_their_values() {
        let x = Mat::from_fn(4, 2, |i, j| [[1.0, 2.0], [0.0, 5.0], [1.0, -2.0], [0.0, 5.0]][i][j]);
        assert_eq!(order_of_values(x.as_ref(), &[0, 0, 0, 0]), [1, 3, 2, 0]);
        assert_eq!(order_of_values(x.as_ref(), &[0, 1, 0, 0]), [3, 1, 2, 0]);
    }

    #[test]
    fn constant_columns_are_only_shifted() {
        let x = Mat::from_fn(4, 2, |i, j| if j == 0 { 0.1 } else { i as f64 });
        let z = Standardiser::of(x.as_ref(), &[2, 0, 1, 3]).apply(x.as_ref());
        assert!((0..4).all(|i| z[(i, 0)].abs() < 1e-15));
        let (mean, square): (f64, f64) =
            (0..4).fold((0.0, 0.0), |(m, s), i| (m + z[(i, 1)], s + z[(i, 1)].powi(2)));
        assert!(mean.abs() < 1e-15 && (square / 4.0 - 1.0).abs() < 1e-15);
    }
}
