//! Synthetic episodes for timings: a pattern for each class under noise.

use crate::error::Result;
use rand_distr::{Distribution, StandardNormal};
use siskin_methods::{EpisodeRows, Images};
use siskin_random::stream;

/// Pixels and labels of an episode, class by class, the support of each class first.
pub(crate) struct Drawn {
    pub(crate) pixels: Vec<f32>,
    pub(crate) shape: [usize; 4],
    pub(crate) labels: Vec<usize>,
    pub(crate) support: Vec<usize>,
    pub(crate) query: Vec<usize>,
    way: usize,
}

impl Drawn {
    /// `image`: channels, height, width.
    pub(crate) fn new(way: usize, shot: usize, query: usize, image: [usize; 3]) -> Drawn {
        let (each, size) = (shot + query, image.iter().product::<usize>());
        let shape = [way * each, image[0], image[1], image[2]];
        let mut rng = stream(0, "bench", 0);
        let mut normal = || -> f32 { StandardNormal.sample(&mut rng) };
        let patterns: Vec<f32> = (0..way * size).map(|_| normal()).collect();
        let labels: Vec<usize> = (0..way * each).map(|row| row / each).collect();
        let mut pixels = Vec::with_capacity(labels.len() * size);
        for label in &labels {
            pixels.extend(patterns[label * size..][..size].iter().map(|pattern| 0.3 * pattern + normal()));
        }
        let (support, query) = (0..labels.len()).partition(|row| row % each < shot);
        Drawn { pixels, shape, labels, support, query, way }
    }

    /// As methods see it.
    pub(crate) fn episode(&self) -> Result<EpisodeRows<'_>> {
        let images = Images::new(&self.pixels, self.shape).map_err(siskin_methods::Error::from)?;
        let Drawn { labels, support, query, way, .. } = self;
        Ok(EpisodeRows { images, labels, support, query, way: *way })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn support_comes_first_in_each_class() {
        let drawn = Drawn::new(5, 2, 3, [1, 16, 16]);
        assert_eq!(drawn.shape, [25, 1, 16, 16]);
        assert_eq!(drawn.support, [0, 1, 5, 6, 10, 11, 15, 16, 20, 21]);
        assert_eq!(drawn.query.len(), 15);
        assert_eq!(drawn.labels[5..10], [1; 5]);
    }
}
