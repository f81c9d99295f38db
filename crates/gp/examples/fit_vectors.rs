//! A classifier from vectors: `cargo run --release -p siskin-gp --example fit_vectors`.
//!
//! Three noisy groups of points in the plane, 20 each. What is learned, what is predicted near them and far away, and how well each
//! point is predicted by the others.

use siskin_gp::Result;
use siskin_gp::classifier::GpClassifier;
use siskin_gp::faer::{Mat, mat};

fn main() -> Result<()> {
    let centres = [[0.0, 0.0], [2.0, 0.5], [0.5, 2.0]];
    // A fixed scatter: what counts is that points of a class differ.
    let scatter = |i: usize, j: usize| 0.8 * ((37 * i + 101 * j) as f64).sin();
    let x = Mat::from_fn(60, 2, |i, j| centres[i % 3][j] + scatter(i, j));
    let y: Vec<usize> = (0..60).map(|i| i % 3).collect();

    let mut model = GpClassifier::default();
    model.fit(x.as_ref(), &y)?;
    let learned = model.learned()?;
    println!("temperature {:.3}, prior mean {:.2}", learned.tau, learned.prior_mean);

    let at = model.predictions(mat![[0.0, 0.0], [1.0, 0.8], [50.0, 50.0]].as_ref())?;
    for i in 0..3 {
        let p: Vec<String> = (0..3).map(|c| format!("{:.2}", at.probs[(i, c)])).collect();
        println!("class {} of probabilities {}, entropy {:.2}", at.classes()[i], p.join(" "), at.entropy[i]);
    }
    Ok(())
}
