//! Tables that all classes and points share.
//!
//! Where a Gaussian is no narrower than the rule's spacing in x, its nodes may lie on the multiples of that spacing, wherever
//! its mean is: the error of a trapezoidal rule does not depend on where its nodes begin. Then sigma is known at every node, and if
//! log S is a multiple of a step too, so is (1 - sigma)^i q^j e^{-q} at every node and every s: [`Row`]. What is left for a class is its weights
//! and, at each s, a few inner products.

use super::{
    Rule,
    exp::{LANES, Lanes, exp},
    nodes::{At, Moments, Want, sum},
};
use std::collections::HashMap;

/// log S is rounded up to a multiple of this.
const LOG_S_STEP: f64 = 0.5;
/// Nodes are within this of 0; a class that reaches beyond has nodes of its own.
const REACH: f64 = 300.0;
/// Tables that are kept.
const MOST_TABLES: usize = 32;

/// sigma and 1 - sigma at four nodes.
#[derive(Clone, Copy)]
pub(super) struct Sigmas {
    pub sigma: Lanes,
    pub rest: Lanes,
}

/// The nodes of a rule that all classes share.
pub(super) struct Lattice {
    /// The distance of two nodes.
    pub hx: f64,
    /// The block of four nodes that is the first of `sigmas`.
    first: i64,
    sigmas: Vec<Sigmas>,
}

impl Lattice {
    pub(super) fn new(hx: f64) -> Lattice {
        let first = (-REACH / hx / LANES as f64).floor() as i64;
        let block = |g: i64| {
            let x: Lanes = std::array::from_fn(|l| (g * LANES as i64 + l as i64) as f64 * hx);
            let tail = exp(x.map(|x| -x.abs()));
            let inv = tail.map(|tail| 1.0 / (1.0 + tail));
            let minus: Lanes = std::array::from_fn(|l| tail[l] * inv[l]);
            let pick =
                |above: bool| std::array::from_fn(|l| if (x[l] > 0.0) == above { inv[l] } else { minus[l] });
            Sigmas { sigma: pick(true), rest: pick(false) }
        };
        Lattice { hx, first, sigmas: (first..=-first).map(block).collect() }
    }

    /// The first and the last block of x ~ N(mu, v), if its nodes may be these.
    pub(super) fn blocks(&self, mu: f64, v: f64, rule: &Rule) -> Option<(i64, i64)> {
        let side = rule.z * v.sqrt();
        let wide = v.sqrt() * rule.d0 >= self.hx;
        let within = mu - side > -0.5 * REACH && mu + side < REACH - LANES as f64 * self.hx;
        let block = |x: f64| (x / self.hx / LANES as f64).floor() as i64;
        (wide && within).then(|| (block(mu - side), block(mu + side)))
    }

    #[inline(always)]
    pub(super) fn sigmas(&self, first: i64, last: i64) -> &[Sigmas] {
        &self.sigmas[(first - self.first) as usize..=(last - self.first) as usize]
    }
}

/// log S as the tables have it: no smaller, so that it still bounds what it bounded.
pub(super) fn rounded_up(log_s: f64) -> (i64, f64) {
    let index = (log_s / LOG_S_STEP).ceil();
    (index as i64, index * LOG_S_STEP)
}

/// `(1 - sigma)^i q^j e^{-q}` at one s for the blocks that are neither all small nor all at the top.
pub(super) struct Row {
    first: i64,
    /// In the order of [`Moments`].
    planes: [Vec<Lanes>; 7],
}

impl Row {
    #[inline(always)]
    fn new(lattice: &Lattice, at: &At) -> Row {
        let (low, end) = at.band();
        // One block more on each side: where the band ends is rounded.
        let block = |x: f64| (x.clamp(-REACH, REACH) / lattice.hx / LANES as f64).floor() as i64;
        let (first, last) = ((block(low) - 1).max(lattice.first), (block(end) + 1).min(-lattice.first));
        let mut planes: [Vec<Lanes>; 7] = [const { Vec::new() }; 7];
        if first <= last {
            for Sigmas { sigma, rest } in lattice.sigmas(first, last) {
                let q: Lanes = sigma.map(|sigma| at.top() * sigma);
                let e = exp(q.map(|q| -q));
                for (plane, (i, j)) in
                    planes.iter_mut().zip([(0, 0), (0, 1), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3)])
                {
                    plane.push(std::array::from_fn(|l| rest[l].powi(i) * q[l].powi(j) * e[l]));
                }
            }
        }
        Row { first, planes }
    }

    /// The moments of weights `w` on the blocks from `first` on.
    #[inline(always)]
    pub(super) fn moments<const WANT: u8>(&self, first: i64, w: &[Lanes]) -> Moments {
        let from = (first - self.first) as usize;
        let inner = |plane: usize| -> f64 {
            let mut total = [0.0; LANES];
            for (w, f) in w.iter().zip(&self.planes[plane][from..from + w.len()]) {
                (0..LANES).for_each(|l| total[l] = w[l].mul_add(f[l], total[l]));
            }
            sum(&total)
        };
        let mut out = Moments { m00: inner(0), ..Moments::default() };
        if WANT != Want::FACTOR {
            out.m01 = inner(1);
        }
        if WANT != Want::VALUE {
            (out.m11, out.m21, out.m22) = (inner(2), inner(4), inner(5));
        }
        if WANT == Want::SLOPE {
            (out.m12, out.m23) = (inner(3), inner(6));
        }
        out
    }
}

/// The rows of the steps of an outer rule, made as they are asked for and kept: one table for each log S.
#[derive(Default)]
pub(super) struct Tables(HashMap<(usize, i64), Vec<Row>>);

impl Tables {
    /// Makes the row of step `k` of a level, which `at` belongs to. Steps are asked for from the first on.
    #[inline(always)]
    pub(super) fn make(&mut self, lattice: &Lattice, key: (usize, i64), k: usize, at: &At) {
        if k == 0 && self.0.len() >= MOST_TABLES && !self.0.contains_key(&key) {
            self.0.clear();
        }
        let rows = self.0.entry(key).or_default();
        if rows.len() <= k {
            rows.push(Row::new(lattice, at));
        }
    }

    #[inline(always)]
    pub(super) fn row(&self, key: (usize, i64), k: usize) -> Option<&Row> {
        self.0.get(&key)?.get(k)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Resolution, Rule, log_z::LogZ, probabilities::Predictive, probabilities::Slope};
    use crate::testing::normal;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// Means about -25 to 25 and standard deviations about 0.02 to 60, as they come about at temperatures of 0.1 to 1 and far
    /// beyond; half of the points have one spread for all classes, as before any label is seen.
    fn points(seed: u64) -> Vec<(Vec<f64>, Vec<f64>)> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let numbers = normal(&mut rng, 300, 24);
        let point = |i: usize| {
            let classes = 2 + i % 11;
            let (centre, width) = (3.0 * numbers[(i, 22)], 1.5 * numbers[(i, 23)]);
            let mu = (0..classes).map(|c| centre + 5.0 * numbers[(i, c)]).collect();
            let own = if i.is_multiple_of(2) { 0.0 } else { 1.0 };
            let v = (0..classes)
                .map(|c| (2.0 + width + own * numbers[(i, 11 + c)]).exp().powi(2) / 9.0)
                .collect();
            (mu, v)
        };
        (0..300).map(point).collect()
    }

    /// The largest errors of E log Z and of its derivatives in the means and, times the variance, in the variances.
    fn errors(rule: Rule) -> [f64; 3] {
        let mut worst = [0.0f64; 3];
        for (mu, v) in points(1) {
            let at = |rule: &mut LogZ| {
                let (mut dmu, mut dv) = (vec![0.0; mu.len()], vec![0.0; mu.len()]);
                (rule.eval(&mu, &v, &mut dmu, &mut dv).unwrap(), dmu, dv)
            };
            let (got, want) = (at(&mut LogZ::of(rule)), at(&mut LogZ::new(Resolution::Golden)));
            worst[0] = worst[0].max((got.0 - want.0).abs());
            for c in 0..mu.len() {
                worst[1] = worst[1].max((got.1[c] - want.1[c]).abs());
                worst[2] = worst[2].max(v[c] * (got.2[c] - want.2[c]).abs());
            }
        }
        worst
    }

    #[test]
    fn shared_nodes_are_as_accurate_as_own_ones() {
        for (resolution, stated) in
            [(Resolution::Fast, 1e-5), (Resolution::Standard, 3e-9), (Resolution::Learning, 1e-10)]
        {
            let rule = resolution.bound_rule();
            let (shared, own) = (errors(rule), errors(Rule { shared: false, ..rule }));
            assert!(shared[0] < stated, "{resolution:?}: {shared:?}");
            (1..3).for_each(|i| {
                assert!(shared[i] < 10.0 * own[i].max(stated), "{resolution:?}: {shared:?} {own:?}")
            });
        }
    }

    /// Errors of a probability and of its slopes, which [`Predictive::prob_and_slope`] and [`Predictive::probs`] give.
    #[test]
    fn probabilities_have_the_stated_errors() {
        for resolution in [Resolution::Fast, Resolution::Standard, Resolution::Learning] {
            let mut worst = [0.0f64; 4];
            let (mut tested, mut golden) = (Predictive::new(resolution), Predictive::new(Resolution::Golden));
            for (i, (m, s2)) in points(2).into_iter().enumerate() {
                let (mut got, mut want) = (Slope::default(), Slope::default());
                let label = i % m.len();
                let p = tested.prob_and_slope(&m, &s2, label, &mut got).unwrap();
                let exact = golden.prob_and_slope(&m, &s2, label, &mut want).unwrap();
                let mut all = vec![0.0; m.len()];
                tested.probs(&m, &s2, &mut all).unwrap();
                worst[0] = worst[0].max((p - exact).abs());
                worst[3] = worst[3].max((all[label] - exact).abs());
                for c in 0..m.len() {
                    worst[1] = worst[1].max((got.dm[c] - want.dm[c]).abs());
                    worst[2] = worst[2].max(s2[c] * (got.ds2[c] - want.ds2[c]).abs());
                }
            }
            let stated = resolution.probability_error();
            assert!(worst[0] < stated && worst[3] < stated, "{resolution:?}: {worst:?}");
            // The outer rule is denser for slopes, but each power of q costs digits.
            assert!(worst[1] < 20.0 * stated && worst[2] < 20.0 * stated, "{resolution:?}: {worst:?}");
        }
    }
}
