//! The seam to whatever makes the features: features and labels in; an objective of an episode and its gradient
//! ([`value_and_gradient`]), or the posterior of a task, asked by features ([`adapt`], by any inference), out.

mod adapt;
mod chain;
mod objective;

pub use adapt::{Adapted, adapt, restore};
pub use objective::{EpisodeGradient, Objective, value_and_gradient};

use faer::{Mat, MatRef};

use crate::kernels::{Features, Gram, Kernel, KernelGradient};
use crate::{Error, Query, Result, Task};

/// Everything an episode does not bring along: kernel, prior mean, temperature.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hyper {
    /// The kernel with its raw parameters.
    pub kernel: Kernel,
    /// The prior mean a of every latent function.
    pub mean: f64,
    /// The temperature. To learn it, step in log tau with [`HyperGradient::log_tau`].
    pub tau: f64,
}

/// The gradient of an objective in the hyperparameters.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperGradient {
    /// In the raw parameters of the kernel.
    pub kernel: KernelGradient,
    /// In the prior mean.
    pub mean: f64,
    /// In log tau.
    pub log_tau: f64,
}

impl Hyper {
    /// Checks labels and parameters, then the features.
    fn features(&self, x: MatRef<'_, f64>, y: &[usize], classes: usize) -> Result<Features> {
        self.kernel.check(classes)?;
        if !self.mean.is_finite() {
            return Err(Error::NotFinite { what: "prior mean", row: 0, col: 0, value: self.mean });
        }
        if y.len() != x.nrows() {
            return Err(Error::Shape { what: "labels", expected: x.nrows(), got: y.len() });
        }
        self.kernel.features(x)
    }

    fn task(&self, k: Vec<Mat<f64>>, y: &[usize], classes: usize) -> Result<Task> {
        Task::new(k, y.to_vec(), Mat::from_fn(y.len(), classes, |_, _| self.mean), self.tau)
    }

    /// Queries from the kernel `between` support and queries and their `own` values.
    fn query(&self, between: &Gram<'_>, own: &Gram<'_>, classes: usize) -> Query {
        let kss = own.own_of_classes(classes);
        let astar = Mat::from_fn(kss.nrows(), classes, |_, _| self.mean);
        Query { ks: between.of_classes(classes), kss, astar }
    }
}

/// The labelled points of an episode as the kernel sees them: what a prediction starts from.
#[derive(Debug, Clone)]
pub(crate) struct Support {
    pub(crate) hyper: Hyper,
    pub(crate) features: Features,
    pub(crate) classes: usize,
}

impl Support {
    /// Checks what comes in and computes the kernel among the points.
    pub(crate) fn new(
        x: MatRef<'_, f64>,
        y: &[usize],
        classes: usize,
        hyper: &Hyper,
    ) -> Result<(Self, Task)> {
        let features = hyper.features(x, y, classes)?;
        let task = hyper.task(hyper.kernel.within(&features)?.of_classes(classes), y, classes)?;
        Ok((Support { hyper: hyper.clone(), features, classes }, task))
    }

    /// The kernel between the points and new features `x` [M, D].
    pub(crate) fn query(&self, x: MatRef<'_, f64>) -> Result<Query> {
        let kernel = &self.hyper.kernel;
        let queries = kernel.features(x)?;
        let between = kernel.between(&self.features, &queries)?;
        Ok(self.hyper.query(&between, &kernel.own(&queries)?, self.classes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inference::Inference;
    use crate::inference::gibbs::{Chains, SampledLikelihood, Sampler};
    use crate::inference::mean_field::{Stop, Updates};
    use crate::inference::natural::NaturalOptions;
    use crate::kernels::AnyForm;
    use crate::quadrature::Precision;
    use proptest::prelude::*;

    fn hyper(name: &str, normalise: bool, per_class: bool, mean: f64, tau: f64) -> Hyper {
        let mut kernel = Kernel::new(AnyForm::named(name).unwrap());
        kernel.normalise = normalise;
        kernel.raw_shape.fill(0.4);
        kernel.raw_scale = if per_class { vec![0.1, -0.5, 0.8] } else { vec![0.3] };
        Hyper { kernel, mean, tau }
    }

    fn objectives() -> Vec<Objective> {
        let precision = Precision::Golden;
        let predictive = |stop| Objective::Predictive {
            order: Updates::Collapsed,
            stop,
            support: vec![0, 2, 1],
            precision,
        };
        vec![
            Objective::Elbo { order: Updates::Joint, kind: Updates::Joint, steps: 2 },
            Objective::Elbo { order: Updates::Paper, kind: Updates::Exact, steps: 2 },
            Objective::Collapsed(Stop::Steps(3)),
            Objective::Collapsed(Stop::Tolerance { tol: 1e-13, max_steps: 20_000 }),
            Objective::Direct { steps: 2, precision },
            Objective::Natural(NaturalOptions { max_steps: 2000, tolerance: 1e-10, precision }),
            predictive(Stop::Steps(2)),
            predictive(Stop::Tolerance { tol: 1e-13, max_steps: 20_000 }),
            Objective::LabelRegression { noise: 0.1 },
        ]
    }

    /// Samples are constants for the gradient, so its check against differences is in [`crate::inference::gibbs`]; here the way from
    /// there through the kernel, at a fixed task.
    #[test]
    fn sampled_objectives_come_back_through_the_kernel() {
        let x =
            Mat::from_fn(6, 3, |i, j| ((i * 5 + j * 3) as f64).sin() + if i % 3 == j { 1.0 } else { 0.0 });
        let y = [0, 1, 2, 0, 1, 2];
        let hyper = hyper("rbf", true, true, -0.3, 0.8);
        let chains = Chains { chains: 3, sweeps: 2, seed: 4 };
        for likelihood in [SampledLikelihood::LogisticSoftmax, SampledLikelihood::OneVsEach] {
            let sampler = Sampler { likelihood, chains, released: false };
            let (_, task) = Support::new(x.as_ref(), &y, 3, &hyper).unwrap();
            let run = sampler.run(&task).unwrap();
            let through =
                |objective: &Objective| value_and_gradient(x.as_ref(), &y, 3, &hyper, objective).unwrap();
            let ml = through(&Objective::SampledMarginal(sampler));
            let direct = run.log_marginal();
            assert_eq!(ml.value, direct.value);
            // log tau moves K/tau^2 and a/tau alone: the kernel's way of saying it is scale and mean.
            let scales: f64 = (0..3)
                .map(|c| {
                    let raw = hyper.kernel.raw_scale[c];
                    let by_log = hyper.kernel.scale(c) / crate::kernels::softplus_slope(raw);
                    ml.hyper.kernel.raw_scale[c] * by_log
                })
                .sum();
            let want = -2.0 * scales - ml.hyper.mean * hyper.mean;
            assert!((ml.hyper.log_tau - want).abs() < 1e-12 * (1.0 + want.abs()), "{likelihood:?}");
            let pl = through(&Objective::SampledPredictive { sampler, support: vec![0, 1, 2] });
            let sampled = adapt(x.get(0..3, ..), &y[..3], 3, &hyper, &Inference::Gibbs(sampler)).unwrap();
            let p = sampled.published_probs(x.get(3.., ..)).unwrap();
            let want: f64 = (0..3).map(|q| p[(q, y[3 + q])].ln()).sum();
            assert!((pl.value - want).abs() < 1e-12 && pl.value < 0.0, "{} {want}", pl.value);
            assert!(pl.features.norm_max() > 0.0 && ml.features.norm_max() > 0.0);
            let bayes = sampled.probs(x.get(3.., ..), Precision::Standard).unwrap();
            assert!((0..3).all(|q| ((0..3).map(|c| bayes[(q, c)]).sum::<f64>() - 1.0).abs() < 1e-7));
        }
    }

    #[test]
    fn regression_predicts_what_it_has_seen() {
        let x = Mat::from_fn(6, 2, |i, j| if i % 2 == j { 2.0 + 0.1 * i as f64 } else { -1.0 });
        let hyper = hyper("cosine", false, false, 0.0, 1.0);
        let y = [0, 1, 0, 1, 0, 1];
        let fit = |noise| adapt(x.as_ref(), &y, 2, &hyper, &Inference::Exact { noise });
        let regression = fit(0.1).unwrap();
        let (p, softmax) = (
            regression.probs(x.as_ref(), Precision::Standard).unwrap(),
            regression.published_probs(x.as_ref()).unwrap(),
        );
        for (i, &label) in y.iter().enumerate() {
            assert!(
                p[(i, label)] > 0.99 && softmax[(i, label)] > 0.7,
                "{} {}",
                p[(i, label)],
                softmax[(i, label)]
            );
        }
        assert!(matches!(fit(0.0), Err(Error::OutOfRange { what: "noise", .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn gradients_match_differences(
            numbers in prop::collection::vec(0.2..1.5f64, 15), name in prop::sample::select(AnyForm::names()), normalise: bool, per_class: bool,
            mean in -1.0..0.5f64, tau in 0.4..1.2f64,
        ) {
            let y = [0, 1, 2, 1, 0];
            let x = Mat::from_fn(5, 3, |i, j| numbers[3 * i + j] * if (i + j) % 3 == 0 { -1.0 } else { 1.0 });
            let hyper = hyper(name, normalise, per_class, mean, tau);
            for objective in objectives() {
                let at = |x: &Mat<f64>, hyper: &Hyper| value_and_gradient(x.as_ref(), &y, 3, hyper, &objective).unwrap();
                let gradient = at(&x, &hyper);
                prop_assert!(gradient.converged);
                let h = 1e-5;
                let check = |got: f64, up: f64, down: f64, what: &str| {
                    let want = (up - down) / (2.0 * h);
                    let close = (got - want).abs() < 2e-6 * (1.0 + got.abs());
                    prop_assert!(close, "{what}: {got} {want}, {objective:?}");
                    Ok(())
                };
                for (i, j) in [(0, 0), (3, 1), (4, 2)] {
                    let moved = |h: f64| { let mut x = x.clone(); x[(i, j)] += h; at(&x, &hyper).value };
                    check(gradient.features[(i, j)], moved(h), moved(-h), "features")?;
                }
                let moved = |change: &dyn Fn(&mut Hyper)| { let mut hyper = hyper.clone(); change(&mut hyper); at(&x, &hyper).value };
                check(gradient.hyper.mean, moved(&|p| p.mean += h), moved(&|p| p.mean -= h), "mean")?;
                let by_tau = (moved(&|p| p.tau *= h.exp()), moved(&|p| p.tau *= (-h).exp()));
                check(gradient.hyper.log_tau, by_tau.0, by_tau.1, "log tau")?;
                for (i, &got) in gradient.hyper.kernel.raw_shape.iter().enumerate() {
                    let by_shape = (moved(&|p| p.kernel.raw_shape[i] += h), moved(&|p| p.kernel.raw_shape[i] -= h));
                    check(got, by_shape.0, by_shape.1, "shape")?;
                }
                let last = hyper.kernel.raw_scale.len() - 1;
                let by_scale = (moved(&|p| p.kernel.raw_scale[last] += h), moved(&|p| p.kernel.raw_scale[last] -= h));
                check(gradient.hyper.kernel.raw_scale[last], by_scale.0, by_scale.1, "scale")?;
            }
        }
    }

    #[test]
    fn relabelling_the_classes_permutes_everything_to_the_bit() {
        let x =
            Mat::from_fn(6, 4, |i, j| ((i * 5 + j * 3) as f64).sin() + if i % 3 == j { 1.0 } else { 0.0 });
        let queries = Mat::from_fn(4, 4, |i, j| ((i * 2 + j * 7) as f64).cos());
        let y = [0, 1, 2, 0, 1, 1];
        let moved_y = y.map(|c| (c + 1) % 3);
        let one = hyper("rbf", true, true, -0.7, 0.3);
        let mut other = one.clone();
        other.kernel.raw_scale.rotate_right(1);
        for objective in objectives() {
            let a = value_and_gradient(x.as_ref(), &y, 3, &one, &objective).unwrap();
            let b = value_and_gradient(x.as_ref(), &moved_y, 3, &other, &objective).unwrap();
            assert_eq!(a.value.to_bits(), b.value.to_bits(), "{objective:?}");
            assert_eq!(a.features, b.features);
            assert_eq!((a.hyper.mean, a.hyper.log_tau), (b.hyper.mean, b.hyper.log_tau));
            let mut scales = a.hyper.kernel.raw_scale.clone();
            scales.rotate_right(1);
            assert_eq!(scales, b.hyper.kernel.raw_scale);
        }
        for inference in [
            Inference::MeanField { order: Updates::Joint, stop: Stop::Steps(10) },
            Inference::Natural(NaturalOptions::default()),
        ] {
            let p = adapt(x.as_ref(), &y, 3, &one, &inference)
                .unwrap()
                .probs(queries.as_ref(), Precision::Standard)
                .unwrap();
            let q = adapt(x.as_ref(), &moved_y, 3, &other, &inference)
                .unwrap()
                .probs(queries.as_ref(), Precision::Standard)
                .unwrap();
            for i in 0..4 {
                for c in 0..3 {
                    assert_eq!(p[(i, c)].to_bits(), q[(i, (c + 1) % 3)].to_bits());
                }
            }
        }
    }

    #[test]
    fn adapting_learns_the_labels_and_forgets_far_away() {
        let x = Mat::from_fn(6, 2, |i, j| if i % 2 == j { 2.0 + 0.1 * i as f64 } else { -1.0 });
        let y = [0, 1, 0, 1, 0, 1];
        let hyper =
            Hyper { kernel: Kernel::new(crate::kernels::Rbf).with_scale(3.0).unwrap(), mean: -1.0, tau: 0.5 };
        let adapted =
            adapt(x.as_ref(), &y, 2, &hyper, &Inference::Natural(NaturalOptions::default())).unwrap();
        let posterior = adapted.posterior();
        assert!(posterior.converged && posterior.bound < 0.0);
        let p = adapted.probs(x.as_ref(), Precision::Standard).unwrap();
        for (i, &label) in y.iter().enumerate() {
            assert!(p[(i, label)] > 0.8, "{}", p[(i, label)]);
        }
        // From its sites it comes back, without inference.
        let again = restore(x.as_ref(), &y, 2, &hyper, &adapted.sites().unwrap(), posterior.bound).unwrap();
        let q = again.probs(x.as_ref(), Precision::Standard).unwrap();
        assert!((&p - &q).norm_max() < 1e-12);
        assert_eq!(again.similarity(x.as_ref()).unwrap()[(3, 3)], 1.0);
        let far = Mat::from_fn(1, 2, |_, _| 1e3);
        let latent = adapted.latent(far.as_ref()).unwrap();
        assert_eq!((latent.mean[(0, 0)], latent.mean[(0, 1)]), (-1.0, -1.0));
        assert!((latent.var[(0, 0)] - 3.0).abs() < 1e-12);
        assert!((adapted.probs(far.as_ref(), Precision::Fine).unwrap()[(0, 0)] - 0.5).abs() < 1e-11);
    }

    #[test]
    fn released_hands_its_state_on() {
        use crate::objective::released::{Carry, Draw};
        use rand::SeedableRng;
        let x = Mat::from_fn(6, 4, |i, j| ((i * 5 + j * 3) as f64).sin());
        let y = [0, 1, 2, 0, 1, 2];
        let hyper = hyper("cosine", false, true, 0.0, 0.5);
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let (carry, draw) = (Carry::first(6, 3, &mut rng), Draw::new(6, 3, &mut rng));
        let run = |carry: &Carry| {
            let objective = Objective::Released { carry: carry.clone(), draw: draw.clone(), steps: 2 };
            value_and_gradient(x.as_ref(), &y, 3, &hyper, &objective).unwrap()
        };
        let first = run(&carry);
        let second = run(first.carry.as_ref().unwrap());
        assert_ne!(first.value, second.value);
        // The same bits from the same state, and no state kept anywhere else.
        assert_eq!(run(&carry).value.to_bits(), first.value.to_bits());
        assert!(first.features.norm_max() > 0.0);
    }

    #[test]
    fn a_support_that_is_no_subset_is_refused() {
        let x = Mat::from_fn(3, 2, |i, j| 1.0 + (i + j) as f64);
        let hyper = hyper("rbf", false, false, 0.0, 1.0);
        let run = |support: &[usize]| {
            let (order, stop, precision) = (Updates::Joint, Stop::Steps(1), Precision::Fine);
            let objective = Objective::Predictive { order, stop, support: support.to_vec(), precision };
            value_and_gradient(x.as_ref(), &[0, 1, 0], 2, &hyper, &objective)
        };
        assert!(run(&[0, 1]).is_ok());
        assert!(matches!(run(&[0, 3]), Err(Error::OutOfRange { what: "support row", .. })));
        assert!(matches!(run(&[1, 1]), Err(Error::OutOfRange { what: "support row", .. })));
        assert!(matches!(run(&[]), Err(Error::Empty { what: "support", .. })));
        assert!(matches!(run(&[0, 1, 2]), Err(Error::Empty { what: "queries", .. })));
    }

    #[test]
    fn bad_input_is_named() {
        let good = hyper("cosine", false, false, 0.0, 1.0);
        let objective = Objective::Direct { steps: 1, precision: Precision::Fast };
        let x = Mat::from_fn(3, 2, |i, j| 1.0 + (i + j) as f64);
        let run = |x: &Mat<f64>, y: &[usize], hyper: &Hyper| {
            value_and_gradient(x.as_ref(), y, 3, hyper, &objective).unwrap_err()
        };
        let mut bad = x.clone();
        bad[(2, 1)] = f64::NAN;
        assert!(matches!(
            run(&bad, &[0, 1, 2], &good),
            Error::NotFinite { what: "features", row: 2, col: 1, .. }
        ));
        assert!(matches!(run(&x, &[0, 1], &good), Error::Shape { what: "labels", expected: 3, got: 2 }));
        assert_eq!(run(&x, &[0, 7, 1], &good), Error::Label { row: 1, label: 7, classes: 3 });
        assert!(matches!(
            run(&x, &[0, 1, 2], &Hyper { tau: 0.0, ..good.clone() }),
            Error::OutOfRange { what: "tau", .. }
        ));
        let mean = f64::INFINITY;
        assert!(matches!(
            run(&x, &[0, 1, 2], &Hyper { mean, ..good.clone() }),
            Error::NotFinite { what: "prior mean", .. }
        ));
        let mut scales = good;
        scales.kernel.raw_scale = vec![0.0; 2];
        assert!(matches!(run(&x, &[0, 1, 2], &scales), Error::Shape { expected: 3, got: 2, .. }));
    }
}
