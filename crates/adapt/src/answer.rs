//! What a task classifier says of an image or vector.

use crate::error::Result;
use crate::fitted::Raw;
use crate::none_of_these::novelty;
use crate::rules::Thresholds;
use serde::{Serialize, Serializer};
use siskin_calib::{Probabilities, entropy, latent_variance, top};

/// What is said of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The most probable class.
    pub label: usize,
    /// Calibrated probability of every class.
    pub probabilities: Vec<f64>,
    /// The classes that are possible at the level asked for, in rising order; the most probable one is always among them.
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

/// The answers to raw predictions, with the probabilities at `temperature` and decisions by `thresholds`.
pub(crate) fn answers(
    raw: &Raw,
    classes: usize,
    temperature: f64,
    thresholds: &Thresholds,
) -> Result<Vec<Answer>> {
    let tuned = Probabilities::new(raw.probabilities.clone(), classes)?.sharpened(temperature)?;
    let spread = latent_variance(&raw.variance, classes)?;
    let facts = entropy(&tuned).into_iter().zip(spread).zip(novelty(raw));
    let answer = |(p, ((entropy, latent_variance), novelty)): (&[f64], ((f64, f64), f64))| {
        let (label, probability) = top(p);
        Answer {
            label,
            probabilities: p.to_vec(),
            set: thresholds.sets.set(p, label),
            none_of_these: thresholds.none_of_these.applies(novelty, probability),
            entropy,
            latent_variance,
            novelty,
        }
    };
    Ok(tuned.rows().zip(facts).map(answer).collect())
}

/// An answer with class names in place of numbers, ready to print or to send.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedAnswer {
    /// The most probable class.
    pub label: String,
    /// Whether the rules say that it is none of the classes.
    pub none_of_these: bool,
    /// Probability of the most probable class.
    pub probability: f64,
    /// Every class with its probability, in the order of the task.
    #[serde(serialize_with = "as_map")]
    pub probabilities: Vec<(String, f64)>,
    /// The classes that are possible at the level asked for.
    pub set: Vec<String>,
    /// Entropy of the probabilities, in nats.
    pub entropy: f64,
    /// Latent variance, mean over the classes.
    pub latent_variance: f64,
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
    pub(crate) fn new(classes: &[String], answer: &Answer, nearest: Vec<Neighbour>) -> NamedAnswer {
        NamedAnswer {
            label: classes[answer.label].clone(),
            none_of_these: answer.none_of_these,
            probability: answer.probability(),
            probabilities: classes.iter().cloned().zip(answer.probabilities.iter().copied()).collect(),
            set: answer.set.iter().map(|&c| classes[c].clone()).collect(),
            entropy: answer.entropy,
            latent_variance: answer.latent_variance,
            nearest,
        }
    }
}

fn as_map<S: Serializer>(pairs: &[(String, f64)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(class, p)| (class, p)))
}
