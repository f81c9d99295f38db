//! `meanfield.json`: states and bounds after T sweeps in each order.

use serde::Deserialize;
use siskin_gp::equations::{bound, infer};
use siskin_gp::inference::{Stop, Updates};

use super::arrays::{flat, matrix, tolerance};
use super::problem::{Problem, Suite, order};
use super::report::{Case, Report};

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Want {
    order: String,
    init: String,
    T: usize,
    mu: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    alpha: Vec<f64>,
    gamma: Vec<Vec<f64>>,
    omega: Vec<Vec<f64>>,
    tilt: Vec<Vec<f64>>,
    kl: f64,
    elbo_general: f64,
    elbo_profiled: f64,
    elbo_paper: f64,
    #[serde(default)]
    float64_ref_err: Errors,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Errors {
    mu: f64,
    v: f64,
    alpha: f64,
    gamma: f64,
    omega: f64,
    elbo: f64,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: Suite<Want> = serde_json::from_str(text)?;
    for (i, entry) in file.problems.iter().enumerate() {
        for want in &entry.cases {
            let kind = &entry.problem.kind;
            let name = format!("meanfield {i} {kind} {} {} T={}", want.order, want.init, want.T);
            report.case(&name, |case| one(case, &entry.problem, want, file.tol.rel));
        }
    }
    Ok(())
}

fn one(case: &mut Case, problem: &Problem, want: &Want, tol: f64) {
    let Some(task) = case.try_run("task", problem.task()) else { return };
    let Some(order) = case.try_run("order", order(&want.order)) else { return };
    let Some(start) = case.try_run("start", problem.start(&want.init)) else { return };
    let Some(got) = case.try_run("inference", infer(&task, order, &start, Stop::Steps(want.T))) else {
        return;
    };
    let (sites, err) = (got.local(), &want.float64_ref_err);
    case.rel("mu", &flat(&got.mu_f()), &flat(&matrix(&want.mu)), tolerance(tol, err.mu));
    case.rel("v", &flat(&got.v_f()), &flat(&matrix(&want.v)), tolerance(tol, err.v));
    case.rel("alpha", &sites.alpha, &want.alpha, tolerance(tol, err.alpha));
    case.rel("gamma", &flat(&sites.gamma), &flat(&matrix(&want.gamma)), tolerance(tol, err.gamma));
    case.rel("omega", &flat(&sites.w), &flat(&matrix(&want.omega)), tolerance(tol, err.omega));
    case.rel("tilt", &flat(&sites.tilt), &flat(&matrix(&want.tilt)), tolerance(tol, err.mu.max(err.v)));
    case.rel1("KL", got.kl(), want.kl, tolerance(tol, err.elbo));
    for (what, kind, value) in [
        ("ELBO general", Updates::Exact, want.elbo_general),
        ("ELBO profiled", Updates::Joint, want.elbo_profiled),
        ("ELBO paper", Updates::Paper, want.elbo_paper),
    ] {
        let Some(got) = case.try_run(what, bound(&task, kind, order, &start, Stop::Steps(want.T))) else {
            return;
        };
        case.rel1(what, got.value, value, tolerance(tol, err.elbo));
    }
}
