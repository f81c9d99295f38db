//! `cdkt_ml.json`, `cdkt_pl.json`, `cdkt_predict.json`: training losses and prediction of `methods/CDKT.py`.

use super::case::{DOUBLE, Laid};
use super::{Case, Comparison, Mismatch};
use crate::Scores;
use crate::gp::cdkt::released;
use crate::gp::deep_kernel::{matrix, row_major};
use faer::Mat;
use siskin_gp::inference::{ReleasedPosterior, ReleasedStart};
use siskin_gp::kernels::{AnyForm, Kernel, softplus};
use siskin_gp::objective::{Carry, Draw, Objective, ReleasedEpisode};
use siskin_gp::{Hyper, HyperGradient, Resolution, Support};

/// Names of kernels in the released code, ours, and its learned parameter beside the output scale.
const KERNELS: [(&str, &str, Option<&str>); 7] = [
    ("bncossim", "cosine", None),
    ("cossim", "cosine", None),
    ("linear", "linear", Some("variance")),
    ("rbf", "rbf", Some("lengthscale")),
    ("matern", "matern52", Some("lengthscale")),
    ("poli1", "poly1", Some("offset")),
    ("poli2", "poly2", Some("offset")),
];

/// Kernel with its raw parameters, prior mean and temperature, and the name of the kernel's shape.
fn hyper(case: &Case<'_>, name: &str) -> Result<(Hyper, Option<&'static str>), Mismatch> {
    let way = case.count("way")?;
    let &(_, ours, shape) =
        KERNELS.iter().find(|(theirs, ..)| *theirs == name).ok_or_else(|| case.unknown("kernel"))?;
    let mut kernel = Kernel::new(AnyForm::named(ours).ok_or_else(|| case.unknown("kernel"))?).normalised();
    kernel.raw_scale = raw(case, "outputscale", way)?;
    if let Some(shape) = shape {
        kernel.raw_shape = raw(case, shape, way)?;
    }
    Ok((Hyper { kernel, mean: case.number("mean")?, tau: case.number("tau")? }, shape))
}

/// A positive parameter of each class before softplus; where the file has it after softplus too, that must be the same.
fn raw(case: &Case<'_>, name: &str, way: usize) -> Result<Vec<f64>, Mismatch> {
    let raw = case.shaped(&format!("raw_{name}"), &[way])?;
    if case.has(name) {
        let positive: Vec<f64> = raw.iter().map(|&raw| softplus(raw)).collect();
        Comparison::default().close(name, &positive, &case.shaped(name, &[way])?, DOUBLE)?;
    }
    Ok(raw)
}

/// Compares the gradients in the kernel's parameters and the prior mean; `factor` takes ours to theirs.
fn check_hyper(
    compare: &mut Comparison,
    (case, episode): (&Case<'_>, &Case<'_>),
    found: &HyperGradient,
    shape: Option<&str>,
    factor: f64,
) -> Result<(), Mismatch> {
    let scaled = |values: &[f64]| values.iter().map(|v| factor * v).collect::<Vec<f64>>();
    let scales = scaled(&found.kernel.raw_scale);
    compare.close("draw_outputscale", &scales, &episode.values("draw_outputscale")?, DOUBLE)?;
    if let Some(shape) = shape {
        let field = format!("draw_{shape}");
        compare.close(&field, &scaled(&found.kernel.raw_shape), &episode.values(&field)?, DOUBLE)?;
    }
    let learned = case.has("mean_learned") && case.flag("mean_learned")?;
    if learned || episode.has("dmean") {
        compare.close("dmean", &[factor * found.mean], &[episode.number("dmean")?], DOUBLE)?;
    }
    Ok(())
}

/// A field `[C][points]` as [points, C].
fn by_class(case: &Case<'_>, field: &str, [classes, points]: [usize; 2]) -> Result<Mat<f64>, Mismatch> {
    let values = case.shaped(field, &[classes, points])?;
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
    case.episode_from(episode, "features")
}

/// State and draws of an episode.
fn start(episode: &Case<'_>, shape: [usize; 2]) -> Result<(Carry, Draw), Mismatch> {
    let carry =
        Carry { mu: by_class(episode, "mu_in", shape)?, v: by_class(episode, "sigma_in_diag", shape)? };
    let alpha = episode.shaped("alpha0", &shape[1..])?;
    Ok((carry, Draw { alpha, omega: by_class(episode, "omega0", shape)? }))
}

/// The state that an episode hands on. The whole covariance, where the file has it, is read by no episode: its diagonal is.
fn check_carry(compare: &mut Comparison, episode: &Case<'_>, carry: &Carry) -> Result<(), Mismatch> {
    compare.close("mu_out", &class_major(&carry.mu), &episode.values("mu_out")?, DOUBLE)?;
    compare.close("sigma_out_diag", &class_major(&carry.v), &episode.values("sigma_out_diag")?, DOUBLE)?;
    if episode.has("sigma_out") {
        let (points, classes) = (carry.v.nrows(), carry.v.ncols());
        let sigma = episode.shaped("sigma_out", &[classes, points, points])?;
        let diagonal: Vec<f64> =
            (0..classes * points).map(|row| sigma[row * points + row % points]).collect();
        compare.close("diagonal of sigma_out", &class_major(&carry.v), &diagonal, DOUBLE)?;
    }
    Ok(())
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
    let ((hyper, shape), way, steps) =
        (hyper(case, case.text("kernel")?)?, case.count("way")?, case.count("steps")?);
    let mut compare = Comparison::default();
    for episode in episodes(case)? {
        let laid = laid(case, &episode)?;
        let (carry, draw) = start(&episode, [way, laid.labels.len()])?;
        let objective = Objective::Released { carry, draw, steps };
        let points = Support::new(matrix(&laid.features), &laid.labels, hyper.prior(way))?;
        let found = objective.value_and_gradient(&points)?;
        compare.close("loss", &[-found.value], &[episode.number("loss")?], DOUBLE)?;
        let dfeatures: Vec<f64> = row_major(&found.features).iter().map(|d| -d).collect();
        compare.close("dfeatures", &dfeatures, &episode.values("dfeatures")?, DOUBLE)?;
        check_hyper(&mut compare, (case, &episode), &found.hyper, shape, -1.0)?;
        let carry = found.carry.ok_or(Mismatch::Missing { field: "state handed on".into() })?;
        check_carry(&mut compare, &episode, &carry)?;
    }
    check_chain(&mut compare, case)?;
    Ok(compare)
}

/// The episodes of a case, at least one.
fn episodes<'a>(case: &Case<'a>) -> Result<Vec<Case<'a>>, Mismatch> {
    match case.list("episodes")? {
        none if none.is_empty() => Err(Mismatch::Missing { field: "episodes".into() }),
        some => Ok(some),
    }
}

pub(super) fn check_pl(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    // `cdkt_pl` need not name its kernel.
    let kernel = if case.has("kernel") { case.text("kernel")? } else { "bncossim" };
    let ((hyper, shape), way, steps) = (hyper(case, kernel)?, case.count("way")?, case.count("steps")?);
    let mut compare = Comparison::default();
    for episode in episodes(case)? {
        let laid = laid(case, &episode)?;
        let support = released::support_rows(&laid.episode()?);
        let (_, shown) = laid.rows(&support);
        for (field, found) in
            [("support_rows", &support), ("support_labels", &shown), ("scored_labels", &laid.labels)]
        {
            let found: Vec<f64> = found.iter().map(|&found| found as f64).collect();
            compare.close(field, &found, &episode.values(field)?, 0.0)?;
        }
        let (carry, draw) = start(&episode, [way, support.len()])?;
        let normals = normals(&episode, way, laid.labels.len())?;
        let drawn =
            ReleasedEpisode { support: &support, carry: &carry, draw: &draw, normals: &normals, steps };
        let points = Support::new(matrix(&laid.features), &laid.labels, hyper.prior(way))?;
        let (found, outcome) = released::predictive(&points, drawn)?;
        let mean = episode.values("predictive_mean")?;
        compare.close("predictive_mean", &class_major(&outcome.mean), &mean, DOUBLE)?;
        let factors = all_rows(&outcome.lower.iter().map(lower_half).collect::<Vec<_>>());
        let wanted = episode.values("predictive_scale_tril")?;
        compare.close("predictive_scale_tril", &factors, &wanted, DOUBLE)?;
        let scale = -1.0 / laid.labels.len() as f64;
        compare.close("loss", &[scale * found.value], &[episode.number("loss")?], DOUBLE)?;
        let dfeatures: Vec<f64> = row_major(&found.features).iter().map(|d| scale * d).collect();
        compare.close("dfeatures", &dfeatures, &episode.values("dfeatures")?, DOUBLE)?;
        check_hyper(&mut compare, (case, &episode), &found.hyper, shape, scale)?;
        check_carry(&mut compare, &episode, &outcome.carry)?;
    }
    check_chain(&mut compare, case)?;
    Ok(compare)
}

/// `standard_normals [C][samples][points]` as C of [points, samples].
fn normals(case: &Case<'_>, way: usize, points: usize) -> Result<Vec<Mat<f64>>, Mismatch> {
    let samples = case.nested_shape("standard_normals")?.get(1).copied().unwrap_or(0);
    let values = case.shaped("standard_normals", &[way, samples.max(1), points])?;
    let of_class = |c: usize| Mat::from_fn(points, samples, |i, s| values[(c * samples + s) * points + i]);
    Ok((0..way).map(of_class).collect())
}

fn lower_half(m: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(m.nrows(), m.ncols(), |i, j| if i >= j { m[(i, j)] } else { 0.0 })
}

pub(super) fn check_predict(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let ((hyper, _), way) = (hyper(case, case.text("kernel")?)?, case.count("way")?);
    let laid = case.episode()?;
    let ((support, labels), (query, _)) = (laid.rows(&laid.support), laid.rows(&laid.query));
    let start = ReleasedStart {
        alpha: case.shaped("alpha0", &[labels.len()])?,
        omega: by_class(case, "omega0", [way, labels.len()])?,
        mu: by_class(case, "mu0", [way, labels.len()])?,
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
    case.for_information(&["probs_monte_carlo_draws"]);
    let integrated = class_major(&latent.probs(Resolution::Fine)?);
    let spread = case.number("probs_monte_carlo_spread")?;
    let wanted = case.values("probs_monte_carlo")?;
    let largest = wanted.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
    Comparison::default().close("probs_monte_carlo", &integrated, &wanted, spread / largest)?;
    Ok(compare)
}
