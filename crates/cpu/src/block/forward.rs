//! The forward pass of a block, in training and in evaluation.

use rayon::prelude::*;

use super::*;
use crate::norm::{Rectify, Summarise};

impl Block {
    /// Training: normalises by the statistics of this batch and keeps what the backward pass needs.
    ///
    /// # Errors
    /// Shapes that do not fit, images too small, or a single value per channel.
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
        let layer = self.layer(&g);
        let filters = layer.pack(workspace, params.weight, Some(&channels[SIGN * lanes..][..lanes]));
        let (chunk, step, strip) = (layer.chunk(g.n), layer.step(), self.strip(&layer));
        let keep = strip == g.z.h;
        // A part for each chunk: all its output, or a strip.
        let part = if keep { chunk * g.z.len() } else { g.z.strip(strip).len() };
        let mut z = workspace.take(if keep { g.n * g.z.len() } else { g.n.div_ceil(chunk) * part });
        let mut peaks = self.spec.pool.then(|| workspace.take(g.n * g.peak.len()));
        let mut stats = workspace.take(g.n * 2 * lanes);

        let one = |x: &[f32], z: &mut [f32], mut peaks: Option<&mut [f32]>, stats: &mut [f32]| {
            for (i, x) in x.chunks(step * g.x.len()).enumerate() {
                for top in (0..g.z.h).step_by(strip) {
                    let z_frame = g.z.strip(strip.min(g.z.h - top));
                    let from = if keep { i * step * g.z.len() } else { 0 };
                    let z = &mut z[from..][..x.len() / g.x.len() * z_frame.len()];
                    filters.forward(workspace, x, top..top + z_frame.h, z);
                    // The statistics read the output while it is in the cache.
                    for (j, z) in z.chunks_exact(z_frame.len()).enumerate() {
                        let image = i * step + j;
                        let stats = Some(&mut stats[image * 2 * lanes..][..2 * lanes]);
                        let peaks =
                            peaks.as_mut().map(|p| (&mut p[image * g.peak.len()..][..g.peak.len()], g.peak));
                        self.isa.run(Summarise { z, z_frame, top, stats, peaks });
                    }
                }
            }
        };
        let jobs = x
            .data
            .par_chunks(chunk * g.x.len())
            .zip(z.par_chunks_mut(part))
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
        Ok((y, BlockSaved { z: if keep { z } else { workspace.take(0) }, peaks, channels, geometry: g }))
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
        let mut g = self.geometry(x)?;
        if self.spec.pool {
            // The last row and column of an odd size enter the statistics of a batch, but no pool.
            g.z = Frame::outer(2 * g.peak.h, 2 * g.peak.w, self.spec.c_out);
        }
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
        let layer = self.layer(&g);
        let filters = layer.pack(workspace, params.weight, Some(scale));
        let mut y = Activations::new(workspace, g.n, g.y);
        let (chunk, step) = (layer.chunk(g.n), layer.step());
        let strip = if self.spec.pool { layer.strip() } else { g.z.h };
        let (ones, shift) = (&ones[..], &shift[..]);
        let jobs = x.data.par_chunks(chunk * g.x.len()).zip(y.data.par_chunks_mut(chunk * g.y.len()));
        jobs.for_each(|(x, y)| {
            let mut room = workspace.take(step * g.z.strip(strip).len());
            let mut peaks = workspace.take(if self.spec.pool { step * g.peak.len() } else { 0 });
            for (x, y) in x.chunks(step * g.x.len()).zip(y.chunks_mut(step * g.y.len())) {
                for top in (0..g.z.h).step_by(strip) {
                    let z_frame = g.z.strip(strip.min(g.z.h - top));
                    let z = &mut room[..x.len() / g.x.len() * z_frame.len()];
                    filters.forward(workspace, x, top..top + z_frame.h, z);
                    for (z, peaks) in z.chunks_exact(z_frame.len()).zip(peaks.chunks_exact_mut(g.peak.len()))
                    {
                        let peaks = Some((peaks, g.peak));
                        self.isa.run(Summarise { z, z_frame, top, stats: None, peaks });
                    }
                }
                let peaks = if self.spec.pool { &peaks } else { &room };
                for (peaks, y) in peaks.chunks_exact(g.peak.len()).zip(y.chunks_exact_mut(g.y.len())) {
                    self.isa.run(Rectify { peaks, peak_frame: g.peak, scale: ones, shift, y, y_frame: g.y });
                }
            }
        });
        Ok(y)
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
