//! From a run to a model that can be shipped: its weights with a card of what was measured.

use crate::answer::{answers, novelty};
use crate::calibration::of_shape;
use crate::card::{Card, ShapeCalibration, TestFacts};
use crate::error::Result;
use crate::head::{Head, Raw};
use crate::look::{Look, Looks};
use crate::model::Model;
use rayon::prelude::*;
use siskin_calib::{Optimum, PAPER_BINS, Reliability, auroc, latent_variance, mean_interval95};
use siskin_data::{Episode, EpisodeSpec, Items, Opener, ShortClasses, SplitName};
use siskin_methods::{Features, select};
use siskin_train::calibration::calibrate;
use siskin_train::evaluate;
use siskin_train::run::Model as TrainedModel;
use siskin_train::testing;
use std::collections::HashMap;
use std::path::Path;

/// Shapes of tasks that a card has calibrations for: classes, labelled images of each.
pub const SHAPES: [(usize, usize); 12] =
    [(2, 1), (2, 5), (3, 1), (3, 3), (5, 1), (5, 2), (5, 3), (5, 5), (10, 1), (10, 3), (10, 5), (20, 1)];
/// Validation queries of each shape, at least.
const ENOUGH_QUERIES: usize = 2_000;
/// Queries of each class in them.
const QUERIES: usize = 5;
/// Classes in them that are not among the episode's: for "none of these".
const OUTSIDE: usize = 5;
/// Training images that the card tells the looks of, at most.
const LOOKED_AT: usize = 2_000;
/// Seed of these episodes.
const SEED: u64 = 0x6361_7264;

/// The model of a run folder, with a card made from its validation and test classes. `settings` change the test, e.g.
/// `test.batches=1`; `progress` is told what is being done.
pub fn from_run(
    run: &Path,
    name: &str,
    settings: &[String],
    opener: &Opener<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Model> {
    let trained = TrainedModel::open(run, settings, opener)?;
    let model = Model::open(&run.display().to_string())?;
    let mut validation = Vec::new();
    for (way, shot) in SHAPES {
        let Some(raw) = measure(&trained, &model, way, shot)? else {
            progress(&format!("{way} classes, {shot} examples each: the validation classes do not suffice"));
            continue;
        };
        let shape = of_shape(way, shot, &raw.inside, &raw.labels, &raw.outside)?;
        if shape.temperature.optimum != Optimum::Interior {
            // Without a mistake among the queries the least NLL is at certainty, which nobody should promise.
            progress(&format!(
                "{way} classes, {shot} each: no temperature is best on the validation classes; left out"
            ));
            continue;
        }
        progress(&said(&shape));
        validation.push(shape);
    }
    progress("measuring on test classes");
    let test = test_facts(&trained)?;
    let looks = training_looks(&trained);
    let card = Card { name: name.into(), validation, test: Some(test), looks, ..model.card().clone() };
    Ok(model.with_card(card))
}

fn said(shape: &ShapeCalibration) -> String {
    format!(
        "{} classes, {} each: temperature {:.3}, \"none of these\" AUROC {:.3} ({} queries)",
        shape.way, shape.shot, shape.temperature.value, shape.novelty_auroc, shape.queries
    )
}

/// Raw predictions of validation queries: of the episodes' classes, and of others.
pub(crate) struct Measured {
    pub inside: Raw,
    pub labels: Vec<usize>,
    pub outside: Raw,
}

/// Predictions on validation episodes of one shape; `None` if there are too few classes or images.
pub(crate) fn measure(
    trained: &TrainedModel,
    model: &Model,
    way: usize,
    shot: usize,
) -> Result<Option<Measured>> {
    let split = trained.data.split(SplitName::Val);
    let spec = EpisodeSpec {
        short_classes: ShortClasses::FewerQueries,
        ..EpisodeSpec::fixed(way + OUTSIDE, shot, QUERIES)
    };
    let suffices = split.classes.iter().filter(|m| m.items.len() > shot).count() >= way + OUTSIDE;
    if !suffices {
        return Ok(None);
    }
    let count = ENOUGH_QUERIES.div_ceil(way * QUERIES) as u64;
    let episodes = trained.data.episodes(SplitName::Val, spec, SEED, count)?;
    let mut items: Vec<usize> = episodes.iter().flat_map(Episode::items).collect();
    items.sort_unstable();
    items.dedup();
    let features = evaluate::embed(model.method(), split, &trained.data.test_transform, &items)?;
    let row_of: HashMap<usize, usize> = items.iter().enumerate().map(|(row, item)| (*item, row)).collect();
    let parts = episodes.par_iter().map(|episode| {
        let rows = |items: &mut dyn Iterator<Item = usize>| -> Features {
            select(&features, &items.map(|item| row_of[&item]).collect::<Vec<_>>())
        };
        let (known, others) = episode.classes.split_at(way);
        let labelled = |of: &dyn Fn(&siskin_data::EpisodeClass) -> usize| -> Vec<usize> {
            known.iter().enumerate().flat_map(|(c, class)| std::iter::repeat_n(c, of(class))).collect()
        };
        let support = rows(&mut known.iter().flat_map(|c| c.support.iter().copied()));
        let head = Head::fit_network(&support, &labelled(&|c| c.support.len()), way, model.head())?;
        let inside = head.predict(&rows(&mut known.iter().flat_map(|c| c.query.iter().copied())))?;
        let outside = head.predict(&rows(&mut others.iter().flat_map(|c| c.query.iter().copied())))?;
        Ok((inside, labelled(&|c| c.query.len()), outside))
    });
    let mut all = Measured { inside: Raw::empty(), labels: Vec::new(), outside: Raw::empty() };
    for (inside, labels, outside) in parts.collect::<Result<Vec<_>>>()? {
        all.inside.extend(inside);
        all.outside.extend(outside);
        all.labels.extend(labels);
    }
    Ok(Some(all))
}

/// What the training images look like, by a part of them spread over all classes.
fn training_looks(trained: &TrainedModel) -> Option<Looks> {
    let split = trained.data.split(SplitName::Train);
    let Items::Images(data) = &split.items else { return None };
    let items: Vec<usize> = split.classes.iter().flat_map(|class| class.items.iter().copied()).collect();
    let step = items.len().div_ceil(LOOKED_AT).max(1);
    let looks: Vec<Look> = items.par_iter().step_by(step).map(|&item| Look::of(&data.image(item))).collect();
    Looks::of(&looks)
}

/// Accuracy and calibration by the run's test protocol.
fn test_facts(trained: &TrainedModel) -> Result<TestFacts> {
    let validation = testing::answers(trained, SplitName::Val, 1)?;
    let test = testing::answers(trained, SplitName::Test, trained.config.test.batches)?;
    let found = calibrate(&validation, &test, false)?;
    let accuracies: Vec<f64> = test.iter().map(|a| a.accuracy()).collect();
    Ok(TestFacts {
        way: trained.config.test.way.unwrap_or(trained.config.episode.way),
        shot: trained.config.test.shot.unwrap_or(trained.config.episode.shot),
        episodes: test.len(),
        accuracy: mean_interval95(&accuracies)?,
        raw: found.measures.raw,
        tuned: found.measures.tuned,
        temperature: found.measures.temperature.value,
        raw_bins: Reliability::new(&found.raw, PAPER_BINS)?.bins,
        tuned_bins: Reliability::new(&found.tuned, PAPER_BINS)?.bins,
    })
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

/// Scores that could say "none of these", for one shape of tasks.
pub fn compare_novelty(
    run: &Path,
    (way, shot): (usize, usize),
    opener: &Opener<'_>,
) -> Result<Option<Vec<NoveltyScore>>> {
    let trained = TrainedModel::open(run, &[], opener)?;
    let model = Model::open(&run.display().to_string())?;
    let Some(Measured { inside, outside, .. }) = measure(&trained, &model, way, shot)? else {
        return Ok(None);
    };
    type Score = fn(&Raw, usize) -> Result<Vec<f64>>;
    let scores: [(&str, Score); 5] = [
        ("1 - largest similarity", |raw, _| Ok(novelty(raw))),
        ("minus the largest latent mean", |raw, way| {
            Ok(raw
                .mean
                .chunks_exact(way)
                .map(|m| -m.iter().copied().fold(f64::NEG_INFINITY, f64::max))
                .collect())
        }),
        ("1 - largest probability", |raw, way| {
            Ok(answers(raw, way, 1.0)?.iter().map(|a| 1.0 - a.probability()).collect())
        }),
        ("entropy", |raw, way| Ok(answers(raw, way, 1.0)?.iter().map(|a| a.entropy).collect())),
        ("mean latent variance", |raw, way| Ok(latent_variance(&raw.variance, way)?)),
    ];
    let table = scores.map(|(name, score)| {
        let (mut inside, outside) = (score(&inside, way)?, score(&outside, way)?);
        inside.sort_by(f64::total_cmp);
        Ok(NoveltyScore { name, auroc: auroc(&inside, &outside)?, limit: inside[inside.len() * 95 / 100] })
    });
    Ok(Some(table.into_iter().collect::<Result<Vec<_>>>()?))
}
