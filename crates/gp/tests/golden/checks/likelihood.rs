//! `likelihood.json`: logistic-softmax and softmax probabilities, and the limit of zero temperature.

use serde::Deserialize;
use siskin_gp::likelihoods::{logistic_softmax, softmax};

use super::arrays::Tol;
use super::report::Report;

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
    tau_to_zero_limit: Vec<Limit>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Case {
    f: Vec<f64>,
    tau: f64,
    p: Vec<f64>,
    logp: Vec<f64>,
    softmax: Vec<f64>,
}

#[derive(Deserialize)]
struct Limit {
    f: Vec<f64>,
    p: Vec<f64>,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, row) in file.cases.iter().enumerate() {
        report.case(&format!("likelihood {i} C={} tau={}", row.f.len(), row.tau), |case| {
            let log_p = case.try_run("log p", logistic_softmax::log_probs(&row.f, row.tau));
            let p = case.try_run("p", logistic_softmax::probs(&row.f, row.tau));
            let soft = case.try_run("softmax", softmax::probs(&row.f, row.tau));
            if let (Some(log_p), Some(p), Some(soft)) = (log_p, p, soft) {
                case.rel("p", &p, &row.p, file.tol.rel);
                case.rel("log p", &log_p, &row.logp, file.tol.rel);
                case.rel("softmax", &soft, &row.softmax, file.tol.rel);
            }
        });
    }
    for (i, row) in file.tau_to_zero_limit.iter().enumerate() {
        report.case(&format!("likelihood tau->0 {i} C={}", row.f.len()), |case| {
            if let Some(p) = case.try_run("p", logistic_softmax::probs_at_zero_temperature(&row.f)) {
                case.rel("p", &p, &row.p, file.tol.rel);
            }
        });
    }
    Ok(())
}
