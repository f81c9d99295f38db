//! An answer in words: class names in place of numbers, ready to print or to send.

use crate::answer::{Answer, Decision, Ruling};
use crate::error::Result;
use crate::task::Task;
use serde::{Serialize, Serializer};
use siskin_methods::Features;

/// What is said of one query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
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
    pub nearest: Vec<Near>,
}

/// An example near a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Near {
    /// What it is called.
    pub example: String,
    /// Its place among the examples of the task.
    pub index: usize,
    /// Its class.
    pub class: String,
    /// The kernel value between the two, before the output scale.
    pub kernel: f64,
}

impl Task {
    /// What is said of each query under `ruling`, with the `explain` nearest examples.
    pub fn rows(&self, queries: &Features, ruling: &Ruling, explain: usize) -> Result<Vec<Row>> {
        let answers = self.predict(queries)?;
        let nearest = match explain {
            0 => vec![Vec::new(); answers.len()],
            count => self.nearest(queries, count)?,
        };
        let named = |list: Vec<crate::Neighbour>| {
            let near = |n: crate::Neighbour| Near {
                example: self.names[n.index].clone(),
                index: n.index,
                class: self.classes[n.class].clone(),
                kernel: n.kernel,
            };
            list.into_iter().map(near).collect()
        };
        let rows = answers.iter().zip(nearest);
        Ok(rows.map(|(a, near)| row(&self.classes, a, &ruling.decide(a), named(near))).collect())
    }
}

fn row(classes: &[String], answer: &Answer, decision: &Decision, nearest: Vec<Near>) -> Row {
    Row {
        label: classes[answer.label].clone(),
        none_of_these: decision.none_of_these,
        probability: answer.probability(),
        probabilities: classes.iter().cloned().zip(answer.probabilities.iter().copied()).collect(),
        set: decision.set.iter().map(|&c| classes[c].clone()).collect(),
        entropy: answer.entropy,
        latent_variance: answer.latent_variance,
        nearest,
    }
}

fn as_map<S: Serializer>(pairs: &[(String, f64)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(class, p)| (class, p)))
}
