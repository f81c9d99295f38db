//! Which points are left out together.

/// The rows of each class that has two or more, in this order.
fn with_company(order: impl Iterator<Item = usize>, labels: &[usize], classes: usize) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); classes];
    order.for_each(|row| members[labels[row]].push(row));
    members.retain(|rows| rows.len() > 1);
    members
}

/// Folds of one point of each class: as many as the largest class has members; those of a smaller class are spread over them. Without a
/// fold the classes are as balanced as with it. No fold if no class has two points. Labels are below `classes`.
pub fn one_of_each_class(labels: &[usize], classes: usize) -> Vec<Vec<usize>> {
    let members = with_company(0..labels.len(), labels, classes);
    let count = members.iter().map(Vec::len).max().unwrap_or(0);
    let mut folds = vec![Vec::new(); count];
    for class in &members {
        class.iter().enumerate().for_each(|(i, &row)| folds[i * count / class.len()].push(row));
    }
    folds
}

/// The members of each class dealt out to `parts` folds, one after the other. Each fold lists its rows in `order`; it may be empty.
pub(crate) fn dealt(order: &[usize], labels: &[usize], classes: usize, parts: usize) -> Vec<Vec<usize>> {
    let mut fold_of = vec![None; labels.len()];
    for class in with_company(order.iter().copied(), labels, classes) {
        class.iter().enumerate().for_each(|(rank, &row)| fold_of[row] = Some(rank % parts));
    }
    let rows = |part: usize| order.iter().copied().filter(|&row| fold_of[row] == Some(part)).collect();
    (0..parts).map(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_takes_one_of_each_class_and_no_class_vanishes() {
        assert_eq!(one_of_each_class(&[0, 1, 1, 2, 2, 0], 3), [[0, 1, 3], [5, 2, 4]]);
        // The single example of class 0 stays; the two of class 1 are spread over the three folds of class 2.
        assert_eq!(one_of_each_class(&[0, 1, 1, 2, 2, 2], 3), [vec![1, 3], vec![2, 4], vec![5]]);
        assert!(one_of_each_class(&[0, 1, 2], 3).is_empty());
        let labels: Vec<usize> = (0..1000).map(|i| usize::from(i >= 800)).collect();
        let folds = one_of_each_class(&labels, 2);
        assert_eq!(folds.len(), 800);
        let ones = folds.iter().map(|fold| fold.iter().filter(|&&row| labels[row] == 1).count());
        assert!(ones.clone().all(|n| n <= 1) && ones.sum::<usize>() == 200);
    }

    #[test]
    fn members_are_dealt_out_in_order() {
        let labels = [0, 0, 1, 0, 1, 2];
        assert_eq!(dealt(&[5, 4, 3, 2, 1, 0], &labels, 3, 2), [vec![4, 3, 0], vec![2, 1]]);
        assert_eq!(dealt(&[0, 1, 2, 3, 4, 5], &labels, 3, 4), [vec![0, 2], vec![1, 4], vec![3], vec![]]);
    }
}
