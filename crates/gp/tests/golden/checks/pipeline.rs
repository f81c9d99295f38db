//! `pipeline.json`: features, kernel, joint sweeps, ELBO, prediction and probabilities in one go.

use faer::Mat;
use serde::Deserialize;
use siskin_gp::equations::{Blocks, Fit, Start, infer};
use siskin_gp::inference::Stop;
use siskin_gp::kernels::{Cosine, Kernel};
use siskin_gp::posterior::Latent;
use siskin_gp::{Query, Resolution, Task};

use super::arrays::{flat, matrix, tolerance};
use super::problem::order;
use super::report::{Case, Report};

#[derive(Deserialize)]
struct File {
    episodes: Vec<Want>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Tol {
    rel: f64,
    probs_abs: f64,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Want {
    C: usize,
    shot: usize,
    tau: f64,
    a: f64,
    outputscale: f64,
    kernel: String,
    Xs: Vec<Vec<f64>>,
    y: Vec<usize>,
    Xq: Vec<Vec<f64>>,
    T: usize,
    order: String,
    init: String,
    mu_f: Vec<Vec<f64>>,
    v_f: Vec<Vec<f64>>,
    elbo_profiled: f64,
    pred_mean_f: Vec<Vec<f64>>,
    pred_var_f: Vec<Vec<f64>>,
    probs: Vec<Vec<f64>>,
    argmax: Vec<usize>,
    #[serde(default)]
    float64_ref_err: Errors,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Errors {
    mu: f64,
    elbo: f64,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, want) in file.episodes.iter().enumerate() {
        let name = format!("pipeline {i} {}-way {}-shot tau={} a={}", want.C, want.shot, want.tau, want.a);
        report.case(&name, |case| {
            if let Some(kernel) = case.try_run("kernel", kernel(want)) {
                one(case, want, &kernel, &file.tol);
            }
        });
    }
    Ok(())
}

fn kernel(want: &Want) -> Result<Kernel, String> {
    if want.kernel != "cosine" || want.init != "prior" {
        return Err(format!(
            "expected kernel `cosine` and init `prior`, got `{}` and `{}`",
            want.kernel, want.init
        ));
    }
    Kernel::new(Cosine).with_scale(want.outputscale).map_err(|e| e.to_string())
}

fn one(case: &mut Case, want: &Want, kernel: &Kernel, tol: &Tol) {
    let Some(order) = case.try_run("order", order(&want.order)) else { return };
    let run = || -> siskin_gp::Result<(Fit, Latent, Mat<f64>)> {
        let (support, query) =
            (kernel.features(matrix(&want.Xs).as_ref())?, kernel.features(matrix(&want.Xq).as_ref())?);
        let (n, m) = (support.points(), query.points());
        let mean = |rows| Mat::from_fn(rows, want.C, |_, _| want.a);
        let k = kernel.within(&support)?.of_classes(want.C);
        let task = Task::new(k, want.y.clone(), mean(n), want.tau)?;
        let fit = infer(&task, order, &Start::Prior, Stop::Steps(want.T))?;
        let k_star = kernel.between(&support, &query)?.of_classes(want.C);
        let k_star_star = kernel.own(&query)?.own_of_classes(want.C);
        let latent = Blocks::new(fit.blocks().iter().cloned(), want.tau)?.latent(&Query {
            ks: k_star,
            kss: k_star_star,
            astar: mean(m),
        })?;
        let probs = latent.probs(Resolution::Standard)?;
        Ok((fit, latent, probs))
    };
    let Some((fit, latent, probs)) = case.try_run("pipeline", run()) else { return };
    let err = &want.float64_ref_err;
    let rel = tolerance(tol.rel, err.mu);
    case.rel("mu", &flat(&fit.mu_f()), &flat(&matrix(&want.mu_f)), rel);
    case.rel("v", &flat(&fit.v_f()), &flat(&matrix(&want.v_f)), rel);
    case.rel1("ELBO profiled", fit.trace[want.T - 1], want.elbo_profiled, tolerance(tol.rel, err.elbo));
    case.rel("predictive mean", &flat(&latent.mean), &flat(&matrix(&want.pred_mean_f)), rel);
    case.rel("predictive var", &flat(&latent.var), &flat(&matrix(&want.pred_var_f)), rel);
    case.abs("probabilities", &flat(&probs), &flat(&matrix(&want.probs)), tol.probs_abs);
    let argmax: Vec<f64> = (0..probs.nrows())
        .map(|q| {
            (1..want.C).fold(0, |best, c| if probs[(q, c)] > probs[(q, best)] { c } else { best }) as f64
        })
        .collect();
    let labels: Vec<f64> = want.argmax.iter().map(|&c| c as f64).collect();
    case.abs("argmax", &argmax, &labels, 0.5);
}
