//! A task as the golden files write it.

use faer::Mat;
use serde::Deserialize;
use siskin_gp::Task;
use siskin_gp::equations::Start;
use siskin_gp::inference::Updates;

use super::arrays::{Tol, flat, flat_all, matrix, tolerance};
use super::report::Case;

#[derive(Deserialize)]
#[allow(non_snake_case)]
pub(super) struct Problem {
    #[serde(default)]
    pub kind: String,
    #[serde(default = "one")]
    pub tau: f64,
    pub K: Vec<Vec<Vec<f64>>>,
    pub y: Vec<usize>,
    pub a: Vec<Vec<f64>>,
    mu0: Option<Vec<Vec<f64>>>,
    v0: Option<Vec<Vec<f64>>>,
    alpha0: Option<Vec<f64>>,
    omega0: Option<Vec<Vec<f64>>>,
}

/// A file of problems with cases each.
#[derive(Deserialize)]
pub(super) struct Suite<W> {
    pub problems: Vec<Entry<W>>,
    pub tol: Tol,
}

#[derive(Deserialize)]
pub(super) struct Entry<W> {
    pub problem: Problem,
    pub cases: Vec<W>,
}

/// The temperature of files in x-units, which name none.
fn one() -> f64 {
    1.0
}

impl Problem {
    pub(super) fn task(&self) -> siskin_gp::Result<Task> {
        Task::new(matrices(&self.K), self.y.clone(), matrix(&self.a), self.tau)
    }

    /// The start a case names; the error says what the file lacks.
    pub(super) fn start(&self, init: &str) -> Result<Start, String> {
        match (init, &self.mu0, &self.v0, &self.alpha0, &self.omega0) {
            ("prior", ..) => Ok(Start::Prior),
            ("given", Some(mu0), Some(v0), Some(alpha0), Some(omega0)) => Ok(Start::Given {
                mu0: matrix(mu0),
                v0: matrix(v0),
                alpha0: alpha0.clone(),
                omega0: matrix(omega0),
            }),
            ("given", ..) => Err("init is `given`, but mu0, v0, alpha0 or omega0 is missing".into()),
            _ => Err(format!("unknown init `{init}`")),
        }
    }
}

pub(super) fn matrices(k: &[Vec<Vec<f64>>]) -> Vec<Mat<f64>> {
    k.iter().map(|k| matrix(k)).collect()
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn order(name: &str) -> Result<Updates, String> {
    match name {
        "joint" => Ok(Updates::Joint),
        "exact" => Ok(Updates::Exact),
        "paper" => Ok(Updates::Paper),
        "collapsed" => Ok(Updates::Collapsed),
        _ => Err(format!("unknown order `{name}`")),
    }
}

/// A gradient as the files write it; `pl_gradient.json`, in x-units, has no dtau.
#[derive(Deserialize)]
#[allow(non_snake_case)]
pub(super) struct Slope {
    #[serde(alias = "Kbar")]
    dK: Vec<Vec<Vec<f64>>>,
    #[serde(alias = "abar")]
    da: Vec<Vec<f64>>,
    dtau: Option<f64>,
    #[serde(default)]
    pub float64_ref_err: SlopeErrors,
}

#[derive(Deserialize, Default)]
#[allow(non_snake_case)]
#[serde(default)]
pub(super) struct SlopeErrors {
    pub L: f64,
    dK: f64,
    da: f64,
    dtau: f64,
}

/// What dtau is compared relative to.
pub(super) enum DtauScale {
    /// `|dtau|`.
    Own,
    /// `max(|dtau|, |<dK, K>|/tau)`: dtau may be a small difference of larger terms.
    ThroughK,
}

impl Slope {
    /// dK, da and dtau of a gradient, each within `tol`.
    pub(super) fn compare(
        &self,
        case: &mut Case,
        task: &Task,
        (dk, da, dtau): (&[Mat<f64>], &Mat<f64>, f64),
        tol: f64,
        scale: DtauScale,
    ) {
        let (want, err) = (matrices(&self.dK), &self.float64_ref_err);
        case.rel("dK", &flat_all(dk), &flat_all(&want), tolerance(tol, err.dK));
        case.rel("da", &flat(da), &flat(&matrix(&self.da)), tolerance(tol, err.da));
        let Some(want_dtau) = self.dtau else { return };
        let through_k: f64 = want.iter().zip(task.k()).map(|(dk, k)| inner(&flat(dk), &flat(k))).sum();
        let scale = match scale {
            DtauScale::Own => want_dtau.abs(),
            DtauScale::ThroughK => want_dtau.abs().max(through_k.abs() / task.tau()),
        };
        case.rel_to("dtau", dtau, want_dtau, scale, tolerance(tol, err.dtau));
    }
}
