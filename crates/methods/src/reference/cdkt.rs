//! `cdkt_ml.json`, `cdkt_pl.json`, `cdkt_predict.json`: training losses and prediction of `methods/CDKT.py`.

use super::case::{DOUBLE, Laid};
use super::{Case, Comparison, Mismatch};
use crate::Scores;
use crate::gp::cdkt::released;
use crate::gp::deep_kernel::{matrix, row_major};
use faer::Mat;
use siskin_gp::inference::released::{ReleasedPosterior, ReleasedStart};
use siskin_gp::kernels::{AnyForm, Cosine, Kernel, Rbf};
use siskin_gp::objective::Objective;
use siskin_gp::objective::released::{Carry, Draw};
use siskin_gp::objective::released_predictive::ReleasedEpisode;
use siskin_gp::quadrature::Precision;
use siskin_gp::{Hyper, Support};

/// Kernel with its raw parameters, prior mean and temperature.
fn hyper(case: &Case<'_>) -> Result<Hyper, Mismatch> {
    // `cdkt_pl` has one kernel and does not name it.
    let form: AnyForm = match if case.has("kernel") { case.text("kernel")? } else { "bncossim" } {
        "bncossim" => Cosine.into(),
        "rbf" => Rbf.into(),
        _ => return Err(case.unknown("kernel")),
    };
    let mut kernel = Kernel::new(form).normalised();
    kernel.raw_scale = case.values("raw_outputscale")?;
    if case.has("raw_lengthscale") {
        kernel.raw_shape = case.values("raw_lengthscale")?;
    }
    Ok(Hyper { kernel, mean: case.number("mean")?, tau: case.number("tau")? })
}

/// A field `[C][points]` as [points, C].
fn by_class(case: &Case<'_>, field: &str, classes: usize) -> Result<Mat<f64>, Mismatch> {
    let values = case.values(field)?;
    let points = values.len() / classes.max(1);
    Ok(Mat::from_fn(points, classes, |i, c| values[c * points + i]))
}

/// [points, C] in the order `[C][points]`.
fn class_major(table: &Mat<f64>) -> Vec<f64> {
    (0..table.ncols()).flat_map(|c| table.col_as_slice(c).to_vec()).collect()
}

/// The rows of each matrix one after another.
fn all_rows(matrices: &[Mat<f64>]) -> Vec<f64> {
    matrices.iter().flat_map(row_major).collect()
}

/// Features of one of several episodes of a case.
fn laid(case: &Case<'_>, episode: &Case<'_>) -> Result<Laid, Mismatch> {
    case.episode_from(episode.values("features")?)
}

/// State and draws of an episode.
fn start(episode: &Case<'_>, way: usize) -> Result<(Carry, Draw), Mismatch> {
    let carry = Carry { mu: by_class(episode, "mu_in", way)?, v: by_class(episode, "sigma_in_diag", way)? };
    Ok((carry, Draw { alpha: episode.values("alpha0")?, omega: by_class(episode, "omega0", way)? }))
}

/// The state that an episode hands on.
fn check_carry(compare: &mut Comparison, episode: &Case<'_>, carry: &Carry) -> Result<(), Mismatch> {
    compare.close("mu_out", &class_major(&carry.mu), &episode.values("mu_out")?, DOUBLE)?;
    compare.close("sigma_out_diag", &class_major(&carry.v), &episode.values("sigma_out_diag")?, DOUBLE)
}

/// Every successive pair of episodes: what one hands on is what the next begins with.
fn check_chain(compare: &mut Comparison, case: &Case<'_>) -> Result<(), Mismatch> {
    for pair in case.list("episodes")?.windows(2) {
        compare.close("mu_in", &pair[0].values("mu_out")?, &pair[1].values("mu_in")?, DOUBLE)?;
        let (handed, begun) = (pair[0].values("sigma_out_diag")?, pair[1].values("sigma_in_diag")?);
        compare.close("sigma_in_diag", &handed, &begun, DOUBLE)?;
    }
    Ok(())
}

pub(super) fn check_ml(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let (hyper, way, steps) = (hyper(case)?, case.count("way")?, case.count("steps")?);
    let mut compare = Comparison::default();
    for episode in case.list("episodes")? {
        let laid = laid(case, &episode)?;
        let (carry, draw) = start(&episode, way)?;
        let objective = Objective::Released { carry, draw, steps };
        let points = Support::new(matrix(&laid.features), &laid.labels, hyper.prior(way))?;
        let found = objective.value_and_gradient(&points)?;
        let minus = |values: &[f64]| values.iter().map(|v| -v).collect::<Vec<f64>>();
        compare.close("loss", &[-found.value], &[episode.number("loss")?], DOUBLE)?;
        compare.close(
            "dfeatures",
            &minus(&row_major(&found.features)),
            &episode.values("dfeatures")?,
            DOUBLE,
        )?;
        let scales = minus(&found.hyper.kernel.raw_scale);
        compare.close("draw_outputscale", &scales, &episode.values("draw_outputscale")?, DOUBLE)?;
        if episode.has("draw_lengthscale") {
            let shapes = minus(&found.hyper.kernel.raw_shape);
            compare.close("draw_lengthscale", &shapes, &episode.values("draw_lengthscale")?, DOUBLE)?;
        }
        if episode.has("dmean") {
            compare.close("dmean", &[-found.hyper.mean], &[episode.number("dmean")?], DOUBLE)?;
        }
        let carry = found.carry.ok_or(Mismatch::Missing { field: "state handed on".into() })?;
        check_carry(&mut compare, &episode, &carry)?;
    }
    check_chain(&mut compare, case)?;
    Ok(compare)
}

pub(super) fn check_pl(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let (hyper, way) = (hyper(case)?, case.count("way")?);
    let mut compare = Comparison::default();
    for episode in case.list("episodes")? {
        let laid = laid(case, &episode)?;
        let support = released::support_rows(&laid.episode()?);
        let rows: Vec<f64> = support.iter().map(|&row| row as f64).collect();
        compare.close("support_rows", &rows, &episode.values("support_rows")?, DOUBLE)?;
        let (carry, draw) = start(&episode, way)?;
        let normals = normals(&episode, way, laid.labels.len())?;
        let steps = case.count("steps")?;
        let drawn =
            ReleasedEpisode { support: &support, carry: &carry, draw: &draw, normals: &normals, steps };
        let points = Support::new(matrix(&laid.features), &laid.labels, hyper.prior(way))?;
        let (found, outcome) = released::predictive(&points, drawn)?;
        let scale = -1.0 / laid.labels.len() as f64;
        let scaled = |values: &[f64]| values.iter().map(|v| scale * v).collect::<Vec<f64>>();
        compare.close(
            "predictive_mean",
            &class_major(&outcome.mean),
            &episode.values("predictive_mean")?,
            DOUBLE,
        )?;
        let factors = all_rows(&outcome.lower.iter().map(lower_half).collect::<Vec<_>>());
        compare.close(
            "predictive_scale_tril",
            &factors,
            &episode.values("predictive_scale_tril")?,
            DOUBLE,
        )?;
        compare.close("loss", &[scale * found.value], &[episode.number("loss")?], DOUBLE)?;
        compare.close(
            "dfeatures",
            &scaled(&row_major(&found.features)),
            &episode.values("dfeatures")?,
            DOUBLE,
        )?;
        let scales = scaled(&found.hyper.kernel.raw_scale);
        compare.close("draw_outputscale", &scales, &episode.values("draw_outputscale")?, DOUBLE)?;
        check_carry(&mut compare, &episode, &outcome.carry)?;
    }
    check_chain(&mut compare, case)?;
    Ok(compare)
}

/// `standard_normals [C][samples][points]` as C of [points, samples].
fn normals(case: &Case<'_>, way: usize, points: usize) -> Result<Vec<Mat<f64>>, Mismatch> {
    let values = case.values("standard_normals")?;
    let samples = values.len() / (way * points).max(1);
    let of_class = |c: usize| Mat::from_fn(points, samples, |i, s| values[(c * samples + s) * points + i]);
    Ok((0..way).map(of_class).collect())
}

fn lower_half(m: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(m.nrows(), m.ncols(), |i, j| if i >= j { m[(i, j)] } else { 0.0 })
}

pub(super) fn check_predict(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let (hyper, way) = (hyper(case)?, case.count("way")?);
    let laid = case.episode()?;
    let ((support, labels), (query, _)) = (laid.rows(&laid.support), laid.rows(&laid.query));
    let start = ReleasedStart {
        alpha: case.values("alpha0")?,
        omega: by_class(case, "omega0", way)?,
        mu: by_class(case, "mu0", way)?,
        variance: case.number("v0")?,
    };
    let support = Support::new(matrix(&support), &labels, hyper.prior(way))?;
    let posterior = ReleasedPosterior::new(&support.task()?, &start, case.count("steps")?)?;
    let mut compare = Comparison::default();
    compare.close("support_mu", &class_major(&posterior.mu()), &case.values("support_mu")?, DOUBLE)?;
    let sigmas: Vec<Mat<f64>> = (0..way).map(|c| posterior.sigma(c)).collect();
    compare.close("support_sigma", &all_rows(&sigmas), &case.values("support_sigma")?, DOUBLE)?;

    let queries = support.query(matrix(&query))?;
    let latent = posterior.latent(&queries)?;
    compare.close("predictive_mean", &class_major(&latent.mean), &case.values("predictive_mean")?, DOUBLE)?;
    compare.close("predictive_var", &class_major(&latent.var), &case.values("predictive_var")?, DOUBLE)?;
    let own = hyper.kernel.within(&hyper.kernel.features(matrix(&query))?)?.of_classes(way);
    let factors = (0..way)
        .map(|c| Ok(lower_half(&posterior.joint_factor(&queries, c, &own[c])?)))
        .collect::<Result<Vec<_>, Mismatch>>()?;
    compare.close(
        "predictive_scale_tril",
        &all_rows(&factors),
        &case.values("predictive_scale_tril")?,
        DOUBLE,
    )?;

    // f = mean + L z, and the classes that the mean logistic-softmax over the block of draws names.
    let (points, normals) = (query.rows, normals(case, way, query.rows)?);
    let draws = normals.first().map_or(0, Mat::ncols);
    let value = |s: usize, c: usize, i: usize| {
        let noise: f64 = (0..=i).map(|j| factors[c][(i, j)] * normals[c][(j, s)]).sum();
        latent.mean[(i, c)] + noise
    };
    let mut samples = Vec::new();
    let mut p = vec![0.0; points * way];
    for s in 0..draws {
        for c in 0..way {
            samples.extend((0..points).map(|i| value(s, c, i)));
        }
        for i in 0..points {
            let sigma: Vec<f64> =
                (0..way).map(|c| 1.0 / (1.0 + (-value(s, c, i) / hyper.tau).exp())).collect();
            let sum: f64 = sigma.iter().sum();
            (0..way).for_each(|c| p[i * way + c] += sigma[c] / sum / draws as f64);
        }
    }
    compare.close("samples", &samples, &case.values("samples")?, DOUBLE)?;
    let named = case.counts("predicted_of_block")?;
    let share = Scores { values: p, way }.accuracy(&named);
    compare.close("predicted_of_block (share named alike)", &[share], &[1.0], 0.0)?;

    // We integrate where that code draws: within the spread of its draws.
    let integrated = class_major(&latent.probs(Precision::Fine)?);
    let spread = case.number("probs_monte_carlo_spread")?;
    let wanted = case.values("probs_monte_carlo")?;
    let largest = wanted.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
    Comparison::default().close("probs_monte_carlo", &integrated, &wanted, spread / largest)?;
    Ok(compare)
}
