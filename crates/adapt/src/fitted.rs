//! The fitted classifier of a task: a Gaussian process on the network's features, or one on vectors.

use crate::error::Result;
use faer::{Mat, MatRef};
use siskin_gp::classifier::GpClassifier;
use siskin_gp::episode::{Adapted, adapt, restore};
use siskin_gp::gaussian::Sites;
use siskin_gp::quadrature::Precision;
use siskin_methods::{Features, GaussianProcess};

/// The classifier.
#[derive(Debug, Clone)]
pub(crate) enum Fitted {
    /// On features of a network, with the hyperparameters of its training. The sites are those it was built from.
    Network { adapted: Box<Adapted>, sites: Sites },
    /// On vectors, with hyperparameters learned from them.
    Vectors(Box<GpClassifier>),
}

/// Probabilities and latent moments at M points, [M, C] row-major each, and how near each point is to the examples.
pub(crate) struct Raw {
    pub probabilities: Vec<f64>,
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
    /// The largest [`Fitted::similarity`] of each point with an example, [M].
    pub nearest: Vec<f64>,
}

impl Raw {
    /// Of no points.
    pub fn empty() -> Raw {
        Raw { probabilities: Vec::new(), mean: Vec::new(), variance: Vec::new(), nearest: Vec::new() }
    }

    /// The points of both.
    pub fn extend(&mut self, other: Raw) {
        self.probabilities.extend(other.probabilities);
        self.mean.extend(other.mean);
        self.variance.extend(other.variance);
        self.nearest.extend(other.nearest);
    }
}

impl Fitted {
    /// The posterior given labelled features. It is rebuilt from its sites at once, so that a task that was saved and
    /// loaded predicts the same bits as one that was not.
    pub fn fit_network(
        features: &Features,
        labels: &[usize],
        classes: usize,
        gp: &GaussianProcess,
    ) -> Result<Fitted> {
        let x = matrix(features);
        let found = adapt(x, labels, classes, &gp.hyper, &gp.inference)?;
        let (sites, bound) = (found.sites()?, found.posterior().bound);
        let adapted = Box::new(restore(x, labels, classes, &gp.hyper, &sites, bound)?);
        Ok(Fitted::Network { adapted, sites })
    }

    /// The posterior given labelled vectors, with settings that may or may not learn.
    pub fn fit_vectors(features: &Features, labels: &[usize], settings: &GpClassifier) -> Result<Fitted> {
        let mut classifier = settings.clone();
        classifier.fit(matrix(features), labels)?;
        Ok(Fitted::Vectors(Box::new(classifier)))
    }

    pub fn predict(&self, queries: &Features) -> Result<Raw> {
        let x = matrix(queries);
        let (probabilities, mean, variance) = match self {
            Fitted::Network { adapted, .. } => {
                let latent = adapted.latent(x)?;
                (latent.probs(Precision::Standard)?, latent.mean, latent.var)
            }
            Fitted::Vectors(classifier) => {
                let at = classifier.predictions(x)?;
                (at.probs, at.mean, at.var)
            }
        };
        let similarity = self.similarity(queries)?;
        let nearest =
            similarity.col_iter().map(|column| column.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        Ok(Raw {
            probabilities: rows(&probabilities),
            mean: rows(&mean),
            variance: rows(&variance),
            nearest: nearest.collect(),
        })
    }

    /// Prior correlations between the labelled points and M new ones, [N, M]: kernel values, 1 for points that are alike.
    pub fn similarity(&self, queries: &Features) -> Result<Mat<f64>> {
        let x = matrix(queries);
        Ok(match self {
            Fitted::Network { adapted, .. } => adapted.similarity(x)?,
            Fitted::Vectors(classifier) => classifier.similarity(x)?,
        })
    }
}

/// Features as the Gaussian process takes them, [rows, dim].
pub(crate) fn matrix(features: &Features) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(&features.values, features.rows, features.dim)
}

/// A matrix row by row.
pub(crate) fn rows(m: &Mat<f64>) -> Vec<f64> {
    (0..m.nrows()).flat_map(|i| (0..m.ncols()).map(move |j| m[(i, j)])).collect()
}
