//! The nodes of all classes at one point, in an order that does not depend on how the classes are numbered.

use super::{
    Rule, class_order,
    lattice::{Lattice, Row, Tables, rounded_up},
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
    /// Of the spacings in x that were asked for.
    lattices: Vec<Lattice>,
    tables: Tables,
    /// Level and index of log S in the tables, and which lattice: where some class is on it.
    shared: Option<(usize, i64, usize)>,
}

impl Grid {
    /// Lays out the nodes for means `mu` and variances `v`. `level`: that of the outer rule.
    #[inline(always)]
    pub(super) fn fill(&mut self, mu: &[f64], v: &[f64], rule: &Rule, level: usize) {
        let rule = rule.at_level(level);
        class_order(mu, v, &mut self.order);
        self.log_s = log_scale(mu, v, &rule);
        while self.classes.len() < self.order.len() {
            self.classes.push(Nodes::empty());
        }
        self.shared = None;
        let lattice = self.lattice(&rule);
        let (index, log_s) = rounded_up(self.log_s);
        let place = |c: usize| lattice.and_then(|l| self.lattices[l].blocks(mu[c], v[c], &rule));
        if let Some(lattice) =
            lattice.filter(|_| log_s > -LOWEST && (0..mu.len()).any(|c| place(c).is_some()))
        {
            self.shared = Some((level, index, lattice));
            self.log_s = log_s;
        }
        let inv_s = (-self.log_s).exp();
        for (&c, nodes) in self.order.iter().zip(&mut self.classes) {
            let shared = self
                .shared
                .and_then(|(.., l)| Some((&self.lattices[l], self.lattices[l].blocks(mu[c], v[c], &rule)?)));
            match shared {
                Some((lattice, blocks)) => nodes.share((mu[c], v[c]), inv_s, lattice, blocks),
                None => nodes.fill(mu[c], v[c], self.log_s, &rule),
            }
        }
    }

    /// The lattice of a rule, if it has one.
    fn lattice(&mut self, rule: &Rule) -> Option<usize> {
        if !rule.shared {
            return None;
        }
        let found = self.lattices.iter().position(|lattice| lattice.hx == rule.hx);
        Some(found.unwrap_or_else(|| {
            self.lattices.push(Lattice::new(rule.hx));
            self.lattices.len() - 1
        }))
    }

    /// The nodes of the class visited i-th.
    #[inline(always)]
    pub(super) fn class(&self, i: usize) -> &Nodes {
        &self.classes[i]
    }

    /// What all classes need of step `k` of the outer rule; steps are asked for from the first on.
    #[inline(always)]
    pub(super) fn at(&mut self, k: usize, step: &Step, log_tiny: f64) -> At {
        let at = At::new(step.s, step.scale, self.log_s, log_tiny);
        if let Some((level, log_s, lattice)) = self.shared {
            self.tables.make(&self.lattices[lattice], (level, log_s), k, &at);
        }
        at
    }

    /// The row of the tables for step `k`, after [`Grid::at`].
    #[inline(always)]
    pub(super) fn row(&self, k: usize) -> Option<&Row> {
        let (level, log_s, _) = self.shared?;
        self.tables.row((level, log_s), k)
    }
}

/// Where log S is below minus this, powers of sigma / S at shared nodes would leave the range of f64.
const LOWEST: f64 = 30.0;

/// log sum_c sigma(largest node of class c).
fn log_scale(mu: &[f64], v: &[f64], rule: &Rule) -> f64 {
    let l: Vec<f64> = mu.iter().zip(v).map(|(&mu, &v)| log_sigmoid(largest_node(mu, v, rule))).collect();
    let max = l.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + sum_any_order(&mut l.iter().map(|l| (l - max).exp()).collect::<Vec<f64>>()).ln()
}
