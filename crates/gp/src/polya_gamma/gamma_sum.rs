//! Draws of PG(b, c) for large b from its defining sum of gamma variables.

use crate::special::{pg_mean1, pg_var1};
use rand::Rng;
use rand_distr::{Distribution, Gamma, StandardNormal};
use std::f64::consts::PI;

/// Above this b a gamma variable is normal to rounding of any use (skewness 2e-6), and cheaper.
const NORMAL_ABOVE: f64 = 1e12;

/// The sum split into its leading weights and the gamma variable that stands for its tail.
struct Split {
    weights: Vec<f64>,
    tail_shape: f64,
    tail_scale: f64,
}

/// `1/(2 pi^2) / ((k - 1/2)^2 + c^2 / (4 pi^2))` for the first `8 + c` k; the tail by mean and variance.
fn split(b: f64, c: f64) -> Split {
    let terms = 8 + c.min(100.0) as usize;
    let weights: Vec<f64> = (0..terms)
        .map(|k| {
            let half = k as f64 + 0.5;
            0.5 / (PI * PI * half * half + c * c / 4.0)
        })
        .collect();
    let mean = pg_mean1(c) - weights.iter().sum::<f64>();
    let var = pg_var1(c) - weights.iter().map(|d| d * d).sum::<f64>();
    Split { weights, tail_shape: b * mean * mean / var, tail_scale: var / mean }
}

/// One draw of PG(b, c), `b` large.
pub(super) fn sample<R: Rng + ?Sized>(b: f64, c: f64, rng: &mut R) -> f64 {
    if b > NORMAL_ABOVE {
        let normal: f64 = StandardNormal.sample(rng);
        return b * pg_mean1(c) + (b * pg_var1(c)).sqrt() * normal;
    }
    let s = split(b, c);
    // Shapes and scales are positive and finite here, so the constructor cannot refuse them.
    let draw = |shape: f64, rng: &mut R| Gamma::new(shape, 1.0).map_or(shape, |g| g.sample(rng));
    let lead: f64 = s.weights.iter().map(|d| d * draw(b, rng)).sum();
    lead + s.tail_scale * draw(s.tail_shape, rng)
}

#[cfg(test)]
mod tests {
    use super::super::cdf::{characteristic, invert};
    use super::*;

    /// The distribution function of the split law is within 1e-7 of PG(b, c).
    #[test]
    fn tail_error() {
        for &c in &[0.0, 1.0, 5.0, 20.0, 60.0] {
            let b = 32.5;
            let s = split(b, c);
            // log of prod_k (1 - i t d_k)^-b (1 - i t scale)^-shape as modulus and angle.
            let approximate = |t: f64| {
                let factor =
                    |d: f64, shape: f64| (-0.5 * shape * (t * d * t * d).ln_1p(), shape * (t * d).atan());
                s.weights.iter().fold(factor(s.tail_scale, s.tail_shape), |(m, a), &d| {
                    let (dm, da) = factor(d, b);
                    (m + dm, a + da)
                })
            };
            let (mean, sd) = (b * pg_mean1(c), (b * pg_var1(c)).sqrt());
            for z in [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0] {
                let x = mean + z * sd;
                let exact = invert(x, mean, sd, |t| characteristic(b, c, t));
                let split = invert(x, mean, sd, approximate);
                assert!((exact - split).abs() < 1e-7, "c = {c}, z = {z}: {exact} and {split}");
            }
        }
    }
}
