//! The backward pass of a block.

use rayon::prelude::*;

use super::*;
use crate::norm::{Reduce, Spread};

impl Block {
    /// Gradients of the parameters and, if `want_dx`, of the input, from the gradient `dy` of the output.
    ///
    /// # Errors
    /// Shapes that do not fit those of the forward pass.
    pub fn backward(
        &self,
        workspace: &Workspace,
        pass: BlockPass<'_>,
        grads: &mut BlockGrads,
        want_dx: bool,
    ) -> Result<Option<Activations>, Error> {
        self.check_pass(&pass, grads)?;
        let BlockPass { params, x, saved, dy } = pass;
        let g = saved.geometry;
        let lanes = g.z.lanes;
        let kept = |row: usize| &saved.channels[row * lanes..][..lanes];
        let (scale, shift, mean) = (kept(SCALE), kept(SHIFT), kept(MEAN));

        let sums = self.image_sums(workspace, saved, dy);
        let mut line = workspace.take_zeroed(2 * lanes);
        let (slope, offset) = line.split_at_mut(lanes);
        self.finish_sums(&sums, saved, grads, slope, offset);

        let layer = self.layer(&g);
        let filters = want_dx.then(|| layer.pack_transposed(workspace, params.weight, Some(kept(SIGN))));
        let filters = filters.unwrap_or_else(|| layer.unpacked(workspace));
        let again = saved.z.is_empty().then(|| layer.pack(workspace, params.weight, Some(kept(SIGN))));
        let (chunk, step, strip) = (layer.chunk(g.n), layer.step(), self.strip(&layer));
        let mut sums = workspace.take(g.n.div_ceil(chunk) * layer.sums_len());
        let mut dx = want_dx.then(|| Activations::new(workspace, g.n, g.x));
        let (slope, offset) = (&slope[..], &offset[..]);
        let one = |number: usize, x: &[f32], dy: &[f32], sums: &mut [f32], mut dx: Option<&mut [f32]>| {
            let size = step * g.z.strip(strip).len();
            let mut room = workspace.take(if again.is_some() { 2 * size } else { size });
            let (dz, made) = room.split_at_mut(size);
            for (i, (x, dy)) in x.chunks(step * g.x.len()).zip(dy.chunks(step * g.y.len())).enumerate() {
                for top in (0..g.z.h).step_by(strip) {
                    let z_frame = g.z.strip(strip.min(g.z.h - top));
                    let (rows, len) = (top..top + z_frame.h, x.len() / g.x.len() * z_frame.len());
                    let z = match &again {
                        None => &saved.z[(number * chunk + i * step) * g.z.len()..][..len],
                        Some(filters) => {
                            filters.forward(workspace, x, rows.clone(), &mut made[..len]);
                            &made[..len]
                        }
                    };
                    let images = z.chunks_exact(z_frame.len()).zip(dy.chunks_exact(g.y.len()));
                    for ((z, dy), dz) in images.zip(dz.chunks_exact_mut(z_frame.len())) {
                        let (dy_frame, pool) = (g.y, self.spec.pool);
                        self.isa.run(Spread {
                            z,
                            z_frame,
                            top,
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
                    let dx = dx.as_mut().map(|dx| &mut dx[i * step * g.x.len()..][..x.len()]);
                    filters.backward(workspace, x, rows, &dz[..len], dx, sums, (i, top) == (0, 0));
                }
            }
        };
        let jobs = x
            .data
            .par_chunks(chunk * g.x.len())
            .zip(dy.data.par_chunks(chunk * g.y.len()))
            .zip(sums.par_chunks_mut(layer.sums_len()))
            .enumerate();
        match &mut dx {
            Some(dx) => jobs
                .zip(dx.data.par_chunks_mut(chunk * g.x.len()))
                .for_each(|((number, ((x, dy), sums)), dx)| one(number, x, dy, sums, Some(dx))),
            None => jobs.for_each(|(number, ((x, dy), sums))| one(number, x, dy, sums, None)),
        }
        layer.gradient(workspace, &sums, Some(kept(SIGN)), grads.weight);
        Ok(dx)
    }

    /// Whether inputs and gradients have the shapes of the forward pass.
    fn check_pass(&self, pass: &BlockPass<'_>, grads: &BlockGrads) -> Result<(), Error> {
        let &BlockPass { ref params, x, saved, dy } = pass;
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
        Ok(())
    }

    /// Of each image the sums over its pixels of g and of g·(z − mean), `[n, 2, lanes]`.
    fn image_sums(&self, workspace: &Workspace, saved: &BlockSaved, dy: &Activations) -> Buffer {
        let g = saved.geometry;
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
        sums
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
