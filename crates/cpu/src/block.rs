//! One fused block: convolution, batch normalisation, rectifier and, if asked for, 2x2 max-pool.

use rayon::prelude::*;

use crate::buffer::{Buffer, Workspace};
use crate::direct::Window;
use crate::error::{Error, check};
use crate::filter::Layer;
use crate::frame::{Activations, Frame};
use crate::norm::{Rectify, Reduce, Spread, Summarise, peak_frame};
use crate::simd::Isa;

/// Added to a variance before its root is taken, as in PyTorch.
pub const EPSILON: f32 = 1e-5;

/// Batches are cut into at most this many chunks, at any number of threads: sums over chunks have one order.
const CHUNKS: usize = 16;

/// Images of a chunk.
pub(crate) fn chunk_size(n: usize) -> usize {
    n.div_ceil(CHUNKS)
}

/// What a block is made of. Its filters are 3x3 with stride 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpec {
    /// Channels of the input.
    pub c_in: usize,
    /// Channels of the output.
    pub c_out: usize,
    /// Zeros around the input: 0 or 1.
    pub padding: usize,
    /// Whether a 2x2 max-pool ends the block.
    pub pool: bool,
}

/// A block's parameters in PyTorch's order.
#[derive(Clone, Copy, Debug)]
pub struct BlockParams<'a> {
    /// Filters, `[c_out, c_in, 3, 3]`.
    pub weight: &'a [f32],
    /// Bias of the convolution, `[c_out]`.
    pub bias: &'a [f32],
    /// Scale of the normalisation, `[c_out]`.
    pub gamma: &'a [f32],
    /// Shift of the normalisation, `[c_out]`.
    pub beta: &'a [f32],
}

/// Statistics used in evaluation.
#[derive(Clone, Copy, Debug)]
pub struct RunningStats<'a> {
    /// Running mean, `[c_out]`.
    pub mean: &'a [f32],
    /// Running (unbiased) variance, `[c_out]`.
    pub var: &'a [f32],
}

/// Where a backward pass writes the gradients, shaped as the parameters.
#[derive(Debug)]
pub struct BlockGrads<'a> {
    /// d/d weight.
    pub weight: &'a mut [f32],
    /// d/d bias: exactly zero, since the normalisation takes any constant out again.
    pub bias: &'a mut [f32],
    /// d/d gamma.
    pub gamma: &'a mut [f32],
    /// d/d beta.
    pub beta: &'a mut [f32],
}

/// What the backward pass of a block needs besides its input and parameters: the convolution's output, its peaks
/// (maxima of the pools), and the batch statistics. Memory returns to the workspace when this is dropped.
#[derive(Debug)]
pub struct BlockSaved {
    z: Buffer,
    peaks: Option<Buffer>,
    channels: Buffer,
    geometry: Geometry,
}

/// The frames of a block for one image size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    n: usize,
    x: Frame,
    z: Frame,
    peak: Frame,
    y: Frame,
}

/// Rows of `BlockSaved::channels`, `[7, lanes]`.
const MEAN: usize = 0;
const INV_STD: usize = 1;
const SCALE: usize = 2;
const SHIFT: usize = 3;
const SIGN: usize = 4;
const BATCH_MEAN: usize = 5;
const BATCH_VAR: usize = 6;
const KEPT: usize = 7;

/// Runs blocks of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    isa: Isa,
    spec: BlockSpec,
}

impl Block {
    /// A block run with the widest instructions of this CPU.
    ///
    /// # Errors
    /// A padding other than 0 or 1, or no channels.
    pub fn new(spec: BlockSpec) -> Result<Self, Error> {
        Self::with_isa(spec, Isa::detect())
    }

    /// A block run with the given instructions.
    ///
    /// # Errors
    /// A padding other than 0 or 1, or no channels.
    pub fn with_isa(spec: BlockSpec, isa: Isa) -> Result<Self, Error> {
        if spec.padding > 1 {
            return Err(Error::Unsupported { what: "padding", value: spec.padding, allowed: "0 or 1" });
        }
        if spec.c_in == 0 || spec.c_out == 0 {
            return Err(Error::Unsupported {
                what: "the number of channels",
                value: 0,
                allowed: "at least 1",
            });
        }
        Ok(Self { isa, spec })
    }

    /// What it is made of.
    pub fn spec(&self) -> BlockSpec {
        self.spec
    }

    /// Height and width of the output for images of h x w, `None` if nothing remains.
    pub fn output_size(&self, h: usize, w: usize) -> Option<(usize, usize)> {
        let shrink = |x: usize| {
            let z = (x + 2 * self.spec.padding).checked_sub(2)?;
            let y = if self.spec.pool { z / 2 } else { z };
            (x > 0 && y > 0).then_some(y)
        };
        Some((shrink(h)?, shrink(w)?))
    }

    fn geometry(&self, x: &Activations) -> Result<Geometry, Error> {
        let Frame { h, w, channels, .. } = x.frame;
        if channels != self.spec.c_in {
            return Err(Error::Channels { block: 0, expected: channels, found: self.spec.c_in });
        }
        let too_small = Error::TooSmall { block: 0, h, w };
        let (yh, yw) = self.output_size(h, w).filter(|_| x.n > 0).ok_or(too_small)?;
        let lost = 2 - 2 * self.spec.padding;
        let z = Frame::outer(h - lost, w - lost, self.spec.c_out);
        let peak = peak_frame(z, self.spec.pool);
        Ok(Geometry { n: x.n, x: x.frame, z, peak, y: Frame::between(yh, yw, self.spec.c_out) })
    }

    fn layer(&self, g: &Geometry) -> Layer {
        let window = Window { kernel: 3, stride: 1, padding: self.spec.padding };
        Layer { isa: self.isa, window, x: g.x, z: g.z }
    }

    fn check(&self, params: &BlockParams) -> Result<(), Error> {
        let BlockSpec { c_in, c_out, .. } = self.spec;
        check("weight", "[c_out, c_in, 3, 3]", params.weight.len(), c_out * c_in * 9)?;
        check("bias", "[c_out]", params.bias.len(), c_out)?;
        check("gamma", "[c_out]", params.gamma.len(), c_out)?;
        check("beta", "[c_out]", params.beta.len(), c_out)
    }

    /// Training: normalises by the statistics of this batch and keeps what the backward pass needs.
    ///
    /// # Errors
    /// Shapes that do not fit, images too small, or a single value a channel.
    pub fn forward_train(
        &self,
        workspace: &Workspace,
        params: &BlockParams,
        x: &Activations,
    ) -> Result<(Activations, BlockSaved), Error> {
        let g = self.geometry(x)?;
        self.check(params)?;
        let count = g.n * g.z.h * g.z.w;
        if count < 2 {
            return Err(Error::TooFewValues { block: 0 });
        }
        let lanes = g.z.lanes;
        let mut channels = workspace.take_zeroed(KEPT * lanes);
        for (sign, gamma) in channels[SIGN * lanes..].iter_mut().zip(params.gamma) {
            *sign = if *gamma < 0.0 { -1.0 } else { 1.0 };
        }
        let filters = self.layer(&g).pack(workspace, params.weight, Some(&channels[SIGN * lanes..][..lanes]));
        let mut z = workspace.take(g.n * g.z.len());
        let mut peaks = self.spec.pool.then(|| workspace.take(g.n * g.peak.len()));
        let mut stats = workspace.take(g.n * 2 * lanes);

        let chunk = chunk_size(g.n);
        let one = |x: &[f32], z: &mut [f32], mut peaks: Option<&mut [f32]>, stats: &mut [f32]| {
            filters.forward(workspace, x, z);
            for (i, (z, stats)) in
                z.chunks_exact(g.z.len()).zip(stats.chunks_exact_mut(2 * lanes)).enumerate()
            {
                let peaks = peaks.as_mut().map(|p| (&mut p[i * g.peak.len()..][..g.peak.len()], g.peak));
                self.isa.run(Summarise { z, z_frame: g.z, stats: Some(stats), peaks });
            }
        };
        let jobs = x
            .data
            .par_chunks(chunk * g.x.len())
            .zip(z.par_chunks_mut(chunk * g.z.len()))
            .zip(stats.par_chunks_mut(chunk * 2 * lanes));
        match &mut peaks {
            Some(peaks) => jobs
                .zip(peaks.par_chunks_mut(chunk * g.peak.len()))
                .for_each(|(((x, z), stats), peaks)| one(x, z, Some(peaks), stats)),
            None => jobs.for_each(|((x, z), stats)| one(x, z, None, stats)),
        }
        finish_stats(&stats, g.z, params, &mut channels);

        let y = self.rectify(
            workspace,
            &g,
            peaks.as_ref().unwrap_or(&z),
            &channels[SCALE * lanes..][..lanes],
            &channels[SHIFT * lanes..][..lanes],
        );
        Ok((y, BlockSaved { z, peaks, channels, geometry: g }))
    }

    fn rectify(
        &self,
        workspace: &Workspace,
        g: &Geometry,
        peaks: &[f32],
        scale: &[f32],
        shift: &[f32],
    ) -> Activations {
        let mut y = Activations::new(workspace, g.n, g.y);
        peaks.par_chunks(g.peak.len()).zip(y.data.par_chunks_mut(g.y.len())).for_each(|(peaks, y)| {
            self.isa.run(Rectify { peaks, peak_frame: g.peak, scale, shift, y, y_frame: g.y });
        });
        y
    }

    /// Evaluation: normalises by running statistics, folded into the convolution.
    ///
    /// # Errors
    /// Shapes that do not fit, or images too small.
    pub fn forward_eval(
        &self,
        workspace: &Workspace,
        params: &BlockParams,
        running: &RunningStats,
        x: &Activations,
    ) -> Result<Activations, Error> {
        let g = self.geometry(x)?;
        self.check(params)?;
        check("running mean", "[c_out]", running.mean.len(), self.spec.c_out)?;
        check("running variance", "[c_out]", running.var.len(), self.spec.c_out)?;
        let lanes = g.z.lanes;
        let mut folded = workspace.take_zeroed(3 * lanes);
        let (scale, rest) = folded.split_at_mut(lanes);
        let (shift, ones) = rest.split_at_mut(lanes);
        ones.fill(1.0);
        for c in 0..self.spec.c_out {
            scale[c] = params.gamma[c] / (running.var[c] + EPSILON).sqrt();
            shift[c] = params.beta[c] + scale[c] * (params.bias[c] - running.mean[c]);
        }
        let filters = self.layer(&g).pack(workspace, params.weight, Some(scale));
        let mut y = Activations::new(workspace, g.n, g.y);
        let chunk = chunk_size(g.n);
        let jobs = x.data.par_chunks(chunk * g.x.len()).zip(y.data.par_chunks_mut(chunk * g.y.len()));
        jobs.for_each(|(x, y)| {
            let images = x.len() / g.x.len();
            let mut z = workspace.take(images * g.z.len());
            filters.forward(workspace, x, &mut z);
            let mut peaks = workspace.take(g.peak.len());
            for (z, y) in z.chunks_exact(g.z.len()).zip(y.chunks_exact_mut(g.y.len())) {
                let peaks = if self.spec.pool {
                    let pooled = Some((&mut peaks[..], g.peak));
                    self.isa.run(Summarise { z, z_frame: g.z, stats: None, peaks: pooled });
                    &peaks
                } else {
                    z
                };
                let (scale, shift) = (&ones[..], &shift[..]);
                self.isa.run(Rectify { peaks, peak_frame: g.peak, scale, shift, y, y_frame: g.y });
            }
        });
        Ok(y)
    }

    /// Gradients of the parameters and, if `want_dx`, of the input, from the gradient `dy` of the output.
    ///
    /// # Errors
    /// Shapes that do not fit those of the forward pass.
    pub fn backward(
        &self,
        workspace: &Workspace,
        params: &BlockParams,
        x: &Activations,
        saved: &BlockSaved,
        dy: &Activations,
        grads: &mut BlockGrads,
        want_dx: bool,
    ) -> Result<Option<Activations>, Error> {
        let g = saved.geometry;
        self.check(params)?;
        for (name, given, expected) in [("the input", x, g.x), ("the gradient", dy, g.y)] {
            if (given.n, given.frame) != (g.n, expected) {
                return Err(Error::OtherPass { name });
            }
        }
        check("weight gradient", "[c_out, c_in, 3, 3]", grads.weight.len(), params.weight.len())?;
        for (name, found) in [
            ("bias gradient", grads.bias.len()),
            ("gamma gradient", grads.gamma.len()),
            ("beta gradient", grads.beta.len()),
        ] {
            check(name, "[c_out]", found, self.spec.c_out)?;
        }
        let lanes = g.z.lanes;
        let kept = |row: usize| &saved.channels[row * lanes..][..lanes];
        let (scale, shift, mean) = (kept(SCALE), kept(SHIFT), kept(MEAN));

        let mut sums = workspace.take(g.n * 2 * lanes);
        let peaks = saved.peaks.as_ref().unwrap_or(&saved.z);
        (sums.par_chunks_mut(2 * lanes))
            .zip(peaks.par_chunks(g.peak.len()))
            .zip(dy.data.par_chunks(g.y.len()))
            .for_each(|((sums, peaks), dy)| {
                let (peak_frame, dy_frame) = (g.peak, g.y);
                self.isa.run(Reduce { peaks, peak_frame, dy, dy_frame, scale, shift, mean, sums });
            });
        let mut line = workspace.take_zeroed(2 * lanes);
        let (slope, offset) = line.split_at_mut(lanes);
        self.finish_sums(&sums, saved, grads, slope, offset);

        let layer = self.layer(&g);
        let filters = want_dx.then(|| layer.pack_transposed(workspace, params.weight, Some(kept(SIGN))));
        let filters = filters.unwrap_or_else(|| layer.unpacked(workspace));
        let chunk = chunk_size(g.n);
        let mut sums = workspace.take(g.n.div_ceil(chunk) * layer.sums_len());
        let mut dx = want_dx.then(|| Activations::new(workspace, g.n, g.x));
        let (slope, offset) = (&slope[..], &offset[..]);
        let one = |x: &[f32], z: &[f32], dy: &[f32], sums: &mut [f32], dx: Option<&mut [f32]>| {
            let mut dz = workspace.take(z.len());
            for ((z, dy), dz) in
                z.chunks_exact(g.z.len()).zip(dy.chunks_exact(g.y.len())).zip(dz.chunks_exact_mut(g.z.len()))
            {
                let (z_frame, dy_frame, pool) = (g.z, g.y, self.spec.pool);
                self.isa.run(Spread {
                    z,
                    z_frame,
                    pool,
                    dy,
                    dy_frame,
                    scale,
                    shift,
                    mean,
                    slope,
                    offset,
                    dz,
                });
            }
            sums.fill(0.0);
            filters.backward(workspace, x, &dz, dx, sums);
        };
        let jobs = x
            .data
            .par_chunks(chunk * g.x.len())
            .zip(saved.z.par_chunks(chunk * g.z.len()))
            .zip(dy.data.par_chunks(chunk * g.y.len()))
            .zip(sums.par_chunks_mut(layer.sums_len()));
        match &mut dx {
            Some(dx) => jobs
                .zip(dx.data.par_chunks_mut(chunk * g.x.len()))
                .for_each(|((((x, z), dy), sums), dx)| one(x, z, dy, sums, Some(dx))),
            None => jobs.for_each(|(((x, z), dy), sums)| one(x, z, dy, sums, None)),
        }
        layer.gradient(workspace, &sums, Some(kept(SIGN)), grads.weight);
        Ok(dx)
    }

    /// dgamma and dbeta from the images' sums, and the line b·(z − mean) + d the normalisation adds to dz.
    ///
    /// dz = s·(g − mean(g) − ẑ·mean(g·ẑ)), so b = −s·inv_std·mean(g·ẑ) and d = −s·mean(g).
    fn finish_sums(
        &self,
        sums: &[f32],
        saved: &BlockSaved,
        grads: &mut BlockGrads,
        slope: &mut [f32],
        offset: &mut [f32],
    ) {
        let g = saved.geometry;
        let lanes = g.z.lanes;
        let count = (g.n * g.z.h * g.z.w) as f64;
        grads.bias.fill(0.0);
        for c in 0..self.spec.c_out {
            let at = |row: usize| f64::from(saved.channels[row * lanes + c]);
            let total =
                |row: usize| sums.chunks_exact(2 * lanes).map(|s| f64::from(s[row * lanes + c])).sum::<f64>();
            let sum_g = total(0);
            let sum_g_zhat = total(1) * at(INV_STD);
            grads.beta[c] = sum_g as f32;
            grads.gamma[c] = (sum_g_zhat * at(SIGN)) as f32;
            slope[c] = (-at(SCALE) * at(INV_STD) * sum_g_zhat / count) as f32;
            offset[c] = (-at(SCALE) * sum_g / count) as f32;
        }
    }
}

/// Statistics of the batch from those of its images, in the order of the images.
fn finish_stats(stats: &[f32], z: Frame, params: &BlockParams, channels: &mut [f32]) {
    let lanes = z.lanes;
    let area = (z.h * z.w) as f64;
    for c in 0..z.channels {
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for image in stats.chunks_exact(2 * lanes) {
            let step = f64::from(image[c]) - mean;
            mean += step * area / (count + area);
            squares += f64::from(image[lanes + c]) + step * step * area * count / (count + area);
            count += area;
        }
        let inv_std = 1.0 / (squares / count + f64::from(EPSILON)).sqrt();
        let scale = f64::from(params.gamma[c].abs()) * inv_std;
        let sign = f64::from(channels[SIGN * lanes + c]);
        let mut keep = |row: usize, value: f64| channels[row * lanes + c] = value as f32;
        keep(MEAN, mean);
        keep(INV_STD, inv_std);
        keep(SCALE, scale);
        keep(SHIFT, f64::from(params.beta[c]) - scale * mean);
        keep(BATCH_MEAN, sign * mean + f64::from(params.bias[c]));
        keep(BATCH_VAR, squares / (count - 1.0));
    }
}

impl BlockSaved {
    fn kept(&self, row: usize) -> &[f32] {
        &self.channels[row * self.geometry.z.lanes..][..self.geometry.z.channels]
    }

    /// The gradient of the block's output, `[n, c_out, h, w]`, in the layout the backward pass reads.
    ///
    /// # Errors
    /// A slice of another length.
    pub fn gradient(&self, workspace: &Workspace, dy: &[f32]) -> Result<Activations, Error> {
        Activations::load(workspace, "dy", dy, self.geometry.n, self.geometry.y)
    }

    /// Mean of each channel of the convolution's output (bias included) over this batch.
    pub fn batch_mean(&self) -> &[f32] {
        self.kept(BATCH_MEAN)
    }

    /// Unbiased variance of each channel over this batch: what a running variance takes in.
    pub fn batch_var(&self) -> &[f32] {
        self.kept(BATCH_VAR)
    }

    /// running ← (1 − momentum)·running + momentum·batch, PyTorch's rule.
    ///
    /// # Errors
    /// Slices that are not `[c_out]`.
    pub fn update_running(&self, momentum: f32, mean: &mut [f32], var: &mut [f32]) -> Result<(), Error> {
        check("running mean", "[c_out]", mean.len(), self.geometry.z.channels)?;
        check("running variance", "[c_out]", var.len(), self.geometry.z.channels)?;
        for (running, batch) in [(mean, self.batch_mean()), (var, self.batch_var())] {
            for (running, batch) in running.iter_mut().zip(batch) {
                *running += momentum * (batch - *running);
            }
        }
        Ok(())
    }
}
