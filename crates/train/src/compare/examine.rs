//! One method's part: its run brought to the end, its answers to the test episodes.

use super::changed::changed_keys;
use crate::calibration::{Calibrated, calibrate};
use crate::checkpoint::{self, Position};
use crate::config::{Config, DataConfig, TestConfig};
use crate::episodes::test_spec;
use crate::error::{Error, Result};
use crate::evaluate::AnsweredEpisode;
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
    pub answers: Vec<AnsweredEpisode>,
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
    let changed = changed_keys(&Config { test: found.test.clone(), ..config.clone() }, &found)?;
    if !changed.is_empty() {
        let list = changed.iter().map(|key| format!("{} is {}, now {}", key.key, key.found, key.wanted));
        return Err(Error::Run(format!(
            "{} holds a run with other settings: {}. Choose another folder with --out, or remove this one.",
            folder.display(),
            list.collect::<Vec<_>>().join(", ")
        )));
    }
    let complete = run.best().exists() && is_complete(&found, &checkpoint::load(&run.last())?.0)?;
    if complete { Ok(None) } else { Run::resume(folder, opener).map(Some) }
}

/// Whether nothing is left to do in a run that stands at `position`.
pub(crate) fn is_complete(config: &Config, position: &Position) -> Result<bool> {
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
    /// A list of test episodes, in place of the protocol's.
    pub episodes: Option<PathBuf>,
    /// `key=value` settings of all models, e.g. `backbone.device=wgpu`.
    pub settings: Vec<String>,
}

/// The splits that episodes are drawn from.
const ASKED: [SplitName; 2] = [SplitName::Val, SplitName::Test];

/// Tests and calibrates the model at `path`, a run folder or a model file.
pub fn examine(name: &str, path: &Path, same: &SameTest, opener: &Opener<'_>) -> Result<Examined> {
    let by_test = |config: Config| {
        let mut config = Config { test: same.test.clone(), ..config };
        if let (true, Some(data)) = (is_model_file(path), &same.data) {
            config.data = DataConfig { image_size: config.data.image_size, ..data.clone() };
        }
        config.changed(&same.settings)
    };
    let mut model = ModelUnderTest::open_for(path, by_test, &ASKED, opener)?;
    if let Some(list) = &same.episodes {
        model.ask(list)?;
    }
    examine_model(name, path, &model)
}

/// The same with a config that `change` makes of the model's.
pub(crate) fn examine_changed(
    name: &str,
    path: &Path,
    change: impl FnOnce(Config) -> Result<Config>,
    opener: &Opener<'_>,
) -> Result<Examined> {
    examine_model(name, path, &ModelUnderTest::open_for(path, change, &ASKED, opener)?)
}

fn examine_model(name: &str, path: &Path, model: &ModelUnderTest) -> Result<Examined> {
    let groups = model.config.test.groups;
    let validation = protocol::answers(model, SplitName::Val, 1)?;
    let answers = protocol::answers(model, SplitName::Test, groups)?;
    // Images, also where a network has made vectors of them: models that see them by other networks are asked the same.
    let items = &model.data.seen(SplitName::Test).items;
    Ok(Examined {
        name: name.into(),
        folder: path.into(),
        test: protocol::report(model, &answers)?,
        calibrated: calibrate(&validation, &answers, false)?,
        extra_memory_mib: model.method.extra_memory_mib(),
        answers,
        data: (items.name().into(), items.content_hash().to_hex().to_string()),
        episodes: protocol::episodes(model, SplitName::Test, groups)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_of_a_config_is_that_of_any_method() {
        let config = Config::parse("[episode]\nway = 7\n[test]\nshot = 3\nepisodes = 11\n", &[]).unwrap();
        let again = Config::parse("[episode]\nway = 2\n", &[]).unwrap();
        let again = Config { test: same_test(&config).unwrap(), ..again };
        assert_eq!(test_spec(&again), test_spec(&config));
        assert_eq!((again.test.episodes, again.test.groups), (11, 5));
    }
}
