//! A task as the golden files write it.

use faer::Mat;
use serde::Deserialize;
use siskin_gp::Task;
use siskin_gp::inference::{Order, Start};

use crate::report::{flat, matrix};

#[derive(Deserialize)]
#[allow(non_snake_case)]
pub struct Problem {
    #[serde(default)]
    pub kind: String,
    pub tau: f64,
    pub K: Vec<Vec<Vec<f64>>>,
    pub y: Vec<usize>,
    pub a: Vec<Vec<f64>>,
    mu0: Option<Vec<Vec<f64>>>,
    v0: Option<Vec<Vec<f64>>>,
    alpha0: Option<Vec<f64>>,
    omega0: Option<Vec<Vec<f64>>>,
}

impl Problem {
    pub fn task(&self) -> siskin_gp::Result<Task> {
        Task::new(matrices(&self.K), self.y.clone(), matrix(&self.a), self.tau)
    }

    /// The start a case names; the error says what the file lacks.
    pub fn start(&self, init: &str) -> Result<Start, String> {
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

pub fn matrices(k: &[Vec<Vec<f64>>]) -> Vec<Mat<f64>> {
    k.iter().map(|k| matrix(k)).collect()
}

pub fn order(name: &str) -> Result<Order, String> {
    match name {
        "joint" => Ok(Order::Joint),
        "exact" => Ok(Order::Exact),
        "paper" => Ok(Order::Paper),
        "collapsed" => Ok(Order::Collapsed),
        _ => Err(format!("unknown order `{name}`")),
    }
}

/// dtau may be a small difference of larger terms: it is compared relative to `max(|dtau|, |<dK, K>|/tau)`.
pub fn dtau_scale(dtau: f64, dk: &[Mat<f64>], task: &Task) -> f64 {
    let inner = |a: &Mat<f64>, b: &Mat<f64>| flat(a).iter().zip(flat(b)).map(|(a, b)| a * b).sum::<f64>();
    let through_k: f64 = dk.iter().zip(task.k()).map(|(dk, k)| inner(dk, k)).sum();
    dtau.abs().max(through_k.abs() / task.tau())
}
