//! Against the exact posterior, and what must not depend on anything.

use super::*;
use crate::classifier::GpClassifier;
use crate::inference::natural::{NaturalOptions, natural};
use crate::kernels::{Rbf, TwoScale};
use crate::posterior::Blocks;
use crate::support::Support;
use std::f64::consts::TAU;

/// Points around centres of their own class in the plane, by sines: `spread` is how far they scatter.
fn clumps(n: usize, classes: usize, spread: f64) -> (Mat<f64>, Vec<usize>) {
    let y: Vec<usize> = (0..n).map(|i| i % classes).collect();
    let wave = |i: usize, j: usize| ((i * 2 + j) as f64 * 12.9898).sin() * 43_758.545;
    let x = Mat::from_fn(n, 2, |i, j| {
        let angle = y[i] as f64 * TAU / classes as f64 + if j == 0 { 0.0 } else { 0.25 * TAU };
        2.0 * angle.cos() + spread * ((wave(i, j) - wave(i, j).floor()) - 0.5)
    });
    (x, y)
}

fn job<'a>(points: Labelled<'a>, z: &'a Mat<f64>, hyper: &'a Hyper, cancelled: &'a AtomicBool) -> Job<'a> {
    let (leading, on_round) = (z.nrows(), &|_, _| {});
    Job { points, classes: 3, z, hyper, leading, rest: 1e-7, cancelled, on_round }
}

fn labelled<'a>(x: &'a Mat<f64>, y: &'a [usize]) -> Labelled<'a> {
    Labelled { x: x.as_ref(), drawn: Drawn::One(y), weights: None }
}

#[test]
fn with_every_point_inducing_it_is_the_exact_posterior() {
    let (x, y) = clumps(40, 3, 3.0);
    let kernel = Kernel::new(Rbf).with_shapes(&[1.3]).unwrap().with_scale(2.0).unwrap();
    let hyper = Hyper { kernel, mean: -2.0, tau: 0.6 };
    let support = Support::new(x.as_ref(), &y, hyper.prior(3)).unwrap();
    let task = support.task().unwrap();
    let exact = natural(&task.standardise(), NaturalOptions::default()).unwrap();
    let bound = exact.bound();
    let blocks = Blocks::new(exact.blocks, hyper.tau).unwrap();
    let cancelled = AtomicBool::new(false);
    let done = job(labelled(&x, &y), &x, &hyper, &cancelled).run(None).unwrap();
    // The bound of the exact posterior is the best there is.
    assert!(done.bound <= bound + 1e-3 && done.bound > bound - 2e-3, "{} {bound}", done.bound);
    let (query, _) = clumps(30, 5, 5.0);
    let want = blocks.latent(&support.query(query.as_ref()).unwrap()).unwrap();
    let got = done.classifier().latent(query.as_ref()).unwrap();
    assert!((&got.mean - &want.mean).norm_max() < 2e-2, "{}", (&got.mean - &want.mean).norm_max());
    assert!((&got.var - &want.var).norm_max() < 2e-2, "{}", (&got.var - &want.var).norm_max());
}

#[test]
fn fewer_inducing_points_and_fewer_leading_features_lower_the_bound() {
    let (x, y) = clumps(60, 3, 3.0);
    let hyper = Hyper { kernel: Kernel::new(Rbf), mean: -2.0, tau: 0.6 };
    let cancelled = AtomicBool::new(false);
    let points = labelled(&x, &y);
    let bound = |count: usize, leading: usize| {
        let z = x.subrows(0, count).to_owned();
        Job { leading, ..job(points, &z, &hyper, &cancelled) }.run(None).unwrap().bound
    };
    let (all, some, few) = (bound(60, 60), bound(12, 12), bound(6, 6));
    assert!(all > some && some > few, "{all} {some} {few}");
    let diagonal = bound(60, 5);
    assert!(diagonal < all && diagonal > all - 3.0, "{diagonal} {all}");
}

#[test]
fn a_fit_may_start_where_another_ended() {
    let (x, y) = clumps(60, 3, 3.0);
    let kernel = Kernel::new(TwoScale).with_shapes(&[1.0, 3.0, 4.0]).unwrap();
    let [warm, hot] = [0.5, 0.8].map(|tau| Hyper { kernel: kernel.clone(), mean: -2.0, tau });
    let cancelled = AtomicBool::new(false);
    let z = x.subrows(0, 20).to_owned();
    let few = (x.subrows(0, 30).to_owned(), y[..30].to_vec());
    let first = job(labelled(&few.0, &few.1), &z, &warm, &cancelled).run(None).unwrap();
    let points = labelled(&x, &y);
    let cold = job(points, &z, &hot, &cancelled).run(None).unwrap();
    let from = job(points, &z, &hot, &cancelled).run(Some(&first)).unwrap();
    assert!((cold.bound - from.bound).abs() < 2e-3, "{} {}", cold.bound, from.bound);
    cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(job(points, &z, &hot, &cancelled).run(None), Err(Error::Cancelled)));
}

#[test]
fn the_answer_is_the_same_at_any_number_of_threads_and_in_any_order_of_rows() {
    let (x, y) = clumps(400, 4, 4.0);
    let (query, _) = clumps(50, 4, 6.0);
    let fit = |x: &Mat<f64>, y: &[usize], threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut model = GpClassifier { inducing: Some(40), learn_points: 60, ..GpClassifier::default() };
            model.fit(x.as_ref(), y).unwrap();
            assert!((20..=40).contains(&model.learned().unwrap().inducing));
            model.predict_proba(query.as_ref()).unwrap()
        })
    };
    let first = fit(&x, &y, 1);
    assert_eq!(first, fit(&x, &y, 3));
    let turned = Mat::from_fn(400, 2, |i, j| x[((i * 7) % 400, j)]);
    let labels: Vec<usize> = (0..400).map(|i| y[(i * 7) % 400]).collect();
    assert_eq!(first, fit(&turned, &labels, 1));
}

/// Where the prior mean is deep, `E log Z` is taken by a looser bound. Fits by it and by quadrature predict new points alike: the log-losses
/// differ by less than 0.01 nats, at temperatures from mild to sharp.
#[test]
fn the_tilted_bound_hardly_changes_what_is_predicted() {
    let (x, y) = clumps(90, 3, 5.0);
    let (held, labels) = clumps(300, 3, 5.0);
    let kernel = Kernel::new(Rbf).with_shapes(&[1.3]).unwrap().with_scale(1.0).unwrap();
    let cancelled = AtomicBool::new(false);
    for tau in [0.5, 0.2] {
        let hyper = Hyper { kernel: kernel.clone(), mean: -8.0, tau };
        let job = job(labelled(&x, &y), &x, &hyper, &cancelled);
        let unit = vec![1.0 / tau; 3];
        assert_eq!(job.integrals(&unit).unwrap(), Integrals::Tilted);
        let tilted = job.run(None).unwrap();
        let basis = Basis::new(&hyper.kernel, tilted.z.as_ref()).unwrap();
        let how = (tilted.z.nrows(), Integrals::Quadrature);
        let rows = Rows::new(&basis, job.points, (unit.clone(), hyper.mean / tau), how, &cancelled).unwrap();
        let found = ascend(&rows, Weights::prior(&rows), 1e-7, &|_, _| {}).unwrap();
        let exact = Done {
            z: tilted.z.clone(),
            prior: hyper.prior(3),
            basis,
            weights: found.weights,
            unit,
            rows: 90,
            bound: found.bound,
            converged: found.converged,
        };
        // The looser bound is a bound: never above the other.
        assert!(tilted.bound <= exact.bound + 1e-3, "{} {}", tilted.bound, exact.bound);
        let [loss, best] = [&tilted, &exact].map(|done| {
            let latent = done.classifier().latent(held.as_ref()).unwrap();
            let p = latent.probs(crate::quadrature::Resolution::Fast).unwrap();
            labels.iter().enumerate().map(|(i, &c)| -p[(i, c)].ln()).sum::<f64>() / 300.0
        });
        println!(
            "tau {tau}: log-loss {loss:.4} by the tilted bound, {best:.4} by quadrature; bounds {:.2} {:.2}",
            tilted.bound, exact.bound
        );
        assert!((loss - best).abs() < 0.01, "{loss} {best}");
    }
}
