//! Every inference against elliptical slice sampling on small few-shot tasks.
//!
//! Each setting is tried on tasks of the seeds 0, 1, 2, ...; the median and the 90 % quantile of the errors over these tasks have
//! bounds. No task is chosen. The bounds are above what was measured on these tasks by a tenth to a half.

mod chain;

use chain::{Likelihood, Problem, QUERIES, Truth, confidence, problem};
use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use siskin_gp::Resolution;
use siskin_gp::equations::{
    Blocks, Laplace, LogisticSoftmaxGibbs, Natural, OneVsEachGibbs, OveMeanField, Start, infer, natural,
};
use siskin_gp::inference::{Chains, NaturalOptions, Stop, Updates};
use siskin_gp::likelihoods::softmax;

fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

struct LogisticSoftmax;

impl Likelihood for LogisticSoftmax {
    fn wanted(&self, x: &mut [f64]) {
        x.iter_mut().for_each(|x| *x = sigma(*x));
        let z: f64 = x.iter().sum();
        x.iter_mut().for_each(|x| *x /= z);
    }

    fn log(&self, x: &[f64], y: usize) -> f64 {
        (sigma(x[y]) / x.iter().map(|&x| sigma(x)).sum::<f64>()).ln()
    }
}

struct Softmax;

impl Likelihood for Softmax {
    fn wanted(&self, x: &mut [f64]) {
        x.iter_mut().for_each(|x| *x = x.exp());
        let z: f64 = x.iter().sum();
        x.iter_mut().for_each(|x| *x /= z);
    }

    fn log(&self, x: &[f64], y: usize) -> f64 {
        x[y] - x.iter().map(|x| x.exp()).sum::<f64>().ln()
    }
}

/// The score of a query is the posterior mean of its log-likelihood.
struct OneVsEach;

impl Likelihood for OneVsEach {
    fn wanted(&self, x: &mut [f64]) {
        let score: Vec<f64> = (0..x.len()).map(|y| self.log(x, y)).collect();
        x.copy_from_slice(&score);
    }

    fn log(&self, x: &[f64], y: usize) -> f64 {
        (0..x.len()).filter(|&c| c != y).map(|c| sigma(x[y] - x[c]).ln()).sum()
    }
}

fn mean_field(p: &Problem, order: Updates) -> Mat<f64> {
    let fit = infer(&p.task, order, &Start::Prior, Stop::Tolerance { tol: 1e-7, max_steps: 5000 }).unwrap();
    assert!(fit.converged, "{order:?}: {}", fit.change);
    probabilities(p, Blocks::new(fit.blocks().iter().cloned(), p.task.tau()).unwrap())
}

fn direct(p: &Problem) -> Natural {
    let options = NaturalOptions {
        max_steps: 300,
        tolerance: 1e-6,
        resolution: Resolution::Standard,
        ..NaturalOptions::default()
    };
    let fit = natural(&p.task.standardise(), options).unwrap();
    assert!(fit.converged, "{}", fit.residual);
    fit
}

fn probabilities(p: &Problem, posterior: Blocks) -> Mat<f64> {
    let latent = posterior.latent(&p.query).unwrap();
    latent.probs(Resolution::Standard).unwrap()
}

/// Tasks of a setting; their seeds are 0, 1, 2, ...
const TASKS: u64 = 16;

/// Sorted values of the tasks of a setting.
struct Spread(Vec<f64>);

impl Spread {
    fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Spread(values)
    }

    /// The value that this share of the tasks does not exceed.
    fn quantile(&self, share: f64) -> f64 {
        self.0[(share * self.0.len() as f64).ceil() as usize - 1]
    }

    fn check(&self, what: &str, most: Most) {
        let (median, high) = (self.quantile(0.5), self.quantile(0.9));
        let (least, largest) = (self.0[0], self.0[self.0.len() - 1]);
        println!("{what}: least {least:.5}, median {median:.5}, 90 % {high:.5}, largest {largest:.5}");
        assert!(median < most.median, "{what}: median {median}");
        assert!(high < most.high, "{what}: 90 % of the tasks are below {high}");
    }
}

/// What an error may be at most, in half and in 90 % of the tasks.
#[derive(Clone, Copy)]
struct Most {
    median: f64,
    high: f64,
}

/// How the mean confidence of mean field compares with the truth.
enum Confidence {
    Under,
    Close,
    Over,
}

/// Tasks of one kind, and how far inference is from their truth.
struct Setting {
    way: usize,
    shot: usize,
    scale: f64,
    tau: f64,
    /// Prior mean.
    a: f64,
    /// Sweeps of each of the two chains.
    sweeps: usize,
    /// Largest error of a probability by any order of mean field, beyond that of the chains.
    mean_field: Most,
    /// Mean divergence of the direct optimum, less that of the chains' noise.
    direct: Most,
    confidence: Confidence,
}

impl Setting {
    fn check(&self) {
        let (mut mean_field_errors, mut divergences, mut confidences) = (vec![], vec![], vec![]);
        for seed in 0..TASKS {
            let p = problem(seed, self.way, self.shot, self.scale, self.tau, self.a);
            let fit = direct(&p);
            let w = Mat::from_fn(p.task.points(), p.task.classes(), |i, c| fit.blocks[c].w[i]);
            let truth = Truth::new(&p, (&fit.b, &w), self.sweeps, &LogisticSoftmax);
            let best = probabilities(&p, Blocks::new(fit.blocks, p.task.tau()).unwrap());
            // Chains of noise s^2 diverge from each other by that of 2 s^2; their mean has s^2 / 2, a quarter.
            divergences.push(truth.divergence(&best) - 0.25 * truth.divergence_error());
            for order in [Updates::Paper, Updates::Exact, Updates::Joint, Updates::Collapsed] {
                let q = mean_field(&p, order);
                mean_field_errors.push(truth.largest_difference(&q) - truth.largest_error());
                confidences.push(confidence(&q) - confidence(&truth.mean));
            }
        }
        Spread::new(mean_field_errors).check("mean field", self.mean_field);
        Spread::new(divergences).check("direct", self.direct);
        let sure = Spread::new(confidences);
        let (low, high) = (sure.quantile(0.1), sure.quantile(0.9));
        println!("confidence of mean field beyond the truth: 10 % {low:.4}, 90 % {high:.4}");
        match self.confidence {
            Confidence::Under => assert!(high < 0.0, "{high}"),
            Confidence::Close => assert!(low > -0.02 && high < 0.02, "{low} {high}"),
            Confidence::Over => assert!(low > 0.0, "{low}"),
        }
    }
}

/// The spread of what `error` gives over the first tasks of a kind: (way, shot), output scale 0.69, prior mean 0.
fn over_tasks((way, shot): (usize, usize), tau: f64, error: impl Fn(&Problem) -> f64) -> Spread {
    Spread::new((0..TASKS / 2).map(|seed| error(&problem(seed, way, shot, 0.69, tau, 0.0))).collect())
}

/// The exact answers of a task, by chains about the prior.
fn truth(p: &Problem, sweeps: usize, likelihood: &impl Likelihood) -> Truth {
    let none = Mat::zeros(p.task.points(), p.task.classes());
    Truth::new(p, (&none, &none), sweeps, likelihood)
}

#[test]
fn logistic_softmax_by_gibbs() {
    for (tau, most) in
        [(1.0, Most { median: 0.0025, high: 0.0035 }), (0.2, Most { median: 0.01, high: 0.013 })]
    {
        let spread = over_tasks((5, 1), tau, |p| {
            let truth = truth(p, 20_000, &LogisticSoftmax);
            let run =
                LogisticSoftmaxGibbs::run(&p.task, &Chains { chains: 300, sweeps: 20, seed: 2 }).unwrap();
            let q = run.probabilities(&p.query, Resolution::Fast).unwrap();
            truth.largest_difference(&q)
        });
        spread.check(&format!("Gibbs at tau {tau}"), most);
    }
}

#[test]
fn at_temperature_one_one_shot_is_close() {
    Setting {
        way: 5,
        shot: 1,
        scale: 0.69,
        tau: 1.0,
        a: 0.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.001, high: 0.002 },
        direct: Most { median: 1e-5, high: 2e-5 },
        confidence: Confidence::Close,
    }
    .check();
}

#[test]
fn at_temperature_one_five_shots_are_close() {
    Setting {
        way: 5,
        shot: 5,
        scale: 0.69,
        tau: 1.0,
        a: 0.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.005, high: 0.007 },
        direct: Most { median: 1e-5, high: 2e-5 },
        confidence: Confidence::Close,
    }
    .check();
}

#[test]
fn one_shot_at_low_temperature_mean_field_is_under_confident() {
    Setting {
        way: 5,
        shot: 1,
        scale: 0.69,
        tau: 0.2,
        a: 0.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.015, high: 0.02 },
        direct: Most { median: 2e-5, high: 5e-5 },
        confidence: Confidence::Under,
    }
    .check();
}

#[test]
fn five_shots_at_low_temperature() {
    Setting {
        way: 5,
        shot: 5,
        scale: 0.69,
        tau: 0.2,
        a: 0.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.12, high: 0.18 },
        direct: Most { median: 2.5e-4, high: 6e-4 },
        confidence: Confidence::Under,
    }
    .check();
}

#[test]
fn five_shots_with_a_large_scale() {
    Setting {
        way: 5,
        shot: 5,
        scale: 5.0,
        tau: 0.2,
        a: 0.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.22, high: 0.27 },
        direct: Most { median: 0.001, high: 0.0018 },
        confidence: Confidence::Under,
    }
    .check();
}

#[test]
fn one_shot_with_a_negative_mean_mean_field_is_over_confident() {
    Setting {
        way: 5,
        shot: 1,
        scale: 0.69,
        tau: 0.2,
        a: -5.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.47, high: 0.5 },
        direct: Most { median: 5e-4, high: 9e-4 },
        confidence: Confidence::Over,
    }
    .check();
}

#[test]
fn five_shots_with_a_negative_mean() {
    Setting {
        way: 5,
        shot: 5,
        scale: 0.69,
        tau: 0.2,
        a: -5.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.47, high: 0.52 },
        direct: Most { median: 0.0012, high: 0.0022 },
        confidence: Confidence::Over,
    }
    .check();
}

#[test]
fn five_shots_with_a_negative_mean_and_a_large_scale() {
    Setting {
        way: 5,
        shot: 5,
        scale: 5.0,
        tau: 0.2,
        a: -5.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.2, high: 0.27 },
        direct: Most { median: 0.015, high: 0.02 },
        confidence: Confidence::Over,
    }
    .check();
}

#[test]
fn five_shots_at_a_middle_temperature() {
    Setting {
        way: 5,
        shot: 5,
        scale: 0.69,
        tau: 0.5,
        a: -5.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.4, high: 0.42 },
        direct: Most { median: 5e-5, high: 1e-4 },
        confidence: Confidence::Over,
    }
    .check();
}

#[test]
fn three_ways_two_shots_at_temperature_one_with_a_negative_mean() {
    Setting {
        way: 3,
        shot: 2,
        scale: 0.69,
        tau: 1.0,
        a: -5.0,
        sweeps: 10_000,
        mean_field: Most { median: 0.045, high: 0.07 },
        direct: Most { median: 1e-5, high: 3e-5 },
        confidence: Confidence::Over,
    }
    .check();
}

#[test]
fn one_vs_each_by_gibbs_and_mean_field() {
    let by_gibbs = over_tasks((3, 2), 1.0, |p| {
        let truth = truth(p, 20_000, &OneVsEach);
        let run = OneVsEachGibbs::run(&p.task, &Chains { chains: 400, sweeps: 15, seed: 2 }).unwrap();
        truth.largest_difference(&run.scores(&p.query).unwrap())
    });
    by_gibbs.check("scores by Gibbs", Most { median: 0.045, high: 0.08 });
    let by_mean_field = over_tasks((3, 2), 1.0, |p| {
        let truth = truth(p, 20_000, &OneVsEach);
        let fit = OveMeanField::new(&p.task, 2000, 1e-10).unwrap();
        assert!(fit.converged);
        let probs = fit.published_probabilities(&fit.latent(&p.query).unwrap()).unwrap();
        (softmax_rows(&truth.mean) - probs).norm_max()
    });
    by_mean_field.check("probabilities by mean field", Most { median: 0.02, high: 0.026 });
}

#[test]
fn softmax_by_laplace() {
    for (shot, most) in [(1, Most { median: 0.009, high: 0.011 }), (5, Most { median: 0.025, high: 0.03 })] {
        let spread = over_tasks((5, shot), 1.0, |p| {
            let truth = truth(p, 20_000, &Softmax);
            let fit = Laplace::new(&p.task, 100).unwrap();
            assert!(fit.converged);
            let at = fit.latent(&p.query).unwrap();
            truth.largest_difference(&expected_softmax(&at.mean, &at.cov))
        });
        spread.check(&format!("Laplace, {shot} shots"), most);
    }
}

/// `E softmax(x)`, `x ~ N(mean, cov)` of each query, by 2,000 draws and their mirror images.
fn expected_softmax(mean: &Mat<f64>, cov: &[Mat<f64>]) -> Mat<f64> {
    let (classes, draws) = (mean.ncols(), 2000);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut total = Mat::zeros(QUERIES, classes);
    for (q, cov) in cov.iter().enumerate() {
        let eigen = cov.self_adjoint_eigen(faer::Side::Lower).unwrap();
        let root = Mat::from_fn(classes, classes, |i, j| {
            eigen.U()[(i, j)] * eigen.S().column_vector()[j].max(0.0).sqrt()
        });
        for _ in 0..draws {
            let shift = &root * Mat::from_fn(classes, 1, |_, _| rng.sample::<f64, _>(StandardNormal));
            for sign in [1.0, -1.0] {
                let mut x: Vec<f64> = (0..classes).map(|c| mean[(q, c)] + sign * shift[(c, 0)]).collect();
                Softmax.wanted(&mut x);
                x.iter().enumerate().for_each(|(c, p)| total[(q, c)] += 0.5 * p / f64::from(draws));
            }
        }
    }
    total
}

fn softmax_rows(x: &Mat<f64>) -> Mat<f64> {
    let row = |q: usize| softmax::probs(&(0..x.ncols()).map(|c| x[(q, c)]).collect::<Vec<_>>(), 1.0).unwrap();
    let rows: Vec<Vec<f64>> = (0..QUERIES).map(row).collect();
    Mat::from_fn(QUERIES, x.ncols(), |q, c| rows[q][c])
}
