//! What validation episodes of one shape say of a model: what its card keeps for sets and "none of these" in tasks of that shape.

use crate::balance::UNMEASURED;
use crate::calibration::thinned;
use crate::error::Result;
use crate::fitted::{Fitted, Raw};
use crate::held_out::held_out;
use crate::none_of_these::novelty::{Both, NoveltyScore, compare, named};
use crate::none_of_these::strangeness::{Facts, score};
use crate::sets;
use crate::shift::{most_shift, shift};
use crate::tempering::{Known, common};
use rayon::prelude::*;
use siskin_calib::{Predictions, accuracy, auroc};
use siskin_methods::{Features, GaussianProcess};
use siskin_model::{FeatureFacts, LeftOutFacts, NoveltyFacts, ShapeFacts};
use std::sync::atomic::AtomicBool;

/// Labelled examples, queries of their classes, and queries of other classes.
pub struct ValidationEpisode {
    /// Features of the examples.
    pub support: Features,
    /// Their classes.
    pub labels: Vec<usize>,
    /// Features of queries of these classes.
    pub queries: Features,
    /// Their classes.
    pub truth: Vec<usize>,
    /// Features of queries of other classes.
    pub strangers: Features,
}

/// Predictions on validation episodes of one shape: a first half to choose by, a second one to measure what was chosen.
pub struct Measured {
    way: usize,
    shot: usize,
    shifts: Vec<f64>,
    chosen_by: Part,
    measured_by: Part,
}

/// Predictions on some episodes.
struct Part {
    inside: Raw,
    truth: Vec<usize>,
    outside: Raw,
    left_out: Raw,
    left_out_truth: Vec<usize>,
}

impl Part {
    fn new(process: &GaussianProcess, way: usize, episodes: &[ValidationEpisode]) -> Result<Part> {
        let parts = episodes.par_iter().map(|episode| {
            // Equal numbers of examples: the power plays no part.
            let (labelled, head) = ((episode.labels.as_slice(), way), (process, UNMEASURED));
            let never = AtomicBool::new(false);
            let fitted = Fitted::fit_network(&episode.support, labelled, head, &never)?;
            let held = held_out(&fitted, &episode.labels, way, &never)?;
            Ok((fitted.predict(&episode.queries)?, fitted.predict(&episode.strangers)?, held))
        });
        let empty = Raw::empty;
        let truth = episodes.iter().flat_map(|episode| episode.truth.iter().copied()).collect();
        let mut all =
            Part { inside: empty(), truth, outside: empty(), left_out: empty(), left_out_truth: vec![] };
        for (queries, strangers, held) in parts.collect::<Result<Vec<_>>>()? {
            all.inside.extend(queries);
            all.outside.extend(strangers);
            if let Some(held) = held {
                all.left_out.extend(held.raw);
                all.left_out_truth.extend(held.labels);
            }
        }
        Ok(all)
    }

    fn both(&self) -> Both<'_> {
        Both { members: &self.inside.facts, strangers: &self.outside.facts }
    }
}

impl Measured {
    /// Of episodes with `way` classes and `shot` examples of each; at least two episodes. `features`: those of training images.
    pub fn new(
        process: &GaussianProcess,
        (way, shot): (usize, usize),
        episodes: &[ValidationEpisode],
        features: Option<&FeatureFacts>,
    ) -> Result<Measured> {
        let (first, second) = episodes.split_at(episodes.len() / 2);
        let (chosen_by, measured_by) = (Part::new(process, way, first)?, Part::new(process, way, second)?);
        let shifts = features.map(|facts| {
            let of = |episode: &ValidationEpisode| shift(facts, &episode.support, &episode.labels);
            episodes.iter().filter_map(of).collect()
        });
        Ok(Measured { way, shot, shifts: shifts.unwrap_or_default(), chosen_by, measured_by })
    }

    /// One temperature for all of these shapes.
    pub fn temperature(shapes: &[Measured]) -> f64 {
        let known = shapes.iter().map(|shape| {
            let Part { inside, truth, .. } = &shape.chosen_by;
            Known { probabilities: &inside.probabilities, labels: truth, classes: shape.way }
        });
        common(&known.collect::<Vec<_>>())
    }

    /// What the card keeps, with the probabilities at this temperature.
    pub fn facts(&self, temperature: f64) -> Result<ShapeFacts> {
        let part = &self.measured_by;
        let tuned = |raw: &Raw, labels: &[usize]| -> Result<Predictions> {
            let known = Known { probabilities: &raw.probabilities, labels, classes: self.way };
            Ok(Predictions::new(known.at(temperature)?, labels.to_vec(), self.way)?)
        };
        let best = self.novelty_scores()?.swap_remove(0);
        let scores = |facts: &[Facts]| facts.iter().map(|f| score(&best.weights, f)).collect::<Vec<f64>>();
        let (members, strangers) = (scores(&part.inside.facts), scores(&part.outside.facts));
        let left_out = match part.left_out_truth.is_empty() {
            true => None,
            false => {
                let predictions = tuned(&part.left_out, &part.left_out_truth)?;
                Some(LeftOutFacts {
                    accuracy: accuracy(&predictions),
                    set_scores: thinned(sets::scores(&predictions)),
                    members: thinned(scores(&part.left_out.facts)),
                })
            }
        };
        Ok(ShapeFacts {
            way: self.way,
            shot: self.shot,
            queries: part.truth.len(),
            temperature: None,
            set_scores: thinned(sets::scores(&tuned(&part.inside, &part.truth)?)),
            left_out,
            most_shift: most_shift(&self.shifts),
            novelty: NoveltyFacts {
                name: best.name,
                weights: named(&best.weights),
                auroc: auroc(&members, &strangers)?,
                members: thinned(members),
                strangers: thinned(strangers),
            },
        })
    }

    /// Scores that could say "none of these", compared on episodes that the card is not measured on. The first is the best.
    pub fn novelty_scores(&self) -> Result<Vec<NoveltyScore>> {
        let Both { members, strangers } = self.chosen_by.both();
        let (members, strangers) =
            (members.split_at(members.len() / 2), strangers.split_at(strangers.len() / 2));
        let (fitted, judged) = (
            Both { members: members.0, strangers: strangers.0 },
            Both { members: members.1, strangers: strangers.1 },
        );
        compare(&fitted, &judged)
    }
}
