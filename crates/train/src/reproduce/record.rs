//! What became of a run, kept as `results/NAME.json`: its figures, or why it failed.

use super::plan::{Plan, PlannedRun};
use crate::atomic;
use crate::checkpoint;
use crate::compare::{ChangedKey, Outcome, Row, changed_keys, compare, examine_changed, is_complete};
use crate::config::{Config, DataConfig, TestConfig};
use crate::error::{Error, Result, io};
use crate::phase::{Phase, phases};
use crate::run_folder::RunFolder;
use crate::under_test::{config_of, is_model_file};
use serde::{Deserialize, Serialize};
use siskin_data::Opener;
use std::path::{Path, PathBuf};

/// What became of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Record {
    /// It is trained and tested.
    Finished(Box<Finished>),
    /// It failed.
    Failed {
        /// What happened.
        why: String,
    },
}

/// The figures of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// Accuracy and calibration.
    pub row: Row,
    /// The test in a line.
    pub what: String,
    /// The run folder or model file.
    pub model: PathBuf,
    /// Training episodes (batches, where the method trains on batches) of the whole run.
    pub episodes: u64,
    /// The keys that are not as in the paper's config.
    pub changed: Vec<ChangedKey>,
    /// The command that makes these figures.
    pub command: String,
    /// The test they come from.
    test: TestConfig,
    /// Hash of the weights they come from.
    weights: String,
}

impl Plan {
    fn record_path(&self, run: &PlannedRun) -> PathBuf {
        self.folder.join("results").join(format!("{}.json", run.name))
    }

    /// What is known of a run.
    pub(crate) fn record(&self, run: &PlannedRun) -> Result<Option<Record>> {
        let path = self.record_path(run);
        match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io("read", path)(e)),
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
                Error::Run(format!(
                    "{} is damaged ({e}): remove it, and the run is tested again",
                    path.display()
                ))
            }),
        }
    }

    /// Whether a run has figures of the test and the settings that are asked for, of the weights that are there now.
    pub fn is_tested(&self, run: &PlannedRun) -> Result<bool> {
        let Some(Record::Finished(found)) = self.record(run)? else { return Ok(false) };
        if found.test != run.test()? {
            return Ok(false);
        }
        match self.was_given_before(run, &found) {
            true => Ok(!found.model.exists() || weights(&found.model)? == found.weights),
            false => Ok(found.model == run.model()
                && same_settings(run)?
                && weights(run.model())? == found.weights),
        }
    }

    /// Whether a run is to be trained here: no run from elsewhere takes its place, now or in an earlier call.
    pub fn is_trained_here(&self, run: &PlannedRun) -> Result<bool> {
        let before = match self.record(run)? {
            Some(Record::Finished(found)) => self.was_given_before(run, &found) && self.is_tested(run)?,
            _ => false,
        };
        Ok(run.elsewhere.is_none() && !before)
    }

    /// Whether these figures are of a run from elsewhere that was given in an earlier call.
    fn was_given_before(&self, run: &PlannedRun, found: &Finished) -> bool {
        run.elsewhere.is_none() && found.model != run.folder && RunFolder::open(&run.folder).is_err()
    }

    /// Tests the model of a run and keeps the figures.
    pub fn examine(&self, run: &PlannedRun, opener: &Opener<'_>) -> Result<Finished> {
        let (path, test) = (run.model(), run.test()?);
        let file = is_model_file(path);
        let found = if file { config_of(path)? } else { whole_config(path)? };
        let change = |config: Config| {
            if !file && config.data.train != run.config.data.train {
                return Err(Error::Run(format!(
                    "it was trained on {}, this cell is trained on {}. If these are the same images: --set data.train={}",
                    config.data.train, run.config.data.train, config.data.train
                )));
            }
            let data = match file {
                true => DataConfig { image_size: config.data.image_size, ..run.config.data.clone() },
                false => DataConfig { transfer: run.config.data.transfer.clone(), ..config.data.clone() },
            };
            Ok(Config { test: test.clone(), data, ..config })
        };
        let examined = examine_changed(&run.name, path, change, opener)?;
        let trained = examined.test.trained_episodes;
        let outcome = Outcome { name: run.name.clone(), result: Ok(examined) };
        let mut comparison = compare(vec![outcome], &run.name)?.comparison;
        let as_tested = match file {
            // A model file does not say how it was trained.
            true => {
                let mut config = Config { method: found.method, ..run.config.clone() };
                (config.backbone.name, config.data.image_size) = (found.backbone.name, found.data.image_size);
                config.train.episodes = trained;
                config
            }
            false => Config { test: run.config.test.clone(), ..found },
        };
        let episodes = phases(&as_tested)?.last().map_or(0, Phase::end);
        let finished = Finished {
            row: comparison.rows.remove(0),
            what: comparison.what,
            model: path.into(),
            episodes,
            changed: changed_keys(&run.paper, &as_tested)?,
            command: self.command(run),
            test,
            weights: weights(path)?,
        };
        self.write(run, &Record::Finished(Box::new(finished.clone())))?;
        Ok(finished)
    }

    /// Keeps why a run failed. Figures from before stay.
    pub fn keep_failure(&self, run: &PlannedRun, why: &str) -> Result<()> {
        match self.record(run) {
            Ok(Some(Record::Finished(_))) => Ok(()),
            _ => self.write(run, &Record::Failed { why: why.into() }),
        }
    }

    /// Forgets an earlier failure: the run is tried again.
    pub fn forget_failure(&self, run: &PlannedRun) -> Result<()> {
        match self.record(run)? {
            Some(Record::Failed { .. }) => {
                let path = self.record_path(run);
                std::fs::remove_file(&path).map_err(io("remove", path))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, run: &PlannedRun, record: &Record) -> Result<()> {
        let path = self.record_path(run);
        let folder = self.folder.join("results");
        std::fs::create_dir_all(&folder).map_err(io("create", folder))?;
        let json = serde_json::to_vec_pretty(record).expect("a record is plain data");
        atomic::write(&path, &json)
    }
}

/// Whether the run in the run folder is by the settings that are asked for; those of the test are no part of training.
fn same_settings(run: &PlannedRun) -> Result<bool> {
    if run.elsewhere.is_some() {
        return Ok(true);
    }
    let found = RunFolder::open(&run.folder)?.config()?;
    Ok(Config { test: run.config.test.clone(), ..found } == run.config)
}

/// The config of a run that is complete; an error for one that is not.
fn whole_config(path: &Path) -> Result<Config> {
    let folder = RunFolder::open(path)?;
    let config = folder.config()?;
    let (position, _) = checkpoint::load(&folder.newest())?;
    if folder.best().exists() && is_complete(&config, &position)? {
        return Ok(config);
    }
    let length = phases(&config)?.last().map_or(0, Phase::end);
    Err(Error::Run(format!(
        "{} is not finished: {} of {length} episodes. Go on with it by `siskin train --resume {}`.",
        path.display(),
        position.episode,
        siskin_data::shell::quoted(path)
    )))
}

/// Hash of the weights that are tested: of a file, or of the model in a run folder. An embedded model is its name.
fn weights(path: &Path) -> Result<String> {
    let file = match path.is_dir() {
        true => {
            let folder = RunFolder::open(path)?;
            if folder.best().exists() { folder.best() } else { folder.last() }
        }
        false if is_model_file(path) && !path.exists() => return Ok(path.display().to_string()),
        false => path.into(),
    };
    let bytes = std::fs::read(&file).map_err(io("read", file))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}
