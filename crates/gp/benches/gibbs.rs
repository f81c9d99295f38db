//! Gibbs training episodes: 85 points of 5 classes, 20 chains, one sweep, from features to value and gradient.

use divan::Bencher;
use faer::Mat;
use siskin_gp::inference::{Chains, GibbsSampler, SampledLikelihood};
use siskin_gp::kernels::{Cosine, Kernel};
use siskin_gp::objective::Objective;
use siskin_gp::{Hyper, Support};

const EPISODE: Chains = Chains { chains: 20, sweeps: 1, seed: 1 };
const LIKELIHOODS: [SampledLikelihood; 2] =
    [SampledLikelihood::LogisticSoftmax, SampledLikelihood::OneVsEach];

/// Features in five loose clusters, class after class.
fn episode() -> (Mat<f64>, Vec<usize>, Hyper) {
    let (n, d, classes) = (85, 64, 5);
    let y: Vec<usize> = (0..n).map(|i| i * classes / n).collect();
    let x = Mat::from_fn(n, d, |i, j| {
        let centre = ((y[i] * 31 + j * 7) as f64).sin().abs();
        (centre + 0.5 * ((i * 17 + j * 5) as f64).sin()).max(0.0)
    });
    let kernel = Kernel::new(Cosine).with_scale(1.0).expect("a scale");
    (x, y, Hyper { kernel, mean: 0.0, tau: 1.0 })
}

/// ML: all 85 points.
#[divan::bench(args = LIKELIHOODS)]
fn marginal(bencher: Bencher, likelihood: SampledLikelihood) {
    let (x, y, hyper) = episode();
    let objective = Objective::SampledMarginal(GibbsSampler { likelihood, chains: EPISODE, released: false });
    bencher.bench(|| {
        let points = Support::new(x.as_ref(), &y, hyper.prior(5))?;
        objective.value_and_gradient(&points).map(|g| g.value)
    });
}

/// PL: one point of each class is the support.
#[divan::bench(args = LIKELIHOODS)]
fn predictive(bencher: Bencher, likelihood: SampledLikelihood) {
    let (x, y, hyper) = episode();
    let support = (0..5).map(|c| 17 * c).collect();
    let objective = Objective::SampledPredictive {
        sampler: GibbsSampler { likelihood, chains: EPISODE, released: false },
        support,
    };
    bencher.bench(|| {
        let points = Support::new(x.as_ref(), &y, hyper.prior(5))?;
        objective.value_and_gradient(&points).map(|g| g.value)
    });
}

fn main() {
    divan::main();
}
