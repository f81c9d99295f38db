//! `gradients.json`: the bounds and their gradients through T sweeps.

use serde::Deserialize;
use siskin_gp::equations::bound;
use siskin_gp::inference::{Stop, Updates};

use super::arrays::tolerance;
use super::problem::{DtauScale, Problem, Slope, Suite, order};
use super::report::{Case, Report};

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Want {
    order: String,
    elbo: String,
    init: String,
    T: usize,
    L: f64,
    #[serde(flatten)]
    slope: Slope,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: Suite<Want> = serde_json::from_str(text)?;
    for (i, entry) in file.problems.iter().enumerate() {
        for want in &entry.cases {
            let kind = &entry.problem.kind;
            let name =
                format!("gradients {i} {kind} {} {} {} T={}", want.order, want.elbo, want.init, want.T);
            report.case(&name, |case| one(case, &entry.problem, want, file.tol.rel));
        }
    }
    Ok(())
}

fn one(case: &mut Case, problem: &Problem, want: &Want, tol: f64) {
    let Some(task) = case.try_run("task", problem.task()) else { return };
    let Some(order) = case.try_run("order", order(&want.order)) else { return };
    let Some(start) = case.try_run("start", problem.start(&want.init)) else { return };
    let kind = match want.elbo.as_str() {
        "general" => Ok(Updates::Exact),
        "profiled" => Ok(Updates::Joint),
        "paper" => Ok(Updates::Paper),
        other => Err(format!("unknown kind of ELBO `{other}`")),
    };
    let Some(kind) = case.try_run("kind", kind) else { return };
    let Some(got) = case.try_run("gradient", bound(&task, kind, order, &start, Stop::Steps(want.T))) else {
        return;
    };
    case.rel1("L", got.value, want.L, tolerance(tol, want.slope.float64_ref_err.L));
    want.slope.compare(case, &task, (&got.dk, &got.da, got.dtau), tol, DtauScale::Own);
}
