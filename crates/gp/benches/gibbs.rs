//! Gibbs training episodes: 85 points of 5 classes, 20 chains, one sweep, value and gradient.

use faer::Mat;
use siskin_gp::Task;
use siskin_gp::gibbs::{Chains, LogisticSoftmaxGibbs, OneVsEachGibbs};

const EPISODE: Chains = Chains { chains: 20, sweeps: 1, seed: 1 };

/// Unit feature vectors in five loose clusters and their cosine kernel.
fn task() -> Task {
    let (n, d, classes) = (85, 64, 5);
    let y: Vec<usize> = (0..n).map(|i| i * classes / n).collect();
    let x = Mat::from_fn(n, d, |i, j| {
        let centre = ((y[i] * 31 + j * 7) as f64).sin().abs();
        (centre + 0.5 * ((i * 17 + j * 5) as f64).sin()).max(0.0)
    });
    let norm: Vec<f64> = (0..n).map(|i| x.row(i).norm_l2()).collect();
    let gram = &x * x.transpose();
    let k = Mat::from_fn(n, n, |i, j| gram[(i, j)] / (norm[i] * norm[j]));
    Task::new(vec![k; classes], y, Mat::zeros(n, classes), 1.0).expect("a valid task")
}

#[divan::bench]
fn logistic_softmax_episode(bencher: divan::Bencher) {
    let task = task();
    bencher
        .bench(|| LogisticSoftmaxGibbs::run(&task, &EPISODE).map(|gibbs| gibbs.marginal_likelihood().value));
}

#[divan::bench]
fn one_vs_each_episode(bencher: divan::Bencher) {
    let task = task();
    bencher.bench(|| OneVsEachGibbs::run(&task, &EPISODE).map(|gibbs| gibbs.marginal_likelihood().value));
}

fn main() {
    divan::main();
}
