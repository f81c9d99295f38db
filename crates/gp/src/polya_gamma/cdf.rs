//! The distribution function of PG(b, c), and its inverse.
//!
//! Two exact formulas, each where it does not cancel. PG(b, c) is a signed mixture of inverse Gaussians:
//!
//! `F(x) = (1 + e^-c)^b sum_n (-1)^n Gamma(n+b) / (Gamma(b) n!) e^(-nc) H(x; n + b/2, c)`,
//! `H(x; a, c) = P(first time Brownian motion with drift c reaches a <= x)`;
//! where the terms grow beyond what the digits bear, the characteristic function is inverted instead.

use crate::special::{log2cosh_half, pg_mean1, pg_var1};
use std::f64::consts::PI;

/// Accepted loss by cancellation in the mixture.
const MIXTURE_ERROR: f64 = 2e-14;

/// `P(omega <= x)` for `b > 0`, `c >= 0`.
pub(super) fn cdf(b: f64, c: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x == f64::INFINITY {
        return 1.0;
    }
    let mixture = mixture(b, c, x);
    if mixture.error <= MIXTURE_ERROR {
        return mixture.cdf.clamp(0.0, 1.0);
    }
    let (mean, sd) = (b * pg_mean1(c), (b * pg_var1(c)).sqrt());
    invert(x, mean, sd, |t| characteristic(b, c, t)).clamp(0.0, 1.0)
}

/// The mixture formula at one x: distribution function, density, and a bound of the rounding error.
struct Mixture {
    cdf: f64,
    density: f64,
    error: f64,
}

fn mixture(b: f64, c: f64, x: f64) -> Mixture {
    let root = (2.0 * x).sqrt();
    let scale = (b * (-c).exp().ln_1p()).exp();
    let mut coefficient = scale;
    let (mut cdf, mut density, mut absolute) = (0.0, 0.0, 0.0);
    let mut n = 0.0;
    loop {
        let a = n + b / 2.0;
        let below = (a - c * x) / root;
        let hit = first_passage(x, a, c);
        let term = coefficient.abs() * hit;
        cdf += coefficient * hit;
        density += coefficient * a / (root * x * PI.sqrt()) * (-below * below).exp();
        absolute += term;
        // Past the bulk (a > c x) terms fall faster than geometrically.
        let ratio = (n + b) / (n + 1.0) * (-c).exp();
        if (term <= 1e-18 && (ratio < 1.0 || below > 1.0)) || n > 1000.0 || !absolute.is_finite() {
            let error = if n > 1000.0 { f64::INFINITY } else { absolute * f64::EPSILON };
            return Mixture { cdf, density, error: if error.is_nan() { f64::INFINITY } else { error } };
        }
        n += 1.0;
        coefficient *= -ratio;
    }
}

/// `H(x; a, c) = Phi((c x - a) / sqrt x) + e^(2ac) Phi(-(c x + a) / sqrt x)`: the distribution function of an
/// inverse Gaussian of mean `a/c` and shape `a^2`.
pub(super) fn first_passage(x: f64, a: f64, c: f64) -> f64 {
    let root = (2.0 * x).sqrt();
    let below = (a - c * x) / root;
    0.5 * libm::erfc(below) + 0.5 * erfcx((a + c * x) / root) * (-below * below).exp()
}

/// `e^(z^2) erfc(z)` for `z >= 0`.
fn erfcx(z: f64) -> f64 {
    if z < 6.0 {
        return (z * z).exp() * libm::erfc(z);
    }
    // 1/(z sqrt pi) sum_k (-1)^k (2k-1)!! / (2 z^2)^k; its smallest term is below e^-36.
    let step = 0.5 / (z * z);
    let (mut sum, mut term, mut k) = (1.0f64, 1.0f64, 1.0f64);
    while term.abs() > 1e-17 && (2.0 * k - 1.0) * step < 1.0 {
        term *= -(2.0 * k - 1.0) * step;
        sum += term;
        k += 1.0;
    }
    sum / (z * PI.sqrt())
}

/// The characteristic function `E e^(i t omega)` as (log modulus, angle):
/// `b (log cosh(c/2) - log cosh s)`, `s = sqrt((c^2/2 - i t) / 2)`.
pub(super) fn characteristic(b: f64, c: f64, t: f64) -> (f64, f64) {
    // s = p - i q with p^2 - q^2 = c^2/4, 2 p q = t/2.
    let quarter = c * c / 4.0;
    let modulus = quarter.hypot(t / 2.0);
    let p = ((modulus + quarter) / 2.0).sqrt();
    let q = t / (4.0 * p);
    // log 2cosh(p - iq) = p - iq + log(1 + e^(-2p + 2iq)).
    let (re, im) = (1.0 + (-2.0 * p).exp() * (2.0 * q).cos(), (-2.0 * p).exp() * (2.0 * q).sin());
    let log_modulus = p + 0.5 * (re * re + im * im).ln();
    (b * (log2cosh_half(c) - log_modulus), b * (q - im.atan2(re)))
}

/// `F(x)` from a characteristic function by the midpoint rule in Gil-Pelaez' formula (Davies 1973):
/// `F = 1/2 - 1/pi sum_k Im(phi(t_k) e^(-i t_k x)) / (k + 1/2)`, `t_k = (k + 1/2) h`;
/// what it neglects is the chance of a value `2 pi / h` away from x.
pub(super) fn invert(x: f64, mean: f64, sd: f64, phi: impl Fn(f64) -> (f64, f64)) -> f64 {
    // The law is a sum of exponentials of mean at most sd: 40 sd covers 1e-16 of both tails.
    let h = 2.0 * PI / (x.max(mean) + 40.0 * sd);
    let mut sum = 0.0;
    let mut k = 0.5;
    loop {
        let t = k * h;
        let (log_modulus, angle) = phi(t);
        let size = log_modulus.exp() / k;
        sum += size * (angle - t * x).sin();
        if size < 1e-17 {
            return 0.5 - sum / PI;
        }
        k += 1.0;
    }
}

/// The x with `F(x) = u` for `0 < b < 1`, by Newton steps kept inside a shrinking bracket in log x.
pub(super) fn quantile(b: f64, c: f64, u: f64) -> f64 {
    let log_mean = (b * pg_mean1(c)).ln();
    // x = e^l; below the bracket F < 1e-17, above it 1 - F is smaller than the spacing of u.
    let (mut low, mut high) = ((2.0 * (b / 20.0).ln()).min(log_mean - 3.0), 3.0f64);
    let mut l = log_mean;
    for _ in 0..100 {
        let x = l.exp();
        let m = mixture(b, c, x);
        if m.cdf < u {
            low = l;
        } else {
            high = l;
        }
        let newton = l - (m.cdf - u) / (m.density * x);
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - l).abs() < 1e-13 * (1.0 + l.abs()) {
            return next.exp();
        }
        l = next;
    }
    l.exp()
}
