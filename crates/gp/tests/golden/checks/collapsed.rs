//! `tight_bounds.json`, the collapsed family: states and bounds after T sweeps, and gradients through them.

use serde::Deserialize;
use siskin_gp::equations::{Start, bound, infer};
use siskin_gp::inference::{Stop, Updates};

use super::arrays::{flat, matrix, tolerance};
use super::problem::{DtauScale, Problem, Slope};
use super::report::{Case, Report};

#[derive(Deserialize)]
struct File {
    problems: Vec<Entry>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Tol {
    state_rel: f64,
    collapsed_rel: f64,
    grad_collapsed_rel: f64,
}

#[derive(Deserialize)]
struct Entry {
    problem: Problem,
    steps: Vec<Step>,
    gradients: Vec<Unrolled>,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Step {
    T: usize,
    mu: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    gamma: Vec<Vec<f64>>,
    w: Vec<Vec<f64>>,
    kl: f64,
    collapsed: f64,
    paper_family: f64,
    #[serde(default)]
    float64_ref_err: StepErrors,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StepErrors {
    mu: f64,
    v: f64,
    gamma: f64,
    w: f64,
    collapsed: f64,
}

/// The gradient of either objective of `tight_bounds.json`.
#[derive(Deserialize)]
#[allow(non_snake_case)]
pub(super) struct Unrolled {
    pub T: usize,
    pub objective: String,
    pub value: f64,
    #[serde(flatten)]
    pub slope: Slope,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, entry) in file.problems.iter().enumerate() {
        let kind = &entry.problem.kind;
        for want in &entry.steps {
            let name = format!("tight_bounds {i} {kind} collapsed T={}", want.T);
            report.case(&name, |case| state(case, &entry.problem, want, &file.tol));
        }
        for want in entry.gradients.iter().filter(|g| g.objective == "collapsed") {
            let name = format!("tight_bounds {i} {kind} collapsed gradient T={}", want.T);
            report.case(&name, |case| gradient(case, &entry.problem, want, &file.tol));
        }
    }
    Ok(())
}

fn state(case: &mut Case, problem: &Problem, want: &Step, tol: &Tol) {
    let Some(task) = case.try_run("task", problem.task()) else { return };
    let fit = infer(&task, Updates::Collapsed, &Start::Prior, Stop::Steps(want.T));
    let Some(got) = case.try_run("inference", fit) else { return };
    let (sites, err) = (got.local(), &want.float64_ref_err);
    case.rel("mu", &flat(&got.mu_f()), &flat(&matrix(&want.mu)), tolerance(tol.state_rel, err.mu));
    case.rel("v", &flat(&got.v_f()), &flat(&matrix(&want.v)), tolerance(tol.state_rel, err.v));
    case.rel("gamma", &flat(&sites.gamma), &flat(&matrix(&want.gamma)), tolerance(tol.state_rel, err.gamma));
    case.rel("w", &flat(&sites.w), &flat(&matrix(&want.w)), tolerance(tol.state_rel, err.w));
    let tol = tolerance(tol.collapsed_rel, err.collapsed);
    case.rel1("KL", got.kl(), want.kl, tol);
    case.rel1("collapsed bound", got.trace[want.T - 1], want.collapsed, tol);
    let family = bound(&task, Updates::Joint, Updates::Collapsed, &Start::Prior, Stop::Steps(want.T));
    let Some(family) = case.try_run("paper family", family) else { return };
    case.rel1("paper family", family.value, want.paper_family, tol);
}

fn gradient(case: &mut Case, problem: &Problem, want: &Unrolled, tol: &Tol) {
    let Some(task) = case.try_run("task", problem.task()) else { return };
    let got = bound(&task, Updates::Collapsed, Updates::Collapsed, &Start::Prior, Stop::Steps(want.T));
    let Some(got) = case.try_run("gradient", got) else { return };
    case.rel1("value", got.value, want.value, tol.collapsed_rel);
    let got = (&got.dk[..], &got.da, got.dtau);
    want.slope.compare(case, &task, got, tol.grad_collapsed_rel, DtauScale::ThroughK);
}
