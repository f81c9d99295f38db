//! How images lie in memory between layers: channels last, in a frame wide enough that no kernel meets an edge.
//!
//! An image is `[rows, cols, lanes]`: `lanes` is the number of channels rounded up to a multiple of 16 (the surplus is
//! zero). An *inner* frame, the input of a convolution, has a border of zeros one pixel wide; an *outer* frame, its
//! output, has none. So padding is memory, not code.

use rayon::prelude::*;

use crate::buffer::{Buffer, Workspace};
use crate::error::{Error, check};

/// Channels are stored in groups of this many: whole vectors for every instruction set.
pub(crate) const GROUP: usize = 16;

/// Geometry of one stored image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Height of the image.
    pub h: usize,
    /// Width of the image.
    pub w: usize,
    /// Its channels.
    pub channels: usize,
    /// Floats stored for each pixel, >= `channels`.
    pub lanes: usize,
    /// Zero rows above, zero columns to the left.
    pub border: usize,
    /// Rows stored.
    pub rows: usize,
    /// Columns stored.
    pub cols: usize,
}

impl Frame {
    /// A frame a convolution reads. With few channels (an image as it comes) they are stored without surplus.
    pub(crate) fn inner(h: usize, w: usize, channels: usize) -> Self {
        let lanes = if channels < GROUP { channels } else { channels.next_multiple_of(GROUP) };
        Self::bordered(h, w, channels, lanes)
    }

    /// A frame a block writes and the next convolution reads: always whole groups of channels.
    pub(crate) fn between(h: usize, w: usize, channels: usize) -> Self {
        Self::bordered(h, w, channels, channels.next_multiple_of(GROUP))
    }

    fn bordered(h: usize, w: usize, channels: usize, lanes: usize) -> Self {
        Self { h, w, channels, lanes, border: 1, rows: h + 2, cols: w + 2 }
    }

    /// A frame a convolution writes.
    pub(crate) fn outer(h: usize, w: usize, channels: usize) -> Self {
        Self { h, w, channels, lanes: channels.next_multiple_of(GROUP), border: 0, rows: h, cols: w }
    }

    /// The frame of so many rows of an outer frame.
    pub(crate) fn strip(self, rows: usize) -> Self {
        Self { h: rows, rows, ..self }
    }

    /// Floats of one image.
    pub(crate) fn len(&self) -> usize {
        self.rows * self.cols * self.lanes
    }

    /// Where pixel (y, x) begins.
    pub(crate) fn at(&self, y: usize, x: usize) -> usize {
        ((y + self.border) * self.cols + x + self.border) * self.lanes
    }

    /// Floats from a pixel to the one below it.
    pub(crate) fn row_step(&self) -> usize {
        self.cols * self.lanes
    }

    /// Writes zeros around the picture, for one image.
    pub(crate) fn clear_surround(&self, image: &mut [f32]) {
        image[..self.at(0, 0)].fill(0.0);
        for y in 0..self.h {
            let end = self.at(y, 0) + self.w * self.lanes;
            let next = if y + 1 < self.h { self.at(y + 1, 0) } else { self.len() };
            image[end..next].fill(0.0);
        }
    }

    /// Copies one `[c, h, w]` image into the frame, zeros around it.
    pub(crate) fn load(&self, planes: &[f32], image: &mut [f32]) {
        self.clear_surround(image);
        let area = self.h * self.w;
        for y in 0..self.h {
            let row = &mut image[self.at(y, 0)..][..self.w * self.lanes];
            if self.lanes > self.channels {
                row.fill(0.0);
            }
            for c in 0..self.channels {
                let line = &planes[c * area + y * self.w..][..self.w];
                for (value, pixel) in line.iter().zip(row.chunks_exact_mut(self.lanes)) {
                    pixel[c] = *value;
                }
            }
        }
    }

    /// Copies one image out of the frame to `[c, h, w]`.
    pub(crate) fn unload(&self, image: &[f32], planes: &mut [f32]) {
        let area = self.h * self.w;
        for y in 0..self.h {
            let row = &image[self.at(y, 0)..][..self.w * self.lanes];
            for c in 0..self.channels {
                let line = &mut planes[c * area + y * self.w..][..self.w];
                for (value, pixel) in line.iter_mut().zip(row.chunks_exact(self.lanes)) {
                    *value = pixel[c];
                }
            }
        }
    }
}

/// A batch of images in the layout of this crate: what flows from block to block.
#[derive(Debug)]
pub struct Activations {
    pub(crate) n: usize,
    pub(crate) frame: Frame,
    pub(crate) data: Buffer,
}

impl Activations {
    pub(crate) fn new(workspace: &Workspace, n: usize, frame: Frame) -> Self {
        Self { n, frame, data: workspace.take(n * frame.len()) }
    }

    /// Images from PyTorch's order, `[n, c, h, w]`.
    ///
    /// # Errors
    /// A slice of another length.
    pub fn from_nchw(workspace: &Workspace, images: &[f32], shape: [usize; 4]) -> Result<Self, Error> {
        let [n, c, h, w] = shape;
        Self::load(workspace, "images", images, n, Frame::inner(h, w, c))
    }

    pub(crate) fn load(
        workspace: &Workspace,
        name: &'static str,
        images: &[f32],
        n: usize,
        frame: Frame,
    ) -> Result<Self, Error> {
        let size = frame.channels * frame.h * frame.w;
        check(name, "[n, c, h, w]", images.len(), n * size)?;
        let mut out = Self::new(workspace, n, frame);
        if !images.is_empty() {
            let frames = out.data.par_chunks_mut(frame.len());
            frames.zip(images.par_chunks(size)).for_each(|(to, from)| frame.load(from, to));
        }
        Ok(out)
    }

    /// Copies to PyTorch's order, `[n, c, h, w]`.
    ///
    /// # Errors
    /// A slice of another length.
    pub fn to_nchw(&self, out: &mut [f32]) -> Result<(), Error> {
        let size = self.frame.channels * self.frame.h * self.frame.w;
        check("out", "[n, c, h, w]", out.len(), self.n * size)?;
        if !out.is_empty() {
            let frames = self.data.par_chunks(self.frame.len());
            frames.zip(out.par_chunks_mut(size)).for_each(|(from, to)| self.frame.unload(from, to));
        }
        Ok(())
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.n
    }

    /// Channels, height and width of each image.
    pub fn shape(&self) -> [usize; 3] {
        [self.frame.channels, self.frame.h, self.frame.w]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_survives_the_way_in_and_out_and_has_zeros_around() {
        for (c, h, w) in [(1, 1, 1), (3, 5, 7), (16, 4, 3), (19, 6, 10)] {
            for frame in [Frame::inner(h, w, c), Frame::between(h, w, c), Frame::outer(h, w, c)] {
                let planes: Vec<f32> = (1..=c * h * w).map(|i| i as f32).collect();
                let mut image = vec![f32::NAN; frame.len()];
                frame.load(&planes, &mut image);
                let mut back = vec![0.0; planes.len()];
                frame.unload(&image, &mut back);
                assert_eq!(planes, back);
                assert_eq!(image.iter().filter(|x| **x != 0.0).count(), planes.len());
            }
        }
    }
}
