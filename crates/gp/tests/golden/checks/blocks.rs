//! `blocks.json`: one Gaussian block and one joint local update, with their adjoints.

use faer::Mat;
use serde::Deserialize;
use siskin_gp::equations::{Block, Local, LocalBar};
use siskin_gp::inference::Updates;

use super::arrays::{Tol, flat, matrix, tolerance};
use super::report::Report;

#[derive(Deserialize)]
struct File {
    gauss_update: Vec<GaussCase>,
    q1_joint: Vec<JointCase>,
    tol: Tol,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct GaussCase {
    kind: String,
    K: Vec<Vec<f64>>,
    w: Vec<f64>,
    b: Vec<f64>,
    a: Vec<f64>,
    mu: Vec<f64>,
    Sigma: Vec<Vec<f64>>,
    g: Vec<f64>,
    R: Vec<Vec<f64>>,
    logZ: f64,
    kl: f64,
    logdetB: f64,
    cotangents: GaussCotangents,
    Kbar: Vec<Vec<f64>>,
    wbar: Vec<f64>,
    bbar: Vec<f64>,
    abar: Vec<f64>,
    #[serde(default)]
    float64_ref_err: GaussErrors,
}

#[derive(Deserialize)]
struct GaussCotangents {
    mubar: Vec<f64>,
    vbar: Vec<f64>,
    lbar: f64,
}

#[derive(Deserialize, Default)]
#[allow(non_snake_case)]
#[serde(default)]
struct GaussErrors {
    mu: f64,
    v: f64,
    g: f64,
    R: f64,
    Kbar: f64,
    wbar: f64,
    bbar: f64,
    abar: f64,
}

#[derive(Deserialize)]
struct JointCase {
    y: Vec<usize>,
    mu: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    alpha: Vec<f64>,
    gamma: Vec<Vec<f64>>,
    b: Vec<Vec<f64>>,
    w: Vec<Vec<f64>>,
    cotangents: JointCotangents,
    mubar: Vec<Vec<f64>>,
    vbar: Vec<Vec<f64>>,
    #[serde(default)]
    float64_ref_err: JointErrors,
}

#[derive(Deserialize)]
struct JointCotangents {
    bbar: Vec<Vec<f64>>,
    wbar: Vec<Vec<f64>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JointErrors {
    alpha: f64,
    gamma: f64,
    w: f64,
    mubar: f64,
    vbar: f64,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, case) in file.gauss_update.iter().enumerate() {
        gauss(report, &format!("blocks gauss {i} {} N={}", case.kind, case.w.len()), case, file.tol.rel);
    }
    for (i, case) in file.q1_joint.iter().enumerate() {
        joint(report, &format!("blocks joint {i} N={}", case.y.len()), case, file.tol.rel);
    }
    Ok(())
}

fn gauss(report: &mut Report, name: &str, want: &GaussCase, tol: f64) {
    report.case(name, |case| {
        let k = matrix(&want.K);
        let Some(got) = case.try_run("block", Block::new(&k, &want.w, &want.b, &want.a)) else { return };
        let sigma = got.sigma(&k);
        let v: Vec<f64> = (0..want.w.len()).map(|i| want.Sigma[i][i]).collect();
        let err = &want.float64_ref_err;
        case.rel("mu", &got.mu, &want.mu, tolerance(tol, err.mu));
        case.rel("v", &got.v, &v, tolerance(tol, err.v));
        case.rel("Sigma", &flat(&sigma), &flat(&matrix(&want.Sigma)), tolerance(tol, err.v));
        case.rel("g", &got.g, &want.g, tolerance(tol, err.g));
        case.rel("R", &flat(&got.r()), &flat(&matrix(&want.R)), tolerance(tol, err.R));
        case.rel("logZ", &[got.log_z(&want.b, &want.a)], &[want.logZ], tol);
        case.rel("KL", &[got.kl], &[want.kl], tol);
        case.rel("logdet B", &[got.logdet], &[want.logdetB], tol);

        // logZ hangs on K, a, b and w both directly and through nothing else: its share is added by hand.
        let lbar = want.cotangents.lbar;
        let mut kbar = Mat::zeros(k.nrows(), k.ncols());
        let mut abar = vec![0.0; want.a.len()];
        let adjoint = got.adjoint(&k);
        adjoint.prior(&want.cotangents.mubar, &want.cotangents.vbar, &mut kbar, &mut abar);
        let (mut bbar, mut wbar) = (vec![0.0; want.b.len()], vec![0.0; want.w.len()]);
        adjoint.add_sites(&want.cotangents.mubar, &want.cotangents.vbar, &mut bbar, &mut wbar);
        got.add_evidence_slope(0.5 * lbar, &mut kbar);
        let with = |x: &[f64], add: &dyn Fn(usize) -> f64| -> Vec<f64> {
            x.iter().enumerate().map(|(i, x)| x + lbar * add(i)).collect()
        };
        let abar = with(&abar, &|i| got.g[i]);
        let bbar = with(&bbar, &|i| got.mu[i]);
        let wbar = with(&wbar, &|i| -0.5 * (got.v[i] + got.mu[i] * got.mu[i]));
        case.rel("Kbar", &flat(&kbar), &flat(&matrix(&want.Kbar)), tolerance(tol, err.Kbar));
        case.rel("abar", &abar, &want.abar, tolerance(tol, err.abar));
        case.rel("bbar", &bbar, &want.bbar, tolerance(tol, err.bbar));
        case.rel("wbar", &wbar, &want.wbar, tolerance(tol, err.wbar));
    });
}

fn joint(report: &mut Report, name: &str, want: &JointCase, tol: f64) {
    report.case(name, |case| {
        let (mu, v) = (matrix(&want.mu), matrix(&want.v));
        let Some(got) = case.try_run("sites", Local::new(Updates::Joint, &[], &want.y, &mu, &v)) else {
            return;
        };
        let err = &want.float64_ref_err;
        case.rel("alpha", &got.alpha, &want.alpha, tolerance(tol, err.alpha));
        case.rel("gamma", &flat(&got.gamma), &flat(&matrix(&want.gamma)), tolerance(tol, err.gamma));
        case.rel("b", &flat(&got.b), &flat(&matrix(&want.b)), tolerance(tol, err.gamma));
        case.rel("w", &flat(&got.w), &flat(&matrix(&want.w)), tolerance(tol, err.w));
        let mut bar = LocalBar::zeros(mu.nrows(), mu.ncols());
        (bar.b, bar.w) = (matrix(&want.cotangents.bbar), matrix(&want.cotangents.wbar));
        let back = got.pullback(Updates::Joint, &[], &want.y, &bar);
        case.rel("mubar", &flat(&back.mu), &flat(&matrix(&want.mubar)), tolerance(tol, err.mubar));
        case.rel("vbar", &flat(&back.v), &flat(&matrix(&want.vbar)), tolerance(tol, err.vbar));
    });
}
