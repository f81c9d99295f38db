//! `pl_gradient.json` and the `pl` part of `tight_bounds.json`: the predictive likelihood and its gradient.

use serde::Deserialize;
use siskin_gp::inference::{Order, Start};
use siskin_gp::objective::predictive;
use siskin_gp::quadrature::Precision;
use siskin_gp::{Query, Task};

use crate::problem::{dtau_scale, matrices};
use crate::report::{Report, flat, flat_all, matrix};

#[derive(Deserialize)]
struct File {
    cases: Vec<Want>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Tol {
    rel: f64,
}

/// In x-units, order joint.
#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Want {
    kind: String,
    T: usize,
    #[serde(flatten)]
    episode: Episode,
    value: f64,
    Kbar: Vec<Vec<Vec<f64>>>,
    abar: Vec<Vec<f64>>,
    Ksbar: Vec<Vec<Vec<f64>>>,
    kssbar: Vec<Vec<f64>>,
    astarbar: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Episode {
    #[serde(default = "one")]
    tau: f64,
    K: Vec<Vec<Vec<f64>>>,
    Ks: Vec<Vec<Vec<f64>>>,
    kss: Vec<Vec<f64>>,
    y: Vec<usize>,
    ystar: Vec<usize>,
    a: Vec<Vec<f64>>,
    astar: Vec<Vec<f64>>,
}

fn one() -> f64 {
    1.0
}

impl Episode {
    fn task(&self) -> siskin_gp::Result<Task> {
        Task::new(matrices(&self.K), self.y.clone(), matrix(&self.a), self.tau)
    }

    fn query(&self) -> Query {
        Query {
            ks: matrices(&self.Ks),
            kss: matrix(&self.kss).transpose().to_owned(),
            astar: matrix(&self.astar),
        }
    }
}

pub fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, want) in file.cases.iter().enumerate() {
        report.case(&format!("pl_gradient {i} {} T={}", want.kind, want.T), |case| {
            let Some(task) = case.try_run("task", want.episode.task()) else { return };
            let query = want.episode.query();
            let got = predictive(
                &task,
                &query,
                &want.episode.ystar,
                Order::Joint,
                &Start::Prior,
                want.T,
                Precision::Fine,
            );
            let Some(got) = case.try_run("predictive likelihood", got) else { return };
            let tol = file.tol.rel;
            case.rel1("value", got.value, want.value, tol);
            case.rel("Kbar", &flat_all(&got.dk), &flat_all(&matrices(&want.Kbar)), tol);
            case.rel("abar", &flat(&got.da), &flat(&matrix(&want.abar)), tol);
            case.rel("Ksbar", &flat_all(&got.dks), &flat_all(&matrices(&want.Ksbar)), tol);
            let kss = got.dkss.transpose().to_owned();
            case.rel("kssbar", &flat(&kss), &flat(&matrix(&want.kssbar)), tol);
            case.rel("astarbar", &flat(&got.dastar), &flat(&matrix(&want.astarbar)), tol);
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
    pl_value_abs: f64,
    pl_grad_rel: f64,
}

/// In f-units, order collapsed.
#[derive(Deserialize)]
#[allow(non_snake_case)]
struct TightWant {
    T: usize,
    value: f64,
    dK: Vec<Vec<Vec<f64>>>,
    da: Vec<Vec<f64>>,
    dKs: Vec<Vec<Vec<f64>>>,
    dkss: Vec<Vec<f64>>,
    dastar: Vec<Vec<f64>>,
    dtau: f64,
}

pub fn check_tight(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: TightFile = serde_json::from_str(text)?;
    for want in &file.pl.cases {
        report.case(&format!("tight_bounds predictive likelihood T={}", want.T), |case| {
            let Some(task) = case.try_run("task", file.pl.problem.task()) else { return };
            let query = file.pl.problem.query();
            let got = predictive(
                &task,
                &query,
                &file.pl.problem.ystar,
                Order::Collapsed,
                &Start::Prior,
                want.T,
                Precision::Fine,
            );
            let Some(got) = case.try_run("predictive likelihood", got) else { return };
            let tol = file.tol.pl_grad_rel;
            case.abs("value", &[got.value], &[want.value], file.tol.pl_value_abs);
            case.rel("dK", &flat_all(&got.dk), &flat_all(&matrices(&want.dK)), tol);
            case.rel("da", &flat(&got.da), &flat(&matrix(&want.da)), tol);
            case.rel("dKs", &flat_all(&got.dks), &flat_all(&matrices(&want.dKs)), tol);
            let kss = got.dkss.transpose().to_owned();
            case.rel("dkss", &flat(&kss), &flat(&matrix(&want.dkss)), tol);
            case.rel("dastar", &flat(&got.dastar), &flat(&matrix(&want.dastar)), tol);
            let scale = dtau_scale(want.dtau, &matrices(&want.dK), &task);
            case.error("dtau", (got.dtau - want.dtau).abs() / scale, tol);
        });
    }
    Ok(())
}
