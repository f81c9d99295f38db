//! `special.json`: digamma and relatives, Polya-Gamma tilts, the joint solve of alpha.

use serde::Deserialize;
use siskin_gp::equations::{
    Tilt, digamma, gamma_entropy, ln_gamma, log_minus_digamma1p, log2cosh_half, one_minus_trigamma1p,
    pg_mean1, pg_var1, solve_u, trigamma,
};

use super::arrays::Tol;
use super::report::{Case, Report};

#[derive(Deserialize)]
struct File {
    digamma_trigamma_lgamma: Vec<GammaRow>,
    log_u_minus_digamma1p: Vec<DifferenceRow>,
    tilt: Vec<TiltRow>,
    rho: Vec<RhoRow>,
    solve_u: Vec<SolveRow>,
    tol: Tol,
}

#[derive(Deserialize)]
struct GammaRow {
    x: f64,
    digamma: f64,
    trigamma: f64,
    lgamma: f64,
    gamma_entropy: Option<f64>,
}

#[derive(Deserialize)]
struct DifferenceRow {
    u: f64,
    value: f64,
    one_minus_u_trigamma: f64,
}

#[derive(Deserialize)]
struct TiltRow {
    c: f64,
    log2cosh_half: f64,
    pg_mean1: f64,
    pg_var1: f64,
}

#[derive(Deserialize)]
struct RhoRow {
    mu: f64,
    v: f64,
    c: f64,
    rho: f64,
}

#[derive(Deserialize)]
struct SolveRow {
    eps: f64,
    log_s: f64,
    u: f64,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    let tol = file.tol.rel;
    for row in &file.digamma_trigamma_lgamma {
        report.case(&format!("special gamma family, x = {:e}", row.x), |case| {
            near_a_root(case, "digamma", digamma(row.x), row.digamma, tol);
            near_a_root(case, "lgamma", ln_gamma(row.x), row.lgamma, tol);
            case.rel("trigamma", &[trigamma(row.x)], &[row.trigamma], tol);
            if let Some(want) = row.gamma_entropy {
                case.rel("gamma entropy", &[gamma_entropy(row.x)], &[want], tol);
            }
        });
    }
    for row in &file.log_u_minus_digamma1p {
        report.case(&format!("special log u - psi(1+u), u = {:e}", row.u), |case| {
            case.rel("value", &[log_minus_digamma1p(row.u.ln())], &[row.value], tol);
            case.rel("slope", &[one_minus_trigamma1p(row.u)], &[row.one_minus_u_trigamma], tol);
        });
    }
    for row in &file.tilt {
        report.case(&format!("special tilt, c = {:e}", row.c), |case| {
            case.rel("log 2cosh(c/2)", &[log2cosh_half(row.c)], &[row.log2cosh_half], tol);
            case.rel("PG mean", &[pg_mean1(row.c)], &[row.pg_mean1], tol);
            case.rel("PG variance", &[pg_var1(row.c)], &[row.pg_var1], tol);
        });
    }
    for row in &file.rho {
        report.case(&format!("special rho, mu = {:e}, v = {:e}", row.mu, row.v), |case| {
            let tilt = Tilt::new(row.mu, row.v);
            case.rel("c", &[tilt.c], &[row.c], tol);
            case.rel("rho", &[tilt.rho], &[row.rho], tol);
        });
    }
    for row in &file.solve_u {
        report.case(&format!("special solve u, eps = {:e}", row.eps), |case| {
            case.rel("u", &[solve_u(row.eps, row.log_s)], &[row.u], tol);
        });
    }
    Ok(())
}

/// Relative, but absolute 1e-13 near a root of the function.
fn near_a_root(case: &mut Case, what: &str, got: f64, want: f64, tol: f64) {
    case.error(what, (got - want).abs(), (tol * want.abs()).max(1e-13));
}
