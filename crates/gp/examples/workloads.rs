//! Small fixed pieces of work of the Gaussian process, for profilers and for the check of instruction counts:
//!
//! ```text
//! cargo run --release -p siskin-gp --example workloads                  # CPU milliseconds of each
//! valgrind --tool=callgrind TARGET/release/examples/workloads evidence-20-way 1
//! ```
//!
//! A name runs one of them alone, a number after it so many times. The same work on every machine, on one thread.

use faer::Mat;
use siskin_gp::inference::{Inference, NaturalOptions, Stop, Updates};
use siskin_gp::kernels::{Cosine, Kernel, Rbf};
use siskin_gp::objective::Objective;
use siskin_gp::{Hyper, Resolution, Support};
use std::error::Error;

/// Features of a class under noise, by a formula that every machine rounds alike; class by class, the support first.
fn features(way: usize, each: usize, dim: usize) -> Mat<f64> {
    let number = |i: usize, step: usize| ((i + 1) * step % 2003) as f64 / 1001.5 - 1.0;
    Mat::from_fn(way * each, dim, |row, d| {
        let class = number(row / each * dim + d, 7919).max(0.0);
        class + 0.35 * number(row * dim + d, 3571).abs()
    })
}

struct Shape {
    way: usize,
    shot: usize,
    query: usize,
}

impl Shape {
    fn labels(&self) -> Vec<usize> {
        (0..self.way * (self.shot + self.query)).map(|row| row / (self.shot + self.query)).collect()
    }

    fn support_rows(&self) -> Vec<usize> {
        let each = self.shot + self.query;
        (0..self.way * each).filter(|row| row % each < self.shot).collect()
    }

    /// All rows of the episode, or those given.
    fn points(&self, hyper: &Hyper, rows: Option<&[usize]>) -> siskin_gp::Result<Support> {
        let (all, labels) = (features(self.way, self.shot + self.query, 64), self.labels());
        match rows {
            None => Support::new(all.as_ref(), &labels, hyper.prior(self.way)),
            Some(rows) => {
                let chosen = Mat::from_fn(rows.len(), all.ncols(), |i, d| all[(rows[i], d)]);
                let labels: Vec<usize> = rows.iter().map(|&row| labels[row]).collect();
                Support::new(chosen.as_ref(), &labels, hyper.prior(self.way))
            }
        }
    }
}

/// The evidence phase of `configs/omniglot.toml`: 8 natural-gradient steps on all rows.
fn evidence(shape: &Shape) -> siskin_gp::Result<f64> {
    let hyper = Hyper { kernel: Kernel::new(Cosine).with_scale(2.0)?, mean: 0.0, tau: 0.2 };
    let options = NaturalOptions { max_steps: 8, tolerance: 0.0, ..NaturalOptions::default() };
    Ok(Objective::Natural(options).value_and_gradient(&shape.points(&hyper, None)?)?.value)
}

fn trained() -> siskin_gp::Result<Hyper> {
    let kernel = Kernel::new(Rbf).normalised().with_shapes(&[0.6])?.with_scale(12.0)?;
    Ok(Hyper { kernel, mean: -2.5, tau: 0.2 })
}

/// Its prediction phase: five joint sweeps on the support, log p of the queries.
fn prediction(shape: &Shape) -> siskin_gp::Result<f64> {
    let objective = Objective::Predictive {
        order: Updates::Joint,
        stop: Stop::Steps(5),
        support: shape.support_rows(),
        resolution: Resolution::Learning,
    };
    Ok(objective.value_and_gradient(&shape.points(&trained()?, None)?)?.value)
}

/// Inference at test and the probabilities of the queries.
fn answers(shape: &Shape) -> siskin_gp::Result<f64> {
    let (hyper, rows) = (trained()?, shape.support_rows());
    let support = shape.points(&hyper, Some(&rows))?;
    let options = NaturalOptions { max_steps: 30, ..NaturalOptions::default() };
    let posterior = Inference::Natural(options).posterior(&support.task()?)?;
    let others: Vec<usize> = (0..shape.labels().len()).filter(|row| !rows.contains(row)).collect();
    let all = features(shape.way, shape.shot + shape.query, 64);
    let rows = Mat::from_fn(others.len(), all.ncols(), |i, d| all[(others[i], d)]);
    let query = support.query(rows.as_ref())?;
    let p = posterior.probs(&query, Resolution::Standard)?;
    Ok((0..p.nrows()).map(|i| p[(i, 0)]).sum())
}

type Work = (&'static str, fn() -> siskin_gp::Result<f64>);

const WORK: [Work; 6] = [
    ("evidence-5-way", || evidence(&Shape { way: 5, shot: 1, query: 16 })),
    ("evidence-20-way", || evidence(&Shape { way: 20, shot: 1, query: 4 })),
    ("prediction-5-way", || prediction(&Shape { way: 5, shot: 1, query: 16 })),
    ("prediction-20-way", || prediction(&Shape { way: 20, shot: 1, query: 4 })),
    ("answers-5-way", || answers(&Shape { way: 5, shot: 5, query: 15 })),
    ("answers-20-way", || answers(&Shape { way: 20, shot: 1, query: 15 })),
];

/// Nanoseconds that this thread has run on a core (Linux).
fn cpu_time() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("no times in schedstat")?.parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (name, times) = (args.next(), args.next().map_or(Ok(100), |times| times.parse::<usize>())?);
    for (work, run) in WORK.into_iter().filter(|(work, _)| name.as_deref().is_none_or(|name| name == *work)) {
        let (mut value, start) = (0.0, cpu_time()?);
        for _ in 0..times {
            value = run()?;
        }
        // The system counts in ticks of milliseconds: many runs, and their mean.
        println!("{work}: {:.2} CPU ms; value {value}", (cpu_time()? - start) * 1e-6 / times as f64);
    }
    Ok(())
}
