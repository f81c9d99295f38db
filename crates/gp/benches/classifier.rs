//! `GpClassifier` on 200 points of 10 numbers in 5 classes: `cargo bench -p siskin-gp --bench classifier`.

use divan::Bencher;
use faer::Mat;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use siskin_gp::classifier::{EvidenceBound, GpClassifier, Likelihood};

fn main() {
    divan::main();
}

/// Overlapping clusters.
fn points(n: usize) -> (Mat<f64>, Vec<usize>) {
    let mut rng = ChaCha8Rng::seed_from_u64(n as u64);
    let y: Vec<usize> = (0..n).map(|i| i % 5).collect();
    let x = Mat::from_fn(n, 10, |i, j| {
        let noise: f64 = StandardNormal.sample(&mut rng);
        1.5 * ((y[i] * 10 + j) as f64 * 3.7).sin() + noise
    });
    (x, y)
}

const MODELS: [(Likelihood, EvidenceBound); 4] = [
    (Likelihood::LogisticSoftmax, EvidenceBound::Collapsed),
    (Likelihood::LogisticSoftmax, EvidenceBound::Direct),
    (Likelihood::Softmax, EvidenceBound::Collapsed),
    (Likelihood::Gaussian, EvidenceBound::Collapsed),
];

fn classifier(likelihood: Likelihood, bound: EvidenceBound) -> GpClassifier {
    let mut model = GpClassifier::default();
    (model.likelihood, model.bound) = (likelihood, bound);
    model
}

#[divan::bench(args = MODELS, sample_count = 10)]
fn fit(bencher: Bencher, (likelihood, bound): (Likelihood, EvidenceBound)) {
    let (x, y) = points(200);
    bencher.bench(|| {
        let mut model = classifier(likelihood, bound);
        model.fit(x.as_ref(), &y).map(|()| model)
    });
}

#[divan::bench(args = MODELS, sample_count = 10)]
fn predict_100(bencher: Bencher, (likelihood, bound): (Likelihood, EvidenceBound)) {
    let ((x, y), (queries, _)) = (points(200), points(100));
    let mut model = classifier(likelihood, bound);
    model.fit(x.as_ref(), &y).expect("a fit");
    bencher.bench(|| model.predictions(queries.as_ref()));
}
