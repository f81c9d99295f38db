//! `tight_bounds.json`, the direct bound: at the collapsed q(F), with gradients, and maximised over q(F).

use faer::Mat;
use serde::Deserialize;
use siskin_gp::Resolution;
use siskin_gp::equations::{direct, natural_bound};
use siskin_gp::inference::{NaturalOptions, Stop};

use super::arrays::{flat, matrix, tolerance};
use super::collapsed::Unrolled;
use super::problem::{DtauScale, Problem, Slope};
use super::report::{Case, Report};

#[derive(Deserialize)]
struct File {
    problems: Vec<Entry>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Tol {
    direct_abs: f64,
    direct_fine_abs: f64,
    grad_direct_rel: f64,
    grad_direct_fine_rel: f64,
    ascent_value_abs: f64,
    ascent_state_rel: f64,
    ascent_grad_rel: f64,
}

#[derive(Deserialize)]
struct Entry {
    problem: Problem,
    steps: Vec<Step>,
    gradients: Vec<Unrolled>,
    direct_ascent: Option<Ascent>,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Step {
    T: usize,
    direct: f64,
    #[serde(default)]
    float64_ref_err: StepErrors,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StepErrors {
    direct_standard: f64,
    direct_fine: f64,
}

#[derive(Deserialize)]
struct Ascent {
    converged: bool,
    value: f64,
    mu: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    w: Vec<Vec<f64>>,
    #[serde(flatten)]
    slope: Slope,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    let tol = &file.tol;
    for (i, entry) in file.problems.iter().enumerate() {
        let kind = &entry.problem.kind;
        for want in &entry.steps {
            report.case(&format!("tight_bounds {i} {kind} direct T={}", want.T), |case| {
                let Some(task) = case.try_run("task", entry.problem.task()) else { return };
                let err = &want.float64_ref_err;
                for (what, resolution, tol) in [
                    ("standard", Resolution::Standard, tolerance(tol.direct_abs, err.direct_standard)),
                    ("fine", Resolution::Fine, tolerance(tol.direct_fine_abs, err.direct_fine)),
                ] {
                    let Some(got) = case.try_run(what, direct(&task, Stop::Steps(want.T), resolution)) else {
                        return;
                    };
                    case.abs(what, &[got.value], &[want.direct], tol);
                }
            });
        }
        for want in entry.gradients.iter().filter(|g| g.objective == "direct") {
            for (resolution, value, slope) in [
                (Resolution::Standard, tol.direct_abs, tol.grad_direct_rel),
                (Resolution::Fine, tol.direct_fine_abs, tol.grad_direct_fine_rel),
            ] {
                report.case(
                    &format!("tight_bounds {i} {kind} direct gradient T={} {resolution:?}", want.T),
                    |case| {
                        let Some(task) = case.try_run("task", entry.problem.task()) else { return };
                        let Some(got) =
                            case.try_run("direct", direct(&task, Stop::Steps(want.T), resolution))
                        else {
                            return;
                        };
                        case.abs("value", &[got.value], &[want.value], value);
                        let got = (&got.dk[..], &got.da, got.dtau);
                        want.slope.compare(case, &task, got, slope, DtauScale::ThroughK);
                    },
                );
            }
        }
        if let Some(want) = entry.direct_ascent.as_ref().filter(|want| want.converged) {
            let name = format!("tight_bounds {i} {kind} direct ascent");
            report.case(&name, |case| ascent(case, &entry.problem, want, tol));
        }
    }
    Ok(())
}

fn ascent(case: &mut Case, problem: &Problem, want: &Ascent, tol: &Tol) {
    let Some(task) = case.try_run("task", problem.task()) else { return };
    let options = NaturalOptions {
        max_steps: 5000,
        tolerance: 1e-9,
        resolution: Resolution::Fine,
        ..NaturalOptions::default()
    };
    let Some((got, fit)) = case.try_run("ascent", natural_bound(&task, options)) else { return };
    case.holds("converged", fit.converged);
    case.abs("value", &[got.value], &[want.value], tol.ascent_value_abs);
    let (n, classes, tau) = (task.points(), task.classes(), task.tau());
    let state = |of: &dyn Fn(usize, usize) -> f64| flat(&Mat::from_fn(n, classes, of));
    let (mu, v) = (state(&|i, c| tau * fit.blocks[c].mu[i]), state(&|i, c| tau * tau * fit.blocks[c].v[i]));
    case.rel("mu", &mu, &flat(&matrix(&want.mu)), tol.ascent_state_rel);
    case.rel("v", &v, &flat(&matrix(&want.v)), tol.ascent_state_rel);
    let w = state(&|i, c| fit.blocks[c].w[i]);
    case.rel("w", &w, &flat(&matrix(&want.w)), tol.ascent_state_rel);
    let got = (&got.dk[..], &got.da, got.dtau);
    want.slope.compare(case, &task, got, tol.ascent_grad_rel, DtauScale::ThroughK);
}
