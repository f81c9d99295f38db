//! The negative log posterior U of one particle: cross-entropies of the points and the prior, with its derivatives.

#[cfg(test)]
use super::log_softmax;
use super::{Points, Shape, residual};

/// The prior of a particle's weights w = (W, b).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParticlePrior {
    /// w ~ N(0, 1).
    StandardNormal,
    /// w ~ N(0, 1 / lambda), lambda ~ Gamma(1, 0.1), with the density of log lambda. A particle then ends with log lambda.
    Hierarchical,
    /// As the released code: lambda is an inverse standard deviation, w ~ N(0, 1 / lambda^2), and the density is that of
    /// lambda, without the Jacobian of log lambda.
    ReleasedHierarchical,
    /// As the released code's chaser: w ~ N(0, 1), and a log lambda that no density knows.
    ReleasedStandardNormal,
}

/// Rate of the Gamma prior of lambda.
const GAMMA_RATE: f64 = 0.1;

/// The prior's precision of the weights is `lambda^power`; without lambda it is 1.
struct LambdaTerms {
    power: f64,
    /// Terms of log lambda in -log p: `-count power / 2 log lambda - jacobian log lambda`.
    jacobian: f64,
}

impl ParticlePrior {
    /// Nothing where the weights have precision 1.
    fn precision(self) -> Option<LambdaTerms> {
        match self {
            ParticlePrior::StandardNormal | ParticlePrior::ReleasedStandardNormal => None,
            ParticlePrior::Hierarchical => Some(LambdaTerms { power: 1.0, jacobian: 1.0 }),
            ParticlePrior::ReleasedHierarchical => Some(LambdaTerms { power: 2.0, jacobian: 0.0 }),
        }
    }
}

/// log p of a particle, all constants included.
pub(crate) fn log_prior(shape: &Shape, particle: &[f64]) -> f64 {
    let count = shape.weights();
    let squares: f64 = particle[..count].iter().map(|w| w * w).sum();
    let gaussian = |precision: f64| {
        0.5 * count as f64 * (precision / (2.0 * std::f64::consts::PI)).ln() - 0.5 * precision * squares
    };
    match shape.prior.precision() {
        None => gaussian(1.0),
        Some(LambdaTerms { power, jacobian }) => {
            let log_lambda = particle[count];
            let gamma = GAMMA_RATE.ln() - GAMMA_RATE * log_lambda.exp();
            gaussian((power * log_lambda).exp()) + gamma + jacobian * log_lambda
        }
    }
}

/// grad U of one particle: sum of cross-entropies minus log prior.
pub(crate) fn energy_gradient(shape: &Shape, particle: &[f64], points: Points<'_>) -> Vec<f64> {
    let mut g = vec![0.0; shape.size()];
    for (row, &label) in points.labels.iter().enumerate() {
        let x = points.x.row(row);
        shape.add_outer(&mut g, x, &residual(shape, particle, x, label));
    }
    let count = shape.weights();
    let precision = weight_precision(shape, particle);
    g[..count].iter_mut().zip(particle).for_each(|(g, w)| *g += precision * w);
    if let Some(LambdaTerms { power, jacobian }) = shape.prior.precision() {
        let squares: f64 = particle[..count].iter().map(|w| w * w).sum();
        let half = 0.5 * power;
        g[count] =
            half * precision * squares - half * count as f64 + GAMMA_RATE * particle[count].exp() - jacobian;
    }
    g
}

fn weight_precision(shape: &Shape, particle: &[f64]) -> f64 {
    shape.prior.precision().map_or(1.0, |p| (p.power * particle[shape.weights()]).exp())
}

/// Adds the gradient of <grad U, v> with respect to particle and features.
pub(super) fn energy_second(
    shape: &Shape,
    particle: &[f64],
    points: Points<'_>,
    v: &[f64],
    dparticle: &mut [f64],
    dx: &mut [f64],
) {
    for (row, &label) in points.labels.iter().enumerate() {
        let x = points.x.row(row);
        let r = residual(shape, particle, x, label);
        let p: Vec<f64> = r.iter().enumerate().map(|(c, r)| r + f64::from(u8::from(c == label))).collect();
        // <grad U, v> = sum_n r_n . u_n with u_n = v_W x_n + v_b, and dr/dscores = diag(p) - p p^T.
        let u = shape.scores(v, x);
        let mean: f64 = p.iter().zip(&u).map(|(p, u)| p * u).sum();
        let q: Vec<f64> = p.iter().zip(&u).map(|(p, u)| p * (u - mean)).collect();
        shape.add_outer(dparticle, x, &q);
        let dx = &mut dx[row * shape.dim..(row + 1) * shape.dim];
        shape.add_back(dx, particle, &q);
        shape.add_back(dx, v, &r);
    }
    let count = shape.weights();
    let precision = weight_precision(shape, particle);
    let (w, v_w) = (&particle[..count], &v[..count]);
    dparticle[..count].iter_mut().zip(v_w).for_each(|(d, v)| *d += precision * v);
    if let Some(LambdaTerms { power, .. }) = shape.prior.precision() {
        let alpha = v[count];
        let squares: f64 = w.iter().map(|w| w * w).sum();
        let inner: f64 = w.iter().zip(v_w).map(|(w, v)| w * v).sum();
        dparticle[..count].iter_mut().zip(w).for_each(|(d, w)| *d += alpha * power * precision * w);
        let bent = 0.5 * power * power * precision * squares + GAMMA_RATE * particle[count].exp();
        dparticle[count] += power * precision * inner + alpha * bent;
    }
}

/// -sum_n log p(y_n | x_n): the part of U that the points give.
#[cfg(test)]
pub(super) fn cross_entropy(shape: &Shape, particle: &[f64], points: Points<'_>) -> f64 {
    let of = |row: usize| log_softmax(&shape.scores(particle, points.x.row(row)), points.labels[row]);
    -(0..points.labels.len()).map(of).sum::<f64>()
}
