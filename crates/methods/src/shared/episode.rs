//! What a method sees of the data: pixels, labels, which rows are support, and what it answers.

use crate::Rows;
use siskin_nn::Images;

/// One episode: all its images, support and query together.
#[derive(Debug, Clone, Copy)]
pub struct EpisodeRows<'a> {
    /// The images.
    pub images: Images<'a>,
    /// The class of each image, `0..way`.
    pub labels: &'a [usize],
    /// Rows of the support images.
    pub support: &'a [usize],
    /// Rows of the query images.
    pub query: &'a [usize],
    /// Number of classes.
    pub way: usize,
}

impl EpisodeRows<'_> {
    /// The classes of the given rows.
    pub fn labels_of(&self, rows: &[usize]) -> Vec<usize> {
        rows.iter().map(|&r| self.labels[r]).collect()
    }
}

/// A task: labelled support rows, and the query rows to be named. Rows are what [`crate::Method::embed`] gave.
#[derive(Debug, Clone, Copy)]
pub struct TaskRows<'a> {
    /// Support rows.
    pub support: &'a Rows,
    /// Their classes, `0..way`.
    pub labels: &'a [usize],
    /// Number of classes.
    pub way: usize,
    /// Query rows.
    pub query: &'a Rows,
    /// Which random numbers a method that draws some takes: the same index gives the same answer.
    pub index: u64,
    /// What the answer is for.
    pub purpose: Purpose,
}

/// What the answers to a task are for. Some released programs choose their model by other settings than they test with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// To choose among the models of a training.
    Selection,
    /// To be used or measured.
    #[default]
    Test,
}

/// Gaussian marginals of the latent functions at the queries, `[queries, way]` each, in units of the logits f.
#[derive(Debug, Clone, PartialEq)]
pub struct LatentGaussians {
    /// Means.
    pub mean: Vec<f64>,
    /// Variances.
    pub variance: Vec<f64>,
    /// The temperature the probabilities were computed with.
    pub tau: f64,
}

/// Class probabilities of the queries of one episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// `[queries, way]`, rows sum to 1.
    pub probabilities: Vec<f64>,
    /// Number of classes.
    pub way: usize,
    /// Where the method has latent Gaussians: these.
    pub latent: Option<LatentGaussians>,
}

impl Prediction {
    /// The probabilities, with those below 2e-308 (the smallest normal number) raised to it: a class whose score lies so far
    /// behind that its probability underflows is not impossible, and a temperature can be fitted to its logarithm.
    pub fn floored(&self) -> Vec<f64> {
        let floor = |p: f64| if (0.0..f64::MIN_POSITIVE).contains(&p) { f64::MIN_POSITIVE } else { p };
        self.probabilities.iter().map(|&p| floor(p)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_underflow_is_raised() {
        let probabilities = vec![1.0, 0.0, 1e-320, 0.3, f64::NAN, -0.5];
        let p = Prediction { probabilities, way: 2, latent: None }.floored();
        assert_eq!(p[..4], [1.0, f64::MIN_POSITIVE, f64::MIN_POSITIVE, 0.3]);
        assert!(p[4].is_nan() && p[5] == -0.5, "what is wrong stays wrong, to be refused later");
    }
}
