//! `calibration.json`: reliability bins, ECE and MCE of `siskin-calib`.

use serde::Deserialize;
use siskin_calib::{Predictions, Reliability, top};

use super::report::{Case, Report};

#[derive(Deserialize)]
struct File {
    cases: Vec<Want>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Tol {
    abs: f64,
}

#[derive(Deserialize)]
struct Want {
    probs: Vec<Vec<f64>>,
    labels: Vec<usize>,
    n_bins: usize,
    ece: f64,
    mce: f64,
    bins: Vec<WantBin>,
}

#[derive(Deserialize)]
struct WantBin {
    bin: usize,
    count: usize,
    conf: f64,
    acc: f64,
}

pub(crate) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, want) in file.cases.iter().enumerate() {
        let name = format!("calibration {i} {} predictions, {} bins", want.labels.len(), want.n_bins);
        report.case(&name, |case| one(case, want, file.tol.abs));
    }
    Ok(())
}

fn one(case: &mut Case, want: &Want, tol: f64) {
    // The schema speaks of confidences alone: a row need not sum to 1 (a confidence of 0, which is in no bin, cannot).
    let (confidences, correct): (Vec<f64>, Vec<bool>) = want
        .probs
        .iter()
        .zip(&want.labels)
        .map(|(row, &label)| {
            let (class, confidence) = top(row);
            (confidence, class == label)
        })
        .unzip();
    let got = Reliability::of_confidences(&confidences, &correct, want.n_bins);
    let Some(got) = case.try_run("reliability", got) else { return };
    compare(case, want, &got, tol);
    let classes = want.probs.first().map_or(0, Vec::len);
    if let Ok(predictions) = Predictions::new(want.probs.concat(), want.labels.clone(), classes) {
        let got = Reliability::new(&predictions, want.n_bins);
        let Some(got) = case.try_run("reliability of predictions", got) else { return };
        compare(case, want, &got, tol);
    }
}

fn compare(case: &mut Case, want: &Want, got: &Reliability, tol: f64) {
    case.abs("ECE", &[got.ece()], &[want.ece], tol);
    case.abs("MCE", &[got.mce()], &[want.mce], tol);
    let filled = got.bins.iter().filter(|bin| bin.count > 0).count();
    case.abs("filled bins", &[filled as f64], &[want.bins.len() as f64], 0.5);
    for want in &want.bins {
        let Some(bin) = got.bins.get(want.bin) else {
            case.error("bin index", f64::NAN, tol);
            continue;
        };
        case.abs("count", &[bin.count as f64], &[want.count as f64], 0.5);
        case.abs("confidence", &[bin.confidence], &[want.conf], tol);
        case.abs("accuracy", &[bin.accuracy], &[want.acc], tol);
    }
}
