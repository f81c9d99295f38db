//! Task files of format 3: a temperature, scores of sets and of "none of these" from one source.

use crate::calibration::{LeftOut, TaskCalibration};
use crate::task_file::Header;
use serde::{Deserialize, Serialize};
use siskin_model::{NoveltyFacts, ShapeFacts};

/// The calibration of format 3.
#[derive(Serialize, Deserialize)]
pub(crate) struct Former {
    origin: Origin,
    temperature: f64,
    /// `1 - p` of the true classes, which is never less than the scores of today: sets may be wider, not narrower.
    set_scores: Vec<f64>,
    novelty: Vec<f64>,
    held_out: Option<(usize, usize)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Origin {
    HeldOut { predictions: usize, folds: usize },
    Validation { way: usize, shot: usize, queries: usize },
    Nothing { predictions: usize },
}

/// The header with the calibration of today: the same temperature, and so the same probabilities.
pub(crate) fn of_format_3(header: Header<Former>) -> Header<TaskCalibration> {
    header.with(|former| {
        let Former { origin, temperature, set_scores, novelty, held_out } = former;
        let mut known = TaskCalibration { temperature, ..TaskCalibration::nothing() };
        match origin {
            Origin::Validation { way, shot, queries } => {
                let weights = vec![("distance".into(), 1.0)];
                let name = "1 - largest similarity".into();
                let novelty =
                    NoveltyFacts { name, weights, members: novelty, strangers: Vec::new(), auroc: 0.5 };
                let left_out = None;
                let shape = ShapeFacts {
                    way,
                    shot,
                    queries,
                    temperature: None,
                    set_scores,
                    left_out,
                    most_shift: None,
                    novelty,
                };
                known.validation = Some(shape);
            }
            Origin::HeldOut { .. } | Origin::Nothing { .. } => {
                let (right, of) = held_out.unwrap_or_default();
                let expected = right as f64;
                let left_out = LeftOut { of, right, expected, variance: 0.0, set_scores, novelty };
                known.left_out = (of > 0).then_some(left_out);
            }
        }
        known
    })
}
