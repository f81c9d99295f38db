//! Functions of a Gaussian marginal (mu, v) through the Polya-Gamma tilt `c = sqrt(mu^2 + v)`.

use super::gamma::{log_minus_digamma1p, one_minus_trigamma1p};

/// sigma(x) = 1 / (1 + exp(-x)), with full relative accuracy for x << 0.
pub(crate) fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    (if x >= 0.0 { 1.0 } else { e }) / (1.0 + e)
}

/// log sigma(x) = min(x, 0) - log(1 + exp(-|x|)), without overflow for any x.
pub(crate) fn log_sigmoid(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

/// `log(2 cosh(c/2)) = c/2 + log1p(e^{-c})` for `c >= 0`.
pub fn log2cosh_half(c: f64) -> f64 {
    0.5 * c + (-c).exp().ln_1p()
}

/// Mean of `PG(1, c)`: `theta(c) = tanh(c/2) / (2c)`, 1/4 at 0.
pub fn pg_mean1(c: f64) -> f64 {
    if c < 1e-4 { 0.25 - c * c / 48.0 } else { (0.5 * c).tanh() / (2.0 * c) }
}

/// Variance of `PG(1, c)`: `(sinh c - c) sech^2(c/2) / (4 c^3)`, 1/24 at 0; equals `-theta'(c)/c`.
pub fn pg_var1(c: f64) -> f64 {
    if c < 1.0 {
        // (sinh c - c)/c^3 = sum_j c^{2j}/(2j+3)!
        let z = c * c;
        let sum = (1.0
            + z / 20.0
                * (1.0
                    + z / 42.0
                        * (1.0 + z / 72.0 * (1.0 + z / 110.0 * (1.0 + z / 156.0 * (1.0 + z / 210.0))))))
            / 6.0;
        let sech = 1.0 / (0.5 * c).cosh();
        return 0.25 * sech * sech * sum;
    }
    let e = (-c).exp();
    let one_plus = 1.0 + e;
    (1.0 - e * e - 2.0 * c * e) / (2.0 * c * c * c * one_plus * one_plus)
}

/// Everything the local updates need of one Gaussian marginal `N(mu, v)`.
#[derive(Debug, Clone, Copy)]
pub struct Tilt {
    /// Eq. (12a). `c = sqrt(mu^2 + v)`.
    pub c: f64,
    /// `theta(c)`, the mean of `PG(1, c)`.
    pub theta: f64,
    /// `rho = -mu/2 - log(2 cosh(c/2)) < 0`, to relative accuracy also for `mu << 0`.
    pub rho: f64,
}

impl Tilt {
    /// Eq. (12a) and the exponent of Eq. (12b), neither forming `cosh` nor `exp(-mu/2)`.
    pub fn new(mu: f64, v: f64) -> Self {
        let c = (mu * mu + v).sqrt();
        // c + mu without cancellation
        let gap = if mu >= 0.0 { c + mu } else { v / (c - mu) };
        let rho = -0.5 * gap - (-c).exp().ln_1p();
        Self { c, theta: pg_mean1(c), rho }
    }

    /// `d rho / d mu = -(1 + 2 theta mu)/2`, without cancellation for `mu < 0`; `d rho / d v = -theta/2`.
    pub(crate) fn drho_dmu(&self, mu: f64, v: f64) -> f64 {
        if mu >= 0.0 {
            return -0.5 * (1.0 + 2.0 * self.theta * mu);
        }
        let m = -mu;
        let e = (-self.c).exp();
        -0.5 * (v / ((self.c + m) * self.c) + m / self.c * 2.0 * e / (1.0 + e))
    }
}

/// The root `u > 0` of `log u - psi(1+u) = log s`, where `s = 1 - eps` in (0, 1): the optimum of `alpha - 1` for
/// given Gaussian marginals. `log_s` is passed beside `eps` because each is accurate where the other is not.
pub fn solve_u(eps: f64, log_s: f64) -> f64 {
    let mut l = log_s - (2.0 * eps).ln();
    // The start is within 11 % of the root for all s; errors 1e-3, 4e-7, 4e-14 after 1, 2, 3 Newton steps.
    for _ in 0..4 {
        l -= (log_minus_digamma1p(l) - log_s) / one_minus_trigamma1p(l.exp());
    }
    l.exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zero_and_infinity() {
        assert_eq!(pg_mean1(0.0), 0.25);
        assert!((pg_var1(0.0) - 1.0 / 24.0).abs() < 1e-17);
        let t = Tilt::new(0.0, 0.0);
        assert_eq!((t.c, t.rho), (0.0, -std::f64::consts::LN_2));
        assert_eq!(Tilt::new(-1e4, 0.0).rho, 0.0);
        assert!((log_sigmoid(-1e4) + 1e4).abs() < 1e-9 && log_sigmoid(1e4) == 0.0);
        assert!(sigmoid(-1e4) == 0.0 && sigmoid(1e4) == 1.0);
    }

    #[test]
    fn branches_meet() {
        assert!((pg_var1(1.0 - 1e-14) / pg_var1(1.0 + 1e-14) - 1.0).abs() < 1e-13);
        assert!((pg_mean1(1e-4 * (1.0 - 1e-12)) / pg_mean1(1e-4) - 1.0).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn derivatives_agree_with_differences(mu in -30.0..30.0f64, v in 0.01..50.0f64) {
            let t = Tilt::new(mu, v);
            let d = 1e-5;
            let fd_mu = (Tilt::new(mu + d, v).rho - Tilt::new(mu - d, v).rho) / (2.0 * d);
            prop_assert!((t.drho_dmu(mu, v) - fd_mu).abs() < 1e-8);
            let dv = 1e-5 * v;
            let fd_v = (Tilt::new(mu, v + dv).rho - Tilt::new(mu, v - dv).rho) / (2.0 * dv);
            prop_assert!((-0.5 * t.theta - fd_v).abs() < 1e-8 / v.min(1.0));
            let fd_c = (pg_mean1(t.c + d) - pg_mean1(t.c - d)) / (2.0 * d);
            prop_assert!((-t.c * pg_var1(t.c) - fd_c).abs() < 1e-9);
        }

        #[test]
        fn solve_u_solves(log_eps in -200.0..-1e-3f64) {
            let eps = log_eps.exp();
            let log_s = if eps < 0.5 { (-eps).ln_1p() } else { (-log_eps.exp_m1()).ln() };
            let u = solve_u(eps, log_s);
            let residual = log_minus_digamma1p(u.ln()) - log_s;
            prop_assert!(residual.abs() < 1e-11 * log_s.abs(), "{u} {residual}");
        }
    }
}
