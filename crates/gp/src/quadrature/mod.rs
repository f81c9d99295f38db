//! The integrals of the logistic-softmax likelihood against Gaussians, each to a stated accuracy.
//!
//! Everything is in standardised units x = f / tau: means `mu / tau`, variances `v / tau^2`.
//! With Z = sum_c sigma(x_c) and independent x_c ~ N(mu_c, v_c):
//!
//! * [`log_sigmoid::e_log_sigmoid`]: E log sigma(x)
//! * [`log_z::LogZ`]: E log Z, by one integral over the real line of a product of class factors
//! * [`expected::expected_log_lik`]: sum_n E log sigma(x_{n,y}) - E log Z_n, what a bound on log p(Y) needs
//! * [`probabilities::Predictive`]: E [ sigma(x_k) / Z ], the class probabilities
//!
//! All are trapezoidal rules on analytic integrands: the error falls like exp(-2 pi^2 / spacing).
//! Relabelling the classes permutes the results bit for bit: classes are visited in the order of their (mean, variance).

mod exp;
pub(crate) mod expected;
mod grid;
mod lattice;
pub(crate) mod log_sigmoid;
pub(crate) mod log_z;
pub(crate) mod lumped;
mod nodes;
mod outer;
pub(crate) mod probabilities;
pub(crate) mod tilted;

use crate::{Error, Result};

/// How accurate a quadrature is. The errors are absolute and per point, for variances up to some 1e7 tau^2: beyond, there are
/// fewer nodes than the rule asks for, and a probability may be wrong by 1e-2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolution {
    /// About 1e-5 in E log Z, 1e-6 in a probability.
    Fast,
    /// About 3e-9 in E log Z, 7e-8 in a probability.
    #[default]
    Standard,
    /// About 1e-9 in a probability: for log p of labels in training.
    Learning,
    /// About 3e-12 in E log Z, 1e-11 in a probability. Each class has nodes of its own: an oracle for the others, which share
    /// tables.
    Fine,
    /// To the rounding of f64.
    Golden,
}

/// Spacings and cuts of a trapezoidal rule over x = mu + sqrt(v) z and over the scale u.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rule {
    /// Largest spacing of the nodes in x.
    hx: f64,
    /// Spacing in u.
    ht: f64,
    /// Largest spacing in z.
    d0: f64,
    /// The nodes cover |z| <= z.
    z: f64,
    /// Where the integrand in u is cut off.
    tol: f64,
    /// Whether classes and points share nodes and tables ([`lattice`]).
    shared: bool,
}

impl Rule {
    /// The rule for the outer steps of a level: growing steps no longer average out the ripple e^{-pi^2/hx} that nodes in x
    /// leave on the class factors, so the nodes must be dense enough to leave none.
    fn at_level(self, level: usize) -> Rule {
        if level == 0 { self } else { Rule { hx: self.hx.min(0.27), ..self } }
    }

    /// Taylor polynomials of third order stand in for e^{-q} up to q = tol^{1/4}.
    #[inline(always)]
    fn log_tiny(&self) -> f64 {
        0.25 * self.tol.ln()
    }
}

impl Resolution {
    /// The rule for E log sigma and E log Z.
    pub(crate) fn bound_rule(self) -> Rule {
        match self {
            Resolution::Fast => Rule { hx: 1.10, ht: 0.60, d0: 1.10, z: 5.8, tol: 1e-8, shared: true },
            Resolution::Standard => Rule { hx: 0.70, ht: 0.40, d0: 0.75, z: 7.1, tol: 1e-12, shared: true },
            Resolution::Learning => Rule { hx: 0.60, ht: 0.32, d0: 0.68, z: 7.6, tol: 1e-13, shared: true },
            Resolution::Fine => Rule { hx: 0.52, ht: 0.27, d0: 0.62, z: 8.2, tol: 1e-14, shared: false },
            Resolution::Golden => Rule { hx: 0.40, ht: 0.22, d0: 0.50, z: 8.8, tol: 1e-16, shared: false },
        }
    }

    /// The absolute error of a class probability, as stated above.
    pub(crate) fn probability_error(self) -> f64 {
        match self {
            Resolution::Fast => 1e-6,
            Resolution::Standard => 7e-8,
            Resolution::Learning => 1e-9,
            Resolution::Fine => 1e-11,
            Resolution::Golden => 1e-13,
        }
    }

    /// The rule for class probabilities.
    pub(crate) fn predictive_rule(self) -> Rule {
        match self {
            Resolution::Fast => Rule { hx: 0.75, ht: 0.55, d0: 1.05, z: 5.0, tol: 1e-7, shared: true },
            Resolution::Standard => Rule { hx: 0.60, ht: 0.45, d0: 0.90, z: 5.5, tol: 1e-8, shared: true },
            Resolution::Learning => Rule { hx: 0.46, ht: 0.38, d0: 0.80, z: 6.2, tol: 1e-10, shared: true },
            Resolution::Fine => Rule { hx: 0.35, ht: 0.30, d0: 0.70, z: 7.0, tol: 1e-12, shared: false },
            Resolution::Golden => Rule { hx: 0.28, ht: 0.22, d0: 0.50, z: 8.8, tol: 1e-16, shared: false },
        }
    }
}

/// The order in which classes are visited: by mean, then variance. Classes that tie are the same numbers.
fn class_order(mu: &[f64], v: &[f64], order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..mu.len());
    order.sort_by(|&i, &j| mu[i].total_cmp(&mu[j]).then(v[i].total_cmp(&v[j])));
}

/// The largest variance (in units of tau^2) the rules accept: beyond it the node grid would not fit in memory.
pub(crate) const MAX_VARIANCE: f64 = 1e12;

/// An output has one place for each class.
fn check_output(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if expected == got { Ok(()) } else { Err(Error::Shape { what, expected, got }) }
}

/// Means finite, variances within [0, [`MAX_VARIANCE`]], as many of one as of the other.
fn check_marginals(mu: &[f64], v: &[f64]) -> Result<()> {
    if mu.is_empty() {
        return Err(Error::Empty { what: "means", needed: 1 });
    }
    if v.len() != mu.len() {
        return Err(Error::Shape { what: "variances", expected: mu.len(), got: v.len() });
    }
    if let Some(col) = mu.iter().position(|m| !m.is_finite()) {
        return Err(Error::NotFinite { what: "mean", row: 0, col, value: mu[col] });
    }
    match v.iter().find(|v| !(**v >= 0.0 && **v <= MAX_VARIANCE)) {
        Some(&value) => {
            Err(Error::OutOfRange { what: "variance / tau^2", value, must: "between 0 and 1e12" })
        }
        None => Ok(()),
    }
}
