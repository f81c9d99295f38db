//! What a method keeps of images between [`crate::Method::embed`] and [`crate::Method::predict`].

use crate::error::{Error, Result};
use siskin_nn::{Features, Images};

/// One row per image: features, or pixels for a method whose network adapts to each task.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// Feature vectors in double precision.
    Features(Features),
    /// The images themselves.
    Pixels(Pixels),
}

/// Images as the network of a method takes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Pixels {
    /// Image by image, channels first.
    pub values: Vec<f32>,
    /// Number of images.
    pub rows: usize,
    /// Channels, height, width.
    pub shape: [usize; 3],
}

impl Pixels {
    /// The first `channels` channels of images.
    pub fn of(images: Images<'_>, channels: usize) -> Pixels {
        let [rows, c, h, w] = images.shape();
        let channels = channels.min(c);
        let image = images.pixels().chunks_exact(c * h * w);
        let values = image.flat_map(|image| &image[..channels * h * w]).copied().collect();
        Pixels { values, rows, shape: [channels, h, w] }
    }

    /// All images.
    pub fn images(&self) -> Result<Images<'_>> {
        let [c, h, w] = self.shape;
        Ok(Images::new(&self.values, [self.rows, c, h, w])?)
    }
}

impl Rows {
    /// Number of rows.
    pub fn count(&self) -> usize {
        match self {
            Rows::Features(features) => features.rows,
            Rows::Pixels(pixels) => pixels.rows,
        }
    }

    /// The given rows in the given order.
    pub fn select(&self, rows: &[usize]) -> Rows {
        match self {
            Rows::Features(features) => Rows::Features(select(features, rows)),
            Rows::Pixels(pixels) => {
                let values = pick(&pixels.values, pixels.shape.iter().product(), rows);
                Rows::Pixels(Pixels { values, rows: rows.len(), shape: pixels.shape })
            }
        }
    }

    /// Parts of equal kind and size one below the other; nothing where there is no part.
    pub fn stack(parts: Vec<Rows>) -> Result<Option<Rows>> {
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else { return Ok(None) };
        for part in parts {
            match (&mut all, part) {
                (Rows::Features(all), Rows::Features(part)) if all.dim == part.dim => {
                    all.values.extend(part.values);
                    all.rows += part.rows;
                }
                (Rows::Pixels(all), Rows::Pixels(part)) if all.shape == part.shape => {
                    all.values.extend(part.values);
                    all.rows += part.rows;
                }
                _ => return Err(Error::Settings("images of one set gave rows of several sizes".into())),
            }
        }
        Ok(Some(all))
    }

    /// The features, or that there are none.
    pub fn features(&self) -> Result<&Features> {
        match self {
            Rows::Features(features) => Ok(features),
            Rows::Pixels(_) => Err(Error::NoFeatures),
        }
    }

    /// The features, or that there are none.
    pub fn into_features(self) -> Result<Features> {
        match self {
            Rows::Features(features) => Ok(features),
            Rows::Pixels(_) => Err(Error::NoFeatures),
        }
    }

    /// The pixels, or that there are none.
    pub fn pixels(&self) -> Result<&Pixels> {
        match self {
            Rows::Pixels(pixels) => Ok(pixels),
            Rows::Features(_) => Err(Error::NoPixels),
        }
    }
}

/// The given rows of a table of features, in the given order.
pub fn select(features: &Features, rows: &[usize]) -> Features {
    let values = pick(&features.values, features.dim, rows);
    Features { values, rows: rows.len(), dim: features.dim }
}

fn pick<T: Copy>(values: &[T], size: usize, rows: &[usize]) -> Vec<T> {
    rows.iter().flat_map(|&row| &values[row * size..(row + 1) * size]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_keep_their_bits_and_lose_the_channels_the_network_does_not_take() {
        let values: Vec<f32> = (0..2 * 3 * 4).map(|i| 0.1 + i as f32).collect();
        let rows = Rows::Pixels(Pixels::of(Images::new(&values, [2, 3, 2, 2]).unwrap(), 1));
        assert_eq!(rows.pixels().unwrap().values, [&values[..4], &values[12..16]].concat());
        let swapped = rows.select(&[1, 0]);
        assert_eq!(swapped.pixels().unwrap().values, [&values[12..16], &values[..4]].concat());
        assert_eq!(swapped.pixels().unwrap().images().unwrap().shape(), [2, 1, 2, 2]);
        assert!(matches!(rows.features(), Err(Error::NoFeatures)));
        let stacked = Rows::stack(vec![rows.select(&[0]), rows.select(&[1])]).unwrap().unwrap();
        assert_eq!(stacked, rows);
    }

    #[test]
    fn rows_of_two_kinds_or_sizes_are_not_stacked() {
        let features = |dim| Rows::Features(Features { values: vec![0.0; dim], rows: 1, dim });
        let pixels = Rows::Pixels(Pixels { values: vec![0.0], rows: 1, shape: [1, 1, 1] });
        assert!(Rows::stack(vec![features(2), features(3)]).is_err());
        assert!(Rows::stack(vec![features(1), pixels]).is_err());
        assert_eq!(Rows::stack(Vec::new()).unwrap(), None);
        assert!(matches!(features(1).pixels(), Err(Error::NoPixels)));
    }
}
