//! The times the crate promises, beside their limits, on one thread: `cargo run --release -p siskin-gp --example speed`.
//!
//! CPU time where the system tells it (Linux), else wall time; the least of some batches, so that other programs count little.

use std::time::{Duration, Instant};

use faer::Mat;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use siskin_gp::inference::{
    Chains, GibbsSampler, Inference, NaturalOptions, SampledLikelihood, Stop, Updates,
};
use siskin_gp::kernels::{Cosine, Kernel};
use siskin_gp::objective::Objective;
use siskin_gp::{Hyper, Resolution, Result, Support};

/// A 5-way episode: clustered non-negative features of 64 numbers, class after class.
struct Episode {
    x: Mat<f64>,
    y: Vec<usize>,
    queries: Mat<f64>,
}

impl Episode {
    fn new(points: usize, queries: usize) -> Self {
        let (classes, dim) = (5, 64);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let centres = Mat::from_fn(classes, dim, |_, _| normal());
        let mut draw =
            |n: usize| Mat::from_fn(n, dim, |i, j| (centres[(i * classes / n, j)] + 1.5 * normal()).max(0.0));
        let (x, queries) = (draw(points), draw(queries.max(classes)));
        Episode { x, y: (0..points).map(|i| i * classes / points).collect(), queries }
    }

    fn objective(&self, hyper: &Hyper, objective: &Objective) -> Result<f64> {
        Ok(objective.value_and_gradient(&self.support(hyper)?)?.value)
    }

    fn support(&self, hyper: &Hyper) -> Result<Support> {
        Support::new(self.x.as_ref(), &self.y, hyper.prior(5))
    }

    fn adapt(&self, hyper: &Hyper, inference: Inference) -> Result<f64> {
        Ok(inference.posterior(&self.support(hyper)?.task()?)?.bound)
    }
}

fn hyper(tau: f64, mean: f64) -> Hyper {
    Hyper { kernel: Kernel::new(Cosine).scale_per_class(5), mean, tau }
}

/// Nanoseconds this thread has computed for.
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// Milliseconds of one call: the least mean of five batches of at least 150 ms.
fn milliseconds(mut call: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let (start, wall, mut calls) = (cpu_time(), Instant::now(), 0);
        loop {
            std::hint::black_box(call()?);
            calls += 1;
            let spent = match (start, cpu_time()) {
                (Some(start), Some(now)) => now.saturating_sub(start),
                _ => wall.elapsed(),
            };
            if spent > Duration::from_millis(150) {
                best = best.min(1e3 * spent.as_secs_f64() / f64::from(calls));
                break;
            }
        }
    }
    Ok(best)
}

/// Times what its names contain; all if there are none.
struct Lines {
    only: Vec<String>,
}

impl Lines {
    /// One line: milliseconds, the limit if there is one, what it is.
    fn line(&self, what: &str, limit: Option<f64>, call: &mut dyn FnMut() -> Result<f64>) -> Result<()> {
        if !self.only.is_empty() && !self.only.iter().any(|word| what.contains(word.as_str())) {
            return Ok(());
        }
        let ms = milliseconds(call)?;
        let limit = limit.map_or_else(String::new, |limit| format!("{limit:8.1}"));
        println!("{ms:8.2} {limit:>8}  {what}");
        Ok(())
    }

    fn mean_field(&self) -> Result<()> {
        let cold = hyper(0.2, 0.0);
        for (points, limit) in [(85, 5.0), (105, 9.0)] {
            let episode = Episode::new(points, 0);
            for (name, objective) in [
                ("joint", Objective::Elbo { order: Updates::Joint, kind: Updates::Joint, steps: 2 }),
                ("collapsed", Objective::Collapsed(Stop::Steps(2))),
            ] {
                let what = format!("objective and gradient, {name}, N = {points}, T = 2");
                self.line(&what, Some(limit), &mut || episode.objective(&cold, &objective))?;
            }
        }
        for (points, limit) in [(5, 1.0), (25, 5.0)] {
            let episode = Episode::new(points, 75);
            for order in [Updates::Joint, Updates::Collapsed] {
                let inference = Inference::MeanField { order, stop: Stop::Steps(30) };
                let what = format!("30 sweeps, {order:?}, {points} points");
                self.line(&what, Some(limit), &mut || episode.adapt(&cold, inference))?;
            }
        }
        Ok(())
    }

    fn direct_and_natural(&self) -> Result<()> {
        let (cold, training) = (hyper(0.2, 0.0), Episode::new(85, 0));
        for (resolution, limit) in
            [(Resolution::Fast, None), (Resolution::Standard, Some(8.0)), (Resolution::Fine, None)]
        {
            let objective = Objective::Direct { steps: 2, resolution };
            let what = format!("direct bound and gradient, N = 85, {resolution:?}");
            self.line(&what, limit, &mut || training.objective(&cold, &objective))?;
        }
        for mean in [0.0, -5.0] {
            let options = NaturalOptions {
                max_steps: 8,
                tolerance: 0.0,
                resolution: Resolution::Fast,
                ..NaturalOptions::default()
            };
            let hyper = hyper(0.2, mean);
            let what = format!("natural bound and gradient, N = 85, 8 steps, Fast, a = {mean}");
            self.line(&what, None, &mut || training.objective(&hyper, &Objective::Natural(options)))?;
        }
        Ok(())
    }

    fn predictions(&self) -> Result<()> {
        for points in [5, 25] {
            let episode = Episode::new(points, 75);
            for mean in [0.0, -5.0] {
                let hyper = hyper(0.2, mean);
                let options = NaturalOptions { max_steps: 30, ..NaturalOptions::default() };
                let what = format!("natural, {points} points, at most 30 steps, a = {mean}");
                self.line(&what, None, &mut || episode.adapt(&hyper, Inference::Natural(options)))?;
            }
            let inference = Inference::MeanField { order: Updates::Joint, stop: Stop::Steps(2) };
            let support = episode.support(&hyper(0.2, 0.0))?;
            let posterior = inference.posterior(&support.task()?)?;
            let what = format!("probabilities of 75 queries from {points} points");
            self.line(&what, Some(20.0), &mut || {
                Ok(posterior.probs(&support.query(episode.queries.as_ref())?, Resolution::Standard)?[(0, 0)])
            })?;
        }
        Ok(())
    }

    fn gibbs(&self) -> Result<()> {
        let (warm, training) = (hyper(1.0, 0.0), Episode::new(85, 0));
        for (likelihood, limit) in
            [(SampledLikelihood::LogisticSoftmax, 550.0), (SampledLikelihood::OneVsEach, 450.0)]
        {
            let chains = |sweeps| Chains { chains: 20, sweeps, seed: 1 };
            let sampler = GibbsSampler { likelihood, chains: chains(1), released: false };
            let ml = Objective::SampledMarginal(sampler);
            let what = format!("Gibbs, {likelihood:?}, ML, N = 85");
            self.line(&what, Some(limit), &mut || training.objective(&warm, &ml))?;
            let support = (0..5).map(|c| 17 * c).collect();
            let pl = Objective::SampledPredictive { sampler, support };
            let what = format!("Gibbs, {likelihood:?}, PL, N = 5 + 80");
            self.line(&what, Some(limit), &mut || training.objective(&warm, &pl))?;
            let episode = Episode::new(25, 75);
            let long = GibbsSampler { chains: chains(50), ..sampler };
            let what = format!("Gibbs, {likelihood:?}, test: 25 points, 50 sweeps, 75 queries");
            self.line(&what, None, &mut || {
                let support = episode.support(&warm)?;
                let sampled = Inference::Gibbs(long).posterior(&support.task()?)?;
                Ok(sampled.published_probs(&support.query(episode.queries.as_ref())?)?[(0, 0)])
            })?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    siskin_gp::keep_freed_memory();
    let lines = Lines { only: std::env::args().skip(1).collect() };
    println!("      ms    limit");
    lines.mean_field()?;
    lines.direct_and_natural()?;
    lines.predictions()?;
    lines.gibbs()
}
