//! Batch-norm, ReLU and max-pool of a value and its tangent: the part between the convolutions of a forward-mode pass,
//! with its backward. The gradient of a directional derivative is a Hessian-vector product.
//!
//! For each channel, over the m values z of a batch with tangents z':
//!
//! | value | tangent |
//! | --- | --- |
//! | c = z - mean z | c' = z' - mean z' |
//! | v = mean c^2, r = (v + 1e-5)^(-1/2) | v' = 2 mean c c', r' = -r^3 v' / 2 |
//! | x = c r | x' = c' r + c r' |
//! | y = gamma x + beta | y' = gamma x' + gamma' x + beta' |
//!
//! then the ReLU keeps y' where y > 0, and the pool takes y' where y is largest.

use rayon::prelude::*;

use crate::block::EPSILON;
use crate::error::{Error, check};

/// Gain and shift of a batch-norm with their tangents, `[c]` each.
#[derive(Clone, Copy, Debug)]
pub struct TangentNorm<'a> {
    /// Gain.
    pub gamma: &'a [f32],
    /// Tangent of the gain.
    pub gamma_dot: &'a [f32],
    /// Shift.
    pub beta: &'a [f32],
    /// Tangent of the shift.
    pub beta_dot: &'a [f32],
    /// Whether a 2x2 max-pool follows the ReLU.
    pub pool: bool,
}

/// Where the gradients of [`TangentNorm::backward`] go.
#[derive(Debug)]
pub struct TangentGrads<'a> {
    /// With respect to z, `[n, c, h, w]`.
    pub z: &'a mut [f32],
    /// With respect to z', `[n, c, h, w]`.
    pub z_dot: &'a mut [f32],
    /// With respect to the gain, `[c]`.
    pub gamma: &'a mut [f32],
    /// With respect to the shift, `[c]`.
    pub beta: &'a mut [f32],
}

/// The two normalised numbers of a channel's value z with tangent z', and what they need.
#[derive(Clone, Copy)]
struct Moments {
    mean: f32,
    mean_dot: f32,
    r: f32,
    r_dot: f32,
    v_dot: f64,
}

impl Moments {
    fn of(z: &[f32], z_dot: &[f32], [n, c, h, w]: [usize; 4], channel: usize) -> Self {
        let m = (n * h * w) as f64;
        let planes = || (0..n).map(|i| i * c + channel);
        let mean = |values: &[f32]| {
            let sums = planes().map(|p| at(values, p, h * w).iter().map(|&x| f64::from(x)).sum::<f64>());
            sums.sum::<f64>() / m
        };
        let (mean_z, mean_dot) = (mean(z), mean(z_dot));
        let (mut square, mut product) = (0.0, 0.0);
        for p in planes() {
            for (&z, &z_dot) in at(z, p, h * w).iter().zip(at(z_dot, p, h * w)) {
                let c = f64::from(z) - mean_z;
                square += c * c;
                product += c * (f64::from(z_dot) - mean_dot);
            }
        }
        let v_dot = 2.0 * product / m;
        let r = (square / m + f64::from(EPSILON)).powf(-0.5);
        let r_dot = -0.5 * r.powi(3) * v_dot;
        Self { mean: mean_z as f32, mean_dot: mean_dot as f32, r: r as f32, r_dot: r_dot as f32, v_dot }
    }

    /// (x, x').
    fn normalised(&self, z: f32, z_dot: f32) -> (f32, f32) {
        let (c, c_dot) = (z - self.mean, z_dot - self.mean_dot);
        (c * self.r, c_dot * self.r + c * self.r_dot)
    }
}

/// What the backward pass of one channel sums up.
struct Sums {
    gamma: f64,
    beta: f64,
    /// Adjoints of v and v', each times 2 / m.
    v: f32,
    v_dot: f32,
    /// Means of the adjoints of c and c'.
    c: f32,
    c_dot: f32,
}

/// Plane `p` of values cut into planes of `area`.
fn at(values: &[f32], p: usize, area: usize) -> &[f32] {
    &values[p * area..(p + 1) * area]
}

impl TangentNorm<'_> {
    /// Height and width after the pool.
    pub fn output_size(&self, h: usize, w: usize) -> (usize, usize) {
        if self.pool { (h / 2, w / 2) } else { (h, w) }
    }

    /// `out`: [2 n, c, h, w] after the pool, values first, then tangents.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward(&self, z: &[f32], z_dot: &[f32], shape: [usize; 4], out: &mut [f32]) -> Result<(), Error> {
        let [_, c, h, w] = shape;
        self.check(z, z_dot, shape, out)?;
        let moments = moments(z, z_dot, shape);
        let (oh, ow) = self.output_size(h, w);
        let (value, tangent) = out.split_at_mut(out.len() / 2);
        value.par_chunks_exact_mut(oh * ow).zip(tangent.par_chunks_exact_mut(oh * ow)).enumerate().for_each(
            |(p, (value, tangent))| {
                let (moments, z, z_dot) = (&moments[p % c], at(z, p, h * w), at(z_dot, p, h * w));
                for (o, (value, tangent)) in value.iter_mut().zip(tangent).enumerate() {
                    let (from, y) = self.source(moments, p % c, z, o, [w, ow]);
                    (*value, *tangent) = if y > 0.0 {
                        (y, self.tangent(moments, p % c, z[from], z_dot[from]))
                    } else {
                        (0.0, 0.0)
                    };
                }
            },
        );
        Ok(())
    }

    /// The gradients from that of the output, `dout`: [2 n, c, h, w] after the pool.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn backward(
        &self,
        z: &[f32],
        z_dot: &[f32],
        shape: [usize; 4],
        dout: &[f32],
        grads: TangentGrads<'_>,
    ) -> Result<(), Error> {
        let [_, c, h, w] = shape;
        self.check(z, z_dot, shape, dout)?;
        check("gradient of z", "[n, c, h, w]", grads.z.len(), z.len())?;
        check("gradient of z'", "[n, c, h, w]", grads.z_dot.len(), z.len())?;
        check("gradient of the gain", "[c]", grads.gamma.len(), c)?;
        check("gradient of the shift", "[c]", grads.beta.len(), c)?;
        let moments = moments(z, z_dot, shape);
        let (oh, ow) = self.output_size(h, w);
        let (dvalue, dtangent) = dout.split_at(dout.len() / 2);
        // Adjoints of y and y', in the place of those of z and z'.
        grads
            .z
            .par_chunks_exact_mut(h * w)
            .zip(grads.z_dot.par_chunks_exact_mut(h * w))
            .enumerate()
            .for_each(|(p, (dy, dy_dot))| {
                dy.fill(0.0);
                dy_dot.fill(0.0);
                let gradients = at(dvalue, p, oh * ow).iter().zip(at(dtangent, p, oh * ow));
                for (o, (&d, &d_dot)) in gradients.enumerate() {
                    let (to, y) = self.source(&moments[p % c], p % c, at(z, p, h * w), o, [w, ow]);
                    if y > 0.0 {
                        (dy[to], dy_dot[to]) = (d, d_dot);
                    }
                }
            });
        let (dy, dy_dot) = (&*grads.z, &*grads.z_dot);
        let sums: Vec<Sums> = (0..c)
            .into_par_iter()
            .map(|channel| self.sums(&moments[channel], channel, [z, z_dot, dy, dy_dot], shape))
            .collect();
        for (channel, sums) in sums.iter().enumerate() {
            grads.gamma[channel] = sums.gamma as f32;
            grads.beta[channel] = sums.beta as f32;
        }
        grads
            .z
            .par_chunks_exact_mut(h * w)
            .zip(grads.z_dot.par_chunks_exact_mut(h * w))
            .enumerate()
            .for_each(|(p, (dz, dz_dot))| {
                let (moments, sums) = (&moments[p % c], &sums[p % c]);
                let values = at(z, p, h * w).iter().zip(at(z_dot, p, h * w));
                for ((dz, dz_dot), (&z, &z_dot)) in dz.iter_mut().zip(dz_dot).zip(values) {
                    let (c, c_dot) = (z - moments.mean, z_dot - moments.mean_dot);
                    let (dx, dx_dot) = self.normalised_adjoint(p % shape[1], *dz, *dz_dot);
                    let dc = moments.r * dx + moments.r_dot * dx_dot + sums.v * c + sums.v_dot * c_dot;
                    let dc_dot = moments.r * dx_dot + sums.v_dot * c;
                    (*dz, *dz_dot) = (dc - sums.c, dc_dot - sums.c_dot);
                }
            });
        Ok(())
    }

    /// y of one value.
    fn value(&self, moments: &Moments, channel: usize, z: f32) -> f32 {
        let (x, _) = moments.normalised(z, 0.0);
        self.gamma[channel] * x + self.beta[channel]
    }

    /// y' of one value.
    fn tangent(&self, moments: &Moments, channel: usize, z: f32, z_dot: f32) -> f32 {
        let (x, x_dot) = moments.normalised(z, z_dot);
        self.gamma[channel] * x_dot + self.gamma_dot[channel] * x + self.beta_dot[channel]
    }

    /// Which value of a plane of width `w` output `o` takes, and its y: the largest of its window, the first of equals.
    fn source(
        &self,
        moments: &Moments,
        channel: usize,
        z: &[f32],
        o: usize,
        [w, ow]: [usize; 2],
    ) -> (usize, f32) {
        let place = |i: usize| (i, self.value(moments, channel, z[i]));
        if !self.pool {
            return place(o);
        }
        let corner = 2 * (o / ow) * w + 2 * (o % ow);
        let window = [corner + 1, corner + w, corner + w + 1].map(place);
        window.into_iter().fold(place(corner), |best, other| if other.1 > best.1 { other } else { best })
    }

    /// The adjoints of x and x' from those of y and y'.
    fn normalised_adjoint(&self, channel: usize, dy: f32, dy_dot: f32) -> (f32, f32) {
        let (gamma, gamma_dot) = (self.gamma[channel], self.gamma_dot[channel]);
        (gamma * dy + gamma_dot * dy_dot, gamma * dy_dot)
    }

    fn sums(
        &self,
        moments: &Moments,
        channel: usize,
        [z, z_dot, dy, dy_dot]: [&[f32]; 4],
        [n, c, h, w]: [usize; 4],
    ) -> Sums {
        let m = (n * h * w) as f64;
        let area = h * w;
        let (mut gamma, mut beta, mut dr, mut dr_dot) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
        let (mut sum_dx, mut sum_dx_dot) = (0.0f64, 0.0f64);
        for p in (0..n).map(|i| i * c + channel) {
            let values = at(z, p, area).iter().zip(at(z_dot, p, area));
            let adjoints = at(dy, p, area).iter().zip(at(dy_dot, p, area));
            for ((&z, &z_dot), (&dy, &dy_dot)) in values.zip(adjoints) {
                let (x, x_dot) = moments.normalised(z, z_dot);
                let (dx, dx_dot) = self.normalised_adjoint(channel, dy, dy_dot);
                beta += f64::from(dy);
                gamma += f64::from(dy * x + dy_dot * x_dot);
                dr += f64::from((z - moments.mean) * dx + (z_dot - moments.mean_dot) * dx_dot);
                dr_dot += f64::from((z - moments.mean) * dx_dot);
                sum_dx += f64::from(dx);
                sum_dx_dot += f64::from(dx_dot);
            }
        }
        let (r, r_dot) = (f64::from(moments.r), f64::from(moments.r_dot));
        // r' = -r^3 v' / 2 depends on r, and r on v.
        let dr = dr - 1.5 * r * r * moments.v_dot * dr_dot;
        let (dv, dv_dot) = (-0.5 * r.powi(3) * dr, -0.5 * r.powi(3) * dr_dot);
        Sums {
            gamma,
            beta,
            v: (2.0 * dv / m) as f32,
            v_dot: (2.0 * dv_dot / m) as f32,
            // c and c' sum to 0, so only r and r' bring anything to the means.
            c: ((r * sum_dx + r_dot * sum_dx_dot) / m) as f32,
            c_dot: (r * sum_dx_dot / m) as f32,
        }
    }

    fn check(&self, z: &[f32], z_dot: &[f32], [n, c, h, w]: [usize; 4], out: &[f32]) -> Result<(), Error> {
        let (oh, ow) = self.output_size(h, w);
        if n * c * oh * ow == 0 {
            return Err(Error::TooSmall { block: 0, h, w });
        }
        check("z", "[n, c, h, w]", z.len(), n * c * h * w)?;
        check("z'", "[n, c, h, w]", z_dot.len(), n * c * h * w)?;
        for values in [self.gamma, self.gamma_dot, self.beta, self.beta_dot] {
            check("gain or shift", "[c]", values.len(), c)?;
        }
        check("output", "[2 n, c, h, w]", out.len(), 2 * n * c * oh * ow)
    }
}

fn moments(z: &[f32], z_dot: &[f32], shape: [usize; 4]) -> Vec<Moments> {
    (0..shape[1]).into_par_iter().map(|channel| Moments::of(z, z_dot, shape, channel)).collect()
}
