//! A Gaussian over all weights of a network, and its derivatives.
//!
//! lambda = (mu, rho) is one flat vector, all means, then all log-variances: weights are mu + exp(rho / 2) eps. All sums
//! run over the weights; functions named `add_` add `weight` times a derivative to a slice as long as lambda.

use rand_distr::{Distribution, StandardNormal};
use siskin_nn::stream;

/// Rate of the Gamma hyper-prior of the precisions.
const GAMMA_RATE: f32 = 0.01;

/// Room for the places of one task and the samples of one place in the numbers of the streams.
const PLACES: u64 = 1 << 16;

/// `len` standard normal numbers for sample `s` at `place` of task `index`.
pub(super) fn draw(seed: u64, name: &str, index: u64, [place, s]: [usize; 2], len: usize) -> Vec<f32> {
    let mut rng = stream(seed, name, (index * PLACES + place as u64) * PLACES + s as u64);
    (0..len).map(|_| StandardNormal.sample(&mut rng)).collect()
}

/// Weights drawn from the Gaussian, and what their derivatives need.
pub(super) struct Sample {
    /// mu + exp(rho / 2) eps.
    pub weights: Vec<f32>,
    /// exp(rho / 2) eps.
    spread: Vec<f32>,
}

impl Sample {
    /// The weights of `eps`.
    pub(super) fn new(lambda: &[f32], eps: Vec<f32>) -> Sample {
        let (mu, rho) = lambda.split_at(lambda.len() / 2);
        let spread: Vec<f32> = rho.iter().zip(eps).map(|(rho, eps)| (0.5 * rho).exp() * eps).collect();
        Sample { weights: mu.iter().zip(&spread).map(|(mu, s)| mu + s).collect(), spread }
    }

    /// From a gradient `g` in the weights to one in lambda: dw/dmu = 1, dw/drho = spread / 2.
    pub(super) fn add_gradient(&self, g: &[f32], weight: f32, to: &mut [f32]) {
        let (mu, rho) = to.split_at_mut(self.weights.len());
        for i in 0..g.len() {
            mu[i] += weight * g[i];
            rho[i] += weight * 0.5 * self.spread[i] * g[i];
        }
    }

    /// The change of the weights where lambda changes along `v`.
    pub(super) fn along(&self, v: &[f32]) -> Vec<f32> {
        let (mu, rho) = v.split_at(self.weights.len());
        (0..mu.len()).map(|i| mu[i] + 0.5 * self.spread[i] * rho[i]).collect()
    }
}

/// Adds to a Hessian times `v` what the second derivative of the weights gives, d^2w/drho^2 = spread / 4: half the
/// gradient in rho, `slope`, that [`Sample::add_gradient`] made.
pub(super) fn add_curvature(slope: &[f32], v: &[f32], to: &mut [f32]) {
    let n = slope.len();
    for i in 0..n {
        to[n + i] += 0.5 * slope[i] * v[n + i];
    }
}

/// KL(q || q_0) = 1/2 sum [ exp(rho - rho_0) + (mu - mu_0)^2 exp(-rho_0) - 1 - rho + rho_0 ].
pub(super) fn kl(lambda: &[f32], start: &[f32]) -> f64 {
    let n = lambda.len() / 2;
    let term = |i: usize| {
        let (d_mu, d_rho) = (f64::from(lambda[i] - start[i]), f64::from(lambda[n + i] - start[n + i]));
        d_rho.exp_m1() - d_rho + d_mu * d_mu * f64::from(-start[n + i]).exp()
    };
    0.5 * (0..n).map(term).sum::<f64>()
}

/// dKL/dlambda.
pub(super) fn add_kl_gradient(lambda: &[f32], start: &[f32], weight: f32, to: &mut [f32]) {
    let n = lambda.len() / 2;
    for i in 0..n {
        to[i] += weight * (lambda[i] - start[i]) * (-start[n + i]).exp();
        to[n + i] += weight * 0.5 * (lambda[n + i] - start[n + i]).exp_m1();
    }
}

/// dKL/dlambda_0.
pub(super) fn add_kl_prior_gradient(lambda: &[f32], start: &[f32], weight: f32, to: &mut [f32]) {
    let n = lambda.len() / 2;
    for i in 0..n {
        let (d_mu, precision) = (lambda[i] - start[i], (-start[n + i]).exp());
        to[i] -= weight * d_mu * precision;
        to[n + i] -= weight * 0.5 * ((lambda[n + i] - start[n + i]).exp_m1() + d_mu * d_mu * precision);
    }
}

/// The derivatives of <dKL/dlambda, v>: with respect to lambda, and to lambda_0.
pub(super) fn add_kl_second(
    lambda: &[f32],
    start: &[f32],
    v: &[f32],
    weight: f32,
    to: &mut [f32],
    dstart: &mut [f32],
) {
    let n = lambda.len() / 2;
    for i in 0..n {
        let precision = (-start[n + i]).exp();
        let by_mu = weight * precision * v[i];
        let by_rho = weight * 0.5 * (lambda[n + i] - start[n + i]).exp() * v[n + i];
        to[i] += by_mu;
        to[n + i] += by_rho;
        dstart[i] -= by_mu;
        dstart[n + i] -= by_rho + (lambda[i] - start[i]) * by_mu;
    }
}

/// -log p(lambda_0) up to constants for mu_0 ~ N(0, 1) and exp(-rho_0) ~ Gamma(1, 0.01): the sum of
/// mu_0^2 / 2 + 0.01 exp(-rho_0).
pub(super) fn add_hyper_prior(start: &[f32], weight: f32, to: &mut [f32]) -> f64 {
    let n = start.len() / 2;
    let mut value = 0.0;
    for i in 0..n {
        let precision = (-start[n + i]).exp();
        value += f64::from(0.5 * start[i] * start[i] + GAMMA_RATE * precision);
        to[i] += weight * start[i];
        to[n + i] -= weight * GAMMA_RATE * precision;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_differ_by_task_place_and_number_and_have_unit_variance() {
        let of = |index, place, s| draw(7, "abml train", index, [place, s], 4000);
        let all = [of(0, 0, 0), of(1, 0, 0), of(0, 1, 0), of(0, 0, 1), of(0, 2, 3)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{i}");
            let square = a.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 4000.0;
            // Variance of x^2 is 2: five standard errors.
            assert!((square - 1.0).abs() < 5.0 * (2.0f64 / 4000.0).sqrt(), "{square}");
        }
        assert_eq!(of(3, 2, 1), of(3, 2, 1));
    }
}
