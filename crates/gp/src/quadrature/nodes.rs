//! The inner rule: moments E[ (1 - sigma)^m q^j e^{-q} ] over x ~ N(mu, v), q = e^s sigma(x) / S, for one value of s after another.
//!
//! Nodes ascend in x, so q ascends and 1 - sigma falls. Where q is small, e^{-q} is its Taylor polynomial and the sums are
//! running sums of powers of sigma; where e^s (1 - sigma) / S is small, sigma is 1 but for a little, e^{-q} is e^{-Q} times a
//! Taylor polynomial in (1 - sigma), and the sums are running sums from above. Only the nodes between are visited.

use super::{
    Rule,
    exp::{LANES, Lanes, exp},
    lattice::{Lattice, Row, Sigmas},
};

/// Four nodes of one class.
struct Block {
    /// log of the scale of `a`, a multiple of 256: `a` never leaves the range of f64, however wide the grid.
    offset: f64,
    /// sigma(x) / (S e^offset).
    a: Lanes,
    /// The weight of each node; all weights of a class sum to 1. Zero on the padding of the last block.
    w: Lanes,
    /// w (1 - sigma).
    wt: Lanes,
    /// w (1 - sigma)^2.
    wt2: Lanes,
}

/// Running sums, t = 1 - sigma.
struct Sums {
    /// Over all nodes up to the end of a block, in units of its scale: w, w a, w a^2, w a^3, and t a^j, t^2 a^j for j = 1, 2, 3.
    low: [f64; 10],
    /// Over all nodes from the beginning of a block: w t^j for j = 0 to 6.
    top: [f64; 7],
}

/// The nodes of one class. Node i is at x = mu + (i - side) / density.
pub(super) struct Nodes {
    mu: f64,
    /// 1 / (distance of two nodes in x).
    density: f64,
    side: f64,
    count: usize,
    blocks: Vec<Block>,
    sums: Vec<Sums>,
    /// Where the nodes are those that all classes share: the first of their blocks, and the weights alone.
    shared: Option<i64>,
    weights: Vec<Lanes>,
}

/// `mij` = E[ t^i q^j e^{-q} ], t = 1 - sigma. What was not asked for ([`Want`]) is not all there.
#[derive(Clone, Copy, Default)]
pub(super) struct Moments {
    pub m00: f64,
    pub m01: f64,
    pub m11: f64,
    pub m12: f64,
    pub m21: f64,
    pub m22: f64,
    pub m23: f64,
}

/// Which moments a caller wants.
pub(super) struct Want;

impl Want {
    /// m00, m01.
    pub(super) const VALUE: u8 = 0;
    /// m00, m11, m21, m22.
    pub(crate) const FACTOR: u8 = 1;
    /// All.
    pub(super) const SLOPE: u8 = 2;
}

/// A value of s and what all classes need of it.
#[derive(Clone, Copy)]
pub(super) struct At {
    s: f64,
    /// e^s.
    scale: f64,
    /// log Q, Q = e^s / S: the q of a node with sigma = 1.
    log_top: f64,
    top: f64,
    exp_minus_top: f64,
    /// Where Taylor polynomials begin to hold: log of the largest q.
    log_tiny: f64,
}

/// Above this q, e^{-q} = 0 to 4e-18.
const LOG_HUGE: f64 = 3.688_879_454_113_936; // log 40
/// At most this many nodes on each side of the mean; only variances beyond about 4e6 are affected, and lose digits they do not have.
const MAX_SIDE: f64 = 65_536.0;

impl At {
    /// `scale` = e^s.
    #[inline(always)]
    pub(super) fn new(s: f64, scale: f64, log_s: f64, log_tiny: f64) -> Self {
        let log_top = s - log_s;
        // Past e^5 no one asks: e^{-q} is 0 there.
        let [top, ..] = exp([log_top.min(5.0); LANES]);
        let [exp_minus_top, ..] = exp([-top; LANES]);
        At { s, scale, log_top, top, exp_minus_top, log_tiny }
    }

    /// Between which x the nodes are that neither Taylor polynomial holds for.
    #[inline(always)]
    pub(super) fn band(&self) -> (f64, f64) {
        let small = self.log_tiny - self.log_top;
        let huge = LOG_HUGE + std::f64::consts::LN_2 - self.log_top;
        (small, if huge >= 0.0 { -small } else { huge })
    }

    /// Q = e^s / S, exact beyond e^5 too.
    #[inline(always)]
    pub(super) fn top(&self) -> f64 {
        if self.log_top > 5.0 { self.log_top.exp() } else { self.top }
    }

    /// e^{s + offset}.
    #[inline(always)]
    fn scale(&self, offset: f64) -> f64 {
        if offset == 0.0 { self.scale } else { (self.s + offset).exp() }
    }
}

/// The rule's spacing in z and the number of nodes on each side.
pub(super) fn spacing(v: f64, rule: &Rule) -> (f64, f64) {
    let d = rule.d0.min(rule.hx / v.sqrt());
    let side = (rule.z / d).ceil();
    if side <= MAX_SIDE { (d, side) } else { (rule.z / MAX_SIDE, MAX_SIDE) }
}

/// Whether x ~ N(mu, v) has fewer nodes than the rule asks for.
pub(super) fn is_capped(v: f64, rule: &Rule) -> bool {
    spacing(v, rule).1 == MAX_SIDE
}

/// The largest node of x ~ N(mu, v).
pub(super) fn largest_node(mu: f64, v: f64, rule: &Rule) -> f64 {
    let (d, side) = spacing(v, rule);
    mu + v.sqrt() * d * side
}

impl Nodes {
    /// No nodes yet.
    pub(super) fn empty() -> Self {
        let (blocks, sums, weights) = (Vec::new(), Vec::new(), Vec::new());
        Nodes { mu: 0.0, density: 0.0, side: 0.0, count: 0, blocks, sums, shared: None, weights }
    }

    /// Lays out x ~ N(mu, v) on blocks `first` to `last` of the nodes that all classes share; `inv_s` = 1 / S.
    #[inline(always)]
    pub(super) fn share(
        &mut self,
        (mu, v): (f64, f64),
        inv_s: f64,
        lattice: &Lattice,
        (first, last): (i64, i64),
    ) {
        let start = (first * LANES as i64) as f64;
        (self.mu, self.density, self.side) = (0.0, 1.0 / lattice.hx, -start);
        self.count = (last - first + 1) as usize * LANES;
        self.shared = Some(first);
        self.blocks.clear();
        self.sums.clear();
        self.weights.clear();
        let (narrow, step) = (1.0 / v.sqrt(), lattice.hx / v.sqrt());
        for (i, Sigmas { sigma, rest }) in lattice.sigmas(first, last).iter().enumerate() {
            let z: Lanes =
                std::array::from_fn(|l| (start + (i * LANES + l) as f64).mul_add(step, -mu * narrow));
            let w = exp(z.map(|z| -0.5 * z * z));
            let (mut low, mut top) = ([0.0; 10], [0.0; 7]);
            let a = sigma.map(|sigma| sigma * inv_s);
            let mut powers = [w; 4];
            for j in 1..4 {
                powers[j] = std::array::from_fn(|l| powers[j - 1][l] * a[l]);
            }
            for j in 0..4 {
                low[j] = sum(&powers[j]);
            }
            for j in 1..4 {
                let b: Lanes = std::array::from_fn(|l| powers[j][l] * rest[l]);
                low[3 + j] = sum(&b);
                low[6 + j] = sum(&std::array::from_fn(|l| b[l] * rest[l]));
            }
            let mut t = w;
            for sums in &mut top {
                *sums = sum(&t);
                t = std::array::from_fn(|l| t[l] * rest[l]);
            }
            self.sums.push(Sums { low, top });
            self.weights.push(w);
        }
        self.accumulate();
    }

    /// Lays out the nodes of x ~ N(mu, v); `log_s` = log S.
    #[inline(always)]
    pub(super) fn fill(&mut self, mu: f64, v: f64, log_s: f64, rule: &Rule) {
        let (d, side) = spacing(v, rule);
        let (sd, count) = (v.sqrt(), 2 * side as usize + 1);
        (self.mu, self.side, self.count, self.shared) = (mu, side, count, None);
        self.density = 1.0 / (sd * d).max(f64::MIN_POSITIVE);
        self.blocks.clear();
        self.sums.clear();
        for start in (0..count).step_by(LANES) {
            // Padding repeats the last node at weight 0.
            let z: Lanes = std::array::from_fn(|l| (((start + l) as f64 - side) * d).min(side * d));
            let gauss = exp(z.map(|z| -0.5 * z * z));
            let w: Lanes = std::array::from_fn(|l| if start + l < count { gauss[l] } else { 0.0 });
            let x = z.map(|z| sd.mul_add(z, mu));
            let offset = 256.0 * ((x[LANES - 1].min(0.0) - log_s) / 256.0).round();
            let head = exp(x.map(|x| x.min(0.0) - log_s - offset));
            let tail = exp(x.map(|x| -x.abs()));
            let mut block = Block { offset, a: w, w, wt: w, wt2: w };
            let (mut low, mut top) = ([[0.0; LANES]; 10], [[0.0; LANES]; 7]);
            for l in 0..LANES {
                let inv = 1.0 / (1.0 + tail[l]);
                let t = if x[l] > 0.0 { tail[l] * inv } else { inv };
                let a = head[l] * inv;
                (block.a[l], block.wt[l], block.wt2[l]) = (a, w[l] * t, w[l] * t * t);
                let (a2, a3) = (a * a, a * a * a);
                let (w, wt, wt2) = (w[l], block.wt[l], block.wt2[l]);
                let here = [w, w * a, w * a2, w * a3, wt * a, wt * a2, wt * a3, wt2 * a, wt2 * a2, wt2 * a3];
                for (sum, here) in low.iter_mut().zip(here) {
                    sum[l] = here;
                }
                let t2 = t * t;
                let here = [w, wt, wt2, wt2 * t, wt2 * t2, wt2 * t2 * t, wt2 * t2 * t2];
                for (sum, here) in top.iter_mut().zip(here) {
                    sum[l] = here;
                }
            }
            self.sums.push(Sums { low: low.map(|x| sum(&x)), top: top.map(|x| sum(&x)) });
            self.blocks.push(block);
        }
        self.accumulate();
    }

    /// Scales the weights to sum to 1 and turns the sums of blocks into running sums.
    #[inline(always)]
    fn accumulate(&mut self) {
        let norm = 1.0 / self.sums.iter().map(|sums| sums.low[0]).sum::<f64>();
        let mut low = [0.0; 10];
        let mut offset = f64::NEG_INFINITY;
        for i in 0..self.sums.len() {
            if self.shared.is_some() {
                self.weights[i].iter_mut().for_each(|w| *w *= norm);
            } else {
                let block = &mut self.blocks[i];
                for l in 0..LANES {
                    block.w[l] *= norm;
                    block.wt[l] *= norm;
                    block.wt2[l] *= norm;
                }
                if block.offset != offset {
                    let r = (offset - block.offset).exp();
                    let powers = [1.0, r, r * r, r * r * r, r, r * r, r * r * r, r, r * r, r * r * r];
                    low.iter_mut().zip(powers).for_each(|(sum, power)| *sum *= power);
                    offset = block.offset;
                }
            }
            let sums = &mut self.sums[i];
            for (sum, here) in low.iter_mut().zip(&mut sums.low) {
                *sum = here.mul_add(norm, *sum);
                *here = *sum;
            }
        }
        let mut top = [0.0; 7];
        for sums in self.sums.iter_mut().rev() {
            for (sum, here) in top.iter_mut().zip(&mut sums.top) {
                *sum = here.mul_add(norm, *sum);
                *here = *sum;
            }
        }
    }

    /// The first block of which every node is above `x`.
    #[inline(always)]
    fn block_above(&self, x: f64) -> usize {
        (((x - self.mu).mul_add(self.density, self.side).ceil().max(0.0)) as usize).div_ceil(LANES)
    }

    /// How many blocks from the first have no node above `x`.
    #[inline(always)]
    fn blocks_below(&self, x: f64) -> usize {
        let nodes = (x - self.mu).mul_add(self.density, self.side).ceil().max(0.0);
        if nodes >= self.count as f64 { self.sums.len() } else { nodes as usize / LANES }
    }

    /// The moments at one value of s; `row` is that of the shared nodes.
    #[inline(always)]
    pub(super) fn moments<const WANT: u8>(&self, at: &At, row: Option<&Row>) -> Moments {
        // log q lies between min(x, 0) + log Q - log 2 and min(x, 0) + log Q; 1 - sigma below e^{-x}.
        let (small, above) = at.band();
        let blocks = self.sums.len();
        let low = if small > 0.0 { blocks } else { self.blocks_below(small) };
        let end = self.block_above(above).clamp(low, blocks);

        let mut out = if low > 0 { self.low_side(low - 1, at) } else { Moments::default() };
        // Where q is huge at the top, nothing is left of it there.
        let near_top = at.log_top <= LOG_HUGE + std::f64::consts::LN_2;
        if near_top && end < blocks {
            out.add(&self.top_side(end, at));
        }
        match (self.shared, row) {
            (Some(first), Some(row)) if low < end => {
                out.add(&row.moments::<WANT>(first + low as i64, &self.weights[low..end]))
            }
            (Some(_), _) => {}
            (None, _) => out.add(&self.between::<WANT>(&self.blocks[low..end], at)),
        }
        out
    }

    /// All nodes up to the end of block `last`, to third order in q.
    #[inline(always)]
    fn low_side(&self, last: usize, at: &At) -> Moments {
        // The shared nodes have no offset.
        let r = at.scale(self.blocks.get(last).map_or(0.0, |block| block.offset));
        let [w, a1, a2, a3, b1, b2, b3, c1, c2, c3] = self.sums[last].low;
        let (r2, r3) = (r * r, r * r * r);
        let (a1, a2, a3) = (a1 * r, a2 * r2, a3 * r3);
        let (b1, b2, b3) = (b1 * r, b2 * r2, b3 * r3);
        let (c1, c2, c3) = (c1 * r, c2 * r2, c3 * r3);
        Moments {
            m00: w - a1 + a2 / 2.0 - a3 / 6.0,
            m01: a1 - a2 + a3 / 2.0,
            m11: b1 - b2 + b3 / 2.0,
            m12: b2 - b3,
            m21: c1 - c2 + c3 / 2.0,
            m22: c2 - c3,
            m23: c3,
        }
    }

    /// All nodes from the beginning of block `first`, to third order in Q (1 - sigma):
    /// q^j e^{-q} = Q^j e^{-Q} (1 - t)^j (1 + Q t + (Q t)^2 / 2 + (Q t)^3 / 6).
    #[inline(always)]
    fn top_side(&self, first: usize, at: &At) -> Moments {
        let u = &self.sums[first].top;
        let q = at.top;
        let (e1, e2, e3) = (q, q * q / 2.0, q * q * q / 6.0);
        // p[n] = sum of w t^n e^{Q t}; the terms past t^6 are below the fourth order.
        let p0 = u[0] + e1 * u[1] + e2 * u[2] + e3 * u[3];
        let p1 = u[1] + e1 * u[2] + e2 * u[3] + e3 * u[4];
        let p2 = u[2] + e1 * u[3] + e2 * u[4] + e3 * u[5];
        let p3 = u[3] + e1 * u[4] + e2 * u[5] + e3 * u[6];
        let p4 = u[4] + e1 * u[5] + e2 * u[6];
        let p5 = u[5] + e1 * u[6];
        let f0 = at.exp_minus_top;
        let (f1, f2, f3) = (f0 * q, f0 * q * q, f0 * q * q * q);
        Moments {
            m00: f0 * p0,
            m01: f1 * (p0 - p1),
            m11: f1 * (p1 - p2),
            m12: f2 * (p1 - 2.0 * p2 + p3),
            m21: f1 * (p2 - p3),
            m22: f2 * (p2 - 2.0 * p3 + p4),
            m23: f3 * (p2 - 3.0 * p3 + 3.0 * p4 - p5),
        }
    }

    /// The nodes of some blocks, one by one.
    #[inline(always)]
    fn between<const WANT: u8>(&self, blocks: &[Block], at: &At) -> Moments {
        let mut m = [[0.0; LANES]; 7];
        let (mut offset, mut scale) = (0.0, at.scale);
        for block in blocks {
            if block.offset != offset {
                offset = block.offset;
                scale = at.scale(offset);
            }
            let q: Lanes = std::array::from_fn(|l| scale * block.a[l]);
            let e = exp(q.map(|q| -q));
            for l in 0..LANES {
                let qe = q[l] * e[l];
                m[0][l] = block.w[l].mul_add(e[l], m[0][l]);
                if WANT != Want::FACTOR {
                    m[1][l] = block.w[l].mul_add(qe, m[1][l]);
                }
                if WANT != Want::VALUE {
                    let q2e = q[l] * qe;
                    m[2][l] = block.wt[l].mul_add(qe, m[2][l]);
                    m[4][l] = block.wt2[l].mul_add(qe, m[4][l]);
                    m[5][l] = block.wt2[l].mul_add(q2e, m[5][l]);
                    if WANT == Want::SLOPE {
                        m[3][l] = block.wt[l].mul_add(q2e, m[3][l]);
                        m[6][l] = block.wt2[l].mul_add(q[l] * q2e, m[6][l]);
                    }
                }
            }
        }
        let [m00, m01, m11, m12, m21, m22, m23] = m.map(|m| sum(&m));
        Moments { m00, m01, m11, m12, m21, m22, m23 }
    }
}

impl Moments {
    #[inline(always)]
    fn add(&mut self, other: &Moments) {
        self.m00 += other.m00;
        self.m01 += other.m01;
        self.m11 += other.m11;
        self.m12 += other.m12;
        self.m21 += other.m21;
        self.m22 += other.m22;
        self.m23 += other.m23;
    }
}

/// The sum of four numbers, always in the same order.
#[inline(always)]
pub(super) fn sum(x: &Lanes) -> f64 {
    (x[0] + x[2]) + (x[1] + x[3])
}

#[cfg(test)]
mod tests {
    use super::super::Resolution;
    use super::*;
    use crate::special::{log_sigmoid, sigmoid};
    use proptest::prelude::*;

    /// Every node by its definition.
    fn plain(mu: f64, v: f64, s: f64, log_s: f64, rule: &Rule) -> [f64; 7] {
        let (d, side) = spacing(v, rule);
        let (mut total, mut m) = (0.0, [0.0; 7]);
        for i in 0..=2 * side as usize {
            let z = (i as f64 - side) * d;
            let x = mu + v.sqrt() * z;
            let (w, t) = ((-0.5 * z * z).exp(), sigmoid(-x));
            let q = (s + log_sigmoid(x) - log_s).exp();
            let e = (-q).exp();
            total += w;
            let terms = [1.0, q, t * q, t * q * q, t * t * q, t * t * q * q, t * t * q * q * q];
            m.iter_mut().zip(terms).for_each(|(m, term)| *m += if e > 0.0 { w * term * e } else { 0.0 });
        }
        m.map(|m| m / total)
    }

    proptest! {
        /// The short cuts cost no more than the tolerance of the rule, wherever they apply.
        #[test]
        fn moments_against_every_node(
            mu in -200.0..60.0f64, log_v in -20.0..9.0f64, log_top in -30.0..300.0f64, log_s in -120.0..3.0f64, p in 0usize..4,
        ) {
            let resolution = [Resolution::Fast, Resolution::Standard, Resolution::Fine, Resolution::Golden][p];
            let (v, rule) = (log_v.exp(), resolution.bound_rule());
            // S is a bound on sigma at every node of every class.
            let log_s = log_s.max(log_sigmoid(largest_node(mu, v, &rule)));
            let s = log_top + log_s;
            let mut nodes = Nodes::empty();
            nodes.fill(mu, v, log_s, &rule);
            let at = At::new(s, s.exp(), log_s, rule.log_tiny());
            let got = nodes.moments::<{ Want::SLOPE }>(&at, None);
            let got = [got.m00, got.m01, got.m11, got.m12, got.m21, got.m22, got.m23];
            // q is e to a sum of numbers of this size: their rounding is in both sides, and q^j e^{-q} passes on at most 1.4 of it.
            let rounding = f64::EPSILON * (mu.abs() + log_s.abs() + s.abs());
            for (got, want) in got.iter().zip(plain(mu, v, s, log_s, &rule)) {
                prop_assert!((got - want).abs() < rule.tol + 2e-14 + rounding, "{got} and {want}");
            }
            let factor = nodes.moments::<{ Want::FACTOR }>(&at, None);
            prop_assert_eq!([factor.m00, factor.m11, factor.m21, factor.m22], [got[0], got[2], got[4], got[5]]);
            let value = nodes.moments::<{ Want::VALUE }>(&at, None);
            prop_assert_eq!([value.m00, value.m01], [got[0], got[1]]);
        }
    }
}
