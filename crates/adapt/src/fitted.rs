//! The fitted classifier of a task: a Gaussian process on the network's features, or one on vectors.

use crate::error::Result;
use faer::Mat;
use siskin_gp::classifier::GpClassifier;
use siskin_gp::gaussian::Sites;
use siskin_gp::posterior::Posterior;
use siskin_gp::quadrature::Precision;
use siskin_gp::{Hyper, Support};
use siskin_methods::{Features, GaussianProcess, matrix, row_major};

/// The classifier.
#[derive(Debug, Clone)]
pub(crate) enum Fitted {
    /// On features of a network, with the hyperparameters of its training.
    Network(Box<Network>),
    /// On vectors, with hyperparameters learned from them.
    Vectors(Box<GpClassifier>),
}

/// A task's examples as features of a network, and their posterior.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub hyper: Hyper,
    support: Support,
    pub posterior: Posterior,
    /// Those the posterior was built from.
    pub sites: Sites,
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
        let support = Support::new(matrix(features), labels, gp.hyper.prior(classes))?;
        let found = gp.inference.posterior(&support.task()?)?;
        Fitted::from_sites(gp.hyper.clone(), support, found.sites()?, found.bound)
    }

    /// The posterior that was kept as its sites and the `bound` they reached: without inference.
    pub fn from_sites(hyper: Hyper, support: Support, sites: Sites, bound: f64) -> Result<Fitted> {
        let posterior = Posterior::from_sites(&support.task()?, &sites, bound)?;
        Ok(Fitted::Network(Box::new(Network { hyper, support, posterior, sites })))
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
            Fitted::Network(network) => {
                let Network { support, posterior, .. } = &**network;
                let latent = posterior.latent(&support.query(x)?)?;
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
            probabilities: row_major(&probabilities),
            mean: row_major(&mean),
            variance: row_major(&variance),
            nearest: nearest.collect(),
        })
    }

    /// Prior correlations between the labelled points and M new ones, [N, M]: kernel values, 1 for points that are alike.
    pub fn similarity(&self, queries: &Features) -> Result<Mat<f64>> {
        let x = matrix(queries);
        Ok(match self {
            Fitted::Network(network) => network.support.similarity(x)?,
            Fitted::Vectors(classifier) => classifier.similarity(x)?,
        })
    }
}
