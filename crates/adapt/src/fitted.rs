//! The fitted classifier of a task: a Gaussian process on the network's features, or one on vectors.

use crate::balance::Balance;
use crate::error::{Error, Result};
use crate::none_of_these::strangeness::{Centre, Facts, Seen, Surroundings};
use faer::Mat;
use siskin_gp::classifier::GpClassifier;
use siskin_gp::posterior::{Latent, Posterior};
use siskin_gp::{Hyper, Resolution, Sites, Support};
use siskin_methods::{Features, GaussianProcess, matrix, row_major};
use std::sync::atomic::{AtomicBool, Ordering};

/// The classifier, and the surroundings of its examples.
#[derive(Debug, Clone)]
pub(crate) struct Fitted {
    pub kind: Kind,
    classes: usize,
    /// Similarities among the examples, [N, N].
    among: Mat<f64>,
    around: Surroundings,
    pub balance: Balance,
    labels: Vec<usize>,
    centre: Centre,
}

/// What it is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
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

/// Probabilities at M points, [M, C] row-major, and what could tell that a point is a stranger, [M].
pub(crate) struct Raw {
    pub probabilities: Vec<f64>,
    pub variance: Vec<f64>,
    pub facts: Vec<Facts>,
}

impl Raw {
    /// Of no points.
    pub(crate) fn empty() -> Raw {
        Raw { probabilities: Vec::new(), variance: Vec::new(), facts: Vec::new() }
    }

    /// The points of both.
    pub(crate) fn extend(&mut self, other: Raw) {
        self.probabilities.extend(other.probabilities);
        self.variance.extend(other.variance);
        self.facts.extend(other.facts);
    }
}

impl Fitted {
    /// The posterior given labelled features, with equal weight for every class. It is rebuilt from its sites at once, so that a task
    /// that was saved and loaded predicts the same bits as one that was not. Ends early, with an error, once `stop` is set.
    pub(crate) fn fit_network(
        features: &Features,
        (labels, classes): (&[usize], usize),
        (gp, power): (&GaussianProcess, f64),
        stop: &AtomicBool,
    ) -> Result<Fitted> {
        let support = Support::new(matrix(features), labels, gp.hyper.prior(classes))?;
        let found = gp.inference.posterior_until(&support.task()?, stop)?;
        let mut sites = found.sites()?;
        let balance = Balance::new(labels, classes, power);
        balance.weigh(&mut sites, labels);
        Fitted::from_sites(features, (labels, balance), (&gp.hyper, found.bound), sites)
    }

    /// The posterior that was kept as its sites and the `bound` they reached: without inference.
    pub(crate) fn from_sites(
        features: &Features,
        (labels, balance): (&[usize], Balance),
        (hyper, bound): (&Hyper, f64),
        sites: Sites,
    ) -> Result<Fitted> {
        let support = Support::new(matrix(features), labels, hyper.prior(balance.classes()))?;
        let posterior = Posterior::from_sites(&support.task()?, &sites, bound)?;
        let network = Network { hyper: hyper.clone(), support, posterior, sites };
        Fitted::new(Kind::Network(Box::new(network)), features, labels, balance)
    }

    /// A classifier of vectors that was fitted to these.
    pub(crate) fn of_vectors(
        classifier: GpClassifier,
        features: &Features,
        labels: &[usize],
        balance: Balance,
    ) -> Result<Fitted> {
        Fitted::new(Kind::Vectors(Box::new(classifier)), features, labels, balance)
    }

    fn new(kind: Kind, features: &Features, labels: &[usize], balance: Balance) -> Result<Fitted> {
        let classes = balance.classes();
        let among = kind.similarity(features)?;
        let around = Surroundings::new(&among, labels, classes);
        let centre = Centre::new(&among, labels, classes, &[]);
        Ok(Fitted { kind, classes, among, around, balance, labels: labels.to_vec(), centre })
    }

    /// What it says of queries.
    pub(crate) fn predict(&self, queries: &Features) -> Result<Raw> {
        let x = matrix(queries);
        let (probabilities, mean, variance) = match &self.kind {
            Kind::Network(network) => {
                let (latent, probabilities) = self.latent(network, queries)?;
                (probabilities, latent.mean, latent.var)
            }
            Kind::Vectors(classifier) => {
                let mut at = classifier.predictions(x)?;
                self.balance.equalise(&mut at.probs);
                (at.probs, at.mean, at.var)
            }
        };
        let near = self.kind.similarity(queries)?;
        Ok(self.raw([&probabilities, &mean, &variance], |q| (near.col_as_slice(q), &self.centre)))
    }

    /// Latent values at queries, and class probabilities [M, C].
    pub(crate) fn latent(&self, network: &Network, queries: &Features) -> Result<(Latent, Mat<f64>)> {
        let latent = network.posterior.latent(&network.support.query(matrix(queries))?)?;
        let probabilities = self.probabilities(&latent)?;
        Ok((latent, probabilities))
    }

    /// What it says of its own examples, each without the examples of its fold; rows as in `folds`, one fold after the other.
    pub(crate) fn left_out(&self, folds: &[Vec<usize>], stop: &AtomicBool) -> Result<Raw> {
        let (latent, probabilities) = match &self.kind {
            Kind::Network(network) => {
                let latent = network.posterior.left_out(&network.support.task()?, folds)?;
                let probabilities = self.probabilities(&latent)?;
                (latent, probabilities)
            }
            Kind::Vectors(classifier) => {
                let latent = classifier.left_out(folds)?;
                let probabilities = self.probabilities(&latent)?;
                (latent, probabilities)
            }
        };
        let without = |fold: &Vec<usize>| match stop.load(Ordering::Relaxed) {
            true => Err(Error::Stopped),
            false => Ok(Centre::new(&self.among, &self.labels, self.classes, fold)),
        };
        let centres: Vec<Centre> = folds.iter().map(without).collect::<Result<_>>()?;
        let of_fold = folds.iter().zip(&centres);
        let places: Vec<(usize, &Centre)> =
            of_fold.flat_map(|(fold, centre)| fold.iter().map(move |&row| (row, centre))).collect();
        let at = |q: usize| (self.among.col_as_slice(places[q].0), places[q].1);
        Ok(self.raw([&probabilities, &latent.mean, &latent.var], at))
    }

    /// Class probabilities [M, C] of latent values, without what the numbers of examples say.
    fn probabilities(&self, latent: &Latent) -> Result<Mat<f64>> {
        let mut probabilities = latent.probs(Resolution::Standard)?;
        self.balance.equalise(&mut probabilities);
        Ok(probabilities)
    }

    /// `near`: the similarities of a point with the examples, and the centre of those that count.
    fn raw<'a>(&self, tables: [&Mat<f64>; 3], near: impl Fn(usize) -> (&'a [f64], &'a Centre)) -> Raw {
        let [probabilities, mean, variance] = tables.map(row_major);
        let facts = |q: usize| {
            let at = q * self.classes..(q + 1) * self.classes;
            let (similarity, centre) = near(q);
            let seen = Seen {
                probabilities: &probabilities[at.clone()],
                mean: &mean[at.clone()],
                variance: &variance[at],
            };
            self.around.facts(similarity, centre, &seen)
        };
        let facts = (0..tables[0].nrows()).map(facts).collect();
        Raw { probabilities, variance, facts }
    }

    /// Prior correlations between the labelled points and M new ones, [N, M].
    pub(crate) fn similarity(&self, queries: &Features) -> Result<Mat<f64>> {
        self.kind.similarity(queries)
    }
}

impl Kind {
    /// Prior correlations between the labelled points and M new ones, [N, M]: kernel values, 1 for points that are alike.
    fn similarity(&self, queries: &Features) -> Result<Mat<f64>> {
        let x = matrix(queries);
        Ok(match self {
            Kind::Network(network) => network.support.similarity(x)?,
            Kind::Vectors(classifier) => classifier.similarity(x)?,
        })
    }
}
