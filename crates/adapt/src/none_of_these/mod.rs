//! "None of these": when a query looks too strange beside the examples of a task.
//!
//! The score is the one that found strangers best among the model's validation classes (`novelty.rs` compares); a task without
//! such a model uses its cosine with the nearest class around the mean of all examples (`calibration.rs`).
//!
//! | question | file |
//! | --- | --- |
//! | When does the rule say so? | `mod.rs` |
//! | Which facts tell a stranger from a member? | `strangeness.rs` |
//! | Which score of these facts is best on validation classes? | `novelty.rs` |
//! | What do other images of the same kind tell? | `others.rs` |

pub(crate) mod novelty;
pub(crate) mod others;
pub(crate) mod strangeness;

use crate::binomial::at_least;
use crate::calibration::TaskCalibration;
use crate::error::{Error, Result};
use crate::rules::{percent, share};
use siskin_calib::{Conformal, SetRule};

/// Examples contradict a limit if they exceed it so often that chance would do so less often than this.
const CHANCE: f64 = 0.05;
/// A limit by validation classes aims at this part of the rate asked for: a task's classes differ more from them than they do from
/// each other (on Omniglot's test alphabets members were turned away up to twice as often as on the validation alphabets).
const MARGIN: f64 = 0.5;
/// The rule is off where it would find fewer strangers than this many times the members it turns away.
const NEAR_CHANCE: f64 = 1.5;

/// When to say so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NoneOfThese {
    /// For what looks stranger than all but this share of true members; 0 never says so for that.
    pub abstain: f64,
    /// Where the most probable class has less than this.
    pub min_probability: f64,
}

impl Default for NoneOfThese {
    /// One true member in 20 is turned away; no bound on the probability.
    fn default() -> Self {
        NoneOfThese { abstain: 0.05, min_probability: 0.0 }
    }
}

/// The rule with its threshold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NoveltyThreshold {
    strangest: Option<f64>,
    min_probability: f64,
    /// The share of strangers it finds, as far as validation classes tell.
    pub detection: Option<f64>,
    /// What to expect of it, where it is on.
    pub expectation: Option<String>,
}

impl NoneOfThese {
    /// The threshold by what is known. What cannot be promised is added to `notes`.
    pub(crate) fn threshold(
        self,
        known: &TaskCalibration,
        notes: &mut Vec<String>,
    ) -> Result<NoveltyThreshold> {
        let NoneOfThese { abstain, min_probability } = self;
        if !(0.0..=1.0).contains(&min_probability) {
            let why = format!("the least probability = {min_probability}: it must be in 0..1");
            return Err(Error::Rules(why));
        }
        let off = NoveltyThreshold { strangest: None, min_probability, detection: None, expectation: None };
        if abstain == 0.0 {
            return Ok(off);
        }
        let rate = share("the abstain rate", abstain)?;
        let (limit, detection) = match limit(rate, known)? {
            Ok(found) => found,
            Err(why) => {
                notes.push(format!("Nothing is called \"none of these\" for being strange: {why}."));
                return Ok(off);
            }
        };
        let expectation = match detection {
            Some(found) if known.validation.is_none() => format!(
                "\"None of these\" turns away {} % of members and finds about {} % of strangers that are like the {} other images.",
                percent(rate),
                (100.0 * found).round(),
                known.others.len()
            ),
            Some(found) => format!(
                "\"None of these\" finds about {} % of strangers and turns away at most about {} % of members, by the \
                 model's validation classes.",
                (100.0 * found).round(),
                percent(rate)
            ),
            None => format!(
                "\"None of these\" turns away {} % of members; how many strangers it finds is not known.",
                percent(rate)
            ),
        };
        Ok(NoveltyThreshold {
            strangest: Some(limit),
            min_probability,
            detection,
            expectation: Some(expectation),
        })
    }
}

/// The limit of the score and the share of strangers above it where that is known, or why there is no limit.
type Limit = std::result::Result<(f64, Option<f64>), String>;

fn limit(rate: f64, known: &TaskCalibration) -> Result<Limit> {
    // The same order statistic as for sets: of members like those, at most this share is turned away.
    let conformal = |members: &[f64], rate: f64| -> Result<Option<f64>> {
        Ok(Conformal::of_scores(SetRule::Lac, members, rate)?.threshold)
    };
    let own = known.left_out.as_ref().map_or(&[][..], |left_out| &left_out.novelty);
    let too_few =
        format!("{} left-out examples are too few to turn away {} % of members", own.len(), percent(rate));
    let above = |limit: f64, scores: &[f64]| {
        scores.iter().filter(|score| **score > limit).count() as f64 / scores.len().max(1) as f64
    };
    let Some(shape) = &known.validation else {
        let found = |limit: f64| (!known.others.is_empty()).then(|| above(limit, &known.others));
        return Ok(quantile(own, rate).map(|limit| (limit, found(limit))).ok_or(too_few));
    };
    let by_examples = conformal(own, rate)?;
    let alone = |why: &str| -> Limit {
        by_examples.map(|limit| (limit, None)).ok_or_else(|| format!("{why}{too_few}"))
    };
    if known.other_kind {
        return Ok(alone("the images are of another kind than the model's, and "));
    }
    if known.unlike {
        return Ok(alone("these look unlike the images this model was validated on, and "));
    }
    let Some(limit) = conformal(&shape.novelty.members, MARGIN * rate)? else {
        return Ok(Err(format!(
            "the model's validation classes are too few to turn away {} %",
            percent(rate)
        )));
    };
    let detection = (!shape.novelty.strangers.is_empty()).then(|| above(limit, &shape.novelty.strangers));
    if let Some(found) = detection.filter(|found| *found < NEAR_CHANCE * rate) {
        return Ok(Err(format!(
            "it would find only {} % of strangers while it turns away {} % of members",
            (100.0 * found).round(),
            percent(rate)
        )));
    }
    let expected = shape.left_out.as_ref().map_or(0.0, |facts| above(limit, &facts.members)).max(rate);
    let strange = own.iter().filter(|score| **score > limit).count();
    if at_least(strange, own.len(), expected) >= CHANCE {
        return Ok(Ok((limit, detection)));
    }
    let why = format!("{strange} of {} examples, left out, look strange themselves, and ", own.len());
    Ok(alone(&why).map(|(by_examples, _)| (by_examples.max(limit), None)))
}

/// The score above which a member is expected at this rate: between n scores lie n + 1 places that the next one takes equally often, so the
/// limit stands between two of them where no whole number of places makes the rate. `None` where the scores are too few for the rate.
fn quantile(scores: &[f64], rate: f64) -> Option<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 + 1.0) * (1.0 - rate);
    let (below, part) = (place.floor() as usize, place.fract());
    // In binary, 20 * 0.95 may be a little more than 19.
    let next = sorted.get(if part < 1e-9 { below.checked_sub(1)? } else { below })?;
    let before = below.checked_sub(1).and_then(|i| sorted.get(i)).unwrap_or(next);
    Some(before + part * (next - before))
}

impl NoveltyThreshold {
    /// Whether a query with this score and this largest probability is none of the classes.
    pub(crate) fn applies(&self, novelty: f64, probability: f64) -> bool {
        self.strangest.is_some_and(|limit| novelty > limit) || probability < self.min_probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{LeftOut, testing::shape};

    fn known(left_out: Option<Vec<f64>>) -> TaskCalibration {
        let mut known = TaskCalibration::nothing();
        known.left_out = left_out.map(|novelty| LeftOut { novelty, ..LeftOut::default() });
        known
    }

    /// Members from 0.01 to 0.99, strangers from 0.51 to 1.49.
    fn by_validation() -> TaskCalibration {
        let members: Vec<f64> = (1..100).map(|i| f64::from(i) / 100.0).collect();
        let strangers = members.iter().map(|m| m + 0.5).collect();
        TaskCalibration { validation: Some(shape(vec![0.0; 99], members, strangers)), ..known(None) }
    }

    fn rule(known: &TaskCalibration) -> (NoveltyThreshold, String) {
        let mut notes = Vec::new();
        let found = NoneOfThese::default().threshold(known, &mut notes).unwrap();
        notes.extend(found.expectation.clone());
        (found, notes.concat())
    }

    #[test]
    fn the_strange_and_the_unsure_are_turned_away() {
        // Aimed at 2.5 %, the limit is the 98th score, 0.98; 51 of 99 strangers are above.
        let (usual, note) = rule(&by_validation());
        assert!(!usual.applies(0.9801 - 0.001, 0.8) && usual.applies(0.9801, 0.8));
        assert!(
            note.contains("about 52 % of strangers and turns away at most about 5 % of members"),
            "{note}"
        );
        let mut notes = Vec::new();
        let unsure = NoneOfThese { abstain: 0.0, min_probability: 0.9 };
        let unsure = unsure.threshold(&by_validation(), &mut notes).unwrap();
        assert!(unsure.applies(-9.0, 0.8) && !unsure.applies(9.0, 0.91));
        assert!(notes.is_empty());
    }

    #[test]
    fn near_chance_it_is_off() {
        let mut known = by_validation();
        let shape = known.validation.as_mut().unwrap();
        shape.novelty.strangers = shape.novelty.members.clone();
        let (off, note) = rule(&known);
        assert!(!off.applies(99.0, 1.0) && note.contains("only 1 % of strangers"), "{note}");
    }

    #[test]
    fn examples_that_look_strange_raise_the_limit_or_switch_it_off() {
        let strange = |n: usize| Some((0..n).map(|i| if i < n / 3 { 1.2 } else { 0.1 }).collect());
        let mut known = TaskCalibration { left_out: self::known(strange(30)).left_out, ..by_validation() };
        let (raised, note) = rule(&known);
        assert!(
            !raised.applies(1.2, 0.5) && raised.applies(1.21, 0.5) && note.contains("not known"),
            "{note}"
        );
        known.left_out = self::known(strange(12)).left_out;
        let (off, note) = rule(&known);
        assert!(
            !off.applies(99.0, 0.5) && note.contains("4 of 12 examples, left out, look strange"),
            "{note}"
        );
        known = TaskCalibration { other_kind: true, ..by_validation() };
        assert!(rule(&known).1.contains("another kind"));
        known = TaskCalibration { unlike: true, ..by_validation() };
        let (off, note) = rule(&known);
        assert!(
            !off.applies(99.0, 0.5) && note.contains("unlike the images") && !note.contains("at most"),
            "{note}"
        );
        known.left_out = self::known(Some(vec![0.1; 25])).left_out;
        let (by_examples, note) = rule(&known);
        assert!(by_examples.applies(0.2, 0.5) && note.contains("not known"), "{note}");
    }

    /// Of 25 left-out examples the largest would turn away 3.8 % of members, the second 7.7 %.
    #[test]
    fn a_limit_by_few_examples_stands_between_two_of_them() {
        let scores: Vec<f64> = (1..=25).rev().map(f64::from).collect();
        assert!((quantile(&scores, 0.05).unwrap() - 24.7).abs() < 1e-9);
        assert_eq!((quantile(&scores[..19], 0.05), quantile(&scores[..18], 0.05)), (Some(25.0), None));
        assert_eq!(quantile(&[], 0.05), None);
        assert!((quantile(&scores, 0.5).unwrap() - 13.0).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_promised_is_said() {
        let (few, note) = rule(&known(Some(vec![0.1; 5])));
        assert!(!few.applies(99.0, 1.0) && note.contains("5 left-out examples are too few"), "{note}");
        let (some, _) = rule(&known(Some(vec![0.1; 30])));
        assert!(some.applies(0.2, 1.0));
        let others = TaskCalibration { others: vec![0.0, 0.05, 0.2, 0.3], ..known(Some(vec![0.1; 30])) };
        assert!(rule(&others).1.contains("finds about 50 % of strangers that are like the 4 other images"));
        for (abstain, min_probability) in [(1.0, 0.0), (-0.1, 0.0), (f64::NAN, 0.0), (0.05, 1.1)] {
            let rule = NoneOfThese { abstain, min_probability };
            assert!(rule.threshold(&known(None), &mut Vec::new()).is_err());
        }
    }
}
