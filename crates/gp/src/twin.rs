//! Slow, literal counterparts for the tests: dense inverses, random tasks, central differences.

use faer::Mat;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

use crate::{Gradient, Task};

/// `A^{-1}` by Gauss-Jordan elimination with pivoting.
pub fn inverse(a: &Mat<f64>) -> Mat<f64> {
    eliminate(a).0
}

/// `log |det A|` by the same elimination.
pub fn logdet(a: &Mat<f64>) -> f64 {
    eliminate(a).1
}

fn eliminate(a: &Mat<f64>) -> (Mat<f64>, f64) {
    let n = a.nrows();
    let mut m = Mat::from_fn(n, 2 * n, |i, j| if j < n { a[(i, j)] } else { f64::from(i == j - n) });
    let mut logdet = 0.0;
    for col in 0..n {
        let pivot = (col..n).max_by(|&i, &j| m[(i, col)].abs().total_cmp(&m[(j, col)].abs())).unwrap();
        for j in 0..2 * n {
            (m[(col, j)], m[(pivot, j)]) = (m[(pivot, j)], m[(col, j)]);
        }
        let p = m[(col, col)];
        logdet += p.abs().ln();
        (0..2 * n).for_each(|j| m[(col, j)] /= p);
        for i in (0..n).filter(|&i| i != col) {
            let f = m[(i, col)];
            for j in 0..2 * n {
                let x = m[(col, j)];
                m[(i, j)] -= f * x;
            }
        }
    }
    (Mat::from_fn(n, n, |i, j| m[(i, j + n)]), logdet)
}

/// Standard normal matrix.
pub fn normal(rows: usize, cols: usize, rng: &mut ChaCha8Rng) -> Mat<f64> {
    Mat::from_fn(rows, cols, |_, _| StandardNormal.sample(rng))
}

/// `F F'`, exactly symmetric.
pub fn gram(f: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(f.nrows(), f.nrows(), |i, j| {
        let (i, j) = (i.min(j), i.max(j));
        (0..f.ncols()).map(|d| f[(i, d)] * f[(j, d)]).sum()
    })
}

/// A task with full-rank kernels, a prior mean about `a`, and random labels.
pub fn random_task(n: usize, c: usize, tau: f64, a: f64, seed: u64) -> Task {
    ranked_task(n, c, n + 2, tau, a, seed)
}

/// As [`random_task`] with kernels of rank `rank`: singular where `rank < n`.
pub fn ranked_task(n: usize, c: usize, rank: usize, tau: f64, a: f64, seed: u64) -> Task {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let k = (0..c)
        .map(|_| gram(&(normal(n, rank, &mut rng) * faer::Scale(0.8 / (rank as f64).sqrt()))))
        .collect();
    let y = (0..n).map(|i| if i < c { i } else { rng.random_range(0..c) }).collect();
    let a = normal(n, c, &mut rng) * faer::Scale(0.3) + Mat::from_fn(n, c, |_, _| a);
    Task::new(k, y, a, tau).unwrap()
}

/// Compares a gradient with central differences along random directions of K (that keep it positive semi-definite), a and
/// tau: relative to the sum of the absolute terms of the directional derivative.
pub fn assert_gradient(task: &Task, got: &Gradient, value: impl Fn(&Task) -> f64, tolerance: f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(99);
    let (n, c) = (task.points(), task.classes());
    let step = 1e-5;
    let build = |k: Vec<Mat<f64>>, a: Mat<f64>, tau: f64| Task::new(k, task.y().to_vec(), a, tau).unwrap();
    for round in 0..3 {
        // (I + e D) K (I + e D)' keeps the cone: direction D K + K D'
        let d: Vec<Mat<f64>> = (0..c).map(|_| normal(n, n, &mut rng) * faer::Scale(0.3)).collect();
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

        let da = normal(n, c, &mut rng);
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
