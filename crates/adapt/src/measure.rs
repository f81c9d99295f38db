//! What validation episodes of one shape say of a model: the temperature, sets and "none of these" that its card keeps for tasks
//! of that shape.

use crate::calibration::{Found, fit, thinned};
use crate::error::Result;
use crate::fitted::{Fitted, Raw};
use crate::none_of_these::novelty;
use rayon::prelude::*;
use siskin_calib::{Probabilities, auroc, entropy, latent_variance, top};
use siskin_methods::{Features, GaussianProcess};
use siskin_model::ShapeCalibration;

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

/// Predictions on validation episodes of one shape.
pub struct Measured {
    way: usize,
    shot: usize,
    inside: Raw,
    truth: Vec<usize>,
    outside: Raw,
}

impl Measured {
    /// Of episodes with `way` classes and `shot` examples of each.
    pub fn new(
        process: &GaussianProcess,
        way: usize,
        shot: usize,
        episodes: &[ValidationEpisode],
    ) -> Result<Measured> {
        let parts = episodes.par_iter().map(|episode| {
            let fitted = Fitted::fit_network(&episode.support, &episode.labels, way, process)?;
            Ok((fitted.predict(&episode.queries)?, fitted.predict(&episode.strangers)?))
        });
        let (mut inside, mut outside) = (Raw::empty(), Raw::empty());
        for (queries, strangers) in parts.collect::<Result<Vec<_>>>()? {
            inside.extend(queries);
            outside.extend(strangers);
        }
        let truth = episodes.iter().flat_map(|episode| episode.truth.iter().copied()).collect();
        Ok(Measured { way, shot, inside, truth, outside })
    }

    /// What the card keeps.
    pub fn calibration(&self) -> Result<ShapeCalibration> {
        let Found { temperature, set_scores, .. } = fit(&self.inside, &self.truth, self.way)?;
        let (inside, outside) = (novelty(&self.inside), novelty(&self.outside));
        Ok(ShapeCalibration {
            way: self.way,
            shot: self.shot,
            queries: self.truth.len(),
            temperature,
            set_scores,
            novelty_auroc: auroc(&inside, &outside)?,
            novelty: thinned(inside),
        })
    }

    /// Scores that could say "none of these", compared. The first is the one in use.
    pub fn novelty_scores(&self) -> Result<Vec<NoveltyScore>> {
        type Score = fn(&Raw, usize) -> Result<Vec<f64>>;
        let scores: [(&str, Score); 5] = [
            ("1 - largest similarity", |raw, _| Ok(novelty(raw))),
            ("minus the largest latent mean", |raw, way| {
                let largest = |means: &[f64]| means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                Ok(raw.mean.chunks_exact(way).map(|means| -largest(means)).collect())
            }),
            ("1 - largest probability", |raw, way| {
                Ok(raw.probabilities.chunks_exact(way).map(|row| 1.0 - top(row).1).collect())
            }),
            ("entropy", |raw, way| Ok(entropy(&Probabilities::new(raw.probabilities.clone(), way)?))),
            ("mean latent variance", |raw, way| Ok(latent_variance(&raw.variance, way)?)),
        ];
        let table = scores.map(|(name, score)| {
            let (mut inside, outside) = (score(&self.inside, self.way)?, score(&self.outside, self.way)?);
            inside.sort_by(f64::total_cmp);
            let limit = inside[inside.len() * 95 / 100];
            Ok(NoveltyScore { name, auroc: auroc(&inside, &outside)?, limit })
        });
        table.into_iter().collect()
    }
}

/// A score that could say "none of these", measured on validation episodes of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct NoveltyScore {
    /// What it is.
    pub name: &'static str,
    /// How well it tells queries of other classes from those of the episode's: area under the ROC curve.
    pub auroc: f64,
    /// What 95 % of the queries of the episode's classes stay below. A score whose limit is the same for every shape of
    /// tasks can be trusted for shapes that were not measured.
    pub limit: f64,
}
