//! Renaming the classes renames every result, bit for bit: each inference, its gradient, and its predictions.

use crate::inference::exact::{LabelRegression, largest_target_probabilities};
use crate::inference::laplace::Laplace;
use crate::inference::mean_field::{Start, Stop, Updates, infer};
use crate::inference::natural::NaturalOptions;
use crate::inference::one_vs_each::OveMeanField;
use crate::objective::natural_bound;
use crate::posterior::Blocks;
use crate::quadrature::Resolution;
use crate::testing::{normal, ranked_task, renamed};
use crate::{Gradient, Query, Task};
use faer::Mat;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const NAMES: [usize; 4] = [2, 0, 3, 1];

/// A task and three new points.
type Problem = (Task, Query);

fn problem(seed: u64, n: usize, tau: f64, a: f64) -> Problem {
    let task = ranked_task(n, 4, 3, tau, a, seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let ks = (0..4).map(|_| normal(&mut rng, n, 3) * faer::Scale(0.05)).collect();
    let kss = Mat::from_fn(3, 4, |i, c| 3.0 + 0.1 * (i + 2 * c) as f64);
    let astar = normal(&mut rng, 3, 4) + Mat::from_fn(3, 4, |_, _| a);
    (task, Query { ks, kss, astar })
}

/// The same with class c renamed to `NAMES[c]`.
fn other(problem: &Problem) -> Problem {
    let (task, Query { ks, kss, astar }) = problem;
    (renamed(task, &NAMES), Query { ks: moved(ks), kss: columns(kss), astar: columns(astar) })
}

fn moved(x: &[Mat<f64>]) -> Vec<Mat<f64>> {
    let mut out = x.to_vec();
    (0..4).for_each(|c| out[NAMES[c]] = x[c].clone());
    out
}

fn columns(x: &Mat<f64>) -> Mat<f64> {
    let mut out = x.clone();
    (0..4).for_each(|c| out.col_mut(NAMES[c]).copy_from(x.col(c)));
    out
}

fn both(m: &Mat<f64>) -> Mat<f64> {
    let rows = columns(m).transpose().to_owned();
    columns(&rows).transpose().to_owned()
}

fn same_gradient(one: &Gradient, two: &Gradient) {
    assert_eq!(one.value.to_bits(), two.value.to_bits(), "value");
    assert_eq!(one.dtau.to_bits(), two.dtau.to_bits(), "dtau");
    assert_eq!(columns(&one.da), two.da);
    assert_eq!(moved(&one.dk), two.dk);
}

fn mean_field(p: &Problem) -> Vec<Mat<f64>> {
    let (task, query) = p;
    let mut out = Vec::new();
    for order in [Updates::Paper, Updates::Exact, Updates::Joint, Updates::Collapsed, Updates::Released] {
        let fit = infer(task, order, &Start::Prior, Stop::Steps(4)).unwrap();
        let posterior = Blocks::new(fit.blocks().iter().cloned(), task.tau()).unwrap();
        let latent = posterior.latent(query).unwrap();
        let probs = latent.probs(Resolution::Standard).unwrap();
        out.extend([fit.mu_f(), fit.v_f(), latent.mean, latent.var, probs]);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn of_mean_field(seed in 0u64..1000, n in 4usize..9, tau in 0.1..1.5f64, a in -5.0..1.0f64) {
        let p = problem(seed, n, tau, a);
        for (one, two) in mean_field(&p).iter().zip(mean_field(&other(&p))) {
            prop_assert_eq!(columns(one), two);
        }
    }

    #[test]
    fn of_natural_gradients(seed in 0u64..1000, n in 4usize..9, tau in 0.1..1.5f64, a in -5.0..1.0f64) {
        let options = NaturalOptions { max_steps: 12, ..Default::default() };
        let run = |(task, query): &Problem| {
            let (gradient, fit) = natural_bound(task, options).unwrap();
            let latent = Blocks::new(fit.blocks, task.tau()).unwrap().latent(query).unwrap();
            (gradient, fit.bounds, latent.probs(Resolution::Standard).unwrap())
        };
        let p = problem(seed, n, tau, a);
        let (one, two) = (run(&p), run(&other(&p)));
        same_gradient(&one.0, &two.0);
        prop_assert_eq!(one.1, two.1);
        prop_assert_eq!(columns(&one.2), two.2);
    }

    #[test]
    fn of_laplace(seed in 0u64..1000, n in 4usize..9, tau in 0.1..1.5f64, a in -2.0..1.0f64) {
        let run = |(task, query): &Problem| {
            let fit = Laplace::new(task, 100).unwrap();
            (fit.gradient(task).unwrap(), fit.latent(query).unwrap(), fit.mode)
        };
        let p = problem(seed, n, tau, a);
        let (one, two) = (run(&p), run(&other(&p)));
        same_gradient(&one.0, &two.0);
        prop_assert_eq!(columns(&one.1.mean), two.1.mean);
        prop_assert_eq!(columns(&one.2), two.2);
        for (one, two) in one.1.cov.iter().zip(&two.1.cov) {
            prop_assert_eq!(&both(one), two);
        }
    }

    #[test]
    fn of_one_vs_each(seed in 0u64..1000, n in 4usize..9, tau in 0.1..1.5f64, a in -2.0..1.0f64) {
        let run = |(task, query): &Problem| {
            let fit = OveMeanField::new(task, 12, 0.0).unwrap();
            let at = fit.latent(query).unwrap();
            (fit.gradient(task).unwrap(), fit.published_probabilities(&at).unwrap(), at)
        };
        let p = problem(seed, n, tau, a);
        let (one, two) = (run(&p), run(&other(&p)));
        same_gradient(&one.0, &two.0);
        prop_assert_eq!(columns(&one.1), two.1);
        prop_assert_eq!(columns(&one.2.mean), two.2.mean);
        for (one, two) in one.2.cov.iter().zip(&two.2.cov) {
            prop_assert_eq!(&both(one), two);
        }
    }

    #[test]
    fn of_label_regression(seed in 0u64..1000, n in 4usize..9, noise in 0.05..2.0f64, a in -2.0..1.0f64) {
        let run = |(task, query): &Problem| {
            let fit = LabelRegression::new(task, noise).unwrap();
            let at = fit.latent(query).unwrap();
            (fit.loss_gradient(), largest_target_probabilities(&at, noise), at)
        };
        let p = problem(seed, n, 1.0, a);
        let (one, two) = (run(&p), run(&other(&p)));
        prop_assert_eq!(one.0.value.to_bits(), two.0.value.to_bits());
        prop_assert_eq!(one.0.dnoise.to_bits(), two.0.dnoise.to_bits());
        prop_assert_eq!(moved(&one.0.dk), two.0.dk);
        prop_assert_eq!(columns(&one.0.da), two.0.da);
        prop_assert_eq!(columns(&one.1), two.1);
        prop_assert_eq!((columns(&one.2.mean), columns(&one.2.var)), (two.2.mean, two.2.var));
    }
}
