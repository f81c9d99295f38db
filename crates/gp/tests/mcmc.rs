//! Every inference against elliptical slice sampling on small few-shot tasks, within the errors measured for such tasks.

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use siskin_gp::gibbs::{Chains, LogisticSoftmaxGibbs, OneVsEachGibbs};
use siskin_gp::inference::{NaturalOptions, Order, Start, Stop, infer, natural};
use siskin_gp::likelihoods::{logistic_softmax, one_vs_each, softmax};
use siskin_gp::ove::OveMeanField;
use siskin_gp::predict::Posterior;
use siskin_gp::quadrature::Precision;
use siskin_gp::{Query, Task};

/// A task of noisy clusters under the cosine kernel: N support points and 20 queries.
struct Problem {
    task: Task,
    query: Query,
    /// Kernel of support and queries together, [N + 20, N + 20], and the prior mean.
    joint: Mat<f64>,
    a: f64,
}

const QUERIES: usize = 20;

/// Few-shot tasks: `way` classes with `shot` examples each, output scale `scale`.
fn problem(way: usize, shot: usize, scale: f64, tau: f64, a: f64) -> Problem {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (n, d) = (way * shot, 8);
    let total = n + QUERIES;
    let label = |i: usize| i % way;
    let centre = Mat::from_fn(way, d, |_, _| rng.sample::<f64, _>(StandardNormal).abs());
    let z = Mat::from_fn(total, d, |i, j| {
        (centre[(label(i), j)] + 0.7 * rng.sample::<f64, _>(StandardNormal)).max(0.0) + 0.01
    });
    let norm: Vec<f64> = (0..total).map(|i| z.row(i).norm_l2()).collect();
    let gram = &z * z.transpose();
    let joint = Mat::from_fn(total, total, |i, j| scale * gram[(i, j)] / (norm[i] * norm[j]));
    let k = Mat::from_fn(n, n, |i, j| joint[(i, j)]);
    let ks = Mat::from_fn(n, QUERIES, |i, q| joint[(i, n + q)]);
    let fill = |rows: usize, value: f64| Mat::from_fn(rows, way, |_, _| value);
    let task = Task::new(vec![k; way], (0..n).map(label).collect(), fill(n, a), tau).unwrap();
    let query = Query { ks: vec![ks; way], kss: fill(QUERIES, scale), astar: fill(QUERIES, a) };
    Problem { task, query, joint, a }
}

/// Mean class probabilities of the queries over an elliptical slice chain (Murray, Adams and MacKay 2010).
fn truth(p: &Problem, sweeps: usize) -> Mat<f64> {
    let likelihood = |f: &[f64], y: usize| logistic_softmax::log_probs(f, p.task.tau()).unwrap()[y];
    slice_chain(p, sweeps, likelihood, |f| logistic_softmax::probs(f, p.task.tau()).unwrap())
}

/// The mean of `wanted` at the queries over a chain with the given log-likelihood.
fn slice_chain(
    p: &Problem,
    sweeps: usize,
    likelihood: impl Fn(&[f64], usize) -> f64,
    wanted: impl Fn(&[f64]) -> Vec<f64>,
) -> Mat<f64> {
    let (n, total, classes) = (p.task.points(), p.joint.nrows(), p.task.classes());
    let eigen = p.joint.self_adjoint_eigen(faer::Side::Lower).unwrap();
    let (u, lambda) = (eigen.U(), eigen.S().column_vector());
    let root = Mat::from_fn(total, total, |i, j| u[(i, j)] * lambda[j].max(0.0).sqrt());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let draw = |rng: &mut ChaCha8Rng| {
        &root * Mat::from_fn(total, classes, |_, _| rng.sample::<f64, _>(StandardNormal))
    };
    let row = |f: &Mat<f64>, i: usize| (0..classes).map(|c| p.a + f[(i, c)]).collect::<Vec<f64>>();
    let log_lik = |f: &Mat<f64>| -> f64 { (0..n).map(|i| likelihood(&row(f, i), p.task.y()[i])).sum() };
    let mut f = draw(&mut rng);
    let mut current = log_lik(&f);
    let mut probs = Mat::<f64>::zeros(QUERIES, classes);
    let warm = sweeps / 10;
    for sweep in 0..sweeps + warm {
        let nu = draw(&mut rng);
        let level = current + rng.random::<f64>().ln();
        let mut angle = rng.random_range(0.0..std::f64::consts::TAU);
        let (mut low, mut high) = (angle - std::f64::consts::TAU, angle);
        loop {
            let trial = &f * faer::Scale(angle.cos()) + &nu * faer::Scale(angle.sin());
            let value = log_lik(&trial);
            if value > level {
                (f, current) = (trial, value);
                break;
            }
            if angle < 0.0 {
                low = angle;
            } else {
                high = angle;
            }
            angle = rng.random_range(low..high);
        }
        if sweep >= warm {
            for q in 0..QUERIES {
                let at = wanted(&row(&f, n + q));
                at.into_iter().enumerate().for_each(|(c, p)| probs[(q, c)] += p / sweeps as f64);
            }
        }
    }
    probs
}

fn mean_field(p: &Problem, order: Order) -> Mat<f64> {
    let fit = infer(&p.task, order, &Start::Prior, Stop::Tolerance { tol: 1e-7, max_steps: 5000 }).unwrap();
    probabilities(p, Posterior::new(fit.blocks().iter().cloned(), p.task.tau()).unwrap())
}

fn direct(p: &Problem) -> Mat<f64> {
    let options = NaturalOptions { max_steps: 300, tolerance: 1e-6, precision: Precision::Standard };
    let fit = natural(&p.task.standardise(), options).unwrap();
    probabilities(p, Posterior::new(fit.blocks, p.task.tau()).unwrap())
}

fn gibbs(p: &Problem, chains: usize, sweeps: usize) -> Mat<f64> {
    let run = LogisticSoftmaxGibbs::run(&p.task, &Chains { chains, sweeps, seed: 2 }).unwrap();
    run.probabilities(&p.query, Precision::Fast).unwrap()
}

fn probabilities(p: &Problem, posterior: Posterior) -> Mat<f64> {
    let latent = posterior.latent(&p.query.ks, &p.query.kss, &p.query.astar).unwrap();
    latent.probs(Precision::Standard).unwrap()
}

/// Mean over the queries of `KL(truth || other)`.
fn divergence(truth: &Mat<f64>, other: &Mat<f64>) -> f64 {
    let term = |q: usize, c: usize| truth[(q, c)] * (truth[(q, c)] / other[(q, c)]).ln();
    (0..QUERIES).map(|q| (0..truth.ncols()).map(|c| term(q, c)).sum::<f64>()).sum::<f64>() / QUERIES as f64
}

fn largest_difference(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    (a - b).norm_max()
}

fn confidence(p: &Mat<f64>) -> f64 {
    (0..QUERIES).map(|q| (0..p.ncols()).map(|c| p[(q, c)]).fold(0.0, f64::max)).sum::<f64>() / QUERIES as f64
}

#[test]
fn at_temperature_one_all_methods_are_close() {
    let p = problem(5, 1, 0.69, 1.0, 0.0);
    let exact = truth(&p, 30_000);
    // Mean field is off by 0.001 to 0.005 here, the chain's own error is some 0.003.
    for order in [Order::Paper, Order::Joint, Order::Collapsed] {
        let d = largest_difference(&exact, &mean_field(&p, order));
        assert!(d < 0.008, "{order:?}: {d}");
    }
    let d = largest_difference(&exact, &direct(&p));
    assert!(d < 0.006, "direct: {d}");
    let d = largest_difference(&exact, &gibbs(&p, 400, 15));
    assert!(d < 0.01, "Gibbs: {d}");
}

#[test]
fn at_low_temperature_mean_field_is_under_confident_and_the_direct_bound_is_not() {
    let p = problem(5, 1, 0.69, 0.2, 0.0);
    let exact = truth(&p, 30_000);
    let (joint, direct) = (mean_field(&p, Order::Joint), direct(&p));
    let d = largest_difference(&exact, &joint);
    assert!(d < 0.035, "joint: {d}");
    assert!(divergence(&exact, &direct) < 3e-4, "direct: {}", divergence(&exact, &direct));
    assert!(confidence(&joint) < confidence(&exact));
    let d = largest_difference(&exact, &gibbs(&p, 300, 20));
    assert!(d < 0.025, "Gibbs: {d}");
}

#[test]
fn with_a_negative_mean_mean_field_is_over_confident_and_the_direct_bound_stays_close() {
    let p = problem(5, 1, 0.69, 0.2, -5.0);
    let exact = truth(&p, 30_000);
    let direct = divergence(&exact, &direct(&p));
    assert!(direct < 0.004, "direct: {direct}");
    for order in [Order::Joint, Order::Collapsed] {
        let q = mean_field(&p, order);
        let d = divergence(&exact, &q);
        assert!(d > 20.0 * direct, "{order:?}: {d}, direct {direct}");
        assert!(confidence(&q) > confidence(&exact) + 0.1);
    }
}

/// 3-way 2-shot, N = 6. Mean field there is off by up to 0.024, the chain by up to 0.03 at this prior mean.
#[test]
fn three_ways_two_shots_at_temperature_one_with_a_negative_mean() {
    let p = problem(3, 2, 0.69, 1.0, -5.0);
    let exact = truth(&p, 40_000);
    for order in [Order::Paper, Order::Joint, Order::Collapsed] {
        let d = largest_difference(&exact, &mean_field(&p, order));
        assert!(d < 0.054, "{order:?}: {d}");
    }
    let d = divergence(&exact, &direct(&p));
    assert!(d < 0.001, "direct: {d}");
}

/// 2-way 3-shot at a large output scale: mean field is under-confident by up to 0.26, the direct bound diverges by 0.0006.
#[test]
fn two_ways_three_shots_with_a_large_scale() {
    let p = problem(2, 3, 5.0, 0.2, 0.0);
    let exact = truth(&p, 40_000);
    for order in [Order::Joint, Order::Collapsed] {
        let q = mean_field(&p, order);
        let d = largest_difference(&exact, &q);
        assert!(d < 0.26 && confidence(&q) < confidence(&exact), "{order:?}: {d}");
    }
    let d = divergence(&exact, &direct(&p));
    assert!(d < 0.002, "direct: {d}");
    // A chain's own prediction is off by some 0.4 here: 0.01 in the mean of 1500. The sampler mixes slowly at this scale:
    // after 25 sweeps from the prior it is still off by 0.055.
    let d = largest_difference(&exact, &gibbs(&p, 1500, 150));
    assert!(d < 0.04, "Gibbs: {d}");
}

/// 3-way 2-shot at tau = 0.5, a = -5: mean field is over-confident by up to 0.34, the direct bound diverges by 0.0001.
#[test]
fn three_ways_two_shots_at_a_middle_temperature() {
    let p = problem(3, 2, 0.69, 0.5, -5.0);
    let exact = truth(&p, 40_000);
    let direct = divergence(&exact, &direct(&p));
    assert!(direct < 0.002, "direct: {direct}");
    for order in [Order::Joint, Order::Collapsed] {
        let q = mean_field(&p, order);
        let d = largest_difference(&exact, &q);
        assert!(d < 0.37 && divergence(&exact, &q) > 10.0 * direct, "{order:?}: {d}");
        assert!(confidence(&q) > confidence(&exact));
    }
}

/// One-vs-each: the score of a query is the posterior mean of its log-likelihood.
#[test]
fn one_vs_each_by_gibbs_and_mean_field() {
    let p = problem(3, 2, 0.69, 1.0, 0.0);
    let all = |f: &[f64]| (0..3).map(|k| one_vs_each::log_likelihood(f, k).unwrap()).collect::<Vec<_>>();
    let exact = slice_chain(&p, 40_000, |f, y| all(f)[y], all);
    let run = OneVsEachGibbs::run(&p.task, &Chains { chains: 400, sweeps: 15, seed: 2 }).unwrap();
    let d = largest_difference(&exact, &run.scores(&p.query).unwrap());
    assert!(d < 0.05, "Gibbs: {d}");
    let fit = OveMeanField::new(&p.task, 2000, 1e-10).unwrap();
    let at = fit.predict(&p.query.ks, &p.query.kss, &p.query.astar).unwrap();
    let probs = fit.published_probabilities(&at).unwrap();
    let row = |q: usize| (0..3).map(|c| exact[(q, c)]).collect::<Vec<_>>();
    for q in 0..QUERIES {
        for (c, want) in softmax::probs(&row(q), 1.0).unwrap().into_iter().enumerate() {
            assert!((probs[(q, c)] - want).abs() < 0.02, "query {q}: {} and {want}", probs[(q, c)]);
        }
    }
}
