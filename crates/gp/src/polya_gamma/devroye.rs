//! Exact draws of PG(1, c) by Devroye's alternating-series rejection (Polson, Scott and Windle 2013).
//!
//! `omega = J / 4` where J has density `cosh(z) e^(-z^2 x / 2) sum_n (-1)^n a_n(x)`, `z = c/2`, and the
//! coefficients have one form for small x and one for large x; both decrease in n on their side of `SPLIT`.

use super::cdf::first_passage;
use rand::{Rng, RngExt, distr::Distribution};
use rand_distr::{Exp1, StandardNormal};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, PI};

/// Where the proposal changes from a truncated inverse Gaussian to an exponential tail.
const SPLIT: f64 = 0.64;

/// PG(1, c) with the constants of its proposal.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolyaGamma1 {
    z: f64,
    rate: f64,
    p_tail: f64,
}

impl PolyaGamma1 {
    /// `c >= 0`.
    pub(super) fn new(c: f64) -> Self {
        let z = c / 2.0;
        let rate = PI * PI / 8.0 + z * z / 2.0;
        // Masses of both proposal pieces, each times e^z.
        let tail = FRAC_PI_2 / rate * (z - rate * SPLIT).exp();
        let body = 2.0 * first_passage(SPLIT, 1.0, z);
        Self { z, rate, p_tail: tail / (tail + body) }
    }

    /// The series coefficient `a_n(x)`, in the form that decreases in n on the side of x.
    fn coefficient(n: f64, x: f64) -> f64 {
        let k = n + 0.5;
        if x <= SPLIT {
            PI * k * (FRAC_2_PI / x).powf(1.5) * (-2.0 * k * k / x).exp()
        } else {
            PI * k * (-k * k * PI * PI * x / 2.0).exp()
        }
    }

    /// An inverse Gaussian of mean 1/z and shape 1, truncated to `(0, SPLIT)`.
    fn truncated_inverse_gaussian<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let z = self.z;
        if z * SPLIT < 1.0 {
            loop {
                // x = SPLIT / (1 + SPLIT e)^2 has the law of 1/chi^2 truncated to (0, SPLIT).
                let x = loop {
                    let e: f64 = rng.sample(Exp1);
                    let e2: f64 = rng.sample(Exp1);
                    if e * e <= 2.0 * e2 / SPLIT {
                        let d = 1.0 + SPLIT * e;
                        break SPLIT / (d * d);
                    }
                };
                if rng.random::<f64>() <= (-z * z * x / 2.0).exp() {
                    return x;
                }
            }
        }
        let mean = 1.0 / z;
        loop {
            let normal: f64 = rng.sample(StandardNormal);
            let y = normal * normal;
            // The smaller root, mean (1 + r - sqrt(2r + r^2)) with r = mean y / 2, without cancellation.
            let r = mean * y / 2.0;
            let small = mean / (1.0 + r + (r * (2.0 + r)).sqrt());
            let x = if rng.random::<f64>() <= mean / (mean + small) { small } else { mean * mean / small };
            if x < SPLIT {
                return x;
            }
        }
    }
}

impl Distribution<f64> for PolyaGamma1 {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        loop {
            let x = if rng.random::<f64>() < self.p_tail {
                let e: f64 = rng.sample(Exp1);
                SPLIT + e / self.rate
            } else {
                self.truncated_inverse_gaussian(rng)
            };
            let mut sum = Self::coefficient(0.0, x);
            let level = rng.random::<f64>() * sum;
            let mut n = 0.0;
            loop {
                n += 1.0;
                sum -= Self::coefficient(n, x);
                if level <= sum {
                    return x / 4.0;
                }
                n += 1.0;
                sum += Self::coefficient(n, x);
                if level > sum {
                    break;
                }
            }
        }
    }
}
