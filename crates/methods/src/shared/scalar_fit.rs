//! What the fit of a head's scalars is given and what it reports.

use crate::Features;

/// An episode whose images went through the network already.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureEpisode {
    /// One row for each image.
    pub features: Features,
    /// The class of each row, `0..way`.
    pub labels: Vec<usize>,
    /// Rows of the support.
    pub support: Vec<usize>,
    /// Rows of the query.
    pub query: Vec<usize>,
    /// Number of classes.
    pub way: usize,
}

/// How a fit of scalars went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalarFit {
    /// The mean loss before.
    pub before: f64,
    /// The mean loss after.
    pub after: f64,
    /// Steps taken.
    pub iterations: usize,
    /// Whether the slope vanished, or no step lowered the loss any more.
    pub converged: bool,
}
