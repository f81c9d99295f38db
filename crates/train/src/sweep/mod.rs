//! Many trainings by one table of settings: each has a folder whose name follows from its settings, so that the same table
//! given again finds what is done.
//!
//! ```text
//! sweep.json               the runs in the order of the table, with the settings they differ in
//! NAME/config.toml         how the run is trained and tested: NAME is made of its hash
//! NAME/run/                the run folder
//! NAME/attempts.jsonl      one line each time a process began to work on it
//! NAME/result.json         its figures, or why it failed
//! NAME/log.txt             what it said
//! table.csv, table.md      one line per setting, over its seeds
//! runs.csv                 one line per run
//! ```

mod collect;
mod state;
mod student;
mod table;
mod work;

pub use state::{RunState, Status};
pub use work::Attempt;

use crate::atomic;
use crate::config::Config;
use crate::error::{Error, Result, io};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Hexadecimal digits of a run's hash in its name.
const DIGITS: usize = 12;

/// A table of settings as runs.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Where the runs are.
    pub folder: PathBuf,
    /// The runs, in the order of the table.
    pub runs: Vec<SweepRun>,
}

/// A run of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRun {
    /// Its name: the method and the hash of all its settings.
    pub name: String,
    /// What the table says of it: keys of the config and their values.
    pub settings: Vec<(String, String)>,
}

impl Sweep {
    /// The runs of the table `path`, written down in `folder`. Runs that are there already stay as they are.
    pub fn create(path: &Path, folder: &Path, set: &[String]) -> Result<Sweep> {
        let mut runs: Vec<SweepRun> = Vec::new();
        let mut configs = Vec::new();
        for (settings, config) in table::read(path, set)? {
            let text = config.to_toml();
            let name = format!("{}-{}", config.method.name(), short_hash(&text));
            if runs.iter().all(|run| run.name != name) {
                runs.push(SweepRun { name, settings });
                configs.push(text);
            }
        }
        let sweep = Sweep { folder: folder.into(), runs };
        for (run, text) in sweep.runs.iter().zip(configs) {
            let own = sweep.folder_of(run);
            std::fs::create_dir_all(&own).map_err(io("create", &own))?;
            let config = own.join("config.toml");
            if !config.exists() {
                atomic::write(&config, text.as_bytes())?;
            }
        }
        let json = serde_json::to_vec_pretty(&sweep.runs).expect("names and texts");
        atomic::write(&sweep.list(), &json)?;
        Ok(sweep)
    }

    /// The sweep in `folder`.
    pub fn open(folder: &Path) -> Result<Sweep> {
        let mut sweep = Sweep { folder: folder.into(), runs: Vec::new() };
        let path = sweep.list();
        let bytes = match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Run(format!(
                    "{} holds no sweep: sweep.json is not there. Give the folder that `siskin sweep TABLE` wrote (its --out).",
                    folder.display()
                )));
            }
            found => found.map_err(io("read", &path))?,
        };
        sweep.runs = serde_json::from_slice(&bytes).map_err(|e| {
            Error::Run(format!("{} is damaged ({e}): give `siskin sweep TABLE` again", path.display()))
        })?;
        Ok(sweep)
    }

    /// The run of this name.
    pub fn run(&self, name: &str) -> Result<&SweepRun> {
        let known: Vec<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
        let found = self.runs.iter().find(|run| run.name == name);
        found.ok_or_else(|| crate::error::unknown("run", name, &known, &known))
    }

    /// The folder of a run.
    pub fn folder_of(&self, run: &SweepRun) -> PathBuf {
        self.folder.join(&run.name)
    }

    /// The run folder of a run, as `siskin train` writes one.
    pub fn run_folder(&self, run: &SweepRun) -> PathBuf {
        self.folder_of(run).join("run")
    }

    /// How a run is trained and tested.
    pub fn config(&self, run: &SweepRun) -> Result<Config> {
        Config::load_saved(&self.folder_of(run).join("config.toml"), &[])
    }

    fn list(&self) -> PathBuf {
        self.folder.join("sweep.json")
    }
}

/// The first digits of a text's hash.
pub fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..DIGITS].to_string()
}

impl SweepRun {
    /// Its settings in a line.
    pub fn words(&self) -> String {
        self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests;
