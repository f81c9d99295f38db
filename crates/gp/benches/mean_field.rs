//! Inference and objectives on one core. Run with `cargo bench -p siskin-gp --bench mean_field`.

use divan::Bencher;
use faer::Mat;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use siskin_gp::Task;
use siskin_gp::equations::{Start, bound, infer};
use siskin_gp::inference::{Stop, Updates};

fn main() {
    divan::main();
}

/// A few-shot episode: `n` points of 5 classes, cosine kernel of clustered non-negative features, output scale 0.693.
fn episode(n: usize, tau: f64) -> Task {
    let (classes, dim) = (5, 64);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let centres: Vec<Vec<f64>> = (0..classes).map(|_| (0..dim).map(|_| normal()).collect()).collect();
    let y: Vec<usize> = (0..n).map(|i| i * classes / n).collect();
    let features: Vec<Vec<f64>> = y
        .iter()
        .map(|&c| {
            let z: Vec<f64> = centres[c].iter().map(|m| (m + 1.5 * normal()).max(0.0)).collect();
            let norm = z.iter().map(|z| z * z).sum::<f64>().sqrt();
            z.iter().map(|z| z / norm).collect()
        })
        .collect();
    let k = Mat::from_fn(n, n, |i, j| {
        0.693 * features[i].iter().zip(&features[j]).map(|(a, b)| a * b).sum::<f64>()
    });
    Task::new(vec![k; classes], y, Mat::zeros(n, classes), tau).expect("a valid task")
}

const CASES: [(usize, f64); 4] = [(85, 0.2), (85, 1.0), (105, 0.2), (105, 1.0)];

/// Two sweeps, the paper family's bound, full gradient.
#[divan::bench(args = CASES)]
fn joint_gradient(bencher: Bencher, (n, tau): (usize, f64)) {
    let task = episode(n, tau);
    bencher.bench(|| {
        bound(&task, Updates::Joint, Updates::Joint, &Start::Prior, Stop::Steps(2)).expect("a bound")
    });
}

/// Two sweeps, the collapsed bound, full gradient.
#[divan::bench(args = CASES)]
fn collapsed_gradient(bencher: Bencher, (n, tau): (usize, f64)) {
    let task = episode(n, tau);
    bencher.bench(|| {
        bound(&task, Updates::Collapsed, Updates::Collapsed, &Start::Prior, Stop::Steps(2)).expect("a bound")
    });
}

/// Thirty sweeps on a support set, with the trace of the bound.
#[divan::bench(args = [(5, 0.2), (5, 1.0), (25, 0.2), (25, 1.0)])]
fn thirty_sweeps(bencher: Bencher, (n, tau): (usize, f64)) {
    let task = episode(n, tau);
    bencher.bench(|| infer(&task, Updates::Joint, &Start::Prior, Stop::Steps(30)).expect("a fit"));
}

/// Thirty collapsed sweeps on a support set.
#[divan::bench(args = [(5, 0.2), (25, 0.2)])]
fn thirty_collapsed_sweeps(bencher: Bencher, (n, tau): (usize, f64)) {
    let task = episode(n, tau);
    bencher.bench(|| infer(&task, Updates::Collapsed, &Start::Prior, Stop::Steps(30)).expect("a fit"));
}
