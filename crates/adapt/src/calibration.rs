//! What is known of how sure a task may be: the model's validation classes, and the task's own examples, left out.

use crate::error::Result;
use crate::fitted::Raw;
use crate::held_out::HeldOut;
use crate::none_of_these::strangeness::{APART, Facts, NAMES, score, weights};
use crate::sets;
use crate::tempering::{Doubt, Known, caution};
use serde::{Deserialize, Serialize};
use siskin_calib::{Predictions, top};
use siskin_model::{Card, ShapeFacts};

/// Scores kept of a large calibration set: sets up to 99.5 % can be promised.
const KEPT: usize = 199;
/// The examples contradict a model if they are right so much less often than it says, in standard deviations.
const SURPRISE: f64 = 2.33;

/// The score of "none of these" where no validation classes say which is best: chosen on base classes of CUB and mini-ImageNet with
/// features of an EfficientNet-Lite0 (docs/photos.md).
const UNKNOWN: [(&str, f64); 2] = [("centred", 1.0), ("relative", 0.4)];

/// What is known of how sure a task may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskCalibration {
    /// The temperature of the probabilities: the model's times [`TaskCalibration::caution`].
    pub temperature: f64,
    /// The part of it that the task's own examples ask for, at least 1.
    pub caution: f64,
    /// What the model's card says of tasks of the nearest shape.
    pub validation: Option<ShapeFacts>,
    /// What the examples say of each other; `None` if no class has two.
    pub left_out: Option<LeftOut>,
    /// Whether the examples are of another kind than the model's training images.
    pub other_kind: bool,
    /// Whether the examples lie far from the model's training images, farther than validation tasks do (`shift.rs`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlike: bool,
    /// Where a task has more classes than any that the model was validated on: how many times as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<f64>,
    /// Without validation classes: the score of "none of these", as weights of facts. Tasks from before it was kept have none, and mean the
    /// distance to the nearest example.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangeness: Vec<(String, f64)>,
    /// How strange other images of the same kind look, where they were given: they tell how many strangers are found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<f64>,
}

/// Examples of a task, each predicted without its fold, which has one example of each class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// How many there are.
    pub of: usize,
    /// How many were right.
    pub right: usize,
    /// How many the model's probabilities expected to be right.
    pub expected: f64,
    /// The variance of that number.
    pub variance: f64,
    /// Scores of the true classes, for sets.
    pub set_scores: Vec<f64>,
    /// How strange they look, for "none of these".
    pub novelty: Vec<f64>,
}

impl LeftOut {
    /// Whether they were right much less often than expected.
    pub fn surprises(&self) -> bool {
        self.expected - self.right as f64 - 0.5 > SURPRISE * self.variance.sqrt()
    }
}

impl TaskCalibration {
    /// What is known of nothing.
    pub(crate) fn nothing() -> TaskCalibration {
        TaskCalibration {
            temperature: 1.0,
            caution: 1.0,
            validation: None,
            left_out: None,
            other_kind: false,
            unlike: false,
            beyond: None,
            strangeness: Vec::new(),
            others: Vec::new(),
        }
    }

    /// What is known of a task with so many classes and examples of each, on average.
    pub(crate) fn new(
        held: Option<&HeldOut>,
        card: Option<&Card>,
        (classes, shot): (usize, f64),
        (other_kind, unlike): (bool, bool),
    ) -> Result<TaskCalibration> {
        let validation = card.and_then(|card| card.nearest(classes, shot)).cloned();
        let of_shape = validation.as_ref().and_then(|shape| shape.temperature);
        let temperature = of_shape.or(card.map(|card| card.temperature)).unwrap_or(1.0);
        let strangeness = match &validation {
            None => UNKNOWN.map(|(name, weight)| (name.into(), weight)).to_vec(),
            Some(_) => Vec::new(),
        };
        let most = card.and_then(Card::most_classes);
        let beyond = most.map(|most| classes as f64 / most as f64);
        let mut found = TaskCalibration {
            temperature,
            validation,
            other_kind,
            unlike: unlike && !other_kind,
            beyond: beyond.filter(|times| *times > 1.0),
            strangeness,
            ..TaskCalibration::nothing()
        };
        let doubt = match (other_kind, found.unlike) {
            (true, _) => Doubt::OTHER_KIND,
            (_, true) => Doubt::UNLIKE,
            _ => Doubt::USUAL,
        };
        let Some(HeldOut { raw, labels }) = held else {
            found.caution = caution(&Known { probabilities: &[], labels: &[], classes }, doubt);
            found.temperature *= found.caution;
            return Ok(found);
        };
        let known = Known { probabilities: &raw.probabilities, labels, classes };
        let before = known.at(temperature)?;
        found.caution = caution(&Known { probabilities: &before, labels, classes }, doubt);
        found.temperature *= found.caution;
        let after = Predictions::new(known.at(found.temperature)?, labels.clone(), classes)?;
        let tops: Vec<(usize, f64)> = before.chunks_exact(classes).map(top).collect();
        found.left_out = Some(LeftOut {
            of: labels.len(),
            right: tops.iter().zip(labels).filter(|((best, _), label)| best == *label).count(),
            expected: tops.iter().map(|(_, p)| p).sum(),
            variance: tops.iter().map(|(_, p)| p * (1.0 - p)).sum(),
            set_scores: sets::scores(&after),
            novelty: found.novelty(raw)?,
        });
        Ok(found)
    }

    /// The weights of the score of "none of these".
    fn weights(&self) -> Result<Facts> {
        match &self.validation {
            Some(shape) => weights(&shape.novelty.weights),
            None if self.strangeness.is_empty() => weights(&[("distance".into(), 1.0)]),
            None => weights(&self.strangeness),
        }
    }

    /// "None of these" by the score that other images make possible, with what it says of left-out examples and of these others.
    pub(crate) fn beside_others(&mut self, examples: Vec<f64>, others: Vec<f64>) {
        self.strangeness = vec![(NAMES[APART].into(), 1.0)];
        if let Some(left_out) = &mut self.left_out {
            left_out.novelty = examples;
        }
        self.others = others;
    }

    /// How strange points look.
    pub(crate) fn novelty(&self, raw: &Raw) -> Result<Vec<f64>> {
        let weights = self.weights()?;
        Ok(raw.facts.iter().map(|facts| score(&weights, facts)).collect())
    }

    /// Whether the task's own examples contradict what the model's validation classes promise.
    pub fn contradicted(&self) -> bool {
        self.left_out.as_ref().is_some_and(LeftOut::surprises)
    }

    fn unlike_sentence(&self) -> String {
        let checked = match &self.left_out {
            Some(left_out) => {
                format!("the {} examples that can be left out lower or raise that", left_out.of)
            }
            None => "a second example of a class lets the task check itself".into(),
        };
        format!(
            "These look unlike the images this model was validated on: its certainty and the rates it promises may not hold for them. So the \
             probabilities are made less sure (by a temperature of {:.2}) and sets are wider; {checked}.",
            self.caution
        )
    }

    /// What the answers rest on, in sentences.
    pub fn sentence(&self) -> String {
        let model = match (&self.validation, &self.left_out) {
            (Some(_), _) if self.unlike => self.unlike_sentence(),
            (Some(shape), _) if !self.other_kind => format!(
                "Sets and \"none of these\" rest on the model's validation classes ({} classes, {} {} each).",
                shape.way,
                shape.shot,
                if shape.shot == 1 { "example" } else { "examples" }
            ),
            (_, Some(left_out)) => {
                format!(
                    "Sets and \"none of these\" rest on the {} examples that can be left out.",
                    left_out.of
                )
            }
            (_, None) => {
                let why = match self.other_kind {
                    true => "the images are of another kind than those the model was measured on",
                    false => "the model was never measured on validation classes",
                };
                format!(
                    "Nothing says how sure to be: {why}. Take the probabilities with care. A second example of a class lets the \
                     task check itself."
                )
            }
        };
        match &self.left_out {
            Some(left_out) if left_out.surprises() => format!(
                "{model} The examples contradict the model: left out, {} of {} were right where its probabilities expected \
                 {:.0}. So the probabilities are made less sure (by a temperature of {:.2}), and sets are wider.",
                left_out.right, left_out.of, left_out.expected, self.caution
            ),
            _ => model,
        }
    }
}

/// At most [`KEPT`] of the scores, sorted: the order statistics that a set of that size would ask for, each rounded up to
/// one that is there, so that what is promised with them holds.
pub(crate) fn thinned(mut scores: Vec<f64>) -> Vec<f64> {
    scores.sort_by(f64::total_cmp);
    let n = scores.len();
    if n <= KEPT {
        return scores;
    }
    let at = |k: usize| ((k * (n + 1)).div_ceil(KEPT + 1)).min(n) - 1;
    // Six digits are plenty, and rounding up keeps the promise.
    (1..=KEPT).map(|k| (scores[at(k)] * 1e6).ceil() / 1e6).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    use siskin_model::{NoveltyFacts, ShapeFacts};

    /// What a card would say with these scores.
    pub(crate) fn shape(set_scores: Vec<f64>, members: Vec<f64>, strangers: Vec<f64>) -> ShapeFacts {
        let weights = vec![("distance".into(), 1.0)];
        let novelty = NoveltyFacts { name: "distance".into(), weights, members, strangers, auroc: 0.9 };
        ShapeFacts {
            way: 5,
            shot: 5,
            queries: 99,
            temperature: None,
            set_scores,
            left_out: None,
            most_shift: None,
            novelty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_calib::{Conformal, SetRule};

    #[test]
    fn thinned_scores_promise_no_less() {
        let scores: Vec<f64> = (0..10_007u32).map(|i| f64::from(i * 7919 % 10_007) / 10_007.0).collect();
        let thin = thinned(scores.clone());
        assert_eq!(thin.len(), KEPT);
        for alpha in [0.5, 0.1, 0.05, 0.01] {
            let full = Conformal::of_scores(SetRule::Lac, &scores, alpha).unwrap().threshold.unwrap();
            let few = Conformal::of_scores(SetRule::Lac, &thin, alpha).unwrap().threshold.unwrap();
            assert!(few >= full && few < full + 0.006, "{alpha}: {few} {full}");
        }
        assert_eq!(thinned(vec![3.0, 1.0]), [1.0, 3.0]);
    }

    /// 25 examples of which the model is 97 % sure each: it should know.
    #[test]
    fn examples_can_contradict_a_model() {
        let held = |right: usize| HeldOut {
            raw: Raw {
                probabilities: [0.97, 0.03].repeat(25),
                variance: vec![1.0; 50],
                facts: vec![[0.1; crate::none_of_these::strangeness::COUNT]; 25],
            },
            labels: (0..25).map(|i| usize::from(i >= right)).collect(),
        };
        let good = TaskCalibration::new(Some(&held(24)), None, (2, 12.5), (false, false)).unwrap();
        assert!(!good.contradicted() && good.caution == 1.0, "{good:?}");
        let bad = TaskCalibration::new(Some(&held(15)), None, (2, 12.5), (false, false)).unwrap();
        assert!(bad.contradicted() && bad.caution > 3.0, "{}", bad.caution);
        assert!(
            bad.sentence().contains("15 of 25 were right where its probabilities expected 24"),
            "{}",
            bad.sentence()
        );
    }
}
