//! What the labelled examples say of each other: each is predicted by the others of its task.
//!
//! One example alone left out would make its class smaller than the others, and the classifier would lean to them. So a fold
//! takes one of each class (as far as they go), and what is estimated is the task with one example of each class fewer. The
//! folds cost no fit: their sites are taken out of the posterior ([`Fitted::left_out`]).

use crate::error::Result;
use crate::fitted::{Fitted, Raw};

/// Predictions of labelled examples, each without its fold.
pub(crate) struct HeldOut {
    pub raw: Raw,
    pub labels: Vec<usize>,
}

/// Leaves out the folds. Classes with a single example are never left out: without it they would not be there. `None` if no
/// class has two.
pub(crate) fn held_out(fitted: &Fitted, labels: &[usize], classes: usize) -> Result<Option<HeldOut>> {
    let folds = assign(labels, classes);
    if folds.is_empty() {
        return Ok(None);
    }
    let raw = fitted.left_out(&folds)?;
    Ok(Some(HeldOut { raw, labels: folds.iter().flatten().map(|&row| labels[row]).collect() }))
}

/// The rows of each fold: as many folds as the largest class has members; those of a smaller class are spread over them.
fn assign(labels: &[usize], classes: usize) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); classes];
    labels.iter().enumerate().for_each(|(row, &label)| members[label].push(row));
    members.retain(|m| m.len() > 1);
    let count = members.iter().map(Vec::len).max().unwrap_or(0);
    let mut folds = vec![Vec::new(); count];
    for class in &members {
        class.iter().enumerate().for_each(|(i, &row)| folds[i * count / class.len()].push(row));
    }
    folds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_takes_one_of_each_class_and_no_class_vanishes() {
        assert_eq!(assign(&[0, 1, 1, 2, 2, 0], 3), [[0, 1, 3], [5, 2, 4]]);
        // The single example of class 0 stays; the two of class 1 are spread over the three folds of class 2.
        assert_eq!(assign(&[0, 1, 1, 2, 2, 2], 3), [vec![1, 3], vec![2, 4], vec![5]]);
        assert!(assign(&[0, 1, 2], 3).is_empty());
        let labels: Vec<usize> = (0..1000).map(|i| usize::from(i >= 800)).collect();
        let folds = assign(&labels, 2);
        assert_eq!(folds.len(), 800);
        let ones = folds.iter().map(|fold| fold.iter().filter(|&&row| labels[row] == 1).count());
        assert!(ones.clone().all(|n| n <= 1) && ones.sum::<usize>() == 200);
    }
}
