//! `pl_gradient.json` and the `pl` part of `tight_bounds.json`: the predictive likelihood and its gradient.

use serde::Deserialize;
use siskin_gp::equations::{Blocks, Start, infer, predictive};
use siskin_gp::inference::{Stop, Updates};
use siskin_gp::posterior::Latent;
use siskin_gp::{Labelled, Query, QueryGradient, Resolution, Task};

use super::arrays::{Tol, flat, flat_all, matrix};
use super::problem::{DtauScale, Problem, Slope, matrices};
use super::report::{Case, Report};

/// A task and its queries.
#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Episode {
    #[serde(flatten)]
    problem: Problem,
    Ks: Vec<Vec<Vec<f64>>>,
    kss: Vec<Vec<f64>>,
    ystar: Vec<usize>,
    astar: Vec<Vec<f64>>,
}

impl Episode {
    fn query(&self) -> Query {
        Query {
            ks: matrices(&self.Ks),
            kss: matrix(&self.kss).transpose().to_owned(),
            astar: matrix(&self.astar),
        }
    }

    fn loss(&self, task: &Task, order: Updates, steps: usize) -> siskin_gp::Result<QueryGradient> {
        let (query, y) = (&self.query(), &self.ystar[..]);
        predictive(task, Labelled { query, y }, order, &Start::Prior, Stop::Steps(steps), Resolution::Fine)
    }
}

/// A gradient by all that the loss depends on.
#[derive(Deserialize)]
#[allow(non_snake_case)]
struct QuerySlope {
    #[serde(flatten)]
    slope: Slope,
    #[serde(alias = "Ksbar")]
    dKs: Vec<Vec<Vec<f64>>>,
    #[serde(alias = "kssbar")]
    dkss: Vec<Vec<f64>>,
    #[serde(alias = "astarbar")]
    dastar: Vec<Vec<f64>>,
}

impl QuerySlope {
    fn compare(&self, case: &mut Case, task: &Task, got: &QueryGradient, tol: f64) {
        self.slope.compare(case, task, (&got.dk, &got.da, got.dtau), tol, DtauScale::ThroughK);
        case.rel("dKs", &flat_all(&got.dks), &flat_all(&matrices(&self.dKs)), tol);
        let kss = got.dkss.transpose().to_owned();
        case.rel("dkss", &flat(&kss), &flat(&matrix(&self.dkss)), tol);
        case.rel("dastar", &flat(&got.dastar), &flat(&matrix(&self.dastar)), tol);
    }
}

#[derive(Deserialize)]
struct File {
    cases: Vec<Want>,
    tol: Tol,
}

/// In x-units, order joint.
#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Want {
    T: usize,
    #[serde(flatten)]
    episode: Episode,
    value: f64,
    #[serde(flatten)]
    slope: QuerySlope,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, want) in file.cases.iter().enumerate() {
        let problem = &want.episode.problem;
        report.case(&format!("pl_gradient {i} {} T={}", problem.kind, want.T), |case| {
            let Some(task) = case.try_run("task", problem.task()) else { return };
            let got = want.episode.loss(&task, Updates::Joint, want.T);
            let Some(got) = case.try_run("predictive likelihood", got) else { return };
            case.rel1("value", got.value, want.value, file.tol.rel);
            want.slope.compare(case, &task, &got, file.tol.rel);
        });
    }
    Ok(())
}

#[derive(Deserialize)]
struct TightFile {
    pl: Tight,
    tol: TightTol,
}

#[derive(Deserialize)]
struct Tight {
    problem: Episode,
    cases: Vec<TightWant>,
}

#[derive(Deserialize)]
struct TightTol {
    state_rel: f64,
    pl_value_abs: f64,
    pl_grad_rel: f64,
}

/// In f-units, order collapsed.
#[derive(Deserialize)]
#[allow(non_snake_case)]
struct TightWant {
    T: usize,
    value: f64,
    probs: Vec<Vec<f64>>,
    latent_mean: Vec<Vec<f64>>,
    latent_var: Vec<Vec<f64>>,
    #[serde(flatten)]
    slope: QuerySlope,
}

/// The probabilities of `predict.json` by the fine rule are held to this.
const PROBS_ABS: f64 = 1e-10;

pub(super) fn check_tight(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let TightFile { pl: Tight { problem: episode, cases }, tol } = serde_json::from_str(text)?;
    for want in &cases {
        report.case(&format!("tight_bounds predictive likelihood T={}", want.T), |case| {
            let Some(task) = case.try_run("task", episode.problem.task()) else { return };
            let got = episode.loss(&task, Updates::Collapsed, want.T);
            let Some(got) = case.try_run("predictive likelihood", got) else { return };
            case.abs("value", &[got.value], &[want.value], tol.pl_value_abs);
            want.slope.compare(case, &task, &got, tol.pl_grad_rel);
            let Some(got) = case.try_run("latent", latent(&task, &episode.query(), want.T)) else { return };
            case.rel("latent mean", &flat(&got.mean), &flat(&matrix(&want.latent_mean)), tol.state_rel);
            case.rel("latent var", &flat(&got.var), &flat(&matrix(&want.latent_var)), tol.state_rel);
            let Some(p) = case.try_run("probabilities", got.probs(Resolution::Fine)) else { return };
            case.abs("probabilities", &flat(&p), &flat(&matrix(&want.probs)), PROBS_ABS);
        });
    }
    Ok(())
}

/// The latent functions at the queries after collapsed sweeps.
fn latent(task: &Task, query: &Query, steps: usize) -> siskin_gp::Result<Latent> {
    let fit = infer(task, Updates::Collapsed, &Start::Prior, Stop::Steps(steps))?;
    Blocks::new(fit.blocks().iter().cloned(), task.tau())?.latent(query)
}
