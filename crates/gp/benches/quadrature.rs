//! The integrals, at the sizes of a 5-way episode. `cargo bench -p siskin-gp --bench quadrature`.

use divan::Bencher;
use faer::Mat;
use siskin_gp::quadrature::{Precision, expected::expected_log_lik, probabilities::Predictive};

fn main() {
    divan::main();
}

const PRECISIONS: [Precision; 3] = [Precision::Fast, Precision::Standard, Precision::Fine];

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
fn expected_log_lik_of_85_points(bencher: Bencher, precision: Precision) {
    let (mu, v) = marginals(85, 5);
    let y: Vec<usize> = (0..85).map(|i| i % 5).collect();
    bencher.bench_local(|| expected_log_lik(mu.as_ref(), v.as_ref(), &y, precision).unwrap().value);
}

#[divan::bench(args = PRECISIONS)]
fn probabilities_of_75_queries(bencher: Bencher, precision: Precision) {
    let (m, s2) = marginals(75, 5);
    let mut rule = Predictive::new(precision);
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
