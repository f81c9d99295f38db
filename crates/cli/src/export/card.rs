//! What the card of a model says: measured on the validation and test classes of its run.

use rayon::prelude::*;
use siskin_adapt::{Card, Look, Looks, Measured, Model, ShapeCalibration, TestFacts, ValidationEpisode};
use siskin_calib::{Optimum, PAPER_BINS, Reliability, mean_interval95};
use siskin_data::{Episode, EpisodeClass, EpisodeSpec, Items, ShortClasses, SplitName};
use siskin_methods::{Features, select};
use siskin_train::calibration::calibrate;
use siskin_train::under_test::ModelUnderTest;
use siskin_train::{evaluate, protocol};
use std::collections::HashMap;

/// Shapes of tasks that a card has calibrations for: classes, labelled images of each.
pub const SHAPES: [(usize, usize); 12] =
    [(2, 1), (2, 5), (3, 1), (3, 3), (5, 1), (5, 2), (5, 3), (5, 5), (10, 1), (10, 3), (10, 5), (20, 1)];
/// Validation queries of each shape, at least.
const ENOUGH_QUERIES: usize = 2_000;
/// Queries of each class in them.
const QUERIES: usize = 5;
/// Classes in them that are not among the episode's: for "none of these".
const STRANGERS: usize = 5;
/// Training images that the card tells the looks of, at most.
const LOOKED_AT: usize = 2_000;
/// Seed of these episodes.
const SEED: u64 = 0x6361_7264;

/// The card of `model`, measured on the data of its run. `progress` is told what is being done.
pub fn measure(
    run: &ModelUnderTest,
    model: &Model,
    name: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Card> {
    let mut validation = Vec::new();
    for (way, shot) in SHAPES {
        let Some(measured) = of_shape(run, model, way, shot)? else {
            progress(&format!("{way} classes, {shot} examples each: the validation classes do not suffice"));
            continue;
        };
        let shape = measured.calibration()?;
        if shape.temperature.optimum != Optimum::Interior {
            // Without a mistake among the queries the least NLL is at certainty, which nobody should promise.
            progress(&format!(
                "{way} classes, {shot} each: no temperature is best on the validation classes; left out"
            ));
            continue;
        }
        progress(&sentence(&shape));
        validation.push(shape);
    }
    progress("measuring on test classes");
    let (test, looks) = (Some(test_facts(run)?), training_looks(run)?);
    Ok(Card { name: name.into(), validation, test, looks, ..model.card().clone() })
}

fn sentence(shape: &ShapeCalibration) -> String {
    format!(
        "{} classes, {} each: temperature {:.3}, \"none of these\" AUROC {:.3} ({} queries)",
        shape.way, shape.shot, shape.temperature.value, shape.novelty_auroc, shape.queries
    )
}

/// The support or the query items of a class.
type ItemsOf = fn(&EpisodeClass) -> &[usize];

/// Predictions on validation episodes of one shape; `None` if there are too few classes or images.
pub fn of_shape(
    run: &ModelUnderTest,
    model: &Model,
    way: usize,
    shot: usize,
) -> anyhow::Result<Option<Measured>> {
    let split = run.data.split(SplitName::Val);
    if split.classes.iter().filter(|m| m.items.len() > shot).count() < way + STRANGERS {
        return Ok(None);
    }
    let spec = EpisodeSpec {
        short_classes: ShortClasses::FewerQueries,
        ..EpisodeSpec::fixed(way + STRANGERS, shot, QUERIES)
    };
    let count = ENOUGH_QUERIES.div_ceil(way * QUERIES) as u64;
    let episodes = run.data.episodes(SplitName::Val, spec, SEED, count)?;
    let mut items: Vec<usize> = episodes.iter().flat_map(Episode::items).collect();
    items.sort_unstable();
    items.dedup();
    let features =
        evaluate::embed(run.method.as_ref(), split, &run.data.test_transform, &items)?.into_features()?;
    let row_of: HashMap<usize, usize> = items.iter().enumerate().map(|(row, item)| (*item, row)).collect();
    let rows = |classes: &[EpisodeClass], of: ItemsOf| -> Features {
        let items = classes.iter().flat_map(|class| of(class).iter().map(|item| row_of[item]));
        select(&features, &items.collect::<Vec<_>>())
    };
    let labels = |classes: &[EpisodeClass], of: ItemsOf| -> Vec<usize> {
        classes.iter().enumerate().flat_map(|(c, class)| std::iter::repeat_n(c, of(class).len())).collect()
    };
    let (support, query): (ItemsOf, ItemsOf) = (|class| &class.support, |class| &class.query);
    let parts = episodes.iter().map(|episode| {
        let (known, others) = episode.classes.split_at(way);
        ValidationEpisode {
            support: rows(known, support),
            labels: labels(known, support),
            queries: rows(known, query),
            truth: labels(known, query),
            strangers: rows(others, query),
        }
    });
    let parts: Vec<ValidationEpisode> = parts.collect();
    Ok(Some(Measured::new(&model.process()?, way, shot, &parts)?))
}

/// What the training images look like, by a part of them spread over all classes.
fn training_looks(run: &ModelUnderTest) -> anyhow::Result<Option<Looks>> {
    let split = run.data.split(SplitName::Train);
    let Items::Images(data) = &split.items else { return Ok(None) };
    let items: Vec<usize> = split.classes.iter().flat_map(|class| class.items.iter().copied()).collect();
    let step = items.len().div_ceil(LOOKED_AT).max(1);
    let looks = items.par_iter().step_by(step).map(|&item| Ok(Look::of(&data.image(item)?)));
    Ok(Looks::of(&looks.collect::<siskin_data::Result<Vec<Look>>>()?))
}

/// Accuracy and calibration by the run's test protocol.
fn test_facts(run: &ModelUnderTest) -> anyhow::Result<TestFacts> {
    let validation = protocol::answers(run, SplitName::Val, 1)?;
    let test = protocol::answers(run, SplitName::Test, run.config.test.groups)?;
    let found = calibrate(&validation, &test, false)?;
    let accuracies: Vec<f64> = test.iter().map(|a| a.accuracy()).collect();
    Ok(TestFacts {
        way: run.config.test.way.unwrap_or(run.config.episode.way),
        shot: run.config.test.shot.unwrap_or(run.config.episode.shot),
        episodes: test.len(),
        accuracy: mean_interval95(&accuracies)?,
        raw: found.measures.raw,
        tuned: found.measures.tuned,
        temperature: found.measures.temperature.value,
        raw_bins: Reliability::new(&found.raw, PAPER_BINS)?.bins,
        tuned_bins: Reliability::new(&found.tuned, PAPER_BINS)?.bins,
    })
}
