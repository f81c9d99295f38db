//! On made points, and what must not depend on anything.

use super::*;

/// In the plane: label c where `x cos(a_c) + y sin(a_c) > 0.3`, four directions; sets of 0 to 3 labels.
fn made(n: usize) -> (Mat<f64>, Vec<Vec<usize>>) {
    let wave = |i: usize, j: usize| ((i * 2 + j) as f64 * 12.9898).sin() * 43_758.545;
    let x = Mat::from_fn(n, 2, |i, j| 3.0 * (wave(i, j) - wave(i, j).floor() - 0.5));
    let set = |i: usize| {
        let along = |c: usize| {
            let angle = c as f64 * 0.5 * std::f64::consts::PI + 0.3;
            x[(i, 0)] * angle.cos() + x[(i, 1)] * angle.sin()
        };
        (0..4).filter(|&c| along(c) > 0.3).collect()
    };
    let sets = (0..n).map(set).collect();
    (x, sets)
}

fn fitted(n: usize) -> LabelSetClassifier {
    let (x, sets) = made(n);
    let mut model = LabelSetClassifier::default();
    model.fit(x.as_ref(), &sets, 4).unwrap();
    model
}

#[test]
fn it_learns_labels_and_sizes() {
    let model = fitted(110);
    let (x, sets) = made(400);
    let test = 200..400;
    let at = model.predictions(x.as_ref().subrows(200, 200)).unwrap();
    let inside = |i: usize, c: usize| sets[200 + i].contains(&c);
    let wrong = (0..200)
        .flat_map(|i| (0..4).map(move |c| (i, c)))
        .filter(|&(i, c)| (at.labels[(i, c)] > 0.5) != inside(i, c));
    assert!(wrong.count() < 40, "Hamming loss");
    let right = test.clone().filter(|&i| at.sets[i - 200].0 == sets[i]).count();
    assert!(right > 170, "{right} of 200 sets");
    for i in 0..200 {
        let labels: f64 = (0..4).map(|c| at.labels[(i, c)]).sum();
        let size: f64 = at.size_values.iter().enumerate().map(|(k, &m)| m as f64 * at.sizes[(i, k)]).sum();
        assert!((labels - size).abs() < 1e-6, "{labels} {size}");
        assert!(at.sets[i].1 > 0.0 && at.sets[i].1 <= 1.0);
    }
    // Of the sets called p probable, p are right.
    let said: f64 = at.sets.iter().map(|(_, p)| p / 200.0).sum();
    assert!((said - right as f64 / 200.0).abs() < 0.12, "{said} {right}");
}

#[test]
fn the_order_of_rows_and_the_number_of_threads_change_nothing() {
    let (x, sets) = made(60);
    let turned = Mat::from_fn(60, 2, |i, j| x[((i * 7) % 60, j)]);
    let labels: Vec<Vec<usize>> =
        (0..60).map(|i| sets[(i * 7) % 60].iter().rev().copied().collect()).collect();
    let fit = |x: &Mat<f64>, sets: &[Vec<usize>], threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut model = LabelSetClassifier { inducing: Some(40), ..LabelSetClassifier::default() };
            model.fit(x.as_ref(), sets, 4).unwrap();
            model.predictions(made(120).0.as_ref()).unwrap().labels
        })
    };
    let first = fit(&x, &sets, 1);
    assert_eq!(first, fit(&turned, &labels, 3));
}

#[test]
fn one_label_each_is_the_ordinary_classifier() {
    // With sets of one label the size says nothing, and p(S | 1) is the logistic-softmax probability.
    let (x, sets) = made(200);
    let one: Vec<usize> = (0..200).filter(|&i| sets[i].len() == 1).collect();
    let x = Mat::from_fn(one.len(), 2, |i, j| x[(one[i], j)]);
    let sets: Vec<Vec<usize>> = one.iter().map(|&i| sets[i].clone()).collect();
    let mut model = LabelSetClassifier::default();
    model.fit(x.as_ref(), &sets, 4).unwrap();
    let at = model.predictions(x.as_ref()).unwrap();
    assert_eq!(at.size_values, [1]);
    let right = (0..one.len()).filter(|&i| at.sets[i].0 == sets[i]).count();
    assert!(right * 20 > 19 * one.len(), "{right} of {}", one.len());
    assert!((0..one.len()).all(|i| ((0..4).map(|c| at.labels[(i, c)]).sum::<f64>() - 1.0).abs() < 1e-9));
}

#[test]
fn a_file_gives_the_same_bits_and_damage_is_noticed() {
    let model = fitted(40);
    let x = made(30).0;
    let bytes = model.to_bytes().unwrap();
    let again = LabelSetClassifier::from_bytes(&bytes, "there").unwrap();
    let (a, b) = (model.predictions(x.as_ref()).unwrap(), again.predictions(x.as_ref()).unwrap());
    assert_eq!((a.labels, a.sizes, a.sets), (b.labels, b.sizes, b.sets));
    assert!(again.to_bytes().unwrap() == bytes);
    let mut damaged = bytes.clone();
    let last = damaged.len() - 3;
    damaged[last] ^= 1;
    let error = LabelSetClassifier::from_bytes(&damaged, "there").unwrap_err().to_string();
    assert!(error.contains("checksum does not fit"), "{error}");
    let other = LabelSetClassifier::from_bytes(&bytes[..20], "there").unwrap_err().to_string();
    assert!(other.starts_with("there: "), "{other}");
}

#[test]
fn what_makes_no_label_sets_is_said() {
    let x = Mat::from_fn(3, 1, |i, _| i as f64);
    let fit =
        |sets: &[Vec<usize>], labels: usize| LabelSetClassifier::default().fit(x.as_ref(), sets, labels);
    assert!(matches!(fit(&[vec![0], vec![1]], 2), Err(Error::Shape { .. })));
    assert!(matches!(
        fit(&[vec![0], vec![1], vec![2]], 2),
        Err(Error::Label { row: 2, label: 2, classes: 2 })
    ));
    assert!(matches!(fit(&[vec![0], vec![1, 1], vec![]], 2), Err(Error::LabelSets(_))));
    assert!(matches!(fit(&[vec![0], vec![], vec![]], 1), Err(Error::LabelSets(_))));
    // Sets that are empty or whole tell of their size alone.
    let mut model = LabelSetClassifier::default();
    model.fit(x.as_ref(), &[vec![], vec![0, 1], vec![0, 1]], 2).unwrap();
    let at = model.predictions(x.as_ref()).unwrap();
    assert!((at.labels[(0, 0)] - at.sizes[(0, 1)]).abs() < 1e-12 && at.size_values == [0, 2]);
    assert!(matches!(LabelSetClassifier::default().predictions(x.as_ref()), Err(Error::NotFitted)));
}
