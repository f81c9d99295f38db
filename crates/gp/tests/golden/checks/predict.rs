//! `predict.json`: class probabilities with derivatives, zero variances, and the latent predictive after joint sweeps.

use faer::Mat;
use serde::Deserialize;
use siskin_gp::equations::{Blocks, Predictive, Slope, Start, infer};
use siskin_gp::inference::Stop;
use siskin_gp::{Query, Resolution, Task};

use super::arrays::{flat, matrix, tolerance};
use super::problem::{matrices, order};
use super::report::{Case, Report};

#[derive(Deserialize)]
struct File {
    probabilities: Vec<Probabilities>,
    edge: Vec<Edge>,
    latent: Vec<LatentCase>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Tol {
    standard_abs: f64,
    fine_abs: f64,
    latent_rel: f64,
}

#[derive(Deserialize)]
struct Probabilities {
    m: Vec<f64>,
    s2: Vec<f64>,
    p: Vec<f64>,
    dp_dm: Vec<Vec<f64>>,
    dp_ds2: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Edge {
    m: Vec<f64>,
    s2: Vec<f64>,
    p: Vec<f64>,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct LatentCase {
    kind: String,
    K: Vec<Vec<Vec<f64>>>,
    Ks: Vec<Vec<Vec<f64>>>,
    kss: Vec<Vec<f64>>,
    y: Vec<usize>,
    a: f64,
    tau: f64,
    T: usize,
    order: String,
    mean_f: Vec<Vec<f64>>,
    var_f: Vec<Vec<f64>>,
    probs: Vec<Vec<f64>>,
    #[serde(default)]
    float64_ref_err: LatentErrors,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LatentErrors {
    mean: f64,
    var: f64,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    let rules = [(Resolution::Standard, file.tol.standard_abs), (Resolution::Fine, file.tol.fine_abs)];
    for (i, want) in file.probabilities.iter().enumerate() {
        for (resolution, tol) in rules {
            report.case(&format!("predict {i} C={} {resolution:?}", want.m.len()), |case| {
                let mut p = vec![0.0; want.m.len()];
                let mut rule = Predictive::new(resolution);
                if case.try_run("p", rule.probs(&want.m, &want.s2, &mut p)).is_some() {
                    case.abs("p", &p, &want.p, tol);
                }
                // Derivatives amplify the error of the rule; a loss that needs them takes the fine one.
                if resolution == Resolution::Fine {
                    slopes(case, &mut rule, want, tol);
                }
            });
        }
    }
    for (i, want) in file.edge.iter().enumerate() {
        for (resolution, tol) in rules {
            report.case(&format!("predict edge {i} {resolution:?}"), |case| {
                let mut p = vec![0.0; want.m.len()];
                if case.try_run("p", Predictive::new(resolution).probs(&want.m, &want.s2, &mut p)).is_some() {
                    case.abs("p", &p, &want.p, tol);
                }
            });
        }
    }
    for (i, want) in file.latent.iter().enumerate() {
        let name = format!("predict latent {i} {} tau={} a={}", want.kind, want.tau, want.a);
        report.case(&name, |case| latent(case, want, &file.tol));
    }
    Ok(())
}

/// The slopes of the probability of every class, one class at a time, as a loss on log p of a label takes them.
fn slopes(case: &mut Case, rule: &mut Predictive, want: &Probabilities, tol: f64) {
    let (mut p, mut dm, mut ds2) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..want.m.len() {
        let mut slope = Slope::default();
        let got = rule.prob_and_slope(&want.m, &want.s2, k, &mut slope);
        let Some(of_label) = case.try_run("p of a label", got) else { return };
        p.push(of_label);
        dm.extend(slope.dm);
        ds2.extend(slope.ds2);
    }
    case.abs("p of a label", &p, &want.p, tol);
    case.abs("dp/dm", &dm, &flat(&matrix(&want.dp_dm)), tol);
    case.abs("dp/ds2", &ds2, &flat(&matrix(&want.dp_ds2)), tol);
}

fn latent(case: &mut Case, want: &LatentCase, tol: &Tol) {
    let (queries, classes) = (want.mean_f.len(), want.K.len());
    let a = |rows: usize| Mat::from_fn(rows, classes, |_, _| want.a);
    let task = Task::new(matrices(&want.K), want.y.clone(), a(want.y.len()), want.tau);
    let Some(task) = case.try_run("task", task) else { return };
    let Some(order) = case.try_run("order", order(&want.order)) else { return };
    let fit = infer(&task, order, &Start::Prior, Stop::Steps(want.T));
    let Some(fit) = case.try_run("inference", fit) else { return };
    let posterior = Blocks::new(fit.blocks().iter().cloned(), want.tau);
    let Some(posterior) = case.try_run("posterior", posterior) else { return };
    let own = Mat::from_fn(queries, classes, |q, c| want.kss[c][q]);
    let got = posterior.latent(&Query { ks: matrices(&want.Ks), kss: own, astar: a(queries) });
    let Some(got) = case.try_run("latent", got) else { return };
    let err = &want.float64_ref_err;
    case.rel("mean", &flat(&got.mean), &flat(&matrix(&want.mean_f)), tolerance(tol.latent_rel, err.mean));
    case.rel("variance", &flat(&got.var), &flat(&matrix(&want.var_f)), tolerance(tol.latent_rel, err.var));
    for (resolution, tol) in [(Resolution::Standard, tol.standard_abs), (Resolution::Fine, tol.fine_abs)] {
        if let Some(p) = case.try_run("probabilities", got.probs(resolution)) {
            case.abs("probabilities", &flat(&p), &flat(&matrix(&want.probs)), tol);
        }
    }
}
