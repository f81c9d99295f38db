//! The inner rule: expectations E[ h(x, q) e^{-q} ] over x ~ N(mu, v), q = e^s sigma(x) / S, for one value of s after another.
//!
//! Nodes ascend in x, so q ascends: where q is tiny the factor is 1 - q and sums are prefix sums; where q is large it is 0.

use super::{
    Rule,
    exp::{LANES, Lanes, exp},
};

/// Eight nodes of one class.
pub(super) struct Chunk {
    /// log of the scale of `a`, a multiple of 256: `a` never leaves the range of f64, however wide the grid.
    offset: f64,
    /// sigma(x) / (S e^offset).
    a: Lanes,
    /// The weight of each node; all weights of a class sum to 1. Zero on the padding of the last chunk.
    w: Lanes,
    /// w (1 - sigma).
    wt: Lanes,
    /// w (1 - sigma)(1 - 2 sigma).
    wt1: Lanes,
    /// w (1 - sigma)^2.
    wt2: Lanes,
    /// Bounds on log sigma(x) - log S over the chunk.
    bottom: f64,
    top: f64,
    /// Sums over all nodes up to the end of this chunk: w, and w a, wt a, wt1 a in units of this chunk's scale.
    through: [f64; 4],
}

/// Below this q, e^{-q} = 1 - q to 5e-19.
const LOG_TINY: f64 = -20.723_265_836_946_41; // log 1e-9
/// Above this q, e^{-q} = 0 to 4e-18.
const LOG_HUGE: f64 = 3.688_879_454_113_936; // log 40
/// At most this many nodes on each side of the mean; only variances beyond about 4e6 are affected, and lose digits they do not have.
const MAX_SIDE: f64 = 65_536.0;

/// The rule's spacing in z and the number of nodes on each side.
pub(super) fn spacing(v: f64, rule: &Rule) -> (f64, f64) {
    let d = rule.d0.min(rule.hx / v.sqrt());
    let side = (rule.z / d).ceil();
    if side <= MAX_SIDE { (d, side) } else { (rule.z / MAX_SIDE, MAX_SIDE) }
}

/// The largest node of x ~ N(mu, v).
pub(super) fn largest_node(mu: f64, v: f64, rule: &Rule) -> f64 {
    let (d, side) = spacing(v, rule);
    mu + v.sqrt() * d * side
}

/// Appends the nodes of one class to `chunks`; `log_s` = log S.
#[inline(always)]
pub(super) fn push_nodes(mu: f64, v: f64, log_s: f64, rule: &Rule, chunks: &mut Vec<Chunk>) {
    let (d, side) = spacing(v, rule);
    let (sd, count) = (v.sqrt(), 2 * side as usize + 1);
    let first = chunks.len();
    let mut total = [0.0; LANES];
    for start in (0..count).step_by(LANES) {
        let mut z: Lanes = std::array::from_fn(|l| ((start + l) as f64 - side) * d);
        let live: Lanes = std::array::from_fn(|l| f64::from(u8::from(start + l < count)));
        // Padding repeats the last node at weight 0.
        for l in 0..LANES {
            z[l] = z[l].min(side * d);
        }
        let gauss = exp(z.map(|z| -0.5 * z * z));
        let w: Lanes = std::array::from_fn(|l| live[l] * gauss[l]);
        let x = z.map(|z| mu + sd * z);
        // min(x, 0) - log 2 <= log sigma(x) <= min(x, 0)
        let top = x[LANES - 1].min(0.0) - log_s;
        let bottom = x[0].min(0.0) - log_s - std::f64::consts::LN_2;
        let offset = 256.0 * ((x[LANES / 2].min(0.0) - log_s) / 256.0).round();
        let head = exp(x.map(|x| x.min(0.0) - log_s - offset));
        let tail = exp(x.map(|x| -x.abs()));
        let (a, through) = ([0.0; LANES], [0.0; 4]);
        let mut chunk = Chunk { offset, a, w, wt: w, wt1: w, wt2: w, bottom, top, through };
        for l in 0..LANES {
            let inv = 1.0 / (1.0 + tail[l]);
            let t = if x[l] > 0.0 { tail[l] * inv } else { inv };
            chunk.a[l] = head[l] * inv;
            chunk.wt[l] = w[l] * t;
            chunk.wt1[l] = w[l] * t * (2.0 * t - 1.0);
            chunk.wt2[l] = w[l] * t * t;
            total[l] += w[l];
        }
        chunks.push(chunk);
    }
    let scale = 1.0 / sum(&total);
    normalise(&mut chunks[first..], scale);
}

/// Scales the weights and fills in the running sums.
#[inline(always)]
fn normalise(chunks: &mut [Chunk], scale: f64) {
    let mut through = [0.0; 4];
    let mut offset = f64::NEG_INFINITY;
    for chunk in chunks {
        if chunk.offset != offset {
            let rescale = (offset - chunk.offset).exp();
            for t in &mut through[1..] {
                *t *= rescale;
            }
            offset = chunk.offset;
        }
        let mut here = [[0.0; LANES]; 4];
        for l in 0..LANES {
            chunk.w[l] *= scale;
            chunk.wt[l] *= scale;
            chunk.wt1[l] *= scale;
            chunk.wt2[l] *= scale;
            here[0][l] = chunk.w[l];
            here[1][l] = chunk.w[l] * chunk.a[l];
            here[2][l] = chunk.wt[l] * chunk.a[l];
            here[3][l] = chunk.wt1[l] * chunk.a[l];
        }
        for (t, h) in through.iter_mut().zip(&here) {
            *t += sum(h);
        }
        chunk.through = through;
    }
}

/// What a caller wants of the inner rule. Every sum carries the factor e^{-q}.
pub(super) trait Want<const M: usize> {
    /// The terms at one node: q, and the weights w, w(1-sigma), w(1-sigma)(1-2sigma), w(1-sigma)^2 times e^{-q}.
    fn terms(q: f64, w: f64, wt: f64, wt1: f64, wt2: f64) -> [f64; M];
    /// The same terms to first order in q, summed over nodes: sums of w, w q, wt q, wt1 q.
    fn tiny(sums: [f64; 4]) -> [f64; M];
}

/// The M expectations at `s` for the nodes of one class.
#[inline(always)]
pub(super) fn expectations<const M: usize, W: Want<M>>(chunks: &[Chunk], s: f64) -> [f64; M] {
    let tiny = chunks.partition_point(|chunk| chunk.top + s < LOG_TINY);
    let live = tiny + chunks[tiny..].partition_point(|chunk| chunk.bottom + s <= LOG_HUGE);
    let mut acc = [[0.0; LANES]; M];
    let mut offset = f64::NAN;
    let mut scale = 0.0;
    for chunk in &chunks[tiny..live] {
        if chunk.offset != offset {
            offset = chunk.offset;
            scale = (s + offset).exp();
        }
        let q: Lanes = std::array::from_fn(|l| scale * chunk.a[l]);
        let e = exp(q.map(|q| -q));
        for l in 0..LANES {
            let t = W::terms(
                q[l],
                chunk.w[l] * e[l],
                chunk.wt[l] * e[l],
                chunk.wt1[l] * e[l],
                chunk.wt2[l] * e[l],
            );
            for m in 0..M {
                acc[m][l] += t[m];
            }
        }
    }
    let mut out = match tiny.checked_sub(1) {
        Some(last) => {
            let scale = (s + chunks[last].offset).exp();
            let [w, wq, wtq, wt1q] = chunks[last].through;
            W::tiny([w, wq * scale, wtq * scale, wt1q * scale])
        }
        None => [0.0; M],
    };
    for m in 0..M {
        out[m] += sum(&acc[m]);
    }
    out
}

/// The sum of eight numbers, always in the same order.
#[inline(always)]
fn sum(x: &Lanes) -> f64 {
    ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
}
