//! Small random tasks and the central differences their gradients are checked with.

use crate::{Gradient, Task};
use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// A task with one Gram matrix `X_c X_c'` plus a ridge per class, labels that cover the classes, and a prior mean.
pub(crate) fn random_task(seed: u64, n: usize, c: usize, tau: f64) -> Task {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let k = (0..c)
        .map(|_| {
            let x = normal(&mut rng, n, n + 1);
            let mut k = &x * x.transpose() * faer::Scale(1.0 / n as f64);
            for i in 0..n {
                k[(i, i)] += 0.1;
            }
            k
        })
        .collect();
    let y = (0..n).map(|i| if i < c { i } else { rng.random_range(0..c) }).collect();
    let a = normal(&mut rng, n, c) * faer::Scale(0.3);
    Task::new(k, y, a, tau).unwrap()
}

pub(crate) fn normal(rng: &mut ChaCha8Rng, rows: usize, cols: usize) -> Mat<f64> {
    Mat::from_fn(rows, cols, |_, _| rng.sample(StandardNormal))
}

/// The task moved along `direction` in every kernel matrix, prior mean and the temperature.
pub(crate) fn moved(task: &Task, dk: &[Mat<f64>], da: &Mat<f64>, dtau: f64, step: f64) -> Task {
    let k = task.k().iter().zip(dk).map(|(k, d)| k + d * faer::Scale(step)).collect();
    Task::new(k, task.y().to_vec(), task.a() + da * faer::Scale(step), task.tau() + step * dtau).unwrap()
}

/// Symmetric random directions, C of [N, N].
pub(crate) fn symmetric(rng: &mut ChaCha8Rng, n: usize, c: usize) -> Vec<Mat<f64>> {
    (0..c)
        .map(|_| {
            let d = normal(rng, n, n);
            (&d + d.transpose()) * faer::Scale(0.5)
        })
        .collect()
}

/// Central difference with one Richardson step: error of order h^4.
pub(crate) fn slope(f: impl Fn(f64) -> f64, h: f64) -> f64 {
    let central = |h: f64| (f(h) - f(-h)) / (2.0 * h);
    (4.0 * central(h / 2.0) - central(h)) / 3.0
}

/// `sum <A_c, B_c>`.
pub(crate) fn inner(a: &[Mat<f64>], b: &[Mat<f64>]) -> f64 {
    a.iter().zip(b).map(|(a, b)| crate::linalg::inner(a, b)).sum()
}

/// `F F'`, exactly symmetric.
pub(crate) fn gram(f: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(f.nrows(), f.nrows(), |i, j| {
        let (i, j) = (i.min(j), i.max(j));
        (0..f.ncols()).map(|d| f[(i, d)] * f[(j, d)]).sum()
    })
}

/// A task with kernels of rank `rank` (singular where `rank < n`), a prior mean about `a`, and random labels.
pub(crate) fn ranked_task(n: usize, c: usize, rank: usize, tau: f64, a: f64, seed: u64) -> Task {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let k = (0..c)
        .map(|_| gram(&(normal(&mut rng, n, rank) * faer::Scale(0.8 / (rank as f64).sqrt()))))
        .collect();
    let y = (0..n).map(|i| if i < c { i } else { rng.random_range(0..c) }).collect();
    let a = normal(&mut rng, n, c) * faer::Scale(0.3) + Mat::from_fn(n, c, |_, _| a);
    Task::new(k, y, a, tau).unwrap()
}

/// The task with class `c` renamed to `names[c]`.
pub(crate) fn renamed(task: &Task, names: &[usize]) -> Task {
    let mut old = vec![0; names.len()];
    names.iter().enumerate().for_each(|(c, &new)| old[new] = c);
    let k = old.iter().map(|&c| task.k()[c].clone()).collect();
    let y = task.y().iter().map(|&c| names[c]).collect();
    let a = Mat::from_fn(task.points(), names.len(), |i, c| task.a()[(i, old[c])]);
    Task::new(k, y, a, task.tau()).unwrap()
}

/// Compares a gradient with central differences along random directions of K (that keep it positive semi-definite), a and
/// tau: relative to the sum of the absolute terms of the directional derivative.
pub(crate) fn assert_gradient(task: &Task, got: &Gradient, value: impl Fn(&Task) -> f64, tolerance: f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(99);
    let (n, c) = (task.points(), task.classes());
    let step = 1e-5;
    let build = |k: Vec<Mat<f64>>, a: Mat<f64>, tau: f64| Task::new(k, task.y().to_vec(), a, tau).unwrap();
    for round in 0..3 {
        // (I + e D) K (I + e D)' keeps the cone: direction D K + K D'
        let d: Vec<Mat<f64>> = (0..c).map(|_| normal(&mut rng, n, n) * faer::Scale(0.3)).collect();
        let moved = |e: f64| {
            let k = (0..c)
                .map(|j| {
                    let left = Mat::from_fn(n, n, |i, l| f64::from(i == l) + e * d[j][(i, l)]);
                    let m = &left * &task.k()[j] * left.transpose();
                    Mat::from_fn(n, n, |i, l| 0.5 * (m[(i, l)] + m[(l, i)]))
                })
                .collect();
            value(&build(k, task.a().clone(), task.tau()))
        };
        let (mut want, mut scale) = (0.0, 1e-12);
        for j in 0..c {
            let direction = &d[j] * &task.k()[j] + &task.k()[j] * d[j].transpose();
            for (i, l) in (0..n).flat_map(|i| (0..n).map(move |l| (i, l))) {
                let term = got.dk[j][(i, l)] * direction[(i, l)];
                want += term;
                scale += term.abs();
            }
        }
        let fd = (moved(step) - moved(-step)) / (2.0 * step);
        assert!((fd - want).abs() < tolerance * scale, "dK round {round}: {fd} {want} of {scale}");

        let da = normal(&mut rng, n, c);
        let moved = |e: f64| value(&build(task.k().to_vec(), task.a() + &da * faer::Scale(e), task.tau()));
        let fd = (moved(step) - moved(-step)) / (2.0 * step);
        let terms = (0..n).flat_map(|i| (0..c).map(move |j| (i, j))).map(|ij| got.da[ij] * da[ij]);
        let (want, scale) = terms.fold((0.0, 1e-12), |(w, s), t| (w + t, s + t.abs()));
        assert!((fd - want).abs() < tolerance * scale, "da round {round}: {fd} {want} of {scale}");
    }
    let step = step * task.tau();
    let moved = |e: f64| value(&build(task.k().to_vec(), task.a().clone(), task.tau() + e));
    let fd = (moved(step) - moved(-step)) / (2.0 * step);
    let through_k: f64 = (0..c).map(|j| crate::linalg::inner(&got.dk[j], &task.k()[j]).abs()).sum();
    let scale = got.dtau.abs().max(through_k / task.tau());
    assert!((fd - got.dtau).abs() < tolerance * scale, "dtau: {fd} {}", got.dtau);
}
