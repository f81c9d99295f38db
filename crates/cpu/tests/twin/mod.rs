//! Slow and obvious: every kernel's definition in f64, loop by loop.
#![allow(dead_code)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use siskin_cpu::{BlockSpec, ConvSpec};

pub(crate) fn stream(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Numbers uniform on [-size, size].
pub(crate) fn numbers(rng: &mut ChaCha8Rng, n: usize, size: f32) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-size..size)).collect()
}

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Largest difference, relative to the largest value of the twin.
pub(crate) fn distance(found: &[f32], twin: &[f64]) -> f64 {
    assert_eq!(found.len(), twin.len());
    assert!(found.iter().all(|x| x.is_finite()), "not a finite number");
    let size = twin.iter().fold(1e-30_f64, |m, x| m.max(x.abs()));
    found.iter().zip(twin).fold(0.0_f64, |m, (f, t)| m.max((f64::from(*f) - t).abs())) / size
}

pub(crate) fn assert_close(what: &str, found: &[f32], twin: &[f64], tolerance: f64) {
    let d = distance(found, twin);
    assert!(d <= tolerance, "{what}: relative distance {d:e} > {tolerance:e}");
}

/// Visits every product of a convolution: output index, input index, weight index; of the outputs that are `wanted`.
fn visit(
    s: &ConvSpec,
    [n, h, w]: [usize; 3],
    wanted: impl Fn(usize) -> bool,
    mut f: impl FnMut(usize, usize, usize),
) {
    let side = |x: usize| (x + 2 * s.padding - s.kernel) / s.stride + 1;
    let (oh, ow) = (side(h), side(w));
    for i in 0..n {
        for o in 0..s.c_out {
            for y in 0..oh {
                for x in 0..ow {
                    let out = ((i * s.c_out + o) * oh + y) * ow + x;
                    if !wanted(out) {
                        continue;
                    }
                    for c in 0..s.c_in {
                        for ky in 0..s.kernel {
                            for kx in 0..s.kernel {
                                let (sy, sx) = (y * s.stride + ky, x * s.stride + kx);
                                if sy < s.padding
                                    || sx < s.padding
                                    || sy >= h + s.padding
                                    || sx >= w + s.padding
                                {
                                    continue;
                                }
                                f(
                                    out,
                                    ((i * s.c_in + c) * h + sy - s.padding) * w + sx - s.padding,
                                    ((o * s.c_in + c) * s.kernel + ky) * s.kernel + kx,
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn out_len(s: &ConvSpec, [n, h, w]: [usize; 3]) -> usize {
    let side = |x: usize| (x + 2 * s.padding - s.kernel) / s.stride + 1;
    n * s.c_out * side(h) * side(w)
}

pub(crate) fn conv(s: &ConvSpec, weight: &[f64], bias: &[f64], x: &[f64], shape: [usize; 3]) -> Vec<f64> {
    let mut out = vec![0.0; out_len(s, shape)];
    let area = out.len() / shape[0] / s.c_out;
    for (i, out) in out.iter_mut().enumerate() {
        *out = bias[i / area % s.c_out];
    }
    visit(s, shape, |_| true, |o, i, k| out[o] += x[i] * weight[k]);
    out
}

/// dweight, dbias, dx.
pub(crate) fn conv_backward(
    s: &ConvSpec,
    weight: &[f64],
    x: &[f64],
    shape: [usize; 3],
    dout: &[f64],
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut dw, mut db, mut dx) = (vec![0.0; weight.len()], vec![0.0; s.c_out], vec![0.0; x.len()]);
    let area = dout.len() / shape[0] / s.c_out;
    for (i, d) in dout.iter().enumerate() {
        db[i / area % s.c_out] += d;
    }
    let wanted = |o: usize| dout[o] != 0.0;
    visit(s, shape, wanted, |o, i, k| {
        dw[k] += x[i] * dout[o];
        dx[i] += weight[k] * dout[o];
    });
    (dw, db, dx)
}

/// A block's parameters.
#[derive(Clone)]
pub(crate) struct Params {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub gamma: Vec<f32>,
    pub beta: Vec<f32>,
}

impl Params {
    pub(crate) fn new(rng: &mut ChaCha8Rng, s: &BlockSpec) -> Self {
        let size = (6.0 / (9 * s.c_out) as f32).sqrt();
        let mut gamma = numbers(rng, s.c_out, 0.5);
        // Both signs of gamma: the sign decides which pixel of a pool is the largest.
        for (i, gamma) in gamma.iter_mut().enumerate() {
            *gamma += if i % 3 == 0 { -1.0 } else { 1.0 };
        }
        Self {
            weight: numbers(rng, s.c_out * s.c_in * 9, size),
            bias: numbers(rng, s.c_out, 0.3),
            gamma,
            beta: numbers(rng, s.c_out, 0.3),
        }
    }

    pub(crate) fn borrow(&self) -> siskin_cpu::BlockParams<'_> {
        let Self { weight, bias, gamma, beta } = self;
        siskin_cpu::BlockParams { weight, bias, gamma, beta }
    }
}

pub(crate) fn conv_spec(s: &BlockSpec) -> ConvSpec {
    ConvSpec { c_in: s.c_in, c_out: s.c_out, kernel: 3, stride: 1, padding: s.padding }
}

/// All of a block's forward pass, kept for its backward pass.
#[derive(Clone)]
pub(crate) struct Forward {
    pub y: Vec<f64>,
    pub mean: Vec<f64>,
    /// Biased.
    pub var: Vec<f64>,
    zhat: Vec<f64>,
    /// What comes into the ReLU.
    pre: Vec<f64>,
    /// Index into the convolution's output of the pixel each output comes from; none where the ReLU closes.
    pub source: Vec<Option<usize>>,
    z_shape: [usize; 2],
    /// Side of a pool: 1 or 2.
    side: usize,
}

impl Forward {
    /// The pixels of output `i`.
    fn window(&self, i: usize) -> impl Iterator<Item = usize> + use<> {
        let ([zh, zw], side) = (self.z_shape, self.side);
        let (h, w) = (zh / side, zw / side);
        let (plane, row, col) = (i / (h * w), i / w % h, i % w);
        (0..side * side).map(move |k| (plane * zh + side * row + k / side) * zw + side * col + k % side)
    }

    /// The largest pixel of output `i`, the first of equals.
    fn largest(&self, i: usize) -> usize {
        self.window(i)
            .reduce(|best, k| if self.pre[k] > self.pre[best] { k } else { best })
            .expect("a window has pixels")
    }

    /// The size of what comes into the ReLU.
    pub(crate) fn largest_pre(&self) -> f64 {
        self.pre.iter().fold(0.0, |m: f64, x| m.max(x.abs()))
    }

    /// Every other source that output `i` may have where its pixels are wrong by `error`.
    pub(crate) fn other_sources(&self, i: usize, error: f64) -> Vec<Option<usize>> {
        let top = self.pre[self.largest(i)];
        let within = |k: &usize| self.pre[*k] > top.max(0.0) - 2.0 * error;
        let open = self.window(i).filter(within).map(Some);
        let closed = (top < error).then_some(None);
        open.chain(closed).filter(|source| *source != self.source[i]).collect()
    }
}

/// `given`: statistics to normalise by; `None` takes those of the batch.
pub(crate) fn block(
    s: &BlockSpec,
    p: &Params,
    x: &[f64],
    shape: [usize; 3],
    given: Option<(&[f32], &[f32])>,
) -> Forward {
    let [n, h, w] = shape;
    let z = conv(&conv_spec(s), &wide(&p.weight), &wide(&p.bias), x, shape);
    let (zh, zw) = (h + 2 * s.padding - 2, w + 2 * s.padding - 2);
    let (area, count) = (zh * zw, (n * zh * zw) as f64);
    let channel = |i: usize| i / area % s.c_out;
    let (mut mean, mut var) = (vec![0.0; s.c_out], vec![0.0; s.c_out]);
    match given {
        Some((m, v)) => (mean, var) = (wide(m), wide(v)),
        None => {
            z.iter().enumerate().for_each(|(i, z)| mean[channel(i)] += z / count);
            z.iter().enumerate().for_each(|(i, z)| var[channel(i)] += (z - mean[channel(i)]).powi(2) / count);
        }
    }
    let zhat: Vec<f64> =
        z.iter().enumerate().map(|(i, z)| (z - mean[channel(i)]) / (var[channel(i)] + 1e-5).sqrt()).collect();
    let pre: Vec<f64> = zhat
        .iter()
        .enumerate()
        .map(|(i, z)| z * f64::from(p.gamma[channel(i)]) + f64::from(p.beta[channel(i)]))
        .collect();
    let side = if s.pool { 2 } else { 1 };
    let mut f = Forward { y: vec![], mean, var, zhat, pre, source: vec![], z_shape: [zh, zw], side };
    for i in 0..n * s.c_out * (zh / side) * (zw / side) {
        let best = f.largest(i);
        f.y.push(f.pre[best].max(0.0));
        f.source.push((f.pre[best] > 0.0).then_some(best));
    }
    f
}

#[derive(Clone)]
pub(crate) struct Grads {
    pub weight: Vec<f64>,
    pub gamma: Vec<f64>,
    pub beta: Vec<f64>,
    pub x: Vec<f64>,
}

pub(crate) fn block_backward(
    s: &BlockSpec,
    p: &Params,
    x: &[f64],
    shape: [usize; 3],
    f: &Forward,
    dy: &[f64],
) -> Grads {
    let area = f.z_shape[0] * f.z_shape[1];
    let count = (shape[0] * area) as f64;
    let channel = |i: usize| i / area % s.c_out;
    let mut g = vec![0.0; f.zhat.len()];
    for (from, dy) in f.source.iter().zip(dy) {
        if let Some(from) = from {
            g[*from] += dy;
        }
    }
    let (mut gamma, mut beta) = (vec![0.0; s.c_out], vec![0.0; s.c_out]);
    for (i, g) in g.iter().enumerate() {
        gamma[channel(i)] += g * f.zhat[i];
        beta[channel(i)] += g;
    }
    let dz: Vec<f64> = g
        .iter()
        .enumerate()
        .map(|(i, g)| {
            let c = channel(i);
            let scale = f64::from(p.gamma[c]) / (f.var[c] + 1e-5).sqrt();
            scale * (g - beta[c] / count - f.zhat[i] * gamma[c] / count)
        })
        .collect();
    let (weight, _, dx) = conv_backward(&conv_spec(s), &wide(&p.weight), x, shape, &dz);
    Grads { weight, gamma, beta, x: dx }
}
