//! How far the training in a run folder is.

use crate::checkpoint;
use crate::compare::is_complete;
use crate::error::Result;
use crate::phase::{Phase, phases};
use crate::run_folder::RunFolder;
use std::path::Path;

/// How far a training is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was saved yet.
    NotRun,
    /// It has trained for some episodes.
    Begun {
        /// Episodes done by the newest checkpoint.
        done: u64,
        /// Episodes of the run.
        of: u64,
    },
    /// All is done.
    Trained {
        /// Episodes of the run.
        of: u64,
    },
}

impl Progress {
    /// By the newest checkpoint in `folder`.
    pub fn of(folder: &Path) -> Result<Progress> {
        let Ok(folder) = RunFolder::open(folder) else { return Ok(Progress::NotRun) };
        let (config, position) = (folder.config()?, checkpoint::load(&folder.newest())?.0);
        let of = phases(&config)?.last().map_or(0, Phase::end);
        match folder.best().exists() && is_complete(&config, &position)? {
            true => Ok(Progress::Trained { of }),
            false => Ok(Progress::Begun { done: position.episode, of }),
        }
    }
}
