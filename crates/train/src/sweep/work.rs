//! The work on one run: trained where it stopped, tested, its figures kept.

use super::{Sweep, SweepRun};
use crate::atomic;
use crate::compare::{Outcome, Row, SameTest, compare, examine, same_test, unfinished};
use crate::error::{Error, Result, io};
use crate::run::Run;
use serde::{Deserialize, Serialize};
use siskin_data::Opener;
use siskin_data::files::Lock;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How often a lock is tried: `siskin sweep status` may look at it in the same moment.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// `result.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub(super) enum Record {
    /// It is trained and tested.
    Finished {
        /// Its figures.
        row: Box<Row>,
        /// The test in a line.
        what: String,
    },
    /// It failed.
    Failed {
        /// What happened.
        why: String,
    },
}

/// A line of `attempts.jsonl`: a process began to work on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// What started it: `local`, `slurm 12_3`, `hyperqueue 4`.
    pub by: String,
    /// The machine.
    pub host: String,
    /// Seconds since 1970.
    pub began: u64,
}

impl Sweep {
    /// Takes the lock of a run, for as long as somebody works on it; none where another process has it.
    pub fn lock(&self, run: &SweepRun) -> Result<Option<Lock>> {
        let folder = self.folder_of(run);
        for _ in 0..TRIES {
            match Lock::take(&folder) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                lock => return lock.map(Some).map_err(io("use the folder of the run", folder)),
            }
        }
        Ok(None)
    }

    /// Writes down that a process begins to work on a run; an earlier failure is forgotten.
    pub fn begin(&self, run: &SweepRun, attempt: &Attempt) -> Result<()> {
        if let Ok(Some(Record::Failed { .. })) = self.record(run) {
            let path = self.result(run);
            std::fs::remove_file(&path).map_err(io("remove", path))?;
        }
        let path = self.attempts_path(run);
        let mut line = serde_json::to_vec(attempt).expect("an attempt is plain data");
        line.push(b'\n');
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(&line)).map_err(io("write", path))
    }

    /// Each time that a process began to work on a run. A line that is cut counts as an attempt that nothing is known of.
    pub(super) fn attempts(&self, run: &SweepRun) -> Vec<Attempt> {
        let text = std::fs::read_to_string(self.attempts_path(run)).unwrap_or_default();
        let unknown = || Attempt { by: String::new(), host: String::new(), began: 0 };
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| unknown())).collect()
    }

    /// The training of a run, started or where it stopped; nothing if it is trained.
    pub fn training(&self, run: &SweepRun, opener: &Opener<'_>) -> Result<Option<Run>> {
        unfinished(&self.run_folder(run), &self.config(run)?, opener)
    }

    /// Tests a trained run and keeps its figures.
    pub fn examine(&self, run: &SweepRun, opener: &Opener<'_>) -> Result<()> {
        let test = same_test(&self.config(run)?)?;
        let same = SameTest { test, data: None, episodes: None, settings: Vec::new() };
        let examined = examine(&run.name, &self.run_folder(run), &same, opener)?;
        let outcome = Outcome { name: run.name.clone(), result: Ok(examined) };
        let mut comparison = compare(vec![outcome], &run.name)?.comparison;
        let row = Box::new(comparison.rows.remove(0));
        self.keep(run, &Record::Finished { row, what: comparison.what })
    }

    /// Keeps why a run failed.
    pub fn keep_failure(&self, run: &SweepRun, why: &str) -> Result<()> {
        self.keep(run, &Record::Failed { why: why.into() })
    }

    /// Whether a run has its figures.
    pub fn is_finished(&self, run: &SweepRun) -> Result<bool> {
        Ok(matches!(self.record(run)?, Some(Record::Finished { .. })))
    }

    /// What became of a run.
    pub(super) fn record(&self, run: &SweepRun) -> Result<Option<Record>> {
        let path = self.result(run);
        match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io("read", path)(e)),
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| {
                let path = path.display();
                Error::Run(format!("{path} is damaged ({e}): remove it, and the run is tested again"))
            }),
        }
    }

    fn keep(&self, run: &SweepRun, record: &Record) -> Result<()> {
        let json = serde_json::to_vec_pretty(record).expect("a record is plain data");
        atomic::write(&self.result(run), &json)
    }

    fn result(&self, run: &SweepRun) -> PathBuf {
        self.folder_of(run).join("result.json")
    }

    fn attempts_path(&self, run: &SweepRun) -> PathBuf {
        self.folder_of(run).join("attempts.jsonl")
    }
}
