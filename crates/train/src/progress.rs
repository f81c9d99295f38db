//! How far the training in a run folder is.

use crate::checkpoint;
use crate::compare::is_complete;
use crate::error::{Error, Result};
use crate::phase::{Phase, phases};
use crate::run_folder::RunFolder;
use siskin_data::files::Lock;
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
    /// Its steps had non-finite gradients, and it ended.
    Diverged {
        /// Episodes done before them.
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
        let config = folder.config()?;
        let of = phases(&config)?.last().map_or(0, Phase::end);
        let position = |path: &Path| Ok::<_, Error>(checkpoint::load(path)?.0);
        // A run that went on after it had diverged has newer checkpoints than that state.
        if folder.diverged().exists() {
            let done = position(&folder.diverged())?.episode;
            let newer = folder.newest();
            if !newer.exists() || position(&newer)?.episode <= done {
                return Ok(Progress::Diverged { done, of });
            }
        }
        let position = position(&folder.newest())?;
        match folder.best().exists() && is_complete(&config, &position)? {
            true => Ok(Progress::Trained { of }),
            false => Ok(Progress::Begun { done: position.episode, of }),
        }
    }

    /// Whether a process trains in `folder` now; none where the file system does not tell.
    pub fn at_work(folder: &Path) -> Option<bool> {
        Lock::is_taken(folder).ok()
    }
}
