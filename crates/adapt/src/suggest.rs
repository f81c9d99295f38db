//! Which images or vectors to label next, and when to stop.

use crate::classifier::TaskClassifier;
use crate::error::Result;
use crate::fitted::Kind;
use serde::Serialize;
use siskin_gp::Resolution;
use siskin_gp::Support;
use siskin_gp::active::{Criterion, batch};
use siskin_gp::inference::{Inference, NaturalOptions};
use siskin_gp::stopping::{Stopping, stopping};
use siskin_methods::{Features, matrix, select};
use std::sync::atomic::AtomicBool;

/// A query whose label would help, the most helpful first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextLabel {
    /// Its place among the queries.
    pub index: usize,
    /// What its label would tell beyond those before it.
    pub score: f64,
}

/// Whether more labels would change little, as left-out examples say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// As a person would say it.
    pub sentence: String,
    /// Whether more labels would change little.
    pub enough: bool,
    /// What the last doubling of the labels gained, in nats per example.
    pub gain: f64,
    /// The upper end of its one-sided 95 % interval.
    pub at_most: f64,
}

impl From<Stopping> for Advice {
    fn from(found: Stopping) -> Self {
        Advice { sentence: found.sentence(), enough: found.enough, gain: found.gain, at_most: found.at_most }
    }
}

impl TaskClassifier {
    /// At most `count` of some queries (features by [`siskin_model::Model::embed`], or vectors) whose labels would tell the most, unlike each
    /// other.
    pub fn suggest(&self, queries: &Features, count: usize, by: Criterion) -> Result<Vec<NextLabel>> {
        self.check_width(queries)?;
        let found = match &self.fitted.kind {
            Kind::Vectors(classifier) => classifier.suggest(matrix(queries), count, by)?,
            Kind::Network(network) => {
                let (latent, probabilities) = self.fitted.latent(network, queries)?;
                let scores = by.scores(&latent, &probabilities)?;
                let kernel = &network.hyper.kernel;
                let all = kernel.features(matrix(queries))?;
                batch(&scores, count, |row| {
                    let one = select(queries, &[row]);
                    let one = kernel.features(matrix(&one))?;
                    Ok(kernel.correlation(&all, &one)?.col_as_slice(0).to_vec())
                })?
            }
        };
        Ok(found.iter().map(|s| NextLabel { index: s.row, score: s.score }).collect())
    }

    /// Whether more labels would change little; `None` where a class has one example: nothing can be left out.
    pub fn advice(&self) -> Result<Option<Advice>> {
        self.advice_until(&AtomicBool::new(false))
    }

    /// [`TaskClassifier::advice`] that ends with [`crate::Error::Stopped`] soon after somebody sets `stop`.
    pub fn advice_until(&self, stop: &AtomicBool) -> Result<Option<Advice>> {
        let found = match &self.fitted.kind {
            Kind::Vectors(classifier) => classifier.stopping_until(stop)?,
            Kind::Network(network) => {
                let classes = self.classes.len();
                let inference = Inference::Natural(NaturalOptions::default());
                stopping(&self.labels, classes, |known, held| {
                    let labels: Vec<usize> = known.iter().map(|&i| self.labels[i]).collect();
                    let known = select(&self.features, known);
                    let support = Support::new(matrix(&known), &labels, network.hyper.prior(classes))?;
                    let posterior = inference.posterior_until(&support.task()?, stop)?;
                    let held = select(&self.features, held);
                    posterior.probs(&support.query(matrix(&held))?, Resolution::Standard)
                })?
            }
        };
        Ok(found.map(Advice::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_data::Embeddings;

    #[test]
    fn the_vector_between_the_classes_is_asked_for_first() {
        let file = tempfile::tempdir().unwrap();
        let path = file.path().join("x.npy");
        let rows: Vec<[f32; 2]> =
            (0..24).map(|i| [if i % 2 == 0 { -2.0 } else { 2.0 }, (i as f32).sin()]).collect();
        npy(&path, "<f4", "(24, 2)", rows.iter().flatten().flat_map(|v| v.to_le_bytes()));
        npy(&file.path().join("labels.npy"), "<i8", "(24,)", (0..24i64).flat_map(|i| (i % 2).to_le_bytes()));
        let vectors: Embeddings = siskin_data::source::embeddings::read(&path).unwrap();
        let task = TaskClassifier::adapt_vectors(&vectors).unwrap();
        let queries = Features { values: vec![-2.0, 0.1, 0.0, 0.0, 2.0, 0.3], rows: 3, dim: 2 };
        // Between the classes the label is least known, far from all rows the latent functions.
        let far = Features { values: vec![-2.0, 0.1, 0.0, 30.0, 2.0, 0.3], rows: 3, dim: 2 };
        for (_, by) in Criterion::NAMED {
            let queries = if by == Criterion::Variance { &far } else { &queries };
            let found = task.suggest(queries, 2, by).unwrap();
            assert_eq!((found.len(), found[0].index), (2, 1), "{by:?}");
        }
        assert!(task.advice().unwrap().unwrap().enough);
        assert!(matches!(task.advice_until(&AtomicBool::new(true)), Err(crate::Error::Stopped)));
    }

    /// An array as NumPy writes it.
    fn npy(path: &std::path::Path, kind: &str, shape: &str, values: impl Iterator<Item = u8>) {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
        let padded = format!("{header:<117}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((padded.len() as u16).to_le_bytes());
        bytes.extend(padded.as_bytes());
        bytes.extend(values);
        std::fs::write(path, bytes).unwrap();
    }
}
