//! `comparators.json`: one-vs-each, label regression, softmax with Laplace's approximation.

use faer::Mat;
use serde::Deserialize;
use siskin_gp::equations::{Differences, LabelRegression, Laplace, OneVsEachGibbs, OveMeanField};
use siskin_gp::likelihoods::one_vs_each;
use siskin_gp::{Query, Task};

use super::arrays::{Tol, flat, flat_all, matrix};
use super::report::{Case, Report};

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct File {
    K: Vec<Vec<Vec<f64>>>,
    Ks: Vec<Vec<Vec<f64>>>,
    /// [C, Q], the other way round than the rest of this crate.
    kss: Vec<Vec<f64>>,
    y: Vec<usize>,
    a: f64,
    ove: Ove,
    dkt: Dkt,
    laplace_softmax: LaplaceSoftmax,
    tol: Tol,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Ove {
    f: Vec<Vec<f64>>,
    log_lik: Vec<Vec<f64>>,
    probs: Vec<Vec<f64>>,
    meanfield_T: usize,
    psi_mean: Vec<f64>,
    psi_var: Vec<f64>,
    tilt_used: Vec<f64>,
    elbo_history: Vec<f64>,
    pred_mean: Vec<Vec<f64>>,
    pred_cov: Vec<Vec<Vec<f64>>>,
    omega: Vec<f64>,
    log_p_y_given_omega: f64,
}

#[derive(Deserialize)]
struct Dkt {
    noise: f64,
    mean: f64,
    lml_per_class: Vec<f64>,
    loss_gpytorch: f64,
    pred_mean: Vec<Vec<f64>>,
    pred_var_latent: Vec<Vec<f64>>,
    pred_var_noisy: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct LaplaceSoftmax {
    mode: Vec<Vec<f64>>,
    log_marginal: f64,
    pred_mean: Vec<Vec<f64>>,
    pred_cov: Vec<Vec<Vec<f64>>>,
}

impl File {
    fn task(&self, mean: f64) -> Result<Task, siskin_gp::Error> {
        let k = self.K.iter().map(|k| matrix(k)).collect();
        Task::new(k, self.y.clone(), Mat::from_fn(self.y.len(), self.K.len(), |_, _| mean), 1.0)
    }

    /// The queries, with this prior mean.
    fn query(&self, mean: f64) -> Query {
        let kss = matrix(&self.kss).transpose().to_owned();
        let astar = Mat::from_fn(kss.nrows(), kss.ncols(), |_, _| mean);
        Query { ks: self.Ks.iter().map(|k| matrix(k)).collect(), kss, astar }
    }

    /// Our rows of the differences in the order of the file, which lists the other classes of a point ascending.
    fn ascending(&self) -> Vec<usize> {
        Differences::new(&self.y, self.K.len()).ascending()
    }
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    report.case("comparators one-vs-each likelihood", |case| ove_likelihood(case, &file));
    report.case("comparators one-vs-each mean field", |case| ove(case, &file));
    report.case("comparators one-vs-each given omega", |case| ove_given_omega(case, &file));
    report.case("comparators label regression", |case| dkt(case, &file));
    report.case("comparators softmax Laplace", |case| laplace(case, &file));
    Ok(())
}

fn ove_likelihood(case: &mut Case, file: &File) {
    for ((f, log_lik), probs) in file.ove.f.iter().zip(&file.ove.log_lik).zip(&file.ove.probs) {
        let got: Result<Vec<f64>, _> = (0..f.len()).map(|y| one_vs_each::log_likelihood(f, y)).collect();
        if let Some(got) = case.try_run("log likelihood", got) {
            case.rel("log likelihood", &got, log_lik, file.tol.rel);
        }
        if let Some(got) = case.try_run("probabilities", one_vs_each::probs(f)) {
            case.rel("probabilities", &got, probs, file.tol.rel);
        }
    }
}

fn ove(case: &mut Case, file: &File) {
    let (want, tol) = (&file.ove, file.tol.rel);
    let Some(task) = case.try_run("task", file.task(file.a)) else { return };
    let Some(got) = case.try_run("mean field", OveMeanField::new(&task, want.meanfield_T, 0.0)) else {
        return;
    };
    let rows = |ours: &[f64]| file.ascending().iter().map(|&j| ours[j]).collect::<Vec<f64>>();
    case.rel("psi mean", &rows(got.psi_mean()), &want.psi_mean, tol);
    case.rel("psi variance", &rows(got.psi_var()), &want.psi_var, tol);
    case.rel("tilt", &rows(&got.tilt), &want.tilt_used, tol);
    case.rel("bounds", &got.bounds, &want.elbo_history, tol);
    let Some(latent) = case.try_run("prediction", got.latent(&file.query(file.a))) else {
        return;
    };
    case.rel("predicted mean", &flat(&latent.mean), &flat(&matrix(&want.pred_mean)), tol);
    case.rel("predicted cov", &flat_all(&latent.cov), &all(&want.pred_cov), tol);
}

fn ove_given_omega(case: &mut Case, file: &File) {
    let Some(task) = case.try_run("task", file.task(file.a)) else { return };
    let mut omega = vec![f64::NAN; file.ove.omega.len()];
    file.ascending().iter().zip(&file.ove.omega).for_each(|(&j, w)| omega[j] = *w);
    let given = OneVsEachGibbs::given_omega(&task, omega);
    let Some(given) = case.try_run("given omega", given) else { return };
    let got = -given.marginal_likelihood().value * file.y.len() as f64;
    case.rel("log p(Y | omega)", &[got], &[file.ove.log_p_y_given_omega], file.tol.rel);
}

fn dkt(case: &mut Case, file: &File) {
    let (want, tol) = (&file.dkt, file.tol.rel);
    let Some(task) = case.try_run("task", file.task(want.mean)) else { return };
    let Some(got) = case.try_run("regression", LabelRegression::new(&task, want.noise)) else { return };
    case.rel("lml", &got.lml, &want.lml_per_class, tol);
    case.rel("loss", &[got.loss()], &[want.loss_gpytorch], tol);
    let Some(latent) = case.try_run("prediction", got.latent(&file.query(want.mean))) else {
        return;
    };
    case.rel("predicted mean", &flat(&latent.mean), &flat(&matrix(&want.pred_mean)), tol);
    case.rel("latent variance", &flat(&latent.var), &flat(&matrix(&want.pred_var_latent)), tol);
    let noisy: Vec<f64> = flat(&latent.var).iter().map(|v| v + want.noise).collect();
    case.rel("noisy variance", &noisy, &flat(&matrix(&want.pred_var_noisy)), tol);
}

fn laplace(case: &mut Case, file: &File) {
    let (want, tol) = (&file.laplace_softmax, file.tol.rel);
    let Some(task) = case.try_run("task", file.task(file.a)) else { return };
    let Some(got) = case.try_run("Newton", Laplace::new(&task, 200)) else { return };
    case.rel("mode", &flat(&got.mode), &flat(&matrix(&want.mode)), tol);
    case.rel("log marginal", &[got.log_marginal], &[want.log_marginal], tol);
    let Some(latent) = case.try_run("prediction", got.latent(&file.query(file.a))) else {
        return;
    };
    case.rel("predicted mean", &flat(&latent.mean), &flat(&matrix(&want.pred_mean)), tol);
    case.rel("predicted cov", &flat_all(&latent.cov), &all(&want.pred_cov), tol);
}

fn all(rows: &[Vec<Vec<f64>>]) -> Vec<f64> {
    rows.iter().flatten().flatten().copied().collect()
}
