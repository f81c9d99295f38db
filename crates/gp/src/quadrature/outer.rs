//! The outer rule: an integral over the real line of s, s = u - e^{-u}, u on a grid.

use super::Rule;
use crate::{kernels::softplus, special::sigmoid};

/// One node of the outer rule.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// Past u = 1, where the integrand may only fall.
    pub falling: bool,
    pub s: f64,
    /// e^s.
    pub scale: f64,
    /// ht ds/du = ht (1 + e^{-u}).
    pub weight: f64,
    /// exp(-e^s).
    pub gumbel: f64,
}

/// The nodes of the outer rule, computed as they are asked for and kept.
///
/// Where every class is wide (standard deviation >= 2^level in x), the integrand past the bend of sigma varies on that scale
/// only, and the steps in s grow to 2^level times their size: `s = u - e^{-u} + (2^level - 1) l log(1 + e^{(u - m)/l})`.
pub(super) struct Outer {
    ht: f64,
    first: f64,
    levels: Vec<Vec<Step>>,
}

/// `m`: the steps have grown by half; there the bend of sigma is e^-60 away.
const MIDDLE: f64 = 60.0;
/// `l`: the width of the change.
const WIDTH: f64 = 4.0;
/// Below this standard deviation the steps do not grow.
const WIDE: f64 = 16.0;

impl Outer {
    pub(super) fn new(rule: &Rule) -> Self {
        // The first u at which exp(-e^{-u}) reaches the tolerance.
        let first = (-(-rule.tol.ln()).ln() / rule.ht).floor();
        Outer { ht: rule.ht, first, levels: Vec::new() }
    }

    /// How far the steps may grow for these variances.
    pub(super) fn level(v: &[f64]) -> usize {
        let sd = v.iter().copied().fold(f64::INFINITY, f64::min).sqrt();
        if sd < WIDE { 0 } else { sd.log2() as usize }
    }

    #[inline(always)]
    pub(super) fn step(&mut self, level: usize, k: usize) -> Step {
        while self.levels.len() <= level {
            self.levels.push(Vec::new());
        }
        let steps = &mut self.levels[level];
        while steps.len() <= k {
            let u = (self.first + steps.len() as f64) * self.ht;
            let (growth, at) = ((1u64 << level) as f64 - 1.0, (u - MIDDLE) / WIDTH);
            let s = u - (-u).exp() + growth * WIDTH * softplus(at);
            let weight = self.ht * (1.0 + (-u).exp() + growth * sigmoid(at));
            steps.push(Step { falling: u > 1.0, s, scale: s.exp(), weight, gumbel: (-s.exp()).exp() });
        }
        steps[k]
    }
}
