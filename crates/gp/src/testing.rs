//! Small random tasks and the central differences their gradients are checked with.

use crate::Task;
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
