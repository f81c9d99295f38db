//! The outer rule: an integral over the real line of s, s = u - e^{-u}, u on a grid.

use super::Rule;

/// One node of the outer rule.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// Past u = 1, where the integrand may only fall.
    pub falling: bool,
    pub s: f64,
    /// ht ds/du = ht (1 + e^{-u}).
    pub weight: f64,
    /// exp(-e^s).
    pub gumbel: f64,
}

/// The nodes of the outer rule, computed as they are asked for and kept.
pub(super) struct Outer {
    ht: f64,
    first: f64,
    steps: Vec<Step>,
}

impl Outer {
    pub fn new(rule: &Rule) -> Self {
        // The first u at which exp(-e^{-u}) reaches the tolerance.
        let first = (-(-rule.tol.ln()).ln() / rule.ht).floor();
        Outer { ht: rule.ht, first, steps: Vec::new() }
    }

    #[inline(always)]
    pub fn step(&mut self, k: usize) -> Step {
        while self.steps.len() <= k {
            let u = (self.first + self.steps.len() as f64) * self.ht;
            let s = u - (-u).exp();
            let weight = self.ht * (1.0 + (-u).exp());
            self.steps.push(Step { falling: u > 1.0, s, weight, gumbel: (-s.exp()).exp() });
        }
        self.steps[k]
    }
}
