//! What a task says of an image, and what to make of it.

use crate::calibration::Calibration;
use crate::error::{Error, Result};
use crate::head::Raw;
use serde::{Deserialize, Serialize};
use siskin_calib::{Conformal, Probabilities, SetRule, entropy, latent_variance, top};

/// What is said of one image or vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The most probable class.
    pub label: usize,
    /// Calibrated probability of every class.
    pub probabilities: Vec<f64>,
    /// Entropy of the probabilities in nats: 0 when certain, `log C` when all are equal.
    pub entropy: f64,
    /// Latent variance, mean over the classes: large far from all examples.
    pub latent_variance: f64,
    /// How strange the query looks beside all examples; see [`novelty`].
    pub novelty: f64,
}

impl Answer {
    /// Probability of the most probable class.
    pub fn probability(&self) -> f64 {
        self.probabilities[self.label]
    }
}

/// The answers to raw predictions, with the probabilities at `temperature`.
pub(crate) fn answers(raw: &Raw, classes: usize, temperature: f64) -> Result<Vec<Answer>> {
    let tuned = Probabilities::new(raw.probabilities.clone(), classes)?.sharpened(temperature)?;
    let spread = latent_variance(&raw.variance, classes)?;
    let strange = novelty(raw);
    let facts = entropy(&tuned).into_iter().zip(spread).zip(strange);
    let answer = |(p, ((entropy, latent_variance), novelty)): (&[f64], ((f64, f64), f64))| Answer {
        label: top(p).0,
        probabilities: p.to_vec(),
        entropy,
        latent_variance,
        novelty,
    };
    Ok(tuned.rows().zip(facts).map(answer).collect())
}

/// How strange each query looks: 1 - its largest similarity with an example. Probabilities and latent moments depend on the
/// number of examples, this hardly does: what was measured on tasks of one shape holds for others.
/// `cargo run --release -p siskin-app --example novelty_scores RUN` compares it with other scores.
pub(crate) fn novelty(raw: &Raw) -> Vec<f64> {
    raw.nearest.iter().map(|similarity| 1.0 - similarity).collect()
}

/// When to answer with several classes, and when with none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// The rate at which conformal sets shall hold the truth.
    pub level: f64,
    /// "None of these" for what looks stranger than all but this share of true members; `None` never says so for that.
    pub abstain: Option<f64>,
    /// "None of these" where the most probable class has less than this.
    pub min_probability: f64,
}

impl Default for Rules {
    /// Sets at 90 %, one true member in 20 turned away, no bound on the probability.
    fn default() -> Self {
        Rules { level: 0.9, abstain: Some(0.05), min_probability: 0.0 }
    }
}

/// Rules with their thresholds, ready to decide.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    sets: Conformal,
    strangest: Option<f64>,
    min_probability: f64,
    notes: Vec<String>,
}

/// What the rules make of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The classes that are possible at the level asked for, in rising order; the most probable one is always
    /// among them.
    pub set: Vec<usize>,
    /// Whether it is none of the classes.
    pub none_of_these: bool,
}

impl Ruling {
    pub(crate) fn new(rules: &Rules, calibration: &Calibration) -> Result<Ruling> {
        let share = |name: &str, value: f64| match value > 0.0 && value < 1.0 {
            true => Ok(value),
            false => Err(Error::Rules(format!("{name} = {value}: it must be between 0 and 1"))),
        };
        let alpha = 1.0 - share("the level of the sets", rules.level)?;
        if !(0.0..=1.0).contains(&rules.min_probability) {
            let why = format!("the least probability = {}: it must be in 0..1", rules.min_probability);
            return Err(Error::Rules(why));
        }
        let mut notes = Vec::new();
        let sets = Conformal::of_scores(SetRule::Lac, &calibration.set_scores, alpha)?;
        if sets.threshold.is_none() {
            notes.push(format!(
                "Sets at {} % hold every class: {} calibration predictions are too few for this level.",
                percent(rules.level),
                calibration.set_scores.len()
            ));
        }
        let strangest = match rules.abstain {
            None => None,
            Some(rate) => {
                // The same order statistic as for the sets: of members like those, at most this share is turned away.
                let rate = share("the abstain rate", rate)?;
                let limit = Conformal::of_scores(SetRule::Lac, &calibration.novelty, rate)?.threshold;
                if limit.is_none() {
                    notes.push(format!(
                        "Nothing is called \"none of these\" for being strange: {} calibration predictions are too few to \
                         turn away {} % of true members.",
                        calibration.novelty.len(),
                        percent(rate)
                    ));
                }
                limit
            }
        };
        Ok(Ruling { sets, strangest, min_probability: rules.min_probability, notes })
    }

    /// What the rules make of `answer`.
    pub fn decide(&self, answer: &Answer) -> Decision {
        let strange = self.strangest.is_some_and(|limit| answer.novelty > limit);
        let mut set = self.sets.set(&answer.probabilities);
        // Where nearly every answer is right, a set may miss its level by being empty; that helps nobody.
        if set.is_empty() {
            set.push(answer.label);
        }
        Decision { set, none_of_these: strange || answer.probability() < self.min_probability }
    }

    /// What of the rules cannot be honoured with this calibration, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// A share as percent, with the digits it has: 0.9 gives 90, 0.999 gives 99.9.
pub fn percent(share: f64) -> f64 {
    (1e9 * share).round() / 1e7
}

/// A labelled example near a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbour {
    /// Its place among the examples.
    pub index: usize,
    /// Its class.
    pub class: usize,
    /// The kernel value between the two, before the output scale (for the cosine kernel: the cosine of the features).
    pub kernel: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Origin;

    fn calibration(scores: Vec<f64>) -> Calibration {
        Calibration {
            origin: Origin::Validation { way: 5, shot: 1, queries: scores.len() },
            temperature: 1.0,
            novelty: scores.iter().map(|s| s - 3.0).collect(),
            set_scores: scores,
            held_out: None,
        }
    }

    fn answer(p: [f64; 3], novelty: f64) -> Answer {
        Answer { label: 0, probabilities: p.to_vec(), entropy: 0.0, latent_variance: 0.0, novelty }
    }

    #[test]
    fn sets_and_none_of_these_follow_the_calibration() {
        // Scores 0.01 to 0.99: the 90th of 99 is 0.90, so classes with p >= 0.1 are in.
        let calibration = calibration((1..100).map(|i| f64::from(i) / 100.0).collect());
        let ruling = Ruling::new(&Rules::default(), &calibration).unwrap();
        assert!(ruling.notes().is_empty());
        let sure = ruling.decide(&answer([0.85, 0.11, 0.04], -3.0));
        assert_eq!((sure.set, sure.none_of_these), (vec![0, 1], false));
        // Scores up to 0.09: only p >= 0.91 is in, and yet a set is never empty.
        let easy = self::calibration((1..100).map(|i| f64::from(i) / 1000.0).collect());
        let of_easy = Ruling::new(&Rules::default(), &easy).unwrap();
        assert_eq!(of_easy.decide(&answer([0.8, 0.1, 0.1], -3.0)).set, [0]);
        // The 95th novelty is -2.05.
        assert!(!ruling.decide(&answer([0.8, 0.1, 0.1], -2.0501)).none_of_these);
        assert!(ruling.decide(&answer([0.8, 0.1, 0.1], -2.0499)).none_of_these);
        let rules = Rules { abstain: None, min_probability: 0.9, ..Rules::default() };
        let ruling = Ruling::new(&rules, &calibration).unwrap();
        assert!(ruling.decide(&answer([0.8, 0.1, 0.1], -9.0)).none_of_these);
        assert!(!ruling.decide(&answer([0.91, 0.05, 0.04], 9.0)).none_of_these);
    }

    #[test]
    fn what_cannot_be_promised_is_said() {
        let few = Ruling::new(&Rules::default(), &calibration(vec![0.1; 5])).unwrap();
        assert_eq!(few.notes().len(), 2);
        assert_eq!(few.decide(&answer([1.0, 0.0, 0.0], 99.0)).set, [0, 1, 2]);
        for bad in
            [Rules { level: 1.0, ..Rules::default() }, Rules { abstain: Some(0.0), ..Rules::default() }]
        {
            assert!(Ruling::new(&bad, &calibration(vec![0.1; 5])).is_err());
        }
    }
}
