//! The nodes of all classes at one point, in an order that does not depend on how the classes are numbered.

use super::{
    Rule, class_order,
    nodes::{At, Nodes, largest_node},
    outer::Step,
};
use crate::{linalg::sum_any_order, special::log_sigmoid};

/// Working memory: the nodes of every class at one point.
#[derive(Default)]
pub(super) struct Grid {
    /// `order[i]` is the class visited i-th.
    pub order: Vec<usize>,
    /// log S, S = sum_c sigma(largest node of class c): sigma / S <= 1 everywhere, and no underflow for Z ~ e^-150.
    pub log_s: f64,
    classes: Vec<Nodes>,
}

impl Grid {
    /// Lays out the nodes for means `mu` and variances `v`.
    #[inline(always)]
    pub fn fill(&mut self, mu: &[f64], v: &[f64], rule: &Rule) {
        class_order(mu, v, &mut self.order);
        self.log_s = log_scale(mu, v, rule);
        while self.classes.len() < self.order.len() {
            self.classes.push(Nodes::empty());
        }
        for (&c, nodes) in self.order.iter().zip(&mut self.classes) {
            nodes.fill(mu[c], v[c], self.log_s, rule);
        }
    }

    /// The nodes of the class visited i-th.
    #[inline(always)]
    pub fn class(&self, i: usize) -> &Nodes {
        &self.classes[i]
    }

    /// What all classes need of a step of the outer rule.
    #[inline(always)]
    pub fn at(&self, step: &Step, log_tiny: f64) -> At {
        At::new(step.s, step.scale, self.log_s, log_tiny)
    }
}

/// log sum_c sigma(largest node of class c).
fn log_scale(mu: &[f64], v: &[f64], rule: &Rule) -> f64 {
    let l: Vec<f64> = mu.iter().zip(v).map(|(&mu, &v)| log_sigmoid(largest_node(mu, v, rule))).collect();
    let max = l.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + sum_any_order(&mut l.iter().map(|l| (l - max).exp()).collect::<Vec<f64>>()).ln()
}
