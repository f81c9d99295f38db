//! Fits and scores a classifier on a CSV file: `cargo run --release -p siskin-gp --example digits -- FILE`.
//!
//! Each line is `split,label,v1,v2,...` with split `train` or `test`. Prints one JSON line: log-loss, accuracy and seconds.

use std::process::ExitCode;
use std::time::Instant;

use faer::Mat;
use siskin_gp::classifier::{EvidenceBound, GpClassifier};

/// Labels and rows of one split.
type Split = (Vec<usize>, Vec<Vec<f64>>);

fn main() -> ExitCode {
    match run() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: digits FILE [direct] [fit-only]")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let (train_y, train_x) = split(&text, "train")?;
    let (test_y, test_x) = split(&text, "test")?;
    let mut model = GpClassifier::default();
    let mut fit_only = false;
    for option in arguments {
        match option.as_str() {
            "direct" => model.bound = EvidenceBound::Direct,
            "fit-only" => fit_only = true,
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    let started = Instant::now();
    model.fit(matrix(&train_x).as_ref(), &train_y).map_err(|error| error.to_string())?;
    let fit_seconds = started.elapsed().as_secs_f64();
    if fit_only {
        return Ok(format!("{{\"fit_seconds\": {fit_seconds}}}"));
    }
    let started = Instant::now();
    let at = model.predictions(matrix(&test_x).as_ref()).map_err(|error| error.to_string())?;
    let predict_seconds = started.elapsed().as_secs_f64();
    let n = test_y.len() as f64;
    let log_loss = -test_y.iter().enumerate().map(|(i, &y)| at.probs[(i, y)].ln()).sum::<f64>() / n;
    let correct = at.classes().iter().zip(&test_y).filter(|(a, b)| a == b).count() as f64;
    let learned = model.learned().map_err(|error| error.to_string())?;
    let lengthscale = model.fitted_kernel().map_err(|error| error.to_string())?.shapes()[0];
    Ok(format!(
        "{{\"log_loss\": {log_loss}, \"accuracy\": {}, \"fit_seconds\": {fit_seconds}, \
         \"predict_seconds\": {predict_seconds}, \"tau\": {}, \"prior_mean\": {}, \"lengthscale\": {lengthscale}, \"bound\": {}, \
         \"evaluations\": {}, \"converged\": {}, \"inner_converged\": {}}}",
        correct / n,
        learned.tau,
        learned.prior_mean,
        learned.bound,
        learned.evaluations,
        learned.converged,
        learned.inner_converged
    ))
}

fn split(text: &str, name: &str) -> Result<Split, String> {
    let (mut labels, mut rows) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let mut fields = line.split(',');
        if fields.next() != Some(name) {
            continue;
        }
        let bad = |what: &str| format!("line {}: {what}", number + 1);
        labels.push(fields.next().and_then(|f| f.parse().ok()).ok_or_else(|| bad("no label"))?);
        let row: Result<Vec<f64>, _> = fields.map(str::parse).collect();
        rows.push(row.map_err(|error| bad(&error.to_string()))?);
    }
    let width = rows.first().map_or(0, Vec::len);
    if width == 0 || rows.iter().any(|row| row.len() != width) {
        return Err(format!("split `{name}` is empty or its rows differ in length"));
    }
    Ok((labels, rows))
}

fn matrix(rows: &[Vec<f64>]) -> Mat<f64> {
    Mat::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}
