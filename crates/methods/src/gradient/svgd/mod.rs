//! Stein variational gradient descent on particles of a linear classifier, and its exact adjoint.
//!
//! A particle is (W, b) or (W, b, log lambda); M of them stand for the posterior of the last layer given a task's
//! support. One step (Liu & Wang 2016; Yoon et al. 2018, eq. 4), with U the negative log posterior:
//!
//! theta_i <- theta_i - rate / M sum_j [ k_ij grad U(theta_j) - (2 / h) k_ij (theta_i - theta_j) ]
//!
//! k_ij = exp(-|theta_i - theta_j|^2 / h), h = median_{i<j} |theta_i - theta_j|^2 / log M.
//!
//! The released code of Snell and Zemel (2021) has another kernel, step and prior: [`Rule::Released`] and the priors of that
//! name. `cargo run --release -p siskin-methods --example reference` compares them with values of that code.
//!
//! Meta-training differentiates through the steps, the kernel and the median, with respect to the first particles and
//! to the features. All in double precision on the host: the last layer is small.

mod energy;
mod kernel;
mod step;

pub(crate) use energy::ParticlePrior;
pub(crate) use energy::{energy_gradient, log_prior};
pub(crate) use kernel::Kernel;
pub(crate) use kernel::Rule;
pub(crate) use step::{path, path_adjoint, step};

use siskin_nn::Features;

/// The geometry of the particles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// M.
    pub particles: usize,
    /// Features of a point.
    pub dim: usize,
    /// Classes.
    pub way: usize,
    /// The prior.
    pub prior: ParticlePrior,
    /// The kernel and the length of a step.
    pub rule: Rule,
}

impl Shape {
    /// Number of weights and biases of a particle.
    pub(super) fn weights(&self) -> usize {
        (self.dim + 1) * self.way
    }

    /// Numbers of one particle: W `[dim, way]`, b `[way]`, and log lambda where the prior has it.
    pub fn size(&self) -> usize {
        self.weights() + usize::from(self.prior != ParticlePrior::StandardNormal)
    }

    /// W x + b of one particle, `[way]`.
    pub(super) fn scores(&self, particle: &[f64], x: &[f64]) -> Vec<f64> {
        let mut scores = particle[self.dim * self.way..self.weights()].to_vec();
        for (x, row) in x.iter().zip(particle.chunks_exact(self.way)) {
            scores.iter_mut().zip(row).for_each(|(s, w)| *s += x * w);
        }
        scores
    }

    /// Adds `x r^T` to W and `r` to b.
    pub(super) fn add_outer(&self, to: &mut [f64], x: &[f64], r: &[f64]) {
        let (weights, rest) = to.split_at_mut(self.dim * self.way);
        for (x, row) in x.iter().zip(weights.chunks_exact_mut(self.way)) {
            row.iter_mut().zip(r).for_each(|(w, r)| *w += x * r);
        }
        rest.iter_mut().zip(r).for_each(|(b, r)| *b += r);
    }

    /// Adds `W r` to a gradient with respect to x.
    pub(super) fn add_back(&self, to: &mut [f64], particle: &[f64], r: &[f64]) {
        for (to, row) in to.iter_mut().zip(particle.chunks_exact(self.way)) {
            *to += row.iter().zip(r).map(|(w, r)| w * r).sum::<f64>();
        }
    }
}

/// Labelled points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Points<'a> {
    /// Their features.
    pub x: &'a Features,
    /// Their classes.
    pub labels: &'a [usize],
}

/// Class probabilities of the mean over particles, `[points, way]`.
pub(crate) fn mixture(shape: &Shape, particles: &[f64], x: &Features) -> Vec<f64> {
    let mut mean = vec![0.0; x.rows * shape.way];
    for particle in particles.chunks_exact(shape.size()) {
        for (row, mean) in mean.chunks_exact_mut(shape.way).enumerate() {
            let p = softmax(&shape.scores(particle, x.row(row)));
            mean.iter_mut().zip(p).for_each(|(m, p)| *m += p / shape.particles as f64);
        }
    }
    mean
}

/// -mean log of the mixture's probability of the truth, with its gradients: particles, features.
pub(crate) fn mixture_loss(
    shape: &Shape,
    particles: &[f64],
    points: Points<'_>,
) -> (f64, Vec<f64>, Vec<f64>) {
    let Points { x, labels } = points;
    let n = labels.len() as f64;
    // log p_m(y_n), [particles, points]: far from the truth a probability may underflow, its logarithm does not.
    let log_truth: Vec<f64> = particles
        .chunks_exact(shape.size())
        .flat_map(|particle| {
            (0..x.rows).map(move |row| log_softmax(&shape.scores(particle, x.row(row)), labels[row]))
        })
        .collect();
    let log_sum: Vec<f64> = (0..x.rows)
        .map(|row| log_sum_exp(&log_truth.iter().skip(row).step_by(x.rows).copied().collect::<Vec<_>>()))
        .collect();
    let loss = (shape.particles as f64).ln() - log_sum.iter().sum::<f64>() / n;
    let (mut dparticles, mut dx) = (vec![0.0; particles.len()], vec![0.0; x.values.len()]);
    for (m, particle) in particles.chunks_exact(shape.size()).enumerate() {
        let dparticle = &mut dparticles[m * shape.size()..(m + 1) * shape.size()];
        for (row, dx) in dx.chunks_exact_mut(shape.dim).enumerate() {
            let share = (log_truth[m * x.rows + row] - log_sum[row]).exp() / n;
            let mut r = residual(shape, particle, x.row(row), labels[row]);
            r.iter_mut().for_each(|r| *r *= share);
            shape.add_outer(dparticle, x.row(row), &r);
            shape.add_back(dx, particle, &r);
        }
    }
    (loss, dparticles, dx)
}

fn log_sum_exp(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + values.iter().map(|v| (v - largest).exp()).sum::<f64>().ln()
}

fn log_softmax(scores: &[f64], class: usize) -> f64 {
    scores[class] - log_sum_exp(scores)
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.into_iter().map(|e| e / sum).collect()
}

/// p - y of one point.
pub(super) fn residual(shape: &Shape, particle: &[f64], x: &[f64], label: usize) -> Vec<f64> {
    let mut r = softmax(&shape.scores(particle, x));
    r[label] -= 1.0;
    r
}

#[cfg(test)]
mod tests {
    use super::step::step_adjoint;
    use super::*;
    use crate::shared::golden::{Golden, assert_close};

    fn golden(text: &str, prior: ParticlePrior) -> (Golden, Shape) {
        let golden = Golden::parse(text);
        let count = |name: &str| golden.f64(name) as usize;
        let shape = Shape {
            particles: count("count"),
            dim: count("dim"),
            way: count("way"),
            prior,
            rule: Rule::Yoon,
        };
        (golden, shape)
    }

    #[test]
    fn adapted_particles_and_their_mixture_are_those_of_pytorch() {
        for (text, prior) in [
            (include_str!("../../../tests/golden/bmaml.json"), ParticlePrior::Hierarchical),
            (include_str!("../../../tests/golden/bmaml_chaser.json"), ParticlePrior::StandardNormal),
        ] {
            let (golden, shape) = golden(text, prior);
            let (x, labels) = (golden.table("x", shape.dim), golden.usizes("labels"));
            let support = crate::select(&x, &golden.usizes("support"));
            let support_labels: Vec<usize> = golden.usizes("support").iter().map(|&r| labels[r]).collect();
            let points = Points { x: &support, labels: &support_labels };
            let adapted = (0..golden.f64("steps") as usize)
                .fold(golden.f64s("particles"), |at, _| step(&shape, &at, points, golden.f64("rate")));
            assert_close("adapted", &adapted, &golden.f64s("adapted"), 1e-11);
            let query = crate::select(&x, &golden.usizes("query"));
            assert_close("mixture", &mixture(&shape, &adapted, &query), &golden.f64s("probabilities"), 1e-11);
        }
    }

    #[test]
    fn particles_in_one_place_stay_together_and_one_alone_descends() {
        let (_, shape) =
            golden(include_str!("../../../tests/golden/bmaml_chaser.json"), ParticlePrior::StandardNormal);
        let x = Features { values: (0..8).map(|i| 0.1 * i as f64).collect(), rows: 2, dim: 4 };
        let points = Points { x: &x, labels: &[0, 2] };
        let one: Vec<f64> = (0..shape.size()).map(|i| 0.3 - 0.05 * i as f64).collect();
        let together = step(&shape, &one.repeat(shape.particles), points, 0.1);
        let alone = step(&Shape { particles: 1, ..shape }, &one, points, 0.1);
        let slope = energy_gradient(&shape, &one, points);
        let down: Vec<f64> = one.iter().zip(&slope).map(|(p, g)| p - 0.1 * g).collect();
        assert_close("alone", &alone, &down, 1e-14);
        assert_close("together", &together, &down.repeat(shape.particles), 1e-14);
        let v: Vec<f64> = (0..together.len()).map(|i| (i % 7) as f64 - 3.0).collect();
        let back = step_adjoint(&shape, &one.repeat(shape.particles), points, 0.1, &v, &mut [0.0; 8]);
        assert!(back.iter().all(|b| b.is_finite()));
    }

    #[test]
    fn the_energy_gradient_is_that_of_cross_entropy_and_prior() {
        let x = Features { values: vec![0.3, -0.7, 1.1, 0.2, 0.4, -0.5], rows: 3, dim: 2 };
        let points = Points { x: &x, labels: &[0, 2, 1] };
        for prior in [
            ParticlePrior::StandardNormal,
            ParticlePrior::Hierarchical,
            ParticlePrior::ReleasedHierarchical,
            ParticlePrior::ReleasedStandardNormal,
        ] {
            let shape = Shape { particles: 1, dim: 2, way: 3, prior, rule: Rule::Released };
            let at: Vec<f64> = (0..shape.size()).map(|i| 0.4 - 0.13 * i as f64).collect();
            let energy = |p: &[f64]| energy::cross_entropy(&shape, p, points) - log_prior(&shape, p);
            let gradient = energy_gradient(&shape, &at, points);
            for i in 0..at.len() {
                let moved = |h: f64| {
                    let mut p = at.clone();
                    p[i] += h;
                    energy(&p)
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((slope - gradient[i]).abs() < 1e-8, "{prior:?} {i}: {slope} {}", gradient[i]);
            }
        }
    }

    #[test]
    fn a_truth_of_vanishing_probability_has_a_finite_loss() {
        let (_, shape) =
            golden(include_str!("../../../tests/golden/bmaml_chaser.json"), ParticlePrior::StandardNormal);
        let x = Features { values: vec![1000.0; 4], rows: 1, dim: 4 };
        let mut particles = vec![0.0; shape.particles * shape.size()];
        particles.iter_mut().step_by(shape.size()).for_each(|w| *w = 1.0);
        let (loss, dparticles, dx) = mixture_loss(&shape, &particles, Points { x: &x, labels: &[1] });
        assert!((loss - 1000.0).abs() < 1e-9, "{loss}");
        assert!(dparticles.iter().chain(&dx).all(|d| d.is_finite()));
    }
}
