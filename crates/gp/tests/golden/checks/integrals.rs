//! The integrals of `tight_bounds.json`: `e_log_Z` and `e_log_sigmoid`.

use serde::Deserialize;
use siskin_gp::Resolution;
use siskin_gp::equations::{LogZ, e_log_sigmoid};

use super::report::Report;

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct File {
    e_log_Z: Vec<LogZCase>,
    e_log_sigmoid: Vec<LogSigmoidCase>,
    tol: Tol,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Tol {
    e_log_Z_abs: f64,
    e_log_Z_grad_abs: f64,
    e_log_sigmoid_abs: f64,
}

#[derive(Deserialize)]
struct LogZCase {
    mu: Vec<f64>,
    v: Vec<f64>,
    value: f64,
    dmu: Vec<f64>,
    dv: Vec<f64>,
}

#[derive(Deserialize)]
struct LogSigmoidCase {
    mu: f64,
    v: f64,
    value: f64,
    dmu: f64,
    dv: f64,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, want) in file.e_log_Z.iter().enumerate() {
        // The stated tolerance is for the standard rule; the golden rule must be right to the rounding of f64.
        for (resolution, value_tol, grad_tol) in [
            (Resolution::Standard, file.tol.e_log_Z_abs, file.tol.e_log_Z_grad_abs),
            (Resolution::Golden, 1e-11, 1e-12),
        ] {
            report.case(&format!("E log Z {i} C={} {resolution:?}", want.mu.len()), |case| {
                let (mut dmu, mut dv) = (vec![0.0; want.mu.len()], vec![0.0; want.mu.len()]);
                let got = LogZ::new(resolution).eval(&want.mu, &want.v, &mut dmu, &mut dv);
                let Some(value) = case.try_run("E log Z", got) else { return };
                case.abs("E log Z", &[value], &[want.value], value_tol);
                case.abs("d/dmu", &dmu, &want.dmu, grad_tol);
                case.abs("d/dv", &dv, &want.dv, grad_tol);
            });
        }
    }
    for want in &file.e_log_sigmoid {
        report.case(&format!("E log sigma mu={} v={}", want.mu, want.v), |case| {
            let Some(got) = case.try_run("E log sigma", e_log_sigmoid(want.mu, want.v, Resolution::Standard))
            else {
                return;
            };
            let tol = file.tol.e_log_sigmoid_abs;
            case.abs("E log sigma", &[got.value], &[want.value], tol);
            case.abs("d/dmu", &[got.dmu], &[want.dmu], tol);
            case.abs("d/dv", &[got.dv], &[want.dv], tol);
        });
    }
    Ok(())
}
