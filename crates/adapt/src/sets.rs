//! Sets of classes that hold the truth at a rate asked for.
//!
//! A set holds the most probable classes: at least so many that their probabilities sum to the level asked for, so that it
//! never says less than they do. Where predictions whose truth is known show that this is too few (the score of such a
//! prediction is the probability of all classes that are more probable than the true one), the sum must be larger: that is a
//! conformal threshold.

use crate::binomial::at_least;
use crate::calibration::TaskCalibration;
use crate::error::Result;
use crate::rules::{percent, share};
use siskin_calib::{Conformal, Predictions, SetRule};

/// Left-out examples contradict a threshold if they miss their sets so often that chance would do so less often than this.
const CHANCE: f64 = 0.05;
/// Sets by validation classes, and by examples, aim at this part of the misses that are allowed: a task's classes and images differ more from
/// validation classes than those do from each other. Chosen on validation classes of other photos than a model's own (docs/trust.md).
const MARGIN: f64 = 0.75;
/// The same where the images are known to be unlike the model's, or of another kind.
const UNLIKE_MARGIN: f64 = 0.5;
const NOTHING: &str = "no example can be left out, and nothing else speaks for these images";

/// What is asked of the sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sets {
    /// The rate at which they shall hold the truth.
    pub level: f64,
}

impl Default for Sets {
    fn default() -> Self {
        Sets { level: 0.9 }
    }
}

/// Sets with their threshold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetThreshold {
    level: f64,
    /// Classes with a score up to this are in; `None`: every class is.
    score: Option<f64>,
}

/// The score of class `c`: the probability of all classes that are more probable.
fn score(p: &[f64], c: usize) -> f64 {
    let mut above: Vec<f64> = p.iter().copied().filter(|other| *other > p[c]).collect();
    // One order of summing for one set of numbers, whatever the classes are called.
    above.sort_by(f64::total_cmp);
    above.iter().sum()
}

/// Scores of the true classes of predictions.
pub(crate) fn scores(predictions: &Predictions) -> Vec<f64> {
    predictions.iter().map(|(p, y)| score(p, y)).collect()
}

impl Sets {
    /// The threshold by what is known. What cannot be promised, and why sets are wide, is added to `notes`.
    pub(crate) fn threshold(self, known: &TaskCalibration, notes: &mut Vec<String>) -> Result<SetThreshold> {
        let level = share("the level of the sets", self.level)?;
        let asked = 1.0 - level;
        let Some(shape) = &known.validation else {
            return by_examples_alone(known, level, notes);
        };
        let margin = if known.unlike || known.other_kind { UNLIKE_MARGIN } else { MARGIN };
        let aimed = asked * margin / known.beyond.unwrap_or(1.0);
        // The most that so few scores can say, where that is all that was asked for.
        let alpha = aimed.max(1.0 / (shape.set_scores.len() as f64 + 1.0) + 1e-12).min(asked);
        let found = SetThreshold { level: 1.0 - aimed, score: conformal(&shape.set_scores, alpha)? };
        if found.score.is_none() {
            let few =
                format!("{} calibration predictions are too few for this level", shape.set_scores.len());
            notes.push(every_class(level, &few));
            return Ok(found);
        }
        notes.extend(why_wide(known));
        let Some(left_out) = &known.left_out else {
            if known.other_kind {
                notes.push(every_class(level, NOTHING));
                return Ok(SetThreshold { score: None, ..found });
            }
            return Ok(found);
        };
        let examples = &left_out.set_scores;
        let expected = shape.left_out.as_ref().map_or(0.0, |facts| found.missed(&facts.set_scores));
        let (n, missed) = (examples.len(), found.missed(examples));
        let contradicted = at_least((missed * n as f64).round() as usize, n, expected.max(aimed)) < CHANCE;
        if !contradicted && !known.other_kind {
            // What the examples ask for themselves holds for every kind of image; few of them can ask for little.
            let by_examples = conformal(examples, asked * margin)?.or(conformal(examples, asked)?);
            return Ok(found.at_least(by_examples.unwrap_or(f64::NEG_INFINITY)));
        }
        // The other sites have seen the left-out examples, which look a little too good so.
        let Some(by_examples) = conformal(examples, asked * UNLIKE_MARGIN)? else {
            notes.push(every_class(level, &format!("{n} left-out examples are too few for this level")));
            return Ok(SetThreshold { score: None, ..found });
        };
        if contradicted && !known.other_kind {
            notes.push(format!(
                "Sets are wider than the model's validation classes ask for: without that, {} % of the examples, left \
                 out, would miss theirs.",
                (100.0 * missed).round()
            ));
        }
        Ok(found.at_least(by_examples))
    }
}

fn conformal(scores: &[f64], alpha: f64) -> Result<Option<f64>> {
    Ok(Conformal::of_scores(SetRule::Lac, scores, alpha)?.threshold)
}

/// Without scores of validation classes only the examples speak.
fn by_examples_alone(known: &TaskCalibration, level: f64, notes: &mut Vec<String>) -> Result<SetThreshold> {
    let Some(left_out) = &known.left_out else {
        notes.push(every_class(level, NOTHING));
        return Ok(SetThreshold { level, score: None });
    };
    let score = conformal(&left_out.set_scores, 1.0 - level)?;
    if score.is_none() {
        let n = left_out.set_scores.len();
        notes.push(every_class(level, &format!("{n} left-out examples are too few for this level")));
    }
    Ok(SetThreshold { level, score })
}

/// Why sets are wider than what the model's validation classes say.
fn why_wide(known: &TaskCalibration) -> Vec<String> {
    let unlike =
        "These look unlike the images this model was validated on: answers are less sure, and sets wider.";
    let beyond = "The task has more classes than any that the model was validated on: sets are wider.";
    let why = [(known.unlike, unlike), (known.beyond.is_some() && !known.other_kind, beyond)];
    why.iter().filter(|(holds, _)| *holds).map(|(_, why)| (*why).to_owned()).collect()
}

fn every_class(level: f64, why: &str) -> String {
    format!("Sets at {} % hold every class: {why}.", percent(level))
}

impl SetThreshold {
    /// With a threshold of at least this.
    fn at_least(self, score: f64) -> SetThreshold {
        SetThreshold { score: self.score.map(|own| own.max(score)), ..self }
    }

    fn holds(&self, score: f64) -> bool {
        score < self.level || self.score.is_none_or(|most| score <= most)
    }

    /// The share of scores of true classes that are not in their sets.
    fn missed(&self, scores: &[f64]) -> f64 {
        scores.iter().filter(|score| !self.holds(**score)).count() as f64 / scores.len().max(1) as f64
    }

    /// The classes that are possible, in rising order. The most probable one is always among them.
    pub(crate) fn set(&self, probabilities: &[f64]) -> Vec<usize> {
        (0..probabilities.len()).filter(|&c| self.holds(score(probabilities, c))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{LeftOut, testing::shape};

    fn known(validation: Option<Vec<f64>>, left_out: Option<Vec<f64>>, other_kind: bool) -> TaskCalibration {
        let mut known = TaskCalibration::nothing();
        known.validation = validation.map(|scores| shape(scores, vec![], vec![]));
        known.left_out = left_out.map(|set_scores| LeftOut { set_scores, ..LeftOut::default() });
        known.other_kind = other_kind;
        known
    }

    fn sets(known: &TaskCalibration) -> (SetThreshold, Vec<String>) {
        let mut notes = Vec::new();
        (Sets::default().threshold(known, &mut notes).unwrap(), notes)
    }

    /// Scores of a model that is right, its probabilities too: one in 20 misses.
    fn right(n: usize) -> Vec<f64> {
        (0..n).map(|i| if i % 20 == 7 { 0.95 } else { 0.0 }).collect()
    }

    #[test]
    fn a_set_sums_to_its_level_at_least() {
        let (found, notes) = sets(&known(Some(right(400)), None, false));
        assert_eq!(found.set(&[0.23, 0.2, 0.19, 0.19, 0.19]), [0, 1, 2, 3, 4], "never one class at 23 %");
        assert_eq!(found.set(&[0.05, 0.94, 0.01]), [1]);
        assert_eq!(found.set(&[0.6, 0.33, 0.07]), [0, 1]);
        assert_eq!(found.set(&[0.6, 0.31, 0.09]), [0, 1, 2], "it aims at fewer misses than are allowed");
        assert_eq!(found.set(&[0.25; 4]), [0, 1, 2, 3], "equal probabilities enter together");
        assert!(notes.is_empty());
        // Validation with many misses: the sum must be larger.
        let sure_and_wrong = (0..400).map(|i| if i % 5 == 0 { 0.97 } else { 0.0 }).collect();
        let (found, _) = sets(&known(Some(sure_and_wrong), None, false));
        assert_eq!(found.set(&[0.02, 0.965, 0.015]), [0, 1]);
        assert_eq!(found.set(&[0.01, 0.98, 0.01]), [1]);
    }

    #[test]
    fn examples_that_contradict_the_validation_widen_the_sets() {
        let (usual, notes) = sets(&known(Some(right(400)), Some(right(25)), false));
        assert!(notes.is_empty() && usual.set(&[0.01, 0.98, 0.01]) == [1]);
        // Eight of 25 left-out examples miss their sets with certainty.
        let wrong: Vec<f64> = (0..25).map(|i| if i < 8 { 0.99 } else { 0.0 }).collect();
        let (wide, notes) = sets(&known(Some(right(400)), Some(wrong.clone()), false));
        assert!(notes[0].contains("32 % of the examples"), "{notes:?}");
        assert_eq!(wide.set(&[0.012, 0.975, 0.013]), [0, 1, 2]);
        // Few examples, all wrong: nothing can be promised but every class.
        let (all, notes) = sets(&known(Some(right(400)), Some(vec![0.99; 4]), false));
        assert_eq!((all.set(&[1.0, 0.0]), notes.len()), (vec![0, 1], 1));
        // Images of another kind: the examples decide, even where they agree.
        let (all, _) = sets(&known(Some(right(400)), Some(vec![0.0; 4]), true));
        assert_eq!(all.set(&[1.0, 0.0]), [0, 1]);
        let (all, notes) = sets(&known(Some(right(400)), None, true));
        assert!(all.set(&[1.0, 0.0]) == [0, 1] && notes[0].contains("every class"), "{notes:?}");
    }

    /// The same probabilities, and what is known of the task.
    #[test]
    fn sets_are_wider_where_less_is_known() {
        let p = [0.93, 0.03, 0.02, 0.012, 0.008];
        let size = |known: &TaskCalibration| {
            let (found, notes) = sets(known);
            (found.set(&p).len(), notes.concat())
        };
        let usual = known(Some(right(400)), None, false);
        assert_eq!(size(&usual), (1, String::new()));
        let unlike = TaskCalibration { unlike: true, ..usual.clone() };
        assert!(size(&unlike).0 == 2 && size(&unlike).1.contains("unlike the images"), "{:?}", size(&unlike));
        let beyond = TaskCalibration { beyond: Some(4.0), ..usual.clone() };
        assert!(size(&beyond).0 == 4 && size(&beyond).1.contains("more classes"), "{:?}", size(&beyond));
        // Examples of the task that ask for more, though no more often than chance allows.
        let mut examples = vec![0.0; 14];
        examples.push(0.975);
        let asking = known(Some(right(400)), Some(examples), false);
        assert_eq!(size(&asking), (3, String::new()));
    }

    #[test]
    fn what_cannot_be_promised_is_said() {
        let (all, notes) = sets(&known(None, Some(vec![0.1; 5]), false));
        assert_eq!((notes.len(), all.set(&[1.0, 0.0, 0.0])), (1, vec![0, 1, 2]));
        let (some, notes) = sets(&known(None, Some(right(40)), false));
        assert!(notes.is_empty() && some.set(&[0.96, 0.04, 0.0]) == [0]);
        for level in [0.0, 1.0, f64::NAN] {
            assert!(Sets { level }.threshold(&known(None, None, false), &mut Vec::new()).is_err());
        }
    }
}
