//! The gamma function's logarithm, its derivatives, and two differences that cancel if formed naively.

/// Below this the recurrence lifts the argument, above it the asymptotic series holds to 1e-17.
const LIFT: f64 = 12.0;

/// Above this `log u - psi(1+u)` and `1 - u psi'(1+u)` use their own series: the direct form cancels.
const FAR: f64 = 20.0;

/// Above this the Gamma entropy uses its series: the direct form loses `alpha log(alpha)` units in the last place.
const ENTROPY_FAR: f64 = 60.0;

/// `psi(x)`, the logarithmic derivative of the gamma function, for `x > 0`.
pub fn digamma(x: f64) -> f64 {
    let mut x = x;
    let mut lifted = 0.0;
    while x < LIFT {
        lifted += 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = z
        * (1.0 / 12.0
            - z * (1.0 / 120.0
                - z * (1.0 / 252.0
                    - z * (1.0 / 240.0
                        - z * (1.0 / 132.0
                            - z * (691.0 / 32760.0 - z * (1.0 / 12.0 - z * (3617.0 / 8160.0))))))));
    x.ln() - 0.5 / x - series - lifted
}

/// `psi'(x)`, the derivative of digamma, for `x > 0`.
pub fn trigamma(x: f64) -> f64 {
    let mut x = x;
    let mut lifted = 0.0;
    while x < LIFT {
        lifted += 1.0 / (x * x);
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = z
        * (1.0 / 6.0
            - z * (1.0 / 30.0
                - z * (1.0 / 42.0
                    - z * (1.0 / 30.0
                        - z * (5.0 / 66.0
                            - z * (691.0 / 2730.0 - z * (7.0 / 6.0 - z * (3617.0 / 510.0))))))));
    lifted + (1.0 + 0.5 / x + series) / x
}

/// `log Gamma(x)` for `x > 0`.
pub fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut product = 1.0;
    while x < LIFT {
        product *= x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = (1.0 / 12.0
        - z * (1.0 / 360.0
            - z * (1.0 / 1260.0
                - z * (1.0 / 1680.0 - z * (1.0 / 1188.0 - z * (691.0 / 360_360.0 - z * (1.0 / 156.0)))))))
        / x;
    let half_log_two_pi = 0.918_938_533_204_672_8;
    (x - 0.5) * x.ln() - x + half_log_two_pi + series - product.ln()
}

/// Entropy of `Ga(alpha, rate 1)`: `H(alpha) = alpha + log Gamma(alpha) + (1 - alpha) psi(alpha)`.
pub fn gamma_entropy(alpha: f64) -> f64 {
    if alpha <= ENTROPY_FAR {
        return alpha + ln_gamma(alpha) + (1.0 - alpha) * digamma(alpha);
    }
    let r = 1.0 / alpha;
    let series = r
        * (-1.0 / 3.0
            + r * (-1.0 / 12.0
                + r * (-1.0 / 90.0
                    + r * (1.0 / 120.0
                        + r * (1.0 / 210.0 + r * (-1.0 / 252.0 + r * (-1.0 / 210.0 + r * (1.0 / 240.0))))))));
    0.5 * (2.0 * std::f64::consts::PI * std::f64::consts::E * alpha).ln() + series
}

/// `log u - psi(1 + u)` at `u = exp(l)`, for any `l` (also where `u` underflows); negative, `-> -1/(2u)`.
pub fn log_minus_digamma1p(l: f64) -> f64 {
    let u = l.exp();
    if u <= FAR {
        return l - digamma(1.0 + u);
    }
    let r = 1.0 / u;
    let z = r * r;
    -0.5 * r
        + z * (1.0 / 12.0
            - z * (1.0 / 120.0
                - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (1.0 / 132.0 - z * (691.0 / 32760.0))))))
}

/// `psi(x) - log x` for `x > 0`: negative, `-> -1/(2x)`.
pub(crate) fn digamma_minus_log(x: f64) -> f64 {
    if x <= FAR {
        return digamma(x) - x.ln();
    }
    let z = 1.0 / (x * x);
    -0.5 / x
        - z * (1.0 / 12.0
            - z * (1.0 / 120.0
                - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (1.0 / 132.0 - z * (691.0 / 32760.0))))))
}

/// `h(u) = 1 - u psi'(1 + u)`, in (0, 1], `-> 1/(2u)`: the slope of [`log_minus_digamma1p`] in `l`.
pub fn one_minus_trigamma1p(u: f64) -> f64 {
    if u <= FAR {
        return 1.0 - u * trigamma(1.0 + u);
    }
    let r = 1.0 / u;
    let z = r * r;
    0.5 * r
        - z * (1.0 / 6.0
            - z * (1.0 / 30.0
                - z * (1.0 / 42.0 - z * (1.0 / 30.0 - z * (5.0 / 66.0 - z * (691.0 / 2730.0))))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let euler = 0.577_215_664_901_532_9;
        assert!((digamma(1.0) + euler).abs() < 1e-15);
        assert!((digamma(0.5) + euler + 2.0 * 2f64.ln()).abs() < 4e-15);
        assert!((trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 4e-15);
        assert!((ln_gamma(0.5) - 0.5 * std::f64::consts::PI.ln()).abs() < 2e-14);
        assert!(ln_gamma(1.0).abs() < 1e-13 && ln_gamma(2.0).abs() < 1e-13);
        let fact20: f64 = (1..=20).map(|i| i as f64).product();
        assert!((ln_gamma(21.0) - fact20.ln()).abs() < 1e-13);
    }

    #[test]
    fn recurrences_hold_over_twenty_decades() {
        for e in -40..=40 {
            let x = 10f64.powf(e as f64 / 4.0);
            let psi = digamma(x + 1.0) - digamma(x) - 1.0 / x;
            assert!(psi.abs() < 4e-15 * (1.0 / x + x.ln().abs() + 1.0), "{x} {psi}");
            let tri = trigamma(x) - trigamma(x + 1.0) - 1.0 / (x * x);
            assert!(tri.abs() < 4e-15 * trigamma(x), "{x} {tri}");
        }
    }

    #[test]
    fn series_meet_the_direct_forms_at_their_borders() {
        for (border, f) in [
            (FAR.ln(), &log_minus_digamma1p as &dyn Fn(f64) -> f64),
            (FAR, &one_minus_trigamma1p),
            (ENTROPY_FAR, &gamma_entropy),
            (FAR, &digamma_minus_log),
        ] {
            let (below, above) = (f(border * (1.0 - 1e-13)), f(border * (1.0 + 1e-13)));
            assert!(((below - above) / above).abs() < 2e-12, "{below} {above}");
        }
    }
}
