//! A batch of images on its way to the network.

use burn::tensor::{Device, Tensor, TensorData};

use crate::Error;

/// Normalised pixels on the host, `[N, C, H, W]`, borrowed from the loader.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    pixels: &'a [f32],
    shape: [usize; 4],
}

impl<'a> Images<'a> {
    /// `pixels` in row-major order of `shape` = [N, C, H, W].
    pub fn new(pixels: &'a [f32], shape: [usize; 4]) -> Result<Self, Error> {
        let expected = shape.iter().product();
        if pixels.len() != expected {
            return Err(Error::PixelCount { shape, expected, found: pixels.len() });
        }
        Ok(Self { pixels, shape })
    }

    /// `[N, C, H, W]`.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// All pixels in row-major order.
    pub fn pixels(&self) -> &'a [f32] {
        self.pixels
    }

    /// The batch cut into batches of at most `size` images, in order.
    pub fn chunks(self, size: usize) -> impl Iterator<Item = Images<'a>> {
        let [_, c, h, w] = self.shape;
        let image = c * h * w;
        self.pixels
            .chunks((size * image).max(1))
            .map(move |pixels| Images { pixels, shape: [pixels.len() / image, c, h, w] })
    }

    /// The tensor of the first `channels` channels on `device`.
    pub(crate) fn to_tensor(self, channels: usize, device: &Device) -> Tensor<4> {
        let [n, c, h, w] = self.shape;
        let plane = h * w;
        let pixels = if c == channels {
            self.pixels.to_vec()
        } else {
            self.pixels.chunks(c * plane).flat_map(|image| &image[..channels * plane]).copied().collect()
        };
        Tensor::from_data(TensorData::new(pixels, [n, channels, h, w]), device)
    }
}
