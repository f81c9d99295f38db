//! What a task classifier says of an image or vector.

use crate::calibration::TaskCalibration;
use crate::error::Result;
use crate::fitted::Raw;
use crate::rules::Thresholds;
use serde::{Serialize, Serializer};
use siskin_calib::{Probabilities, entropy, latent_variance, top};

/// What is said of one query. Where it is none of the classes, everything else is said as if it were one of them, and the set
/// is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The most probable class.
    pub label: usize,
    /// Probability of every class, given that it is one of them.
    pub probabilities: Vec<f64>,
    /// The classes that are possible at the level asked for, in rising order; the most probable one is always among them.
    /// Empty if it is none of the classes.
    pub set: Vec<usize>,
    /// Whether it is none of the classes.
    pub none_of_these: bool,
    /// Entropy of the probabilities in nats: 0 when certain, `log C` when all are equal.
    pub entropy: f64,
    /// Latent variance, mean over the classes: large far from all examples.
    pub latent_variance: f64,
    /// How strange the query looks beside all examples.
    pub novelty: f64,
}

impl Answer {
    /// Probability of the most probable class.
    pub fn probability(&self) -> f64 {
        self.probabilities[self.label]
    }
}

/// The answers to raw predictions, with the temperature of the calibration and decisions by `thresholds`.
pub(crate) fn answers(
    raw: &Raw,
    classes: usize,
    calibration: &TaskCalibration,
    thresholds: &Thresholds,
) -> Result<Vec<Answer>> {
    let tuned = Probabilities::new(raw.probabilities.clone(), classes)?.sharpened(calibration.temperature)?;
    let spread = latent_variance(&raw.variance, classes)?;
    let facts = entropy(&tuned).into_iter().zip(spread).zip(calibration.novelty(raw)?);
    let answer = |(p, ((entropy, latent_variance), novelty)): (&[f64], ((f64, f64), f64))| {
        let (label, probability) = top(p);
        let none_of_these = thresholds.none_of_these.applies(novelty, probability);
        let set = if none_of_these { Vec::new() } else { thresholds.sets.set(p) };
        Answer { label, probabilities: p.to_vec(), set, none_of_these, entropy, latent_variance, novelty }
    };
    Ok(tuned.rows().zip(facts).map(answer).collect())
}

/// An answer with class names in place of numbers, ready to print or to send.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedAnswer {
    /// The most probable class; `None` if it is none of them.
    pub label: Option<String>,
    /// Whether the rules say that it is none of the classes.
    pub none_of_these: bool,
    /// Probability of the most probable class; `None` if it is none of them.
    pub probability: Option<f64>,
    /// Every class with its probability, given that it is one of them, in the order of the task.
    #[serde(serialize_with = "as_map")]
    pub probabilities: Vec<(String, f64)>,
    /// The classes that are possible at the level asked for; empty if it is none of them.
    pub set: Vec<String>,
    /// Entropy of the probabilities, in nats.
    pub entropy: f64,
    /// Latent variance, mean over the classes.
    pub latent_variance: f64,
    /// The share of strangers that "none of these" finds, where it is known.
    pub strangers_found: Option<f64>,
    /// The nearest examples, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<Neighbour>,
}

/// A labelled example near a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbour {
    /// What it is called.
    pub example: String,
    /// Its place among the examples of the task.
    pub index: usize,
    /// Its class.
    pub class: String,
    /// The kernel value between the two, before the output scale (for the cosine kernel: the cosine of the features).
    pub kernel: f64,
}

impl NamedAnswer {
    pub(crate) fn new(
        classes: &[String],
        answer: &Answer,
        strangers_found: Option<f64>,
        nearest: Vec<Neighbour>,
    ) -> NamedAnswer {
        let known = !answer.none_of_these;
        NamedAnswer {
            label: known.then(|| classes[answer.label].clone()),
            none_of_these: answer.none_of_these,
            probability: known.then(|| answer.probability()),
            probabilities: classes.iter().cloned().zip(answer.probabilities.iter().copied()).collect(),
            set: answer.set.iter().map(|&c| classes[c].clone()).collect(),
            entropy: answer.entropy,
            latent_variance: answer.latent_variance,
            strangers_found,
            nearest,
        }
    }
}

fn as_map<S: Serializer>(pairs: &[(String, f64)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(class, p)| (class, p)))
}
