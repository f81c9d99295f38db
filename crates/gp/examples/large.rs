//! A classifier of many vectors, by inducing points: made rows of 384 numbers, classes around centres of their own.
//!
//! ```sh
//! cargo run --release -p siskin-gp --example large -- 100000 10      # rows, classes [, width [, inducing points]]
//! ```
//!
//! Prints the time of the fit and of as many predictions (with two threads; on Linux their CPU time too), and accuracy and log-loss of rows that were
//! not fitted.

use siskin_gp::classifier::GpClassifier;
use siskin_gp::faer::Mat;
use std::f64::consts::SQRT_2;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let mut next = |otherwise: usize| numbers.next().unwrap_or(Ok(otherwise));
    let (rows, classes, width) = (next(10_000)?, next(10)?, next(384)?);
    let inducing = next(0)?;
    let test = 2_000;
    let (x, y) = made(rows + test, classes, width);
    let mut model = GpClassifier::default();
    model.inducing = (inducing > 0).then_some(inducing);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    // From 0.6 on a fit knows its hyperparameters and seeks the posterior of all rows.
    let progress = model.progress.clone();
    let posterior = std::thread::spawn(move || {
        let reached = |part: f64| {
            while progress.fraction() < part {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        reached(0.6);
        let began = Clock::start();
        reached(1.0);
        began.text()
    });
    pool.install(|| -> Result<(), siskin_gp::Error> {
        let began = Clock::start();
        model.fit(x.as_ref().subrows(0, rows), &y[..rows])?;
        let fit = began.text();
        let began = Clock::start();
        let p = model.predict_proba(x.as_ref())?;
        let predict = began.text();
        let loss: f64 = (rows..rows + test).map(|i| -p[(i, y[i])].ln()).sum::<f64>() / test as f64;
        let right = (rows..rows + test).filter(|&i| (0..classes).all(|c| p[(i, c)] <= p[(i, y[i])])).count();
        let learned = model.learned()?;
        println!(
            "{rows} rows x {width}, {classes} classes, {} inducing points: fit {fit}, {} predictions {predict}",
            learned.inducing,
            rows + test
        );
        println!(
            "accuracy {:.4}, log-loss {loss:.4} (held out {:.4}); tau {:.3}, spread {}, {} evaluations, at rest: {}",
            right as f64 / test as f64,
            learned.held_out.unwrap_or(f64::NAN),
            learned.tau,
            learned.spread,
            learned.evaluations,
            learned.posterior_converged,
        );
        Ok(())
    })?;
    println!("of the fit, the posterior of all rows: {}", posterior.join().unwrap_or_default());
    Ok(())
}

/// Time since some moment.
struct Clock {
    began: Instant,
    cpu: Option<f64>,
}

impl Clock {
    fn start() -> Clock {
        Clock { began: Instant::now(), cpu: cpu_seconds() }
    }

    fn text(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu =
            cpu_seconds().zip(self.cpu).map(|(now, then)| format!(" ({:.1} s of CPU time)", now - then));
        format!("{seconds:.1} s{}", cpu.unwrap_or_default())
    }
}

/// CPU time of this process, where the system tells it as Linux does: in hundredths of a second.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// Rows of class `i % classes`: a centre, three directions in which the class spreads wide, and noise.
fn made(rows: usize, classes: usize, width: usize) -> (Mat<f64>, Vec<usize>) {
    // A small generator (xorshift) is enough to make rows.
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut normal = move || (0..6).map(|_| uniform()).sum::<f64>() * SQRT_2 - 3.0 * SQRT_2;
    let mut table = |rows: usize| Mat::from_fn(rows, width, |_, _| normal());
    let (centres, wide) = (table(classes), table(3 * classes));
    let (noise, along) = (table(rows), table(rows));
    let y: Vec<usize> = (0..rows).map(|i| i % classes).collect();
    let x = Mat::from_fn(rows, width, |i, j| {
        let spread: f64 = (0..3).map(|k| along[(i, k % width)] * wide[(3 * y[i] + k, j)]).sum();
        0.1 * centres[(y[i], j)] + 0.15 * spread + noise[(i, j)]
    });
    (x, y)
}
