//! `polya_gamma.json`: moments, Laplace transform and distribution function, and draws against that function.

use rand::SeedableRng;
use rand::distr::Distribution;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use siskin_gp::equations::PolyaGamma;

use super::report::Report;

/// Draws of each case, and how far their empirical distribution may lie from the golden one.
const DRAWS: usize = 100_000;
const KS: f64 = 0.005;

#[derive(Deserialize)]
struct File {
    cases: Vec<Golden>,
    tol: Tol,
}

#[derive(Deserialize)]
struct Tol {
    mean_var_rel: f64,
    cdf_abs: f64,
}

#[derive(Deserialize)]
struct Golden {
    b: f64,
    c: f64,
    mean: f64,
    var: f64,
    cdf: Vec<Cdf>,
    laplace: Vec<Laplace>,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Cdf {
    x: f64,
    F: f64,
}

#[derive(Deserialize)]
struct Laplace {
    s: f64,
    value: f64,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for (i, want) in file.cases.iter().enumerate() {
        report.case(&format!("polya_gamma {i} b={} c={}", want.b, want.c), |case| {
            let Some(pg) = case.try_run("parameters", PolyaGamma::new(want.b, want.c)) else { return };
            case.rel("mean", &[pg.mean()], &[want.mean], file.tol.mean_var_rel);
            case.rel("variance", &[pg.variance()], &[want.var], file.tol.mean_var_rel);
            for at in &want.laplace {
                case.rel("laplace", &[pg.laplace(at.s)], &[at.value], file.tol.cdf_abs);
            }
            for at in &want.cdf {
                case.abs("cdf", &[pg.cdf(at.x)], &[at.F], file.tol.cdf_abs);
            }
        });
        report.case(&format!("polya_gamma {i} b={} c={} draws", want.b, want.c), |case| {
            let Some(pg) = case.try_run("parameters", PolyaGamma::new(want.b, want.c)) else { return };
            let mut rng = ChaCha8Rng::seed_from_u64(i as u64);
            let draws: Vec<f64> = (0..DRAWS).map(|_| pg.sample(&mut rng)).collect();
            for at in &want.cdf {
                let below = draws.iter().filter(|&&x| x <= at.x).count() as f64 / DRAWS as f64;
                case.abs("distribution", &[below], &[at.F], KS);
            }
            let mean = draws.iter().sum::<f64>() / DRAWS as f64;
            case.abs("mean of draws", &[mean], &[want.mean], 5.0 * (want.var / DRAWS as f64).sqrt());
        });
    }
    Ok(())
}
