//! How far a run of the plan is.

use super::plan::{Plan, PlannedRun};
use super::record::{Finished, Record};
use crate::error::Result;
use crate::progress::Progress;

/// How far a run is.
#[derive(Debug, Clone)]
pub enum State {
    /// Nothing was done.
    NotRun,
    /// It has trained for some episodes.
    Stopped {
        /// Episodes done.
        done: u64,
        /// Episodes of the run.
        of: u64,
    },
    /// It is trained, not yet tested.
    Trained {
        /// Episodes of the run.
        of: u64,
    },
    /// It has figures.
    Finished(Box<Finished>),
    /// It failed.
    Failed {
        /// What happened.
        why: String,
    },
}

impl State {
    /// In a few words.
    pub fn words(&self) -> String {
        match self {
            State::NotRun => "not run".into(),
            State::Stopped { done, of } => format!("stopped at {done} of {of} episodes"),
            State::Trained { .. } => "trained, not tested".into(),
            State::Finished(_) => "finished".into(),
            State::Failed { why } => format!("failed: {why}"),
        }
    }
}

impl Plan {
    /// How far a run is: its figures where it has some, else why it failed, else where its newest checkpoint stands. What
    /// cannot be read counts as a failure.
    pub fn state(&self, run: &PlannedRun) -> State {
        let found = match self.record(run) {
            Ok(Some(Record::Finished(finished))) => Ok(State::Finished(finished)),
            Ok(Some(Record::Failed { why })) => Ok(State::Failed { why }),
            Ok(None) => self.training_state(run),
            Err(error) => Err(error),
        };
        found.unwrap_or_else(|error| State::Failed { why: error.to_string() })
    }

    /// How far its training is, whatever its results say.
    pub fn training_state(&self, run: &PlannedRun) -> Result<State> {
        if run.elsewhere.is_some() {
            return Ok(State::Trained { of: 0 });
        }
        Ok(match Progress::of(&run.folder)? {
            Progress::NotRun => State::NotRun,
            Progress::Begun { done, of } | Progress::Diverged { done, of } => State::Stopped { done, of },
            Progress::Trained { of } => State::Trained { of },
        })
    }
}
