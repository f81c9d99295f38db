//! `bayesian_maml.json`: `set_forward_loss`, `set_forward` and the updates of `methods/bayesian_maml.py`.

use super::case::DOUBLE;
use super::{Case, Comparison, Mismatch};
use crate::gradient::bmaml::BmamlSettings;
use crate::gradient::bmaml_chaser::BmamlChaserSettings;
use crate::gradient::particles::{ParticleLoss, ParticleSettings};
use crate::gradient::svgd::{Kernel, Points, Shape, energy_gradient, log_prior, mixture, path, step};

pub(super) fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let (particles, steps) = (case.count("particles")?, case.count("steps")?);
    let rate = case.number("inner_lr")?;
    match case.text("variant")? {
        "BayesianMAML" => compared(
            case,
            &BmamlSettings {
                particles,
                inner_steps: steps,
                inner_learning_rate: rate,
                test_steps: steps,
                as_released: true,
            },
        ),
        "ChaserBayesianMAML" => compared(
            case,
            &BmamlChaserSettings {
                particles,
                inner_steps: steps,
                inner_learning_rate: rate,
                leader_steps: steps,
                leader_learning_rate: case.number("leader_lr")?,
                test_steps: steps,
                as_released: true,
            },
        ),
        _ => Err(case.unknown("variant")),
    }
}

fn compared(case: &Case<'_>, settings: &impl ParticleLoss) -> Result<Comparison, Mismatch> {
    let laid = case.episode()?;
    let ParticleSettings { particles, prior, rule, test_steps: steps, rate } = settings.shared();
    let shape = Shape { particles, dim: laid.features.dim, way: laid.way, prior, rule };
    let theta = case.values("theta")?;
    if theta.len() != shape.particles * shape.size() {
        let found = shape.particles * shape.size();
        return Err(Mismatch::Length { field: "theta".into(), found, wanted: theta.len() });
    }
    let mut compare = Comparison::default();
    let found = settings.loss(&shape, &theta, &laid.features, &laid.episode()?)?;
    compare.close("loss", &[found.loss], &[case.number("loss")?], DOUBLE)?;
    compare.close("dfeatures", &found.dfeatures, &case.values("dfeatures")?, DOUBLE)?;
    compare.close("dtheta", &found.dhyper, &case.values("dtheta")?, DOUBLE)?;
    let priors: Vec<f64> = theta.chunks_exact(shape.size()).map(|p| log_prior(&shape, p)).collect();
    compare.close("log_prior", &priors, &case.values("log_prior")?, DOUBLE)?;

    let ((support, labels), (query, _)) = (laid.rows(&laid.support), laid.rows(&laid.query));
    let points = Points { x: &support, labels: &labels };
    let adapted = path(&shape, &theta, points, rate, steps);
    let log_p: Vec<f64> = mixture(&shape, &adapted[steps], &query).iter().map(|p| p.ln()).collect();
    compare.close("scores", &log_p, &case.values("scores")?, DOUBLE)?;
    for part in case.list("svgd")? {
        let at = part.values("theta")?;
        let energies: Vec<f64> =
            at.chunks_exact(shape.size()).flat_map(|p| energy_gradient(&shape, p, points)).collect();
        compare.close("energy_gradients", &energies, &part.values("energy_gradients")?, DOUBLE)?;
        let kernel = Kernel::of(&shape, &at);
        compare.close("kernel", &kernel.k, &part.values("kernel")?, DOUBLE)?;
        compare.close("bandwidth", &[kernel.h], &[part.number("bandwidth")?], DOUBLE)?;
        compare.close("repulsion", &repulsion(&shape, &kernel, &at), &part.values("repulsion")?, DOUBLE)?;
        compare.close("next_theta", &step(&shape, &at, points, rate), &part.values("next_theta")?, DOUBLE)?;
    }
    Ok(compare)
}

/// What a step adds beside the pull, per unit of rate.
fn repulsion(shape: &Shape, kernel: &Kernel, at: &[f64]) -> Vec<f64> {
    let (m, size) = (shape.particles, shape.size());
    let (_, push) = kernel.pull_and_push(shape, 1.0);
    let entry = |i: usize, c: usize| -> f64 {
        (0..m).map(|j| push * kernel.k[i * m + j] * (at[i * size + c] - at[j * size + c])).sum()
    };
    (0..m).flat_map(|i| (0..size).map(move |c| (i, c))).map(|(i, c)| entry(i, c)).collect()
}
