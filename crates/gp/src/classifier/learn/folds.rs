//! Points that are held out, and the points that predict them.

use super::super::inputs::spread_subset;
use super::{Few, Points};
use crate::left_out::dealt;

/// Folds at most.
const MOST_FOLDS: f64 = 5.0;
/// From this many times `most` points on there is one fold.
const MANY: usize = 3;
/// Points held out then, in units of `most`.
const HELD: usize = 2;

/// Some points, and others that are held out.
pub(super) struct Fold {
    pub(super) known: Few,
    pub(super) held: Few,
}

/// Every point is held out once, in folds that leave at most `most` others (or half of all) to predict it; of many points `most` predict
/// some of the rest.
///
/// A fold holds out members of every class. A point whose class has no other example is never held out: nothing could predict it.
/// There is no fold if that leaves no point. `order` lists all points, whatever the order of the rows.
pub(super) fn folds(points: Points<'_>, order: &[usize], most: usize) -> Vec<Fold> {
    if are_many(points, most) {
        return vec![one_fold(points, order, most, HELD * most)];
    }
    let (all, more) = (order.len() as f64, order.len().saturating_sub(most).max(1) as f64);
    let parts = (all / more).round().clamp(2.0, MOST_FOLDS) as usize;
    let fold = |held: Vec<usize>| {
        let known = without(order, &held);
        (!held.is_empty() && !known.is_empty())
            .then(|| Fold { known: points.select(&known), held: points.select(&held) })
    };
    dealt(order, points.y, points.classes, parts).into_iter().filter_map(fold).collect()
}

/// The rows of `order` that are not among these.
fn without(order: &[usize], rows: &[usize]) -> Vec<usize> {
    let mut is_out = vec![false; order.len()];
    rows.iter().for_each(|&row| is_out[row] = true);
    order.iter().copied().filter(|&row| !is_out[row]).collect()
}

/// Whether one fold will do.
pub(super) fn are_many(points: Points<'_>, most: usize) -> bool {
    points.y.len() >= MANY * most.max(points.classes)
}

/// `known` points, spread over all classes, and at most `held` of the others.
pub(super) fn one_fold(points: Points<'_>, order: &[usize], known: usize, held: usize) -> Fold {
    let known = spread_subset(order, points.y, points.classes, known);
    let rest = without(order, &known);
    let step = rest.len().div_ceil(held.max(1)).max(1);
    let held: Vec<usize> = rest.into_iter().step_by(step).collect();
    Fold { known: points.select(&known), held: points.select(&held) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;

    fn folds_of(y: &[usize], most: usize) -> Vec<Fold> {
        let x = Mat::from_fn(y.len(), 1, |i, _| i as f64);
        let order: Vec<usize> = (0..y.len()).collect();
        folds(Points { x: &x, y, classes: 3, weights: None }, &order, most)
    }

    #[test]
    fn every_point_with_a_companion_is_held_out_once() {
        let y = [0, 0, 0, 1, 1, 2];
        let mut held: Vec<f64> = Vec::new();
        for fold in folds_of(&y, 100) {
            assert_eq!(fold.known.y.len() + fold.held.y.len(), y.len());
            assert!(fold.held.y.iter().all(|c| fold.known.y.contains(c)));
            held.extend(fold.held.x.col_as_slice(0));
        }
        held.sort_by(f64::total_cmp);
        assert_eq!(held, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert!(folds_of(&[0, 1, 2], 100).is_empty());
    }

    #[test]
    fn more_points_mean_fewer_folds() {
        let y: Vec<usize> = (0..90).map(|i| i % 3).collect();
        for (most, parts) in [(200, 5), (60, 3), (45, 2)] {
            let found = folds_of(&y, most);
            assert_eq!(found.len(), parts);
            assert_eq!(found.iter().map(|fold| fold.held.y.len()).sum::<usize>(), 90);
        }
    }

    #[test]
    fn many_points_are_predicted_by_a_few() {
        let y: Vec<usize> = (0..90).map(|i| i % 3).collect();
        let found = folds_of(&y, 10);
        assert_eq!(found.len(), 1);
        let fold = &found[0];
        assert_eq!((fold.known.y.len(), fold.held.y.len()), (10, 20));
        let known = fold.known.x.col_as_slice(0);
        assert!(fold.held.x.col_as_slice(0).iter().all(|x| !known.contains(x)));
    }
}
