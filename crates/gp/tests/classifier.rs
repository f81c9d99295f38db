//! The classifier as its users see it.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use siskin_gp::Error;
use siskin_gp::classifier::{EvidenceBound, Expected, GpClassifier, Likelihood};
use siskin_gp::faer::Mat;
use siskin_gp::kernels::{AnyForm, Kernel, Rbf};

/// Standard normal numbers, [rows, cols].
fn normal(rng: &mut ChaCha8Rng, rows: usize, cols: usize) -> Mat<f64> {
    Mat::from_fn(rows, cols, |_, _| StandardNormal.sample(rng))
}

/// Settings that differ from the defaults.
fn with(change: impl FnOnce(&mut GpClassifier)) -> GpClassifier {
    let mut settings = GpClassifier::default();
    change(&mut settings);
    settings
}

/// Noisy clusters around three corners, classes of 14, 10 and 6 points.
fn clusters(seed: u64) -> (Mat<f64>, Vec<usize>) {
    let y: Vec<usize> = (0..30).map(|i| if i < 14 { 0 } else { 1 + usize::from(i >= 24) }).collect();
    let noise = normal(&mut ChaCha8Rng::seed_from_u64(seed), 30, 2);
    let corner = [[0.0, 0.0], [3.0, 0.0], [0.0, 30.0]];
    let x = Mat::from_fn(30, 2, |i, j| corner[y[i]][j] + [0.5, 5.0][j] * noise[(i, j)]);
    (x, y)
}

fn log_loss(probs: &Mat<f64>, y: &[usize]) -> f64 {
    -y.iter().enumerate().map(|(i, &y)| probs[(i, y)].ln()).sum::<f64>() / y.len() as f64
}

#[test]
fn every_likelihood_learns_the_clusters() {
    let ((x, y), (x_new, y_new)) = (clusters(1), clusters(2));
    for likelihood in
        [Likelihood::LogisticSoftmax, Likelihood::Softmax, Likelihood::OneVsEach, Likelihood::Gaussian]
    {
        for bound in [EvidenceBound::Collapsed, EvidenceBound::Direct] {
            if bound == EvidenceBound::Direct && likelihood != Likelihood::LogisticSoftmax {
                continue;
            }
            let mut model = with(|s| (s.likelihood, s.bound) = (likelihood, bound));
            model.fit(x.as_ref(), &y).unwrap();
            assert!(model.learned().unwrap().posterior_converged, "{likelihood:?} {bound:?}");
            let at = model.predictions(x_new.as_ref()).unwrap();
            let correct = at.classes().iter().zip(&y_new).filter(|(a, b)| a == b).count();
            let loss = log_loss(&at.probs, &y_new);
            assert!(
                correct >= 27 && loss < 0.6,
                "{likelihood:?} {bound:?}: {correct} of 30, log-loss {loss}"
            );
            for i in 0..30 {
                let sum: f64 = (0..3).map(|c| at.probs[(i, c)]).sum();
                assert!((sum - 1.0).abs() < 1e-6 && (0..3).all(|c| at.var[(i, c)] >= 0.0));
            }
        }
    }
}

/// Three classes of 59, 71 and 48 points with 13 columns of very different sizes, about as hard to tell apart as those of
/// scikit-learn's *wine*.
fn like_wine(seed: u64) -> (Mat<f64>, Vec<usize>) {
    let y: Vec<usize> = (0..178).map(|i| usize::from(i >= 59) + usize::from(i >= 130)).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let noise = normal(&mut rng, 178, 13);
    let centres = normal(&mut ChaCha8Rng::seed_from_u64(77), 3, 13);
    let size = |j: usize| 10f64.powi(j as i32 % 5 - 1);
    let x = Mat::from_fn(178, 13, |i, j| size(j) * (3.0 + centres[(y[i], j)] + 1.2 * noise[(i, j)]));
    (x, y)
}

/// The collapsed bound alone once chose hyperparameters that answered one class for everything here.
#[test]
fn learning_never_collapses_whatever_the_order_of_the_rows() {
    let ((x, y), (x_new, y_new)) = (like_wine(1), like_wine(2));
    for bound in [EvidenceBound::Direct, EvidenceBound::Collapsed] {
        let mut found: Vec<Mat<f64>> = Vec::new();
        for step in [1, 55, 101] {
            let order: Vec<usize> = (0..178).map(|i| i * step % 178).collect();
            let moved = Mat::from_fn(178, 13, |i, j| x[(order[i], j)]);
            let labels: Vec<usize> = order.iter().map(|&i| y[i]).collect();
            let mut model = with(|s| s.bound = bound);
            model.fit(moved.as_ref(), &labels).unwrap();
            let at = model.predictions(x_new.as_ref()).unwrap();
            let correct = at.classes().iter().zip(&y_new).filter(|(a, b)| a == b).count();
            let (loss, learned) = (log_loss(&at.probs, &y_new), model.learned().unwrap());
            assert!(correct >= 160 && loss < 0.5, "{bound:?}: {correct} of 178, {loss}, {learned:?}");
            assert!(learned.held_out.unwrap() < 0.5);
            found.push(at.probs);
        }
        assert!(found.iter().all(|p| (p - &found[0]).norm_max() < 0.01), "{bound:?}");
    }
}

#[test]
fn far_away_it_does_not_know() {
    let (x, y) = clusters(1);
    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &y).unwrap();
    let far = Mat::from_fn(1, 2, |_, _| 1e6);
    let at = model.predictions(far.as_ref()).unwrap();
    assert!((at.entropy[0] - 3f64.ln()).abs() < 1e-6, "entropy {}", at.entropy[0]);
    let near = model.predictions(x.as_ref()).unwrap();
    assert!(near.entropy[0] < at.entropy[0] && near.var[(0, 0)] < at.var[(0, 0)]);
}

/// A kernel, temperature and prior mean that fit nothing well.
fn poor_start(likelihood: Likelihood) -> GpClassifier {
    let kernel = Kernel::new(Rbf).with_shapes(&[0.4]).unwrap();
    with(|s| {
        (s.kernel, s.likelihood) = (Some(kernel), likelihood);
        (s.tau, s.prior_mean) = (3.0, 0.0);
    })
}

#[test]
fn learning_climbs_from_a_poor_start() {
    let (x, y) = clusters(3);
    let fixed = |settings: GpClassifier| {
        let mut model = settings;
        model.learn = false;
        model.fit(x.as_ref(), &y).unwrap();
        model.learned().unwrap().bound
    };
    // A likelihood without a leave-one-out guard: what is kept is the best bound.
    let poor = poor_start(Likelihood::Softmax);
    let mut model = poor.clone();
    model.fit(x.as_ref(), &y).unwrap();
    let learned = model.learned().unwrap().clone();
    let start = fixed(poor.clone());
    assert!(learned.bound > start + 3.0, "{learned:?} from {start}");
    // At the end no single parameter is worth moving.
    let kernel = model.fitted_kernel().unwrap().clone();
    let at = |tau: f64, shape: f64, mean: f64| {
        let kernel = kernel.clone().with_shapes(&[shape]).unwrap();
        let mut settings = poor.clone();
        (settings.kernel, settings.tau, settings.prior_mean) = (Some(kernel), tau, mean);
        fixed(settings)
    };
    let best = at(learned.tau, kernel.shapes()[0], learned.prior_mean);
    for factor in [0.7, 1.4] {
        assert!(at(factor * learned.tau, kernel.shapes()[0], learned.prior_mean) < best + 0.1);
        assert!(at(learned.tau, factor * kernel.shapes()[0], learned.prior_mean) < best + 0.1);
    }
}

#[test]
fn learning_never_leaves_out_worse_than_it_started() {
    let (x, y) = clusters(3);
    for bound in [EvidenceBound::Direct, EvidenceBound::Collapsed] {
        let loss = |learn: bool| {
            let mut model = poor_start(Likelihood::LogisticSoftmax);
            (model.bound, model.learn) = (bound, learn);
            model.fit(x.as_ref(), &y).unwrap();
            model.learned().unwrap().held_out.unwrap()
        };
        let (start, learned) = (loss(false), loss(true));
        assert!(learned < start - 0.3, "{bound:?}: {learned} from {start}");
    }
}

#[test]
fn a_subset_for_learning_and_all_points_for_the_posterior() {
    let (x, y) = clusters(1);
    let mut model = with(|s| s.learn_points = 12);
    model.fit(x.as_ref(), &y).unwrap();
    let few = model.predict_proba(x.as_ref()).unwrap();
    assert_eq!(model.predict(x.as_ref()).unwrap(), y);
    // The warm start from the subset leads where the prior leads.
    let learned = model.learned().unwrap().clone();
    let mut fixed = with(|s| {
        (s.kernel, s.tau) = (Some(model.fitted_kernel().unwrap().clone()), learned.tau);
        (s.prior_mean, s.spread, s.learn) = (learned.prior_mean, learned.spread, false);
    });
    fixed.fit(x.as_ref(), &y).unwrap();
    // What is given allows for no point of any label, what is searched for does.
    let e = learned.any_label;
    let given = fixed.predict_proba(x.as_ref()).unwrap();
    let allowing = Mat::from_fn(x.nrows(), 3, |i, c| (1.0 - e) * given[(i, c)] + e / 3.0);
    assert!((allowing - few).norm_max() < 0.02);
}

#[test]
fn kernels_by_choice_and_the_same_bits_twice() {
    let (x, y) = clusters(1);
    for name in ["cosine", "linear", "matern52", "poly2", "rational-quadratic", "two-scale"] {
        let kernel = Kernel::new(AnyForm::named(name).unwrap()).scale_per_class(3);
        let mut model = with(|s| s.kernel = Some(kernel));
        model.fit(x.as_ref(), &y).unwrap();
        let first = model.predict_proba(x.as_ref()).unwrap();
        model.fit(x.as_ref(), &y).unwrap();
        assert_eq!(first, model.predict_proba(x.as_ref()).unwrap(), "{name}");
    }
}

#[test]
fn renaming_the_classes_permutes_the_probabilities() {
    let (x, y) = clusters(1);
    let to = [2, 0, 1];
    let renamed: Vec<usize> = y.iter().map(|&y| to[y]).collect();
    for (likelihood, bound) in [
        (Likelihood::LogisticSoftmax, EvidenceBound::Collapsed),
        (Likelihood::LogisticSoftmax, EvidenceBound::Direct),
        (Likelihood::Softmax, EvidenceBound::Collapsed),
        (Likelihood::OneVsEach, EvidenceBound::Collapsed),
        (Likelihood::Gaussian, EvidenceBound::Collapsed),
    ] {
        let fit = |y: &[usize]| {
            let mut model = with(|s| (s.likelihood, s.bound) = (likelihood, bound));
            model.fit(x.as_ref(), y).unwrap();
            (model.predictions(x.as_ref()).unwrap(), model.learned().unwrap().clone())
        };
        let ((a, learned), (b, mut same)) = (fit(&y), fit(&renamed));
        // The shares belong to the classes.
        same.shares = to.iter().map(|&class| same.shares[class]).collect();
        assert_eq!(learned, same, "{likelihood:?} {bound:?}");
        assert!(learned.converged && learned.inner_converged, "{likelihood:?} {bound:?} {learned:?}");
        for c in 0..3 {
            assert!(a.mean.col(c) == b.mean.col(to[c]) && a.var.col(c) == b.var.col(to[c]));
            if likelihood == Likelihood::Softmax {
                // Monte Carlo draws go by the index of a class.
                assert!((a.probs.col(c) - b.probs.col(to[c])).norm_max() < 5.0 * 0.5 / 1000f64.sqrt());
            } else {
                assert!(a.probs.col(c) == b.probs.col(to[c]), "{likelihood:?} {bound:?}");
            }
        }
    }
}

#[test]
fn bad_input_is_named() {
    let (x, y) = clusters(1);
    let mut model = GpClassifier::default();
    assert_eq!(model.predict(x.as_ref()).unwrap_err(), Error::NotFitted);
    assert_eq!(model.save("nowhere").unwrap_err(), Error::NotFitted);
    assert_eq!(model.fit(x.as_ref(), &[0; 30]).unwrap_err(), Error::OneClass);
    let mut gap = y.clone();
    gap.iter_mut().filter(|y| **y == 1).for_each(|y| *y = 3);
    assert_eq!(model.fit(x.as_ref(), &gap).unwrap_err(), Error::EmptyClass { class: 1 });
    assert!(matches!(model.fit(x.as_ref(), &y[..29]), Err(Error::Shape { expected: 29, got: 30, .. })));
    let mut broken = x.clone();
    broken[(4, 1)] = f64::NAN;
    assert!(matches!(model.fit(broken.as_ref(), &y), Err(Error::NotFinite { row: 4, col: 1, .. })));
    model.tau = 0.0;
    assert!(matches!(model.fit(x.as_ref(), &y), Err(Error::OutOfRange { what: "tau", .. })));
    model.tau = 1.0;
    model.fit(x.as_ref(), &y).unwrap();
    assert!(matches!(model.predict(broken.as_ref()), Err(Error::NotFinite { row: 4, col: 1, .. })));
    let narrow = Mat::<f64>::zeros(2, 1);
    assert!(matches!(model.predict(narrow.as_ref()), Err(Error::Shape { expected: 2, got: 1, .. })));
}

#[test]
fn saved_and_loaded_it_predicts_the_same_bits() {
    let (x, y) = clusters(1);
    let folder = tempfile::tempdir().unwrap();
    for (i, likelihood) in
        [Likelihood::LogisticSoftmax, Likelihood::Softmax, Likelihood::OneVsEach, Likelihood::Gaussian]
            .into_iter()
            .enumerate()
    {
        let mut model = with(|s| s.likelihood = likelihood);
        model.fit(x.as_ref(), &y).unwrap();
        let path = folder.path().join(format!("{i}.safetensors"));
        model.save(&path).unwrap();
        // Over the file that is there, and nothing stays beside it.
        model.save(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), i + 1);
        let loaded = GpClassifier::load(&path).unwrap();
        assert_eq!((loaded.learned().unwrap(), loaded.notice()), (model.learned().unwrap(), None));
        assert_eq!(loaded.predict_proba(x.as_ref()).unwrap(), model.predict_proba(x.as_ref()).unwrap());
    }
}

#[test]
fn files_that_are_no_classifier_are_refused() {
    let (x, y) = clusters(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let problem = |path: &std::path::Path| match GpClassifier::load(path) {
        Err(Error::File { problem, .. }) => problem,
        other => panic!("expected a file error, got {:?}", other.map(|_| ())),
    };
    problem(&path);
    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &y).unwrap();
    model.save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, &good[..good.len() - 9]).unwrap();
    problem(&path);
    std::fs::write(&path, b"not a tensor file").unwrap();
    problem(&path);
    let at = good.windows(7).position(|word| word == b"version").unwrap();
    let mut newer = good.clone();
    // The header keeps its length: version 4 becomes version 9.
    let digit = at + good[at..].iter().position(|byte| *byte == b'4').unwrap();
    newer[digit] = b'9';
    std::fs::write(&path, &newer).unwrap();
    assert!(problem(&path).contains("version 9"), "{}", problem(&path));
    // A number that is none, in the last array of the file.
    let mut nan = good.clone();
    let end = nan.len();
    nan[end - 8..].copy_from_slice(&f64::NAN.to_le_bytes());
    std::fs::write(&path, &nan).unwrap();
    assert!(GpClassifier::load(&path).is_err());
    // One bit, anywhere.
    for at in (0..good.len()).step_by(7) {
        let mut flipped = good.clone();
        flipped[at] ^= 1 << (at % 8);
        // The last digit of a number may change and the number not.
        if let Ok(same) = GpClassifier::from_bytes(&flipped, &path) {
            assert_eq!(same.learned().unwrap(), model.learned().unwrap(), "byte {at}");
            let probabilities = |of: &GpClassifier| of.predict_proba(x.as_ref()).unwrap();
            assert_eq!(probabilities(&same), probabilities(&model), "byte {at}");
        }
    }
}

#[test]
fn a_fit_ends_when_it_is_cancelled() {
    // Minutes of work.
    let x = normal(&mut ChaCha8Rng::seed_from_u64(5), 2000, 2);
    let y: Vec<usize> = (0..2000).map(|i| i % 5).collect();
    let mut model = with(|s| s.learn_points = 2000);
    let cancelled = model.cancelled.clone();
    let fit = std::thread::spawn(move || {
        let outcome = model.fit(x.as_ref(), &y);
        (model, outcome)
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    let (model, outcome) = fit.join().unwrap();
    assert_eq!(outcome, Err(Error::Cancelled));
    assert!(matches!(model.learned(), Err(Error::NotFitted)));
}

/// Four classes around corners, so near to each other that a third of the points is predicted wrong.
fn overlapping(n: usize, seed: u64) -> (Mat<f64>, Vec<usize>) {
    let y: Vec<usize> = (0..n).map(|i| i % 4).collect();
    let noise = normal(&mut ChaCha8Rng::seed_from_u64(seed), n, 2);
    let x = Mat::from_fn(n, 2, |i, j| noise[(i, j)] + if (y[i] >> j) % 2 == 1 { 2.0 } else { 0.0 });
    (x, y)
}

/// By the chance a share of held-out points has: at most three deviations of training and test points together below the level.
#[test]
fn sets_hold_the_true_class_as_often_as_they_say() {
    let ((x, y), (x_new, y_new)) = (overlapping(160, 1), overlapping(800, 2));
    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &y).unwrap();
    let mut sizes = Vec::new();
    for level in [0.6, 0.8, 0.9, 0.97] {
        let sets = model.predict_set(x_new.as_ref(), level).unwrap();
        let held = sets.iter().zip(&y_new).filter(|(set, y)| set.contains(y)).count() as f64 / 800.0;
        let deviation = (level * (1.0 - level) * (1.0 / 160.0 + 1.0 / 800.0)).sqrt();
        assert!(held >= level - 3.0 * deviation, "level {level}: {held}");
        sizes.push(sets.iter().map(Vec::len).sum::<usize>() as f64 / 800.0);
    }
    // Sets that say something, and say less the surer they are to be.
    assert!(sizes[2] < 3.0 && sizes.windows(2).all(|pair| pair[0] <= pair[1]), "{sizes:?}");
    assert!(model.predict_set(x_new.as_ref(), 1.0).is_err());
}

/// Half a point among N may have any label: no probability is below that, however far apart the classes are, left out or not, before
/// and after saving. Sets far from all points hold every class.
#[test]
fn no_label_is_impossible_and_far_away_every_class_is_in_the_set() {
    let (x, y) = clusters(1);
    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &y).unwrap();
    let learned = model.learned().unwrap();
    assert_eq!(learned.any_label, 0.5 / 30.0);
    let least = learned.any_label / 3.0;
    let sure = Mat::from_fn(3, 2, |i, j| [[0.0, 0.0], [3.0, 0.0], [0.0, 30.0]][i][j]);
    let probs = model.predict_proba(sure.as_ref()).unwrap();
    for i in 0..3 {
        assert!((0..3).all(|c| probs[(i, c)] >= least), "{probs:?}");
        assert!(((0..3).map(|c| probs[(i, c)]).sum::<f64>() - 1.0).abs() < 1e-9 && probs[(i, i)] > 0.9);
    }
    assert!(model.leave_one_out().unwrap().unwrap().log_loss < -least.ln());
    let far = Mat::from_fn(1, 2, |_, j| [-4e3, 5e3][j]);
    assert_eq!(model.predict_set(far.as_ref(), 0.9).unwrap(), [[0, 1, 2]]);
    assert_eq!(model.predict_set_by_class(far.as_ref(), 0.9).unwrap(), [[0, 1, 2]]);
    let loaded = GpClassifier::from_bytes(&model.to_bytes().unwrap(), "sure").unwrap();
    assert_eq!(loaded.predict_proba(sure.as_ref()).unwrap(), probs);
    // Nothing is searched for, nothing is allowed for.
    let mut given = with(|s| s.learn = false);
    given.fit(x.as_ref(), &y).unwrap();
    assert_eq!(given.learned().unwrap().any_label, 0.0);
}

/// 15 points of each of four classes in 400 dimensions, of which 20 tell them apart: the posterior itself is far too cautious.
#[test]
fn many_dimensions_and_few_points() {
    let made = |n: usize, seed: u64| {
        let y: Vec<usize> = (0..n).map(|i| i % 4).collect();
        let (noise, centres) = (
            normal(&mut ChaCha8Rng::seed_from_u64(seed), n, 400),
            normal(&mut ChaCha8Rng::seed_from_u64(7), 4, 20),
        );
        let x =
            Mat::from_fn(n, 400, |i, j| noise[(i, j)] + if j < 20 { 1.6 * centres[(y[i], j)] } else { 0.0 });
        (x, y)
    };
    let ((x, y), (x_new, y_new)) = (made(60, 1), made(400, 2));
    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &y).unwrap();
    let learned = model.learned().unwrap().clone();
    let loss = log_loss(&model.predict_proba(x_new.as_ref()).unwrap(), &y_new);
    let mut whole = with(|s| {
        (s.kernel, s.tau) = (Some(model.fitted_kernel().unwrap().clone()), learned.tau);
        (s.prior_mean, s.learn) = (learned.prior_mean, false);
    });
    whole.fit(x.as_ref(), &y).unwrap();
    let by_all = log_loss(&whole.predict_proba(x_new.as_ref()).unwrap(), &y_new);
    assert!(learned.spread < 1.0 && loss < 0.6 * by_all, "{loss} and {by_all}: {learned:?}");
}

/// One example of each class: nothing can be held out, and nothing is learned.
#[test]
fn single_examples_are_fitted() {
    let x = Mat::from_fn(3, 2, |i, j| [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]][i][j]);
    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &[0, 1, 2]).unwrap();
    assert_eq!(model.predict(x.as_ref()).unwrap(), [0, 1, 2]);
    assert_eq!(model.learned().unwrap().held_out, None);
}

/// Without two examples of a class nothing can be held out: the hyperparameters are those that are expected, in units of the points' own
/// deviation, whatever their scale.
#[test]
fn without_evidence_the_expected_hyperparameters_are_taken() {
    let fitted = |factor: f64, expected: Option<Expected>| {
        let x = Mat::from_fn(3, 2, |i, j| factor * [[1.0, 0.0], [0.0, 1.0], [-0.7, -0.7]][i][j]);
        let mut model = GpClassifier::default();
        (model.standardise, model.expected) = (false, expected);
        model.fit(x.as_ref(), &[0, 1, 2]).unwrap();
        let p = model.predict_proba(x.as_ref()).unwrap();
        (model.learned().unwrap().clone(), p[(0, 0)])
    };
    let expected = |temperature: f64| Some(Expected { temperature, spread: 0.15, deviation: 0.5 });
    let ((warm, p_warm), (cold, p_cold)) = (fitted(1.0, expected(0.2)), fitted(1.0, expected(0.1)));
    assert!((warm.tau / cold.tau - 2.0).abs() < 1e-9 && warm.spread == 0.15, "{} {}", warm.tau, cold.tau);
    assert!(p_cold > p_warm && p_warm > fitted(1.0, None).1, "{p_cold} {p_warm}");
    assert!((fitted(30.0, expected(0.1)).1 - p_cold).abs() < 1e-6);
}

/// With evidence, what is expected gives way: the more so, the less sure the expectation is.
#[test]
fn evidence_moves_away_from_what_is_expected() {
    let noise = |i: usize, k: usize| ((i * 7919 + k * 104_729) % 997) as f64 / 997.0 - 0.5;
    let x = Mat::from_fn(40, 2, |i, j| if j == i % 2 { 1.0 } else { 0.0 } + 2.2 * noise(i + 3, j));
    let y: Vec<usize> = (0..40).map(|i| i % 2).collect();
    let tau = |deviation: f64| {
        let mut model = GpClassifier::default();
        model.expected = Some(Expected { temperature: 0.04, spread: 0.15, deviation });
        model.fit(x.as_ref(), &y).unwrap();
        model.learned().unwrap().tau
    };
    assert!(tau(3.0) > tau(0.05), "{} {}", tau(3.0), tau(0.05));
}

/// 1,600 points are more than the exact posterior takes by itself: inducing points predict them as well, save and load to the bit, make
/// sets that hold, and say what they cannot.
#[test]
fn many_points_are_fitted_by_inducing_points() {
    let ((x, y), (x_new, y_new)) = (overlapping(1600, 1), overlapping(2000, 2));
    let mut model = with(|s| s.learn_points = 60);
    model.fit(x.as_ref(), &y).unwrap();
    let learned = model.learned().unwrap();
    assert!(learned.inducing > 20 && learned.posterior_converged, "{learned:?}");
    assert_eq!(model.progress.fraction(), 1.0);
    let probs = model.predict_proba(x_new.as_ref()).unwrap();
    // The classes overlap by a known law: the best there is.
    let density = |i: usize, c: usize| {
        let at = |j: usize| x_new[(i, j)] - if (c >> j) % 2 == 1 { 2.0 } else { 0.0 };
        (-0.5 * (at(0).powi(2) + at(1).powi(2))).exp()
    };
    let best = Mat::from_fn(2000, 4, |i, c| density(i, c) / (0..4).map(|c| density(i, c)).sum::<f64>());
    let (loss, least) = (log_loss(&probs, &y_new), log_loss(&best, &y_new));
    assert!(loss < least + 0.03, "{loss} {least}");
    let loo = model.leave_one_out().unwrap().unwrap();
    assert!((loo.log_loss - loss).abs() < 0.15, "{} {loss}", loo.log_loss);
    let sets = model.predict_set(x_new.as_ref(), 0.9).unwrap();
    let held = sets.iter().zip(&y_new).filter(|(set, y)| set.contains(y)).count() as f64 / 2000.0;
    assert!(held > 0.9 - 3.0 * (0.09f64 * (1.0 / 320.0 + 1.0 / 2000.0)).sqrt(), "{held}");
    let loaded = GpClassifier::from_bytes(&model.to_bytes().unwrap(), "many").unwrap();
    assert_eq!(loaded.predict_proba(x_new.as_ref()).unwrap(), probs);
    assert_eq!(loaded.leave_one_out().unwrap(), model.leave_one_out().unwrap());
    assert!(matches!(model.similarity(x_new.as_ref()), Err(Error::NeedsAllPoints { .. })));
    let mut damaged = model.to_bytes().unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    assert!(GpClassifier::from_bytes(&damaged, "damaged").unwrap_err().to_string().contains("checksum"));
}

#[test]
fn inducing_points_are_refused_where_there_are_none() {
    let (x, y) = clusters(1);
    let mut gaussian = with(|s| (s.likelihood, s.inducing) = (Likelihood::Gaussian, Some(10)));
    assert_eq!(gaussian.fit(x.as_ref(), &y).unwrap_err(), Error::NoInducing);
    let by_class = Kernel::new(Rbf).shape_per_class(3);
    let mut model = with(|s| (s.kernel, s.inducing, s.learn) = (Some(by_class), Some(10), false));
    assert_eq!(model.fit(x.as_ref(), &y).unwrap_err(), Error::PerClassKernel);
    let mut stopped = with(|s| s.inducing = Some(10));
    stopped.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(stopped.fit(x.as_ref(), &y).unwrap_err(), Error::Cancelled);
}

/// Points between the clusters and points never seen tell more than points in their middle, and a batch holds both kinds.
#[test]
fn the_points_to_label_next_are_those_that_are_not_known() {
    let (x, y) = clusters(1);
    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &y).unwrap();
    // Twice between two clusters, twice in the middle of one.
    let pool = Mat::from_fn(4, 2, |i, j| [[1.5, 0.0], [1.5, 0.1], [0.0, 0.0], [0.0, 30.0]][i][j]);
    for (name, by) in siskin_gp::active::Criterion::NAMED {
        let found = model.suggest(pool.as_ref(), 4, by).unwrap();
        assert_eq!(found.len(), 4, "{name}");
        if name != "variance" {
            assert!(found[0].row < 2, "{name}: {found:?}");
        }
        assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score), "{name}: {found:?}");
    }
    assert_eq!(
        GpClassifier::default().suggest(pool.as_ref(), 1, Default::default()).unwrap_err(),
        Error::NotFitted
    );
}
