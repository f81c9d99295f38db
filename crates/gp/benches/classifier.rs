//! `GpClassifier` on 200 points of 10 numbers in 5 classes: `cargo bench -p siskin-gp --bench classifier`.

use divan::Bencher;
use faer::Mat;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use siskin_gp::classifier::{GpClassifier, Inference, Likelihood};

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

const MODELS: [(Likelihood, Inference); 4] = [
    (Likelihood::LogisticSoftmax, Inference::Collapsed),
    (Likelihood::LogisticSoftmax, Inference::Direct),
    (Likelihood::Softmax, Inference::Collapsed),
    (Likelihood::Gaussian, Inference::Collapsed),
];

fn classifier(likelihood: Likelihood, inference: Inference) -> GpClassifier {
    let mut model = GpClassifier::default();
    (model.likelihood, model.inference) = (likelihood, inference);
    model
}

#[divan::bench(args = MODELS, sample_count = 10)]
fn fit(bencher: Bencher, (likelihood, inference): (Likelihood, Inference)) {
    let (x, y) = points(200);
    bencher.bench(|| {
        let mut model = classifier(likelihood, inference);
        model.fit(x.as_ref(), &y).map(|()| model)
    });
}

#[divan::bench(args = MODELS, sample_count = 10)]
fn predict_100(bencher: Bencher, (likelihood, inference): (Likelihood, Inference)) {
    let ((x, y), (queries, _)) = (points(200), points(100));
    let mut model = classifier(likelihood, inference);
    model.fit(x.as_ref(), &y).expect("a fit");
    bencher.bench(|| model.predictions(queries.as_ref()));
}
