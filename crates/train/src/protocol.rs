//! The test protocol: batches of episodes, each with its own seed, the same for every method.

use crate::episodes::test_spec;
use crate::error::{Result, io};
use crate::evaluate::{Answer, evaluate};
use crate::under_test::ModelUnderTest;
use serde::{Deserialize, Serialize};
use siskin_calib::{MeanSpread, mean_interval95, mean_std};
use siskin_data::{Episode, EpisodeSpec, SplitName};
use siskin_methods::Purpose;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Accuracy by the paper's protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestReport {
    /// The shape of the episodes.
    pub episode: EpisodeSpec,
    /// Number of episodes.
    pub episodes: usize,
    /// Mean accuracy of each batch.
    pub batches: Vec<f64>,
    /// Mean and standard deviation over the batches: what the paper reports.
    pub over_batches: MeanSpread,
    /// Mean and 95 % interval over all episodes.
    pub over_episodes: MeanSpread,
    /// Training episodes the model has seen.
    pub trained_episodes: u64,
}

impl TestReport {
    /// What was asked, in a line: `5-way 1-shot, 15 queries a class, 3000 episodes in 5 batches`.
    pub fn protocol(&self) -> String {
        let (spec, episodes) = (&self.episode, self.episodes);
        let several = match self.batches.len() {
            1 => String::new(),
            count => format!(" in {count} batches"),
        };
        let (way, shot) = (spec.way.max(), spec.shot.max());
        format!("{way}-way {shot}-shot, {} queries a class, {episodes} episodes{several}", spec.query)
    }
}

/// `batches` batches of the config's test episodes from `split`. Batch `b` has seed `b`.
pub fn episodes(model: &ModelUnderTest, split: SplitName, batches: u64) -> Result<Vec<Episode>> {
    let (spec, count) = (test_spec(&model.config), model.config.test.episodes);
    let mut episodes = Vec::new();
    for batch in 0..batches {
        episodes.extend(model.data.episodes(split, spec.clone(), batch, count)?);
    }
    Ok(episodes)
}

/// Answers to these episodes.
pub fn answers(model: &ModelUnderTest, split: SplitName, batches: u64) -> Result<Vec<Answer>> {
    let episodes = episodes(model, split, batches)?;
    let (method, split) = (model.method.as_ref(), model.data.split(split));
    evaluate(method, split, &model.data.test_transform, &episodes, Purpose::Test, &AtomicBool::new(false))
}

/// The report of test answers.
pub fn report(model: &ModelUnderTest, answers: &[Answer]) -> Result<TestReport> {
    let accuracies: Vec<f64> = answers.iter().map(Answer::accuracy).collect();
    let batches: Vec<f64> = accuracies
        .chunks(model.config.test.episodes as usize)
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    Ok(TestReport {
        episode: test_spec(&model.config),
        episodes: answers.len(),
        over_batches: mean_std(&batches)?,
        over_episodes: mean_interval95(&accuracies)?,
        batches,
        trained_episodes: model.episodes,
    })
}

/// One line of JSON an episode: its batch, number and accuracy.
pub fn write_episodes(path: &Path, answers: &[Answer], episodes_per_batch: u64) -> Result<()> {
    let mut text = Vec::new();
    for (index, answer) in (0u64..).zip(answers) {
        let line = serde_json::json!({
            "batch": index / episodes_per_batch,
            "episode": index % episodes_per_batch,
            "accuracy": answer.accuracy(),
            "queries": answer.labels.len(),
        });
        writeln!(text, "{line}").map_err(io("write", path))?;
    }
    Ok(crate::atomic::write(path, &text)?)
}
