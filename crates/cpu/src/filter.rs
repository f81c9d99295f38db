//! One layer's filters made ready for a pass, and the choice of algorithm: in f32 Winograd where it applies, else direct.

use std::ops::Range;

use crate::bf16::{self, Mixed, Unit};
use crate::buffer::{Buffer, Workspace};
use crate::direct::{self, Window};
use crate::frame::{Frame, GROUP};
use crate::gemm::packed_at;
use crate::simd::Isa;
use crate::winograd::{self, filter::TAPS};

/// Filters packed for the forward pass or, transposed, for the backward pass.
pub(crate) struct Filters {
    layer: Layer,
    packed: Packed,
}

enum Packed {
    Single(Buffer),
    Mixed(Mixed, bf16::Halves),
}

/// How a layer's convolutions are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// In f32, by Winograd where it applies.
    Fastest,
    /// In f32, always by definition: for tests that compare the two.
    #[cfg(test)]
    Definition,
    /// bf16 products, f32 sums.
    Mixed(Unit),
}

impl From<Option<Unit>> for Algorithm {
    fn from(unit: Option<Unit>) -> Self {
        unit.map_or(Self::Fastest, Self::Mixed)
    }
}

/// The shape of a layer's filters and how one value of `[c_out, c_in, k, k]` is found in packed memory.
#[derive(Clone, Copy)]
pub(crate) struct Layer {
    pub isa: Isa,
    pub window: Window,
    pub x: Frame,
    pub z: Frame,
    pub algorithm: Algorithm,
}

impl Layer {
    /// Winograd's transforms work on whole vectors of channels and on 3x3 filters of stride 1.
    pub(crate) fn is_winograd(&self) -> bool {
        self.algorithm == Algorithm::Fastest
            && self.window.kernel == 3
            && self.window.stride == 1
            && self.x.lanes.is_multiple_of(GROUP)
    }

    fn mixed(&self) -> Option<Mixed> {
        let Self { isa, window, x, z, .. } = *self;
        match self.algorithm {
            Algorithm::Mixed(unit) => Some(Mixed { isa, unit, window, x, z }),
            _ => None,
        }
    }

    /// Images of a chunk. The number of chunks depends on the work alone, never on the number of threads: the sums over
    /// chunks have one order. Each chunk sums its own filter gradients, so it must be large enough to pay for that.
    pub(crate) fn chunk(&self, n: usize) -> usize {
        const MOST: usize = 16;
        let chunks =
            if self.is_winograd() { (n * winograd::tiles(self.z) / 128).clamp(2, MOST) } else { MOST };
        n.div_ceil(chunks)
    }

    /// Images handled at once within a chunk: one, or as many small ones as make a group of tiles.
    pub(crate) fn step(&self) -> usize {
        if !self.is_winograd() {
            return 1;
        }
        winograd::group_size(self.x.lanes.max(self.z.lanes)).div_ceil(winograd::tiles(self.z))
    }

    /// Rows of output made at once when they need not be kept: two, still in the cache when the pool reads them, or all
    /// where an algorithm makes whole images.
    pub(crate) fn strip(&self) -> usize {
        if self.is_winograd() || self.mixed().is_some() { self.z.h } else { self.z.h.min(2) }
    }

    /// Whether it costs less to make the output again than to keep it: so if a value is the sum of a few products.
    pub(crate) fn is_cheap(&self) -> bool {
        self.window.depth(self.x.lanes) < GROUP
    }

    /// Floats of a chunk's sum of gradients.
    pub(crate) fn sums_len(&self) -> usize {
        let size = self.x.lanes * self.z.lanes;
        if self.is_winograd() {
            winograd::POINTS * winograd::filter::step(size)
        } else {
            self.window.kernel.pow(2) * size
        }
    }

    /// Packs `weight` (`[c_out, c_in, k, k]`), filter n scaled by `scale[n]`, for the forward pass.
    pub(crate) fn pack(self, workspace: &Workspace, weight: &[f32], scale: Option<&[f32]>) -> Filters {
        if let Some(mixed) = self.mixed() {
            return Filters {
                layer: self,
                packed: Packed::Mixed(mixed, mixed.pack(workspace, weight, scale)),
            };
        }
        let (lin, lout) = (self.x.lanes, self.z.lanes);
        if self.is_winograd() {
            let step = winograd::filter::step(lin * lout);
            let taps = self.spread(workspace, weight, scale, TAPS * step, |n, k, tap| {
                tap * step + packed_at(self.isa, lin, lout, k, n)
            });
            return self.filters(winograd::filter::to_points(self.isa, workspace, &taps));
        }
        let depth = self.window.depth(lin);
        let packed = self.spread(workspace, weight, scale, depth * lout, |n, k, tap| {
            packed_at(self.isa, depth, lout, tap * lin + k, n)
        });
        self.filters(packed)
    }

    /// Packs the same transposed, for the gradient with respect to the input.
    pub(crate) fn pack_transposed(
        self,
        workspace: &Workspace,
        weight: &[f32],
        scale: Option<&[f32]>,
    ) -> Filters {
        if let Some(mixed) = self.mixed() {
            let packed = Packed::Mixed(mixed, mixed.pack_transposed(workspace, weight, scale));
            return Filters { layer: self, packed };
        }
        let (lin, lout) = (self.x.lanes, self.z.lanes);
        if self.is_winograd() {
            let step = winograd::filter::step(lin * lout);
            let taps = self.spread(workspace, weight, scale, TAPS * step, |n, k, tap| {
                tap * step + packed_at(self.isa, lout, lin, n, k)
            });
            return self.filters(winograd::filter::to_points(self.isa, workspace, &taps));
        }
        let width = self.window.depth(lin).next_multiple_of(GROUP);
        let packed = self.spread(workspace, weight, scale, width * lout, |n, k, tap| {
            packed_at(self.isa, lout, width, n, tap * lin + k)
        });
        self.filters(packed)
    }

    /// No filters: for a backward pass that needs no gradient with respect to its input.
    pub(crate) fn unpacked(self, workspace: &Workspace) -> Filters {
        match self.mixed() {
            Some(mixed) => {
                Filters { layer: self, packed: Packed::Mixed(mixed, bf16::Halves::take(workspace, 0)) }
            }
            None => self.filters(workspace.take(0)),
        }
    }

    fn filters(self, packed: Buffer) -> Filters {
        Filters { layer: self, packed: Packed::Single(packed) }
    }

    fn spread(
        &self,
        workspace: &Workspace,
        weight: &[f32],
        scale: Option<&[f32]>,
        len: usize,
        place: impl Fn(usize, usize, usize) -> usize,
    ) -> Buffer {
        let taps = self.window.kernel.pow(2);
        let mut out = workspace.take_zeroed(len);
        for n in 0..self.z.channels {
            for k in 0..self.x.channels {
                for (tap, value) in weight[(n * self.x.channels + k) * taps..][..taps].iter().enumerate() {
                    out[place(n, k, tap)] = value * scale.map_or(1.0, |s| s[n]);
                }
            }
        }
        out
    }

    /// dW (`[c_out, c_in, k, k]`) from the sums of all chunks, filter n scaled by `scale[n]`.
    pub(crate) fn gradient(
        &self,
        workspace: &Workspace,
        sums: &[f32],
        scale: Option<&[f32]>,
        dweight: &mut [f32],
    ) {
        let (lin, lout, taps) = (self.x.lanes, self.z.lanes, self.window.kernel.pow(2));
        let chunks = sums.len() / self.sums_len();
        let (step, total) = if self.is_winograd() {
            (winograd::filter::step(lin * lout), winograd::filter::to_taps(self.isa, workspace, sums, chunks))
        } else {
            let mut total = workspace.take_zeroed(self.sums_len());
            for part in sums.chunks_exact(self.sums_len()) {
                total.iter_mut().zip(part).for_each(|(total, part)| *total += part);
            }
            (lin * lout, total)
        };
        for n in 0..self.z.channels {
            for k in 0..self.x.channels {
                for tap in 0..taps {
                    dweight[(n * self.x.channels + k) * taps + tap] =
                        total[tap * step + k * lout + n] * scale.map_or(1.0, |s| s[n]);
                }
            }
        }
    }
}

impl Filters {
    /// These rows of z = x * filters for a run of images (filters from [`Layer::pack`]): all of them or, by definition, some.
    pub(crate) fn forward(&self, workspace: &Workspace, x: &[f32], rows: Range<usize>, z: &mut [f32]) {
        let Layer { isa, window, x: x_frame, z: z_frame, .. } = self.layer;
        let packed = match &self.packed {
            Packed::Single(packed) => packed,
            Packed::Mixed(mixed, filters) => return mixed.forward(workspace, filters, x, z),
        };
        if self.layer.is_winograd() {
            winograd::forward(isa, workspace, packed, window.padding, x, x_frame, z, z_frame);
        } else {
            direct::forward(isa, packed, window, x, x_frame, rows, z, z_frame);
        }
    }

    /// Adds the filter gradient of these rows to `sums`, or writes it there if they are `fresh`, and makes dx if asked for
    /// (filters from [`Layer::pack_transposed`]). With less than all rows, dx is whole after the last of them.
    #[expect(
        clippy::too_many_arguments,
        reason = "an inner kernel: slices and strides as the formula names them"
    )]
    pub(crate) fn backward(
        &self,
        workspace: &Workspace,
        x: &[f32],
        rows: Range<usize>,
        dz: &[f32],
        dx: Option<&mut [f32]>,
        sums: &mut [f32],
        fresh: bool,
    ) {
        let Layer { isa, window, x: x_frame, z: z_frame, .. } = self.layer;
        if fresh && !self.layer.is_winograd() {
            sums.fill(0.0);
        }
        let packed = match &self.packed {
            Packed::Single(packed) => packed,
            Packed::Mixed(mixed, filters) => return mixed.backward(workspace, filters, x, dz, dx, sums),
        };
        if self.layer.is_winograd() {
            winograd::backward(
                isa,
                workspace,
                packed,
                window.padding,
                x,
                x_frame,
                dz,
                z_frame,
                dx,
                sums,
                fresh,
            );
        } else {
            direct::backward(isa, workspace, packed, window, x, x_frame, rows, dz, z_frame, dx, sums);
        }
    }
}
