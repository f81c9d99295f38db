//! The Pólya-Gamma distribution PG(b, c): moments, Laplace transform, distribution function, sampler.
//!
//! PG(b, c) is the law of `1/(2 pi^2) sum_k g_k / ((k - 1/2)^2 + c^2 / (4 pi^2))` with independent
//! `g_k ~ Gamma(b, 1)`. It makes the logistic function conditionally Gaussian:
//!
//! `sigma(x)^y sigma(-x)^m = 2^-(y+m) e^((y-m) x / 2) E exp(-omega x^2 / 2)`, `omega ~ PG(y + m, 0)`.
//!
//! ```
//! use rand::{SeedableRng, distr::Distribution};
//! let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
//! let pg = siskin_gp::equations::PolyaGamma::new(2.0, 1.5)?;
//! let omega: f64 = pg.sample(&mut rng);
//! assert!(omega > 0.0 && (pg.cdf(pg.mean()) - 0.5).abs() < 0.15);
//! # Ok::<(), siskin_gp::Error>(())
//! ```

mod cdf;
mod devroye;
mod gamma_sum;

use crate::special::{log2cosh_half, pg_mean1, pg_var1};
use crate::{Error, Result};
use rand::{Rng, RngExt, distr::Distribution};

/// Up to this `b` a draw is a sum of `floor(b)` exact PG(1, c) draws; above it, the `gamma_sum` is cheaper.
const MAX_SUM: f64 = 32.0;

/// The distribution PG(b, c). `b = 0` is the point mass at 0; the sign of `c` does not matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolyaGamma {
    b: f64,
    c: f64,
}

impl PolyaGamma {
    /// PG(b, c) for any real `b >= 0` and finite `c`.
    pub fn new(b: f64, c: f64) -> Result<Self> {
        if !(b >= 0.0 && b.is_finite()) {
            return Err(Error::OutOfRange { what: "b of PG(b, c)", value: b, must: ">= 0 and finite" });
        }
        if !c.is_finite() {
            return Err(Error::OutOfRange { what: "c of PG(b, c)", value: c, must: "finite" });
        }
        Ok(Self { b, c: c.abs() })
    }

    /// `E omega = b tanh(c/2) / (2c)`.
    pub fn mean(&self) -> f64 {
        self.b * pg_mean1(self.c)
    }

    /// `Var omega = b (sinh c - c) sech^2(c/2) / (4 c^3)`.
    pub fn variance(&self) -> f64 {
        self.b * pg_var1(self.c)
    }

    /// `E e^(-s omega) = (cosh(c/2) / cosh(sqrt((c^2/2 + s) / 2)))^b`; infinite for `s <= -(pi^2 + c^2)/2`.
    pub fn laplace(&self, s: f64) -> f64 {
        if self.b == 0.0 {
            return 1.0;
        }
        let square = (self.c * self.c / 2.0 + s) / 2.0;
        let log2cosh = if square >= 0.0 {
            log2cosh_half(2.0 * square.sqrt())
        } else if square > -std::f64::consts::PI.powi(2) / 4.0 {
            (2.0 * (-square).sqrt().cos()).ln()
        } else {
            return f64::INFINITY;
        };
        (self.b * (log2cosh_half(self.c) - log2cosh)).exp()
    }

    /// `P(omega <= x)`, to about 1e-13.
    pub fn cdf(&self, x: f64) -> f64 {
        if x.is_nan() {
            return f64::NAN;
        }
        if self.b == 0.0 {
            return if x >= 0.0 { 1.0 } else { 0.0 };
        }
        cdf::cdf(self.b, self.c, x)
    }
}

/// Draws omega.
///
/// `b <= 32`: the sum of `floor(b)` exact rejection draws of PG(1, c) and, for the fractional part,
/// one draw by inversion of the distribution function (exact to its rounding, about 1e-13).
/// `b > 32`: the leading terms of the defining sum are drawn exactly and its small tail is a gamma
/// variable of the tail's mean and variance; the distribution function is then within 1e-7 of PG(b, c).
impl Distribution<f64> for PolyaGamma {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        if self.b > MAX_SUM {
            return gamma_sum::sample(self.b, self.c, rng);
        }
        let whole = self.b.floor();
        let fraction = self.b - whole;
        let one = devroye::PolyaGamma1::new(self.c);
        let mut omega = 0.0;
        for _ in 0..whole as usize {
            omega += one.sample(rng);
        }
        if fraction > 0.0 {
            omega += cdf::quantile(fraction, self.c, rng.random::<f64>());
        }
        omega
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn draws(pg: &PolyaGamma, n: usize, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| pg.sample(&mut rng)).collect()
    }

    /// The largest distance between the empirical and the exact distribution function.
    fn kolmogorov_smirnov(pg: &PolyaGamma, mut x: Vec<f64>) -> f64 {
        x.sort_by(f64::total_cmp);
        let n = x.len() as f64;
        // The exact function is dear: every fifth draw.
        x.iter().enumerate().step_by(5).fold(0.0, |worst: f64, (i, &xi)| {
            let f = pg.cdf(xi);
            worst.max((f - i as f64 / n).abs()).max((f - (i + 1) as f64 / n).abs())
        })
    }

    #[test]
    fn distribution_of_draws() {
        let n = 20_000;
        // P(KS > 1.95 / sqrt n) = 0.001 for each case; seeds are fixed.
        for (i, &(b, c)) in [
            (1.0, 0.0),
            (1.0, 0.7),
            (1.0, 4.0),
            (1.0, 30.0),
            (2.0, 0.0),
            (5.0, 1.0),
            (0.3, 0.0),
            (0.5, 2.0),
            (2.7, 1.0),
            (20.0, 0.2),
            (33.0, 0.0),
            (40.5, 3.0),
            (200.0, 12.0),
        ]
        .iter()
        .enumerate()
        {
            let pg = PolyaGamma::new(b, c).unwrap();
            let ks = kolmogorov_smirnov(&pg, draws(&pg, n, i as u64));
            assert!(ks < 1.95 / (n as f64).sqrt(), "b = {b}, c = {c}: KS {ks}");
        }
    }

    #[test]
    fn degenerate_and_bad_parameters() {
        let zero = PolyaGamma::new(0.0, 3.0).unwrap();
        assert_eq!(draws(&zero, 3, 1), [0.0; 3]);
        assert_eq!((zero.cdf(-1e-9), zero.cdf(0.0)), (0.0, 1.0));
        assert!(matches!(PolyaGamma::new(-1.0, 0.0), Err(Error::OutOfRange { value, .. }) if value == -1.0));
        assert!(PolyaGamma::new(f64::NAN, 0.0).is_err());
        assert!(PolyaGamma::new(1.0, f64::INFINITY).is_err());
    }

    #[test]
    fn sign_of_c_does_not_matter() {
        let (p, m) = (PolyaGamma::new(3.0, 2.0).unwrap(), PolyaGamma::new(3.0, -2.0).unwrap());
        assert_eq!(draws(&p, 5, 7), draws(&m, 5, 7));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Mean and variance of draws within 5.5 standard errors of the formulas.
        #[test]
        fn moments(b in 0.2f64..80.0, c in -20.0f64..20.0, seed in 0u64..1000) {
            let n = 4000;
            let pg = PolyaGamma::new(b, c).unwrap();
            let x = draws(&pg, n, seed);
            let mean = x.iter().sum::<f64>() / n as f64;
            let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            // The fourth cumulant of a gamma variable of shape b and scale d is 6 b d^4.
            let fourth: f64 = (0..2000)
                .map(|k| 0.5 / ((std::f64::consts::PI * (k as f64 + 0.5)).powi(2) + c * c / 4.0))
                .map(|d| 6.0 * b * d.powi(4))
                .sum();
            let se_mean = (pg.variance() / n as f64).sqrt();
            let se_var = ((fourth + 2.0 * pg.variance().powi(2)) / n as f64).sqrt();
            prop_assert!((mean - pg.mean()).abs() < 5.5 * se_mean, "mean {mean} of {}", pg.mean());
            prop_assert!((var - pg.variance()).abs() < 5.5 * se_var, "variance {var} of {}", pg.variance());
        }

        /// The distribution function rises from 0 to 1 and its Laplace transform is the formula:
        /// `E e^(-s omega) = s int_0^inf e^(-s x) F(x) dx`.
        #[test]
        fn cdf_against_laplace(b in 0.2f64..12.0, c in 0.0f64..6.0) {
            let pg = PolyaGamma::new(b, c).unwrap();
            let s = 1.0 / pg.mean();
            // x = mean e^t: the trapezoid rule is spectrally accurate in t.
            let h = 0.05;
            let mut sum = 0.0;
            let mut last = 0.0;
            for i in -300..120 {
                let x = pg.mean() * (h * i as f64).exp();
                let f = pg.cdf(x);
                prop_assert!(f >= last - 1e-12 && f <= 1.0 + 1e-12, "F({x}) = {f} after {last}");
                last = f;
                sum += h * s * x * (-s * x).exp() * f;
            }
            prop_assert!((sum - pg.laplace(s)).abs() < 1e-9, "{sum} against {}", pg.laplace(s));
        }
    }
}
