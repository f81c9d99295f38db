//! The test protocol: groups of episodes, each with its own seed, the same for every method.

use crate::episodes::test_spec;
use crate::error::{Result, io};
use crate::evaluate::{AnsweredEpisode, Watch, evaluate};
use crate::under_test::ModelUnderTest;
use serde::{Deserialize, Serialize};
use siskin_calib::{MeanSpread, mean_interval95, mean_std};
use siskin_data::{Episode, EpisodeSource, EpisodeSpec, SplitName};
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
    /// Mean accuracy of each group.
    #[serde(alias = "batches")]
    pub groups: Vec<f64>,
    /// Mean and standard deviation over the groups: what the paper reports.
    #[serde(alias = "over_batches")]
    pub over_groups: MeanSpread,
    /// Mean and 95 % interval over all episodes.
    pub over_episodes: MeanSpread,
    /// Training episodes the model has seen.
    pub trained_episodes: u64,
}

impl TestReport {
    /// What was asked, in a line: `5-way 1-shot, 15 queries per class, 3000 episodes in 5 groups`.
    pub fn protocol(&self) -> String {
        let (spec, episodes) = (&self.episode, self.episodes);
        let several = match self.groups.len() {
            1 => String::new(),
            count => format!(" in {count} groups"),
        };
        let (way, shot) = (spec.way, spec.shot);
        format!("{way}-way {shot}-shot, {} queries per class, {episodes} episodes{several}", spec.query)
    }
}

/// `groups` groups of the config's test episodes from `split`, group `g` with seed `g`; or those of the model's list.
pub fn episodes(model: &ModelUnderTest, split: SplitName, groups: u64) -> Result<Vec<Episode>> {
    if let (SplitName::Test, Some(list)) = (split, &model.listed) {
        return (0..list.len() as u64).map(|e| Ok(list.episode(e)?)).collect();
    }
    let (spec, count) = (test_spec(&model.config), model.config.test.episodes);
    let mut episodes = Vec::new();
    for group in 0..groups {
        episodes.extend(model.data.episodes(split, spec.clone(), group, count)?);
    }
    Ok(episodes)
}

/// Answers to these episodes.
pub fn answers(model: &ModelUnderTest, split: SplitName, groups: u64) -> Result<Vec<AnsweredEpisode>> {
    let watch = Watch { stop: &AtomicBool::new(false), answered: &|| {} };
    answers_watched(model, split, groups, &watch)
}

/// Answers to these episodes for somebody who watches.
pub fn answers_watched(
    model: &ModelUnderTest,
    split: SplitName,
    groups: u64,
    watch: &Watch<'_>,
) -> Result<Vec<AnsweredEpisode>> {
    let episodes = episodes(model, split, groups)?;
    let (method, split) = (model.method.as_ref(), model.data.split(split));
    evaluate(method, split, &model.data.test_transform, &episodes, Purpose::Test, watch)
}

/// The report of test answers.
pub fn report(model: &ModelUnderTest, answers: &[AnsweredEpisode]) -> Result<TestReport> {
    let accuracies: Vec<f64> = answers.iter().map(AnsweredEpisode::accuracy).collect();
    let groups: Vec<f64> = accuracies
        .chunks(model.config.test.episodes as usize)
        .map(|group| group.iter().sum::<f64>() / group.len() as f64)
        .collect();
    Ok(TestReport {
        episode: model.test_spec(),
        episodes: answers.len(),
        over_groups: mean_std(&groups)?,
        over_episodes: mean_interval95(&accuracies)?,
        groups,
        trained_episodes: model.episodes,
    })
}

/// One line of JSON an episode: its group, number and accuracy.
pub(crate) fn write_episodes(
    path: &Path,
    answers: &[AnsweredEpisode],
    episodes_per_group: u64,
) -> Result<()> {
    let mut text = Vec::new();
    for (index, answer) in (0u64..).zip(answers) {
        let line = serde_json::json!({
            "group": index / episodes_per_group,
            "episode": index % episodes_per_group,
            "accuracy": answer.accuracy(),
            "queries": answer.labels.len(),
        });
        writeln!(text, "{line}").map_err(io("write", path))?;
    }
    crate::atomic::write(path, &text)
}
