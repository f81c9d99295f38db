//! What the card of a model says: measured on the validation and test classes of its run.

use rayon::prelude::*;
use siskin_adapt::unequal::{MIXED, balance_power};
use siskin_adapt::{
    Card, FeatureFacts, Look, Looks, Measured, Model, ShapeFacts, TestFacts, ValidationEpisode, feature_facts,
};
use siskin_calib::{PAPER_BINS, Reliability, mean_interval95};
use siskin_data::{Episode, EpisodeClass, EpisodeSpec, Items, ShortClasses, Split, SplitName};
use siskin_methods::{Features, select};
use siskin_train::calibration::calibrate;
use siskin_train::under_test::ModelUnderTest;
use siskin_train::{evaluate, protocol};
use std::collections::HashMap;

/// Shapes of tasks that a card speaks of: classes, labelled images of each.
pub(crate) const SHAPES: [(usize, usize); 13] = [
    (2, 1),
    (2, 5),
    (3, 1),
    (3, 3),
    (5, 1),
    (5, 2),
    (5, 3),
    (5, 5),
    (10, 1),
    (10, 3),
    (10, 5),
    (20, 1),
    (20, 5),
];
/// The one that has no say in the temperature: it came later, and answers of models that are measured anew shall stay as they were.
const LATER: (usize, usize) = (20, 5);
/// Validation queries of each shape, at least: half of them to choose by, half to measure.
const ENOUGH_QUERIES: usize = 4_000;
/// Queries of each class in them.
const QUERIES: usize = 5;
/// Classes in them that are not among the episode's: for "none of these".
const STRANGERS: usize = 5;
/// Training images that the card tells the looks and the features of, at most.
const LOOKED_AT: usize = 2_000;
/// Episodes by which the power of the balance is chosen.
const UNEQUAL: usize = 100;
/// Seed of these episodes.
const SEED: u64 = 0x6361_7264;

/// The card of `model`, measured on the data of its run; with `keep_test` its figures of test classes stay. `progress` is told what is being done.
pub(crate) fn measure(
    run: &ModelUnderTest,
    model: &Model,
    (name, keep_test): (&str, bool),
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Card> {
    let features = training_features(run)?;
    let (mut measured, mut later) = (Vec::new(), Vec::new());
    for (way, shot) in SHAPES {
        match of_shape(run, model, (way, shot), features.as_ref())? {
            Some(shape) if (way, shot) == LATER => later.push(shape),
            Some(shape) => measured.push(shape),
            None => progress(&too_few(run, SplitName::Val, (way, shot))),
        }
    }
    let temperature = Measured::temperature(&measured);
    progress(&format!("temperature of all shapes: {temperature:.3}"));
    let validation = measured.iter().chain(&later).map(|shape| shape.facts(temperature));
    let validation = validation.collect::<siskin_adapt::Result<Vec<ShapeFacts>>>()?;
    validation.iter().for_each(|shape| progress(&sentence(shape)));
    let balance = balance(run, model)?;
    progress(&balance.map_or("unequal numbers of examples: not measured".into(), |power| {
        format!("unequal numbers of examples: probabilities are divided by their power {power}")
    }));
    let test = match keep_test {
        true => model.card()?.test.clone(),
        false => {
            progress("measuring on test classes");
            Some(test_facts(run)?)
        }
    };
    let looks = training_looks(run)?;
    Ok(Card {
        name: name.into(),
        temperature,
        balance,
        validation,
        test,
        looks,
        features,
        ..model.card()?.clone()
    })
}

fn sentence(shape: &ShapeFacts) -> String {
    let ShapeFacts { way, shot, queries, novelty, .. } = shape;
    // 199 scores are kept: the 190th has 5 % of the members above it.
    let limit = novelty.members.get(189).copied().unwrap_or(f64::INFINITY);
    let found = novelty.strangers.iter().filter(|s| **s > limit).count() as f64;
    format!(
        "{way} classes, {shot} each: \"none of these\" by {}, AUROC {:.3}, {:.0} % of strangers at 5 % false alarms \
         ({queries} queries)",
        novelty.name,
        novelty.auroc,
        100.0 * found / novelty.strangers.len().max(1) as f64,
    )
}

/// Why tasks of a shape cannot be made of a split.
pub(crate) fn too_few(run: &ModelUnderTest, name: SplitName, (way, shot): (usize, usize)) -> String {
    let has = enough(run.data.split(name), shot);
    let needs = way + STRANGERS;
    let examples = if shot == 1 { "1 example".into() } else { format!("{shot} examples") };
    format!(
        "{way} classes, {examples} each: not measured. It takes {needs} classes ({way}, and {STRANGERS} others as strangers) \
         with more than {examples} each; the {} split has {has}",
        name.as_str()
    )
}

/// Classes that have an image left to ask about.
fn enough(split: &Split, shot: usize) -> usize {
    split.classes.iter().filter(|members| members.items.len() > shot).count()
}

/// The power by which numbers of examples are taken out of probabilities; `None` if there are too few classes or images to tell.
fn balance(run: &ModelUnderTest, model: &Model) -> anyhow::Result<Option<f64>> {
    let shape = (MIXED.len(), MIXED[0]);
    let Some(episodes) = episodes(run, SplitName::Val, shape, (UNEQUAL, SEED))? else { return Ok(None) };
    let parts: Vec<ValidationEpisode> = episodes.into_iter().map(|(_, episode)| episode).collect();
    Ok(Some(balance_power(&model.process()?, &parts)?))
}

/// The support or the query items of a class.
type ItemsOf = fn(&EpisodeClass) -> &[usize];

/// Predictions on validation episodes of one shape; `None` if there are too few classes or images.
pub(crate) fn of_shape(
    run: &ModelUnderTest,
    model: &Model,
    (way, shot): (usize, usize),
    features: Option<&FeatureFacts>,
) -> anyhow::Result<Option<Measured>> {
    let count = ENOUGH_QUERIES.div_ceil(way * QUERIES);
    let Some(episodes) = episodes(run, SplitName::Val, (way, shot), (count, SEED))? else { return Ok(None) };
    let parts: Vec<ValidationEpisode> = episodes.into_iter().map(|(_, episode)| episode).collect();
    Ok(Some(Measured::new(&model.process()?, (way, shot), &parts, features)?))
}

/// An episode with the items of its support.
pub(crate) type WithItems = (Vec<usize>, ValidationEpisode);

/// Episodes of a split, with strangers; `None` if there are too few classes or images.
pub(crate) fn episodes(
    run: &ModelUnderTest,
    name: SplitName,
    (way, shot): (usize, usize),
    (count, seed): (usize, u64),
) -> anyhow::Result<Option<Vec<WithItems>>> {
    let split = run.data.split(name);
    if enough(split, shot) < way + STRANGERS {
        return Ok(None);
    }
    let spec = EpisodeSpec {
        short_classes: ShortClasses::FewerQueries,
        ..EpisodeSpec::fixed(way + STRANGERS, shot, QUERIES)
    };
    let episodes = run.data.episodes(name, spec, seed, count as u64)?;
    let mut items: Vec<usize> = episodes.iter().flat_map(Episode::items).collect();
    items.sort_unstable();
    items.dedup();
    let features =
        evaluate::embed(run.method.as_ref(), split, &run.data.test_transform, &items)?.into_features()?;
    let row_of: HashMap<usize, usize> = items.iter().enumerate().map(|(row, item)| (*item, row)).collect();
    let items = |classes: &[EpisodeClass], of: ItemsOf| -> Vec<usize> {
        classes.iter().flat_map(|class| of(class).iter().copied()).collect()
    };
    let rows = |classes: &[EpisodeClass], of: ItemsOf| -> Features {
        select(&features, &items(classes, of).iter().map(|item| row_of[item]).collect::<Vec<_>>())
    };
    let labels = |classes: &[EpisodeClass], of: ItemsOf| -> Vec<usize> {
        classes.iter().enumerate().flat_map(|(c, class)| std::iter::repeat_n(c, of(class).len())).collect()
    };
    let (support, query): (ItemsOf, ItemsOf) = (|class| &class.support, |class| &class.query);
    let parts = episodes.iter().map(|episode| {
        let (known, others) = episode.classes.split_at(way);
        let parts = ValidationEpisode {
            support: rows(known, support),
            labels: labels(known, support),
            queries: rows(known, query),
            truth: labels(known, query),
            strangers: rows(others, query),
        };
        (items(known, support), parts)
    });
    Ok(Some(parts.collect()))
}

/// What the training images look like, by a part of them spread over all classes.
fn training_looks(run: &ModelUnderTest) -> anyhow::Result<Option<Looks>> {
    let split = run.data.seen(SplitName::Train);
    let Items::Images(data) = &split.items else { return Ok(None) };
    let looks = spread(split).into_par_iter().map(|item| Ok(Look::of(&data.image(item)?)));
    Ok(Looks::of(&looks.collect::<siskin_data::Result<Vec<Look>>>()?))
}

/// Some items of a split, from all its classes.
fn spread(split: &Split) -> Vec<usize> {
    let items: Vec<usize> = split.classes.iter().flat_map(|class| class.items.iter().copied()).collect();
    items.iter().copied().step_by(items.len().div_ceil(LOOKED_AT).max(1)).collect()
}

/// Where the features of the training images lie, by a part of them.
fn training_features(run: &ModelUnderTest) -> anyhow::Result<Option<FeatureFacts>> {
    let split = run.data.split(SplitName::Train);
    let rows = evaluate::embed(run.method.as_ref(), split, &run.data.test_transform, &spread(split))?;
    Ok(feature_facts(&rows.into_features()?))
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
