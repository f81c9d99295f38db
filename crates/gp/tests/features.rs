//! From labelled features to posteriors and to objectives with their gradients.

use proptest::prelude::*;
use siskin_gp::faer::Mat;
use siskin_gp::inference::{Inference, NaturalOptions, Stop, Updates};
use siskin_gp::kernels::{AnyForm, Kernel, Rbf};
use siskin_gp::objective::{Carry, Draw, EpisodeGradient, Objective};
use siskin_gp::posterior::Posterior;
use siskin_gp::{Error, Hyper, Resolution, Result, Support};

/// An objective of points in three classes.
fn gradient(objective: &Objective, x: &Mat<f64>, y: &[usize], hyper: &Hyper) -> Result<EpisodeGradient> {
    objective.value_and_gradient(&Support::new(x.as_ref(), y, hyper.prior(3))?)
}

fn hyper(name: &str, normalise: bool, per_class: bool, mean: f64, tau: f64) -> Hyper {
    let mut kernel = Kernel::new(AnyForm::named(name).unwrap());
    kernel.normalise = normalise;
    kernel.raw_shape.fill(0.4);
    kernel.raw_scale = if per_class { vec![0.1, -0.5, 0.8] } else { vec![0.3] };
    Hyper { kernel, mean, tau }
}

fn objectives() -> Vec<Objective> {
    let resolution = Resolution::Golden;
    let predictive =
        |stop| Objective::Predictive { order: Updates::Collapsed, stop, support: vec![0, 2, 1], resolution };
    vec![
        Objective::Elbo { order: Updates::Joint, kind: Updates::Joint, steps: 2 },
        Objective::Elbo { order: Updates::Paper, kind: Updates::Exact, steps: 2 },
        Objective::Collapsed(Stop::Steps(3)),
        Objective::Collapsed(Stop::Tolerance { tol: 1e-13, max_steps: 20_000 }),
        Objective::Direct { steps: 2, resolution },
        Objective::Natural(NaturalOptions {
            max_steps: 2000,
            tolerance: 1e-10,
            resolution,
            ..NaturalOptions::default()
        }),
        predictive(Stop::Steps(2)),
        predictive(Stop::Tolerance { tol: 1e-13, max_steps: 20_000 }),
        Objective::LabelRegression { noise: 0.1 },
    ]
}

#[test]
fn regression_predicts_what_it_has_seen() {
    let x = Mat::from_fn(6, 2, |i, j| if i % 2 == j { 2.0 + 0.1 * i as f64 } else { -1.0 });
    let hyper = hyper("cosine", false, false, 0.0, 1.0);
    let y = [0, 1, 0, 1, 0, 1];
    let support = Support::new(x.as_ref(), &y, hyper.prior(2)).unwrap();
    let fit = |noise| Inference::Exact { noise }.posterior(&support.task().unwrap());
    let (regression, query) = (fit(0.1).unwrap(), support.query(x.as_ref()).unwrap());
    let p = regression.probs(&query, Resolution::Standard).unwrap();
    let softmax = regression.published_probs(&query).unwrap();
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
        let hyper = hyper(&name, normalise, per_class, mean, tau);
        for objective in objectives() {
            let at = |x: &Mat<f64>, hyper: &Hyper| gradient(&objective, x, &y, hyper).unwrap();
            let gradient = at(&x, &hyper);
            if let Objective::Natural(options) = &objective {
                prop_assert!(gradient.residual.unwrap() <= options.tolerance);
            }
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
    let x = Mat::from_fn(6, 4, |i, j| ((i * 5 + j * 3) as f64).sin() + if i % 3 == j { 1.0 } else { 0.0 });
    let queries = Mat::from_fn(4, 4, |i, j| ((i * 2 + j * 7) as f64).cos());
    let y = [0, 1, 2, 0, 1, 1];
    let moved_y = y.map(|c| (c + 1) % 3);
    let one = hyper("rbf", true, true, -0.7, 0.3);
    let mut other = one.clone();
    other.kernel.raw_scale.rotate_right(1);
    for objective in objectives() {
        let a = gradient(&objective, &x, &y, &one).unwrap();
        let b = gradient(&objective, &x, &moved_y, &other).unwrap();
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
        let probs = |y: &[usize], hyper: &Hyper| {
            let support = Support::new(x.as_ref(), y, hyper.prior(3)).unwrap();
            let posterior = inference.posterior(&support.task().unwrap()).unwrap();
            posterior.probs(&support.query(queries.as_ref()).unwrap(), Resolution::Standard).unwrap()
        };
        let (p, q) = (probs(&y, &one), probs(&moved_y, &other));
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
    let hyper = Hyper { kernel: Kernel::new(Rbf).with_scale(3.0).unwrap(), mean: -1.0, tau: 0.5 };
    let support = Support::new(x.as_ref(), &y, hyper.prior(2)).unwrap();
    let task = support.task().unwrap();
    let posterior = Inference::Natural(NaturalOptions::default()).posterior(&task).unwrap();
    assert!(posterior.converged && posterior.bound < 0.0);
    let query = support.query(x.as_ref()).unwrap();
    let p = posterior.probs(&query, Resolution::Standard).unwrap();
    for (i, &label) in y.iter().enumerate() {
        assert!(p[(i, label)] > 0.8, "{}", p[(i, label)]);
    }
    // From its sites it comes back, without inference.
    let again = Posterior::from_sites(&task, &posterior.sites().unwrap(), posterior.bound).unwrap();
    let q = again.probs(&query, Resolution::Standard).unwrap();
    assert!((&p - &q).norm_max() < 1e-12);
    assert_eq!(support.similarity(x.as_ref()).unwrap()[(3, 3)], 1.0);
    let far = support.query(Mat::from_fn(1, 2, |_, _| 1e3).as_ref()).unwrap();
    let latent = posterior.latent(&far).unwrap();
    assert_eq!((latent.mean[(0, 0)], latent.mean[(0, 1)]), (-1.0, -1.0));
    assert!((latent.var[(0, 0)] - 3.0).abs() < 1e-12);
    assert!((posterior.probs(&far, Resolution::Fine).unwrap()[(0, 0)] - 0.5).abs() < 1e-11);
}

#[test]
fn released_hands_its_state_on() {
    use rand::SeedableRng;
    let x = Mat::from_fn(6, 4, |i, j| ((i * 5 + j * 3) as f64).sin());
    let y = [0, 1, 2, 0, 1, 2];
    let hyper = hyper("cosine", false, true, 0.0, 0.5);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let (carry, draw) = (Carry::first(6, 3, &mut rng), Draw::new(6, 3, &mut rng));
    let run = |carry: &Carry| {
        let objective = Objective::Released { carry: carry.clone(), draw: draw.clone(), steps: 2 };
        gradient(&objective, &x, &y, &hyper).unwrap()
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
        let (order, stop, resolution) = (Updates::Joint, Stop::Steps(1), Resolution::Fine);
        let objective = Objective::Predictive { order, stop, support: support.to_vec(), resolution };
        objective.value_and_gradient(&Support::new(x.as_ref(), &[0, 1, 0], hyper.prior(2))?)
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
    let objective = Objective::Direct { steps: 1, resolution: Resolution::Fast };
    let x = Mat::from_fn(3, 2, |i, j| 1.0 + (i + j) as f64);
    let run = |x: &Mat<f64>, y: &[usize], hyper: &Hyper| gradient(&objective, x, y, hyper).unwrap_err();
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
