//! A convolution on its own, on `[n, c, h, w]` slices: for networks that are not rows of fused blocks.

use rayon::prelude::*;

use crate::batch::Batch;
use crate::bf16::{Precision, Unit};
use crate::buffer::Workspace;
use crate::direct::Window;
use crate::error::{Error, check};
use crate::filter::Layer;
use crate::frame::Frame;
use crate::simd::Isa;

/// The geometry of a convolution with square filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvSpec {
    /// Channels of the input.
    pub c_in: usize,
    /// Channels of the output.
    pub c_out: usize,
    /// Side of a filter: 1 or 3.
    pub kernel: usize,
    /// Pixels from one output to the next: 1 or 2.
    pub stride: usize,
    /// Zeros around the input: 0 or 1, and 0 for a filter of side 1.
    pub padding: usize,
}

/// Where a backward pass writes its gradients.
#[derive(Debug)]
pub struct ConvGrads<'a> {
    /// Of the filters, `[c_out, c_in, k, k]`.
    pub weight: &'a mut [f32],
    /// Of the bias, `[c_out]`, if asked for.
    pub bias: Option<&'a mut [f32]>,
    /// Of the images, if asked for.
    pub images: Option<&'a mut [f32]>,
}

/// Runs convolutions of one geometry.
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    isa: Isa,
    unit: Option<Unit>,
    spec: ConvSpec,
}

impl Conv {
    /// A convolution run with the widest instructions of this CPU.
    ///
    /// # Errors
    /// A geometry other than [`ConvSpec`] names.
    pub fn new(spec: ConvSpec) -> Result<Self, Error> {
        Self::with_isa(spec, Isa::detect())
    }

    /// A convolution run with the given instructions.
    ///
    /// # Errors
    /// A geometry other than [`ConvSpec`] names.
    pub fn with_isa(spec: ConvSpec, isa: Isa) -> Result<Self, Error> {
        let ConvSpec { c_in, c_out, kernel, stride, padding } = spec;
        let most = if kernel == 3 { 1 } else { 0 };
        for (what, value, fine, allowed) in [
            ("the filter size", kernel, kernel == 1 || kernel == 3, "1 or 3"),
            ("stride", stride, stride == 1 || stride == 2, "1 or 2"),
            ("padding", padding, padding <= most, "0, or 1 with 3x3 filters"),
            ("the number of channels", c_in.min(c_out), c_in.min(c_out) > 0, "at least 1"),
        ] {
            if !fine {
                return Err(Error::Unsupported { what, value, allowed });
            }
        }
        Ok(Self { isa, unit: None, spec })
    }

    /// The same convolution in this precision.
    ///
    /// # Errors
    /// Instructions this CPU does not have.
    pub fn at(self, precision: Precision) -> Result<Self, Error> {
        Ok(Self { unit: precision.unit(self.isa)?, ..self })
    }

    /// Its geometry.
    pub fn spec(&self) -> ConvSpec {
        self.spec
    }

    /// Height and width of the output for images of h x w, `None` if nothing remains.
    pub fn output_size(&self, h: usize, w: usize) -> Option<(usize, usize)> {
        let ConvSpec { kernel, stride, padding, .. } = self.spec;
        let side = |x: usize| {
            let room = (x + 2 * padding).checked_sub(kernel)?;
            (x > 0).then_some(room / stride + 1)
        };
        Some((side(h)?, side(w)?))
    }

    fn layer(&self, n: usize, h: usize, w: usize) -> Result<Layer, Error> {
        let ConvSpec { c_in, c_out, kernel, stride, padding } = self.spec;
        let too_small = Error::TooSmall { block: 0, h, w };
        let (zh, zw) = self.output_size(h, w).filter(|_| n > 0).ok_or(too_small)?;
        let window = Window { kernel, stride, padding };
        Ok(Layer {
            isa: self.isa,
            window,
            x: Frame::inner(h, w, c_in),
            z: Frame::outer(zh, zw, c_out),
            algorithm: self.unit.into(),
        })
    }

    fn check(&self, layer: &Layer, weight: usize, [n, x, z]: [usize; 3]) -> Result<(), Error> {
        let ConvSpec { c_in, c_out, kernel, .. } = self.spec;
        check("weight", "[c_out, c_in, k, k]", weight, c_out * c_in * kernel * kernel)?;
        check("input", "[n, c_in, h, w]", x, n * c_in * layer.x.h * layer.x.w)?;
        check("output", "[n, c_out, h, w]", z, n * c_out * layer.z.h * layer.z.w)
    }

    /// out = x * weight + bias.
    ///
    /// # Errors
    /// Shapes that do not fit, or images too small.
    pub fn forward(
        &self,
        workspace: &Workspace,
        weight: &[f32],
        bias: Option<&[f32]>,
        Batch { values: x, n, h, w }: Batch<'_>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let layer = self.layer(n, h, w)?;
        self.check(&layer, weight.len(), [n, x.len(), out.len()])?;
        if let Some(bias) = bias {
            check("bias", "[c_out]", bias.len(), self.spec.c_out)?;
        }
        let filters = layer.pack(workspace, weight, None);
        let (chunk, x_size, z_size) = (layer.chunk(n), x.len() / n, out.len() / n);
        x.par_chunks(chunk * x_size).zip(out.par_chunks_mut(chunk * z_size)).for_each(|(x, out)| {
            let images = x.len() / x_size;
            let mut framed = workspace.take(images * layer.x.len());
            let mut z = workspace.take(images * layer.z.len());
            for (from, to) in x.chunks_exact(x_size).zip(framed.chunks_exact_mut(layer.x.len())) {
                layer.x.load(from, to);
            }
            filters.forward(workspace, &framed, 0..layer.z.h, &mut z);
            for (from, to) in z.chunks_exact(layer.z.len()).zip(out.chunks_exact_mut(z_size)) {
                layer.z.unload(from, to);
                let planes = to.chunks_exact_mut(layer.z.h * layer.z.w);
                for (plane, bias) in planes.zip(bias.unwrap_or(&[])) {
                    plane.iter_mut().for_each(|value| *value += bias);
                }
            }
        });
        Ok(())
    }

    /// Gradients of weight, bias and input, each if asked for, from that of the output.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn backward(
        &self,
        workspace: &Workspace,
        weight: &[f32],
        Batch { values: x, n, h, w }: Batch<'_>,
        dout: &[f32],
        ConvGrads { weight: dweight, bias: dbias, images: dx }: ConvGrads<'_>,
    ) -> Result<(), Error> {
        let layer = self.layer(n, h, w)?;
        self.check(&layer, weight.len(), [n, x.len(), dout.len()])?;
        check("weight gradient", "[c_out, c_in, k, k]", dweight.len(), weight.len())?;
        let (chunk, x_size, z_size) = (layer.chunk(n), x.len() / n, dout.len() / n);
        if let Some(dbias) = dbias {
            check("bias gradient", "[c_out]", dbias.len(), self.spec.c_out)?;
            let area = layer.z.h * layer.z.w;
            dbias.par_iter_mut().enumerate().for_each(|(c, dbias)| {
                let planes = dout.chunks_exact(z_size).map(|image| &image[c * area..][..area]);
                *dbias = planes.map(|plane| f64::from(plane.iter().sum::<f32>())).sum::<f64>() as f32;
            });
        }
        let filters = match dx {
            Some(_) => layer.pack_transposed(workspace, weight, None),
            None => layer.unpacked(workspace),
        };
        let mut sums = workspace.take(n.div_ceil(chunk) * layer.sums_len());
        let one = |x: &[f32], dout: &[f32], sums: &mut [f32], dx: Option<&mut [f32]>| {
            let images = x.len() / x_size;
            let mut framed = workspace.take(images * layer.x.len());
            let mut dz = workspace.take(images * layer.z.len());
            for (from, to) in x.chunks_exact(x_size).zip(framed.chunks_exact_mut(layer.x.len())) {
                layer.x.load(from, to);
            }
            for (from, to) in dout.chunks_exact(z_size).zip(dz.chunks_exact_mut(layer.z.len())) {
                layer.z.load(from, to);
            }
            let rows = 0..layer.z.h;
            let Some(dx) = dx else {
                return filters.backward(workspace, &framed, rows, &dz, None, sums, true);
            };
            let mut gradient = workspace.take(images * layer.x.len());
            filters.backward(workspace, &framed, rows, &dz, Some(&mut gradient), sums, true);
            for (from, to) in gradient.chunks_exact(layer.x.len()).zip(dx.chunks_exact_mut(x_size)) {
                layer.x.unload(from, to);
            }
        };
        let jobs = x
            .par_chunks(chunk * x_size)
            .zip(dout.par_chunks(chunk * z_size))
            .zip(sums.par_chunks_mut(layer.sums_len()));
        match dx {
            Some(dx) => {
                check("input gradient", "[n, c_in, h, w]", dx.len(), x.len())?;
                jobs.zip(dx.par_chunks_mut(chunk * x_size))
                    .for_each(|(((x, dout), sums), dx)| one(x, dout, sums, Some(dx)));
            }
            None => jobs.for_each(|((x, dout), sums)| one(x, dout, sums, None)),
        }
        layer.gradient(workspace, &sums, None, dweight);
        Ok(())
    }
}
