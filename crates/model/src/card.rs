//! What a model says of itself: how it was trained, how well it did on unseen classes, and what was found on validation
//! classes for tasks of several shapes.

use crate::look::Looks;
use crate::spec::ModelSpec;
use serde::{Deserialize, Serialize};
use siskin_calib::{Bin, MeanSpread, Measures};

/// The format this program writes.
pub(crate) const VERSION: u32 = 4;

/// The record in the header of a model file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Format of this record.
    pub version: u32,
    /// What to call the model.
    pub name: String,
    /// Version of the program that wrote it.
    pub siskin: String,
    /// How it is built: network, image size, method and settings.
    pub model: ModelSpec,
    /// Training episodes it has seen.
    pub episodes: u64,
    /// Name and hash of the data it was trained on.
    pub data: String,
    /// The temperature of its probabilities, one number for tasks of every shape: the one of least NLL on validation classes.
    pub temperature: f64,
    /// Unequal numbers of examples: probabilities are divided by the number of examples of their class to this power, the one of least
    /// NLL on validation classes. Cards of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<f64>,
    /// What was found on validation classes, for tasks of several shapes.
    pub validation: Vec<ShapeFacts>,
    /// What was measured on test classes.
    pub test: Option<TestFacts>,
    /// What its training images look like; models of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<Looks>,
    /// Where the features of its training images lie; cards of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureFacts>,
    /// Of a model that came from a file of format 2: its hash in that format, by which older tasks know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_hash: Option<String>,
}

/// What was found on validation episodes of one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShapeFacts {
    /// Classes of the episodes.
    pub way: usize,
    /// Labelled images of each class.
    pub shot: usize,
    /// Queries of these classes.
    pub queries: usize,
    /// Of a card of format 3, which had one temperature for each shape: that of this shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Scores of the true classes, for sets: the probability of all classes that are more probable. Thinned.
    pub set_scores: Vec<f64>,
    /// What the labelled images say of each other; none with one image of each class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOutFacts>,
    /// The shift of examples ([`FeatureFacts`]) beyond which they are unlike those of validation episodes; cards of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_shift: Option<f64>,
    /// For "none of these".
    pub novelty: NoveltyFacts,
}

/// Where the features of training images lie, along some fixed random directions: the measure of how far the examples of a task lie
/// from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureFacts {
    /// Their mean along each direction, `[R]`.
    pub mean: Vec<f64>,
    /// The inverse of their covariance, [R, R] row-major.
    pub precision: Vec<f64>,
}

/// What labelled images of validation episodes say of each other: each is predicted without its fold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOutFacts {
    /// Share of them whose most probable class is the true one.
    pub accuracy: f64,
    /// As [`ShapeFacts::set_scores`]. Thinned.
    pub set_scores: Vec<f64>,
    /// As [`NoveltyFacts::members`]. Thinned.
    pub members: Vec<f64>,
}

/// The score that says "none of these" best on validation episodes of one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoveltyFacts {
    /// What it is called.
    pub name: String,
    /// The score is the sum of these facts about a query, each times its weight.
    pub weights: Vec<(String, f64)>,
    /// Scores of queries of the episode's classes. Thinned.
    pub members: Vec<f64>,
    /// Scores of queries of other classes. Thinned; a card of format 3 has none.
    pub strangers: Vec<f64>,
    /// How well the score tells them apart (area under the ROC curve).
    pub auroc: f64,
}

/// Accuracy and calibration on episodes of test classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestFacts {
    /// Classes of the episodes.
    pub way: usize,
    /// Labelled images of each class.
    pub shot: usize,
    /// Number of episodes.
    pub episodes: usize,
    /// Mean and 95 % interval over the episodes.
    pub accuracy: MeanSpread,
    /// Measures of the probabilities as they are.
    pub raw: Measures,
    /// Measures with the temperature of validation.
    pub tuned: Measures,
    /// That temperature.
    pub temperature: f64,
    /// Reliability bins of the probabilities as they are.
    pub raw_bins: Vec<Bin>,
    /// Reliability bins with the temperature.
    pub tuned_bins: Vec<Bin>,
}

impl Card {
    /// The card of a model that nothing was measured of.
    pub fn fresh(name: String, model: ModelSpec, episodes: u64, data: String) -> Card {
        Card {
            version: VERSION,
            name,
            siskin: env!("CARGO_PKG_VERSION").into(),
            model,
            episodes,
            data,
            temperature: 1.0,
            balance: None,
            validation: Vec::new(),
            test: None,
            looks: None,
            features: None,
            former_hash: None,
        }
    }

    /// What was found for the shape nearest to a task's: `|log way/way'| + |log shot/shot'|` is least.
    pub fn nearest(&self, way: usize, shot: f64) -> Option<&ShapeFacts> {
        let distance =
            |s: &ShapeFacts| (s.way as f64 / way as f64).ln().abs() + (s.shot as f64 / shot).ln().abs();
        self.validation.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// The largest number of classes that was measured.
    pub fn most_classes(&self) -> Option<usize> {
        self.validation.iter().map(|shape| shape.way).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_shape_is_found() {
        let novelty = NoveltyFacts {
            name: String::new(),
            weights: vec![],
            members: vec![],
            strangers: vec![],
            auroc: 0.5,
        };
        let shape = |(way, shot)| ShapeFacts {
            way,
            shot,
            queries: 1,
            temperature: None,
            set_scores: vec![],
            left_out: None,
            most_shift: None,
            novelty: novelty.clone(),
        };
        let spec = crate::legacy::spec_of_config("").unwrap();
        let mut card = Card::fresh("m".into(), spec, 1, "d".into());
        card.validation = [(2, 1), (5, 1), (5, 5), (20, 1)].map(shape).to_vec();
        let at = |way, shot| card.nearest(way, shot).map(|s| (s.way, s.shot)).unwrap();
        assert_eq!(at(3, 1.0), (2, 1));
        assert_eq!(at(4, 1.4), (5, 1));
        assert_eq!(at(6, 20.0), (5, 5));
        assert_eq!(at(100, 1.0), (20, 1));
    }
}
