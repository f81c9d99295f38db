//! The integrals, at the sizes of a 5-way episode. `cargo bench -p siskin-gp --bench quadrature`.

use divan::Bencher;
use faer::Mat;
use siskin_gp::equations::{Predictive, expected_log_lik};
use siskin_gp::inference::{Inference, NaturalOptions};
use siskin_gp::kernels::{Cosine, Kernel};
use siskin_gp::objective::Objective;
use siskin_gp::{Hyper, Resolution, Support};

fn main() {
    divan::main();
}

const PRECISIONS: [Resolution; 3] = [Resolution::Fast, Resolution::Standard, Resolution::Fine];

/// Marginals as they come about at tau = 0.2: variances 2 to 11, means within a few standard deviations.
fn marginals(points: usize, classes: usize) -> (Mat<f64>, Mat<f64>) {
    let wave = |i: usize, c: usize, f: f64| ((i * classes + c) as f64 * f).sin();
    let mu = Mat::from_fn(points, classes, |i, c| {
        4.0 * wave(i, c, 1.7) + if i % classes == c { 3.0 } else { -2.0 }
    });
    let v = Mat::from_fn(points, classes, |i, c| 6.5 + 4.5 * wave(i, c, 2.3));
    (mu, v)
}

#[divan::bench(args = PRECISIONS)]
fn expected_log_lik_of_85_points(bencher: Bencher, resolution: Resolution) {
    let (mu, v) = marginals(85, 5);
    let y: Vec<usize> = (0..85).map(|i| i % 5).collect();
    bencher.bench_local(|| expected_log_lik(mu.as_ref(), v.as_ref(), &y, resolution).unwrap().value);
}

#[divan::bench(args = PRECISIONS)]
fn probabilities_of_75_queries(bencher: Bencher, resolution: Resolution) {
    let (m, s2) = marginals(75, 5);
    let mut rule = Predictive::new(resolution);
    let mut p = [0.0; 5];
    bencher.bench_local(|| {
        let mut total = 0.0;
        for i in 0..75 {
            let row = |a: &Mat<f64>| -> Vec<f64> { (0..5).map(|c| a[(i, c)]).collect() };
            rule.probs(&row(&m), &row(&s2), &mut p).unwrap();
            total += p[0];
        }
        total
    });
}

/// A 5-way episode of 85 points at tau = 0.2: clustered non-negative features of 64 numbers, cosine kernel.
fn episode() -> (Mat<f64>, Vec<usize>, Hyper) {
    let y: Vec<usize> = (0..85).map(|i| i / 17).collect();
    let noise = |i: usize, j: usize| ((i * 64 + j) as f64 * 12.9898).sin() * 43_758.545;
    let x = Mat::from_fn(85, 64, |i, j| {
        let centre = ((y[i] * 64 + j) as f64 * 3.7).sin();
        (centre + 1.5 * (noise(i, j) - noise(i, j).floor() - 0.5)).max(0.0)
    });
    let hyper = Hyper { kernel: Kernel::new(Cosine).scale_per_class(5), mean: 0.0, tau: 0.2 };
    (x, y, hyper)
}

/// The direct bound after two sweeps with its gradient in features and hyperparameters.
#[divan::bench(args = PRECISIONS)]
fn direct_bound_and_gradient_of_85_points(bencher: Bencher, resolution: Resolution) {
    let (x, y, hyper) = episode();
    let objective = Objective::Direct { steps: 2, resolution };
    bencher.bench_local(|| {
        let points = Support::new(x.as_ref(), &y, hyper.prior(5)).unwrap();
        objective.value_and_gradient(&points).unwrap().value
    });
}

/// Eight natural-gradient steps on 25 support points.
#[divan::bench]
fn eight_natural_steps_on_25_points(bencher: Bencher) {
    let (x, y, hyper) = episode();
    let rows: Vec<usize> = (0..85).filter(|i| i % 17 < 5).collect();
    let support = Mat::from_fn(25, 64, |i, j| x[(rows[i], j)]);
    let labels: Vec<usize> = rows.iter().map(|&i| y[i]).collect();
    let options = NaturalOptions { max_steps: 8, tolerance: 0.0, ..NaturalOptions::default() };
    bencher.bench_local(|| {
        let task = Support::new(support.as_ref(), &labels, hyper.prior(5)).unwrap().task().unwrap();
        Inference::Natural(options).posterior(&task).unwrap().bound
    });
}
