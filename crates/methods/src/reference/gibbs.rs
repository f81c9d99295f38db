//! `ove.json` and `ls_gibbs.json`: losses and predictions of the sampled Gaussian processes for given augmentation variables, of
//! `methods/ove_polya_gamma_gp.py` and `methods/logistic_softmax_gp.py`.

use super::case::DOUBLE;
use super::{Case, Comparison, Mismatch};
use crate::gp::deep_kernel::{matrix, row_major};
use crate::{Features, Scores};
use faer::Mat;
use siskin_gp::equations::{Differences, LogisticSoftmaxGibbs, OneVsEachGibbs, hermite_rule};
use siskin_gp::kernels::{AnyForm, Cosine, Kernel, Rbf, softplus_slope};
use siskin_gp::objective::EpisodeGradient;
use siskin_gp::{Hyper, Support, Task};

/// The released code's smallest omega.
const CLAMP: f64 = 1e-6;

/// The kernel `exp(log_scale) k`, on unit vectors; the rbf has the lengthscale 1.
fn kernel(case: &Case<'_>) -> Result<Kernel, Mismatch> {
    let scale = case.number("log_scale")?.exp();
    Ok(match case.text("kernel")? {
        "cosine" => Kernel::new(AnyForm::from(Cosine)).with_scale(scale)?,
        "rbf" => Kernel::new(AnyForm::from(Rbf)).normalised().with_shapes(&[1.0])?.with_scale(scale)?,
        _ => return Err(case.unknown("kernel")),
    })
}

/// Loss and gradients of a part, given ours with the loss already as the file has it.
fn check_gradient(
    compare: &mut Comparison,
    kernel: &Kernel,
    part: &Case<'_>,
    found: &EpisodeGradient,
) -> Result<(), Mismatch> {
    // From the raw number of softplus to the logarithm of the output scale.
    let log_slope = kernel.scale(0) / softplus_slope(kernel.raw_scale[0]);
    compare.close("loss", &[found.value], &[part.number("loss")?], DOUBLE)?;
    compare.close("dfeatures", &row_major(&found.features), &part.values("dfeatures")?, DOUBLE)?;
    let dscale = found.hyper.kernel.raw_scale[0] * log_slope;
    compare.close("dlog_scale", &[dscale], &[part.number("dlog_scale")?], DOUBLE)
}

/// One row of a field for each chain.
fn chains(part: &Case<'_>, field: &str, shape: &[usize]) -> Result<Vec<Vec<f64>>, Mismatch> {
    let values = part.shaped(field, shape)?;
    Ok(values.chunks_exact(shape[1..].iter().product::<usize>().max(1)).map(<[f64]>::to_vec).collect())
}

/// All rows of an episode, or its support alone: with prior mean 0 and temperature 1.
fn labelled(
    kernel: &Kernel,
    (features, labels): (&Features, &[usize]),
    way: usize,
) -> Result<Support, Mismatch> {
    let hyper = Hyper { kernel: kernel.clone(), mean: 0.0, tau: 1.0 };
    Ok(Support::new(matrix(features), labels, hyper.prior(way))?)
}

/// The chains of one-vs-each with the file's omega: point by point, for each the other classes ascending.
fn ove_chains(task: &Task, omega: &[Vec<f64>]) -> siskin_gp::Result<OneVsEachGibbs> {
    let places = Differences::new(task.y(), task.classes()).ascending();
    let of_chain = |theirs: &Vec<f64>| {
        let mut ours = vec![0.0; theirs.len()];
        places.iter().zip(theirs).for_each(|(&place, &w)| ours[place] = w);
        OneVsEachGibbs::given_omega(task, ours)
    };
    Ok(OneVsEachGibbs::joined(omega.iter().map(of_chain).collect::<siskin_gp::Result<_>>()?)?.as_released())
}

pub(super) fn check_ove(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let (kernel, laid, count) = (kernel(case)?, case.episode()?, case.count("chains")?);
    let all = labelled(&kernel, (&laid.features, &laid.labels), laid.way)?;
    let mut compare = Comparison::default();

    let marginal = case.part("marginal")?;
    let others = laid.way.saturating_sub(1);
    let omega = chains(&marginal, "omega", &[count, laid.labels.len() * others])?;
    let found = all.through_kernel(|task| Ok(ove_chains(task, &omega)?.marginal_likelihood()))?;
    check_gradient(&mut compare, &kernel, &marginal, &found)?;
    let task = all.task()?;
    let of_chain = |omega: &Vec<f64>| -> siskin_gp::Result<f64> {
        let loss = ove_chains(&task, std::slice::from_ref(omega))?.marginal_likelihood().value;
        Ok(-loss * task.points() as f64)
    };
    let log_marginal = omega.iter().map(of_chain).collect::<siskin_gp::Result<Vec<f64>>>()?;
    compare.close("log_marginal", &log_marginal, &marginal.values("log_marginal")?, DOUBLE)?;

    // f given the first chain: the prediction at the points themselves.
    let first = ove_chains(&task, &omega[..1])?;
    let own = all.query(matrix(&laid.features))?;
    let at: Vec<(Vec<f64>, Mat<f64>)> =
        (0..task.points()).map(|i| first.latent_of_chain(0, &own, i)).collect::<siskin_gp::Result<_>>()?;
    let mean: Vec<f64> = (0..laid.way).flat_map(|c| at.iter().map(move |(mean, _)| mean[c])).collect();
    compare.close("conditional_mean", &mean, &case.values("conditional_mean")?, DOUBLE)?;
    if case.has("conditional_cov") {
        let (n, size) = (task.points(), task.points() * laid.way);
        let wanted = case.shaped("conditional_cov", &[size, size])?;
        // Of each point the covariance of its classes; that between points does not enter anything we compute.
        let place = |i: usize, c: usize, d: usize| (c * n + i) * size + d * n + i;
        let triples: Vec<(usize, usize, usize)> = (0..n)
            .flat_map(|i| (0..laid.way).flat_map(move |c| (0..laid.way).map(move |d| (i, c, d))))
            .collect();
        let found: Vec<f64> = triples.iter().map(|&(i, c, d)| at[i].1[(c, d)]).collect();
        let wanted: Vec<f64> = triples.iter().map(|&(i, c, d)| wanted[place(i, c, d)]).collect();
        compare.close("conditional_cov", &found, &wanted, DOUBLE)?;
    }

    let predictive = case.part("predictive")?;
    let omega = chains(&predictive, "omega", &[count, laid.support.len() * others])?;
    let found = all.through_kernel_given(&laid.support, |task, query, y| {
        ove_chains(task, &omega)?.predictive_likelihood(query, y)
    })?;
    check_gradient(&mut compare, &kernel, &predictive, &found)?;
    let ((support, labels), (query, _)) = (laid.rows(&laid.support), laid.rows(&laid.query));
    let given = labelled(&kernel, (&support, &labels), laid.way)?;
    let (run, query) = (ove_chains(&given.task()?, &omega)?, given.query(matrix(&query))?);
    let (mut latent_mean, mut latent_cov, mut likelihood) = (Vec::new(), Vec::new(), Vec::new());
    for chain in 0..count {
        for i in 0..laid.query.len() {
            let (mean, cov) = run.latent_of_chain(chain, &query, i)?;
            likelihood.extend(one_vs_each(&mean));
            latent_mean.extend(mean);
            latent_cov.extend(row_major(&cov));
        }
    }
    compare.close("latent_mean", &latent_mean, &predictive.values("latent_mean")?, DOUBLE)?;
    compare.close("latent_cov", &latent_cov, &predictive.values("latent_cov")?, DOUBLE)?;
    compare.close("likelihood_at_mean", &likelihood, &predictive.values("likelihood_at_mean")?, DOUBLE)?;
    let scores = run.scores(&query)?;
    compare.close("scores", &row_major(&scores), &predictive.values("scores")?, DOUBLE)?;
    let scores = Scores { values: row_major(&scores), way: laid.way };
    compare.close("probs", &scores.softmax(), &predictive.values("probs")?, DOUBLE)?;
    let rule = case.part("quadrature")?;
    let (nodes, weights) = hermite_rule();
    compare.close("nodes", &nodes, &rule.values("nodes")?, DOUBLE)?;
    compare.close("weights", &weights, &rule.values("weights")?, DOUBLE)?;
    Ok(compare)
}

/// `prod_{c != k} sigma(f_k - f_c)` of each class, divided by their sum.
fn one_vs_each(f: &[f64]) -> Vec<f64> {
    let of = |k: usize| -> f64 {
        (0..f.len()).filter(|&c| c != k).map(|c| 1.0 / (1.0 + (f[c] - f[k]).exp())).product()
    };
    let values: Vec<f64> = (0..f.len()).map(of).collect();
    let sum: f64 = values.iter().sum();
    values.iter().map(|v| v / sum).collect()
}

/// The chains of the logistic-softmax with the file's counts and omega.
fn ls_chains(task: &Task, part: &Case<'_>, count: usize) -> Result<Vec<LogisticSoftmaxGibbs>, Mismatch> {
    let n = task.points();
    let shape = [count, task.classes(), n];
    let (counts, omega) = (chains(part, "counts", &shape)?, chains(part, "omega", &shape)?);
    // What else the sampler held; the losses do not read it.
    part.for_information(&["lam", "f"]);
    let of_chain = |(counts, omega): (&Vec<f64>, &Vec<f64>)| {
        let b = (0..task.classes())
            .map(|c| (0..n).map(|i| 0.5 * (f64::from(task.y()[i] == c) - counts[c * n + i])).collect())
            .collect();
        let w = omega.chunks_exact(n).map(|w| w.iter().map(|w| w.max(CLAMP)).collect()).collect();
        Ok(LogisticSoftmaxGibbs::given_sites(task, b, w)?)
    };
    counts.iter().zip(&omega).map(of_chain).collect()
}

/// For use where the error must be one of the Gaussian process.
fn joined(task: &Task, part: &Case<'_>, count: usize) -> siskin_gp::Result<LogisticSoftmaxGibbs> {
    let none = siskin_gp::Error::Empty { what: "chains of the file", needed: 1 };
    LogisticSoftmaxGibbs::joined(ls_chains(task, part, count).map_err(|_| none)?)
}

pub(super) fn check_ls(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let (kernel, laid, count) = (kernel(case)?, case.episode()?, case.count("chains")?);
    let all = labelled(&kernel, (&laid.features, &laid.labels), laid.way)?;
    let mut compare = Comparison::default();

    let marginal = case.part("marginal")?;
    let task = all.task()?;
    let parts = ls_chains(&task, &marginal, count)?;
    let found = all.through_kernel(|task| Ok(joined(task, &marginal, count)?.marginal_likelihood()))?;
    check_gradient(&mut compare, &kernel, &marginal, &found)?;
    let points = task.points() as f64;
    let log_marginal: Vec<f64> =
        parts.iter().map(|chain| -points * chain.marginal_likelihood().value).collect();
    compare.close("log_marginal", &log_marginal, &marginal.values("log_marginal")?, DOUBLE)?;
    let own = all.query(matrix(&laid.features))?;
    let (mut mean, mut var) = (Vec::new(), Vec::new());
    for chain in &parts {
        let latent = chain.latent(&own)?;
        for c in 0..laid.way {
            mean.extend(latent.mean.col_as_slice(c));
            var.extend(latent.var.col_as_slice(c));
        }
    }
    compare.close("conditional_mean", &mean, &case.values("conditional_mean")?, DOUBLE)?;
    compare.close("conditional_var", &var, &case.values("conditional_var")?, DOUBLE)?;

    let predictive = case.part("predictive")?;
    let normals = normals(&predictive, count, laid.query.len(), laid.way)?;
    let found = all.through_kernel_given(&laid.support, |task, query, y| {
        joined(task, &predictive, count)?.predictive_likelihood_with(query, y, &normals)
    })?;
    check_gradient(&mut compare, &kernel, &predictive, &found)?;
    let ((support, labels), (query, _)) = (laid.rows(&laid.support), laid.rows(&laid.query));
    let given = labelled(&kernel, (&support, &labels), laid.way)?;
    let (task, query) = (given.task()?, given.query(matrix(&query))?);
    let (mut latent_mean, mut latent_cov) = (Vec::new(), Vec::new());
    for chain in ls_chains(&task, &predictive, count)? {
        let latent = chain.latent(&query)?;
        latent_mean.extend(row_major(&latent.mean));
        for i in 0..laid.query.len() {
            let diagonal = |(c, d): (usize, usize)| if c == d { latent.var[(i, c)] } else { 0.0 };
            latent_cov.extend((0..laid.way).flat_map(|c| (0..laid.way).map(move |d| (c, d))).map(diagonal));
        }
    }
    compare.close("latent_mean", &latent_mean, &predictive.values("latent_mean")?, DOUBLE)?;
    compare.close("latent_cov", &latent_cov, &predictive.values("latent_cov")?, DOUBLE)?;
    let run = joined(&task, &predictive, count)?;
    let probs = Scores { values: row_major(&run.scores_with(&query, &normals)?), way: laid.way }.softmax();
    let scores: Vec<f64> = probs.iter().map(|p| p.ln()).collect();
    compare.close("scores", &scores, &predictive.values("scores")?, DOUBLE)?;
    compare.close("probs", &probs, &predictive.values("probs")?, DOUBLE)?;

    // Our own score is an integral: within six standard errors of the mean of many draws.
    let integrated = Scores { values: row_major(&run.scores(&query)?), way: laid.way }.softmax();
    let integrated: Vec<f64> = integrated.iter().map(|p| p.ln()).collect();
    let wanted = predictive.values("scores_monte_carlo")?;
    let largest = wanted.iter().fold(1e-3f64, |m, w| m.max(w.abs()));
    let error = 6.0 * predictive.number("scores_monte_carlo_error")?;
    Comparison::default().close("scores_monte_carlo", &integrated, &wanted, error / largest)?;
    Ok(compare)
}

/// `standard_normals [samples][chains][Q][C]` as lists of samples for each chain, query and class.
fn normals(
    part: &Case<'_>,
    chains: usize,
    queries: usize,
    way: usize,
) -> Result<Vec<Vec<Vec<Vec<f64>>>>, Mismatch> {
    let samples = part.nested_shape("standard_normals")?.first().copied().unwrap_or(0);
    let values = part.shaped("standard_normals", &[samples.max(1), chains, queries, way])?;
    let size = chains * queries * way;
    let list = |chain: usize, i: usize, c: usize| -> Vec<f64> {
        values.iter().skip((chain * queries + i) * way + c).step_by(size.max(1)).copied().collect()
    };
    let of_query = |chain: usize, i: usize| (0..way).map(|c| list(chain, i, c)).collect();
    Ok((0..chains).map(|chain| (0..queries).map(|i| of_query(chain, i)).collect()).collect())
}
