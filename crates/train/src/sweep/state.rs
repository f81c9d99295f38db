//! How far the runs of a sweep are.

use super::work::{Attempt, Record};
use super::{Sweep, SweepRun};
use crate::compare::Row;
use crate::error::Result;
use crate::progress::Progress;
use siskin_data::files::Lock;

/// How far a run is.
#[derive(Debug, Clone)]
pub enum RunState {
    /// It has figures.
    Finished(Box<Row>),
    /// Its last attempt failed.
    Failed {
        /// What happened.
        why: String,
    },
    /// It has none yet.
    Unfinished(Progress),
}

/// What is known of a run.
#[derive(Debug, Clone)]
pub struct Status {
    /// How far it is.
    pub state: RunState,
    /// Each time that a process began to work on it, in order.
    pub attempts: Vec<Attempt>,
    /// Whether a process works on it now, as far as this machine's locks tell.
    pub at_work: bool,
}

impl Status {
    /// In a few words.
    pub fn words(&self) -> String {
        let now = if self.at_work { "at work" } else { "stopped" };
        match &self.state {
            RunState::Finished(_) => "finished".into(),
            RunState::Failed { .. } if self.at_work => "at work again".into(),
            RunState::Failed { why } => format!("failed: {why}"),
            RunState::Unfinished(Progress::NotRun) if self.at_work => "begins".into(),
            RunState::Unfinished(Progress::NotRun) if self.attempts.is_empty() => "waits".into(),
            RunState::Unfinished(Progress::NotRun) => "ended before its first save".into(),
            RunState::Unfinished(Progress::Begun { done, of }) => format!("{now}, {done} of {of} episodes"),
            RunState::Unfinished(Progress::Diverged { .. }) if self.at_work => "at work again".into(),
            RunState::Unfinished(Progress::Diverged { done, of }) => {
                format!("diverged at {done} of {of} episodes")
            }
            RunState::Unfinished(Progress::Trained { .. }) if self.at_work => "tests".into(),
            RunState::Unfinished(Progress::Trained { .. }) => "trained, not tested".into(),
        }
    }
}

impl Sweep {
    /// What is known of a run. What cannot be read counts as a failure.
    pub fn status(&self, run: &SweepRun) -> Status {
        let read = || -> Result<RunState> {
            Ok(match self.record(run)? {
                Some(Record::Finished { row, .. }) => RunState::Finished(row),
                Some(Record::Failed { why }) => RunState::Failed { why },
                None => RunState::Unfinished(Progress::of(&self.run_folder(run))?),
            })
        };
        let state = read().unwrap_or_else(|error| RunState::Failed { why: error.to_string() });
        Status { state, attempts: self.attempts(run), at_work: self.is_at_work(run) }
    }

    /// The runs that have no figures yet.
    pub fn unfinished(&self) -> impl Iterator<Item = &SweepRun> {
        self.runs.iter().filter(|run| !matches!(self.record(run), Ok(Some(Record::Finished { .. }))))
    }

    /// A file system without locks cannot tell: then nobody seems to be at work.
    fn is_at_work(&self, run: &SweepRun) -> bool {
        Lock::is_taken(&self.folder_of(run)).unwrap_or(false)
    }
}
