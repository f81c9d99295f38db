//! One method's part: its run brought to the end, its answers to the test episodes.

use crate::calibration::{Calibrated, calibrate};
use crate::checkpoint::{self, Position};
use crate::config::{Config, DataConfig, TestConfig};
use crate::episodes::test_spec;
use crate::error::{Error, Result};
use crate::evaluate::Answer;
use crate::phase::{PhaseKind, phases};
use crate::protocol::{self, TestReport};
use crate::run::Run;
use crate::run_folder::RunFolder;
use crate::under_test::{ModelUnderTest, is_model_file};
use siskin_data::{Episode, Opener, SplitName};
use std::path::{Path, PathBuf};

/// A tested method.
pub struct Examined {
    /// Its name in the comparison.
    pub name: String,
    /// Its run.
    pub folder: PathBuf,
    /// Its accuracy.
    pub test: TestReport,
    /// Its calibration.
    pub calibrated: Calibrated,
    /// What it holds beside the model, in MiB, where it adapts to a task by steps.
    pub extra_memory_mib: Option<f64>,
    /// Its answer to each test episode.
    pub answers: Vec<Answer>,
    /// Name and content of the data tested on.
    data: (String, String),
    episodes: Vec<Episode>,
}

/// The run of `config` in `folder`, started or where it stopped; nothing if it is complete.
pub fn unfinished(folder: &Path, config: &Config, opener: &Opener<'_>) -> Result<Option<Run>> {
    let run = match RunFolder::open(folder) {
        // A run that was killed before its first save may have a best model and nothing to go on from.
        Ok(run) if run.last().exists() => run,
        _ => return Run::start(folder, config.clone(), opener).map(Some),
    };
    let found = run.config()?;
    // The test protocol is no part of training: it may change.
    let changed = difference(&Config { test: found.test.clone(), ..config.clone() }, &found)?;
    if !changed.is_empty() {
        return Err(Error::Run(format!(
            "{} holds a run with other settings: {}. Choose another folder with --out, or remove this one.",
            folder.display(),
            changed.join(", ")
        )));
    }
    let complete = run.best().exists() && is_complete(&found, &checkpoint::load(&run.last())?.0)?;
    if complete { Ok(None) } else { Run::resume(folder, opener).map(Some) }
}

/// Whether nothing is left to do in a run that stands at `position`.
fn is_complete(config: &Config, position: &Position) -> Result<bool> {
    let last = phases(config)?.pop();
    Ok(last.is_some_and(|last| {
        let done = last.kind == PhaseKind::Train || position.fitted;
        position.phase == last.index && position.episode >= last.end() && done && !position.validation_due
    }))
}

/// The test of `config`, with its episodes written out, so that every method meets the same ones.
pub fn same_test(config: &Config) -> Result<TestConfig> {
    let last = phases(config)?.pop().map_or_else(|| config.clone(), |phase| phase.config);
    let spec = test_spec(&last);
    Ok(TestConfig { way: Some(spec.way.max()), shot: Some(spec.shot.max()), ..last.test })
}

/// The same test for every model of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct SameTest {
    /// The protocol, as [`same_test`] gives it.
    pub test: TestConfig,
    /// The data of model files, which know none.
    pub data: Option<DataConfig>,
}

/// Tests and calibrates the model at `path`, a run folder or a model file.
pub fn examine(name: &str, path: &Path, same: &SameTest, opener: &Opener<'_>) -> Result<Examined> {
    let by_test = |config: Config| {
        let mut config = Config { test: same.test.clone(), ..config };
        if let (true, Some(data)) = (is_model_file(path), &same.data) {
            config.data = DataConfig { image_size: config.data.image_size, ..data.clone() };
        }
        Ok(config)
    };
    let model = ModelUnderTest::open_changed(path, by_test, opener)?;
    let groups = model.config.test.groups;
    let validation = protocol::answers(&model, SplitName::Val, 1)?;
    let answers = protocol::answers(&model, SplitName::Test, groups)?;
    let items = &model.data.split(SplitName::Test).items;
    Ok(Examined {
        name: name.into(),
        folder: path.into(),
        test: protocol::report(&model, &answers)?,
        calibrated: calibrate(&validation, &answers, false)?,
        extra_memory_mib: model.method.extra_memory_mib(),
        answers,
        data: (items.name().into(), items.content_hash().to_hex().to_string()),
        episodes: protocol::episodes(&model, SplitName::Test, groups)?,
    })
}

impl Examined {
    /// The comparison in a line.
    pub(super) fn what(&self) -> String {
        format!("{}, on {}", self.test.protocol(), self.data.0)
    }

    /// Whether this method was tested on the very episodes of `other`.
    pub(super) fn same_episodes(&self, other: &Examined) -> Result<()> {
        let why = match (self.data == other.data, self.episodes == other.episodes) {
            (true, true) => return Ok(()),
            (false, _) => {
                format!("its data is {} and that of {} is {}", self.data.0, other.name, other.data.0)
            }
            (true, false) => format!("its episodes are not those of {}", other.name),
        };
        Err(Error::Run(format!(
            "it was tested on other episodes than the rest, so it cannot be paired: {why}"
        )))
    }
}

/// `key: found, now wanted` for every key on which two configs differ.
fn difference(wanted: &Config, found: &Config) -> Result<Vec<String>> {
    fn leaves(prefix: &str, value: &toml::Value, out: &mut Vec<(String, String)>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    leaves(&name, value, out);
                }
            }
            leaf => out.push((prefix.into(), leaf.to_string())),
        }
    }
    let list = |config: &Config| -> Result<Vec<(String, String)>> {
        let table = toml::Value::try_from(config).map_err(|e| Error::Config(e.to_string()))?;
        let mut out = Vec::new();
        leaves("", &table, &mut out);
        Ok(out)
    };
    let (wanted, found) = (list(wanted)?, list(found)?);
    let of = |list: &[(String, String)], key: &str| {
        list.iter().find(|(k, _)| k == key).map_or("unset".into(), |(_, v)| v.clone())
    };
    let mut keys: Vec<&String> = wanted.iter().chain(&found).map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    let changed = keys.into_iter().filter(|key| of(&wanted, key) != of(&found, key));
    Ok(changed.map(|key| format!("{key} is {}, now {}", of(&found, key), of(&wanted, key))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_keys_are_named() {
        let config =
            |set: &[&str]| Config::parse("", &set.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap();
        let (a, b) = (config(&["train.episodes=7"]), config(&["train.episodes=9", "data.split=lake"]));
        assert_eq!(
            difference(&a, &b).unwrap(),
            ["data.split is \"lake\", now unset", "train.episodes is 9, now 7"]
        );
        assert!(difference(&a, &a).unwrap().is_empty());
    }

    #[test]
    fn the_test_of_a_config_is_that_of_any_method() {
        let config = Config::parse("[episode]\nway = 7\n[test]\nshot = 3\nepisodes = 11\n", &[]).unwrap();
        let again = Config::parse("[episode]\nway = 2\n", &[]).unwrap();
        let again = Config { test: same_test(&config).unwrap(), ..again };
        assert_eq!(test_spec(&again), test_spec(&config));
        assert_eq!((again.test.episodes, again.test.groups), (11, 5));
    }
}
