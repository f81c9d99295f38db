//! Where the inducing points lie: k-means centres, started at rows spread over the classes.

use super::super::inputs::spread_subset;
use super::super::learn::Points;
use crate::linalg::{dot, product};
use faer::{Mat, MatRef};

/// Rounds of Lloyd's algorithm.
const ROUNDS: usize = 4;
/// Rows that take part, for each centre.
const ROWS: usize = 16;
/// Rows whose distances are held at a time.
const BLOCK: usize = 2048;

/// About `count` centres of the points (one of each class at least), [M, D]. They depend on `order`, not on the order of the rows.
pub(in super::super) fn centres(points: Points<'_>, order: &[usize], count: usize) -> Mat<f64> {
    let mut centres = points.few(order, count).x;
    if centres.nrows() == points.y.len() {
        return centres;
    }
    let rows = spread_subset(order, points.y, points.classes, ROWS * count);
    let x = Mat::from_fn(rows.len(), points.x.ncols(), |i, j| points.x[(rows[i], j)]);
    for _ in 0..ROUNDS {
        centres = moved(&x, &centres);
    }
    centres
}

/// Each centre at the mean of the rows that are nearest to it; one that none is nearest to stays.
fn moved(x: &Mat<f64>, centres: &Mat<f64>) -> Mat<f64> {
    let (d, count) = (x.ncols(), centres.nrows());
    let mut sum = Mat::<f64>::zeros(d, count);
    let mut members = vec![0usize; count];
    for first in (0..x.nrows()).step_by(BLOCK) {
        let part = x.subrows(first, BLOCK.min(x.nrows() - first));
        for (i, c) in nearest(part, centres).into_iter().enumerate() {
            members[c] += 1;
            for (j, sum) in sum.col_as_slice_mut(c).iter_mut().enumerate() {
                *sum += part[(i, j)];
            }
        }
    }
    let mean = |c: usize, j: usize| match members[c] {
        0 => centres[(c, j)],
        members => sum[(j, c)] / members as f64,
    };
    Mat::from_fn(count, d, mean)
}

/// The nearest centre of each row, the first of equals: the least `|z|^2 - 2 <x, z>`.
fn nearest(x: MatRef<'_, f64>, centres: &Mat<f64>) -> Vec<usize> {
    let transposed = centres.transpose().to_owned();
    let half: Vec<f64> = (0..centres.nrows())
        .map(|c| 0.5 * dot(transposed.col_as_slice(c), transposed.col_as_slice(c)))
        .collect();
    let products = product(transposed.transpose(), x.transpose());
    (0..x.nrows())
        .map(|i| {
            let along = products.col_as_slice(i);
            (1..half.len())
                .fold(0, |best, c| if half[c] - along[c] < half[best] - along[best] { c } else { best })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centres_settle_in_the_clumps() {
        // Four clumps of 50 points on the corners of a square; two classes.
        let corner = |i: usize| [[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]][i % 4];
        let x = Mat::from_fn(200, 2, |i, j| corner(i)[j] + ((i * 7 + j * 3) as f64).sin());
        let y: Vec<usize> = (0..200).map(|i| i % 2).collect();
        let order: Vec<usize> = (0..200).collect();
        let found = centres(Points { x: &x, y: &y, classes: 2, weights: None }, &order, 12);
        assert_eq!((found.nrows(), found.ncols()), (12, 2));
        for clump in 0..4 {
            let near = |c: usize| (0..2).all(|j| (found[(c, j)] - corner(clump)[j]).abs() < 1.5);
            assert!((0..12).any(near), "{clump}");
        }
        assert_eq!(nearest(x.as_ref().subrows(0, 4), &Mat::from_fn(4, 2, |c, j| corner(c)[j])), [0, 1, 2, 3]);
    }
}
