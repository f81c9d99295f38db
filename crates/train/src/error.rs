//! What can go wrong in a run, as facts.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The config does not parse, has an unknown key or a value out of range.
    #[error("{0}")]
    Config(String),
    /// A checkpoint cannot be used.
    #[error("the checkpoint {} cannot be used: {why}", path.display())]
    Checkpoint {
        /// The checkpoint file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// Training met non-finite gradients too often.
    #[error(
        "training stopped: {in_a_row} steps in a row gave a non-finite gradient (episodes {first} to {last}). \
         The state before them is in {}, the list of their episodes in {}; \
         `siskin train --replay` takes these steps again. A smaller learning rate is the usual cure.",
        checkpoint.display(), replay.display()
    )]
    Diverged {
        /// How many steps in a row were skipped.
        in_a_row: u64,
        /// First episode of the skipped steps.
        first: u64,
        /// Last episode of the skipped steps.
        last: u64,
        /// The checkpoint to start from.
        checkpoint: PathBuf,
        /// The file that names the episodes.
        replay: PathBuf,
    },
    /// The run folder already holds another run.
    #[error("{0}")]
    Run(String),
    /// A name that does not exist.
    #[error("unknown {what} `{name}`; did you mean `{nearest}`? There are: {known}")]
    UnknownName {
        /// What it should be the name of.
        what: String,
        /// The name.
        name: String,
        /// The nearest name that exists.
        nearest: String,
        /// Those that exist.
        known: String,
    },
    /// Another process of the same work failed.
    #[error("rank {rank}: {why}")]
    Rank {
        /// Its place.
        rank: usize,
        /// What it says.
        why: String,
    },
    /// A number of another process of the same work is not finite.
    #[error("a number of rank {rank} is not finite")]
    NotFinite {
        /// Its place.
        rank: usize,
    },
    /// A process of the same work is gone.
    #[error(
        "the job was told to end while this rank waited for others: one of them has died, or somebody stopped the job. \
         What was done before is kept"
    )]
    RankLost,
    /// It was asked to stop before its end.
    #[error("stopped before the end")]
    Stopped,
    /// The data crate reports an error, or a file could not be read or written.
    #[error(transparent)]
    Data(#[from] siskin_data::Error),
    /// The method reports an error.
    #[error(transparent)]
    Method(#[from] siskin_methods::Error),
    /// The model crate reports an error.
    #[error(transparent)]
    Model(siskin_model::Error),
    /// The calibration crate reports an error.
    #[error(transparent)]
    Calib(#[from] siskin_calib::Error),
}

impl Error {
    /// Whether a NaN or an infinity where a number must be is all that is wrong: see
    /// [`siskin_methods::Error::is_not_finite`].
    pub fn is_not_finite(&self) -> bool {
        match self {
            Error::Method(error) => error.is_not_finite(),
            Error::NotFinite { .. } => true,
            _ => false,
        }
    }
}

/// A stopped embedding is a stop, and a method's error stays one.
impl From<siskin_model::Error> for Error {
    fn from(error: siskin_model::Error) -> Error {
        match error {
            siskin_model::Error::Stopped => Error::Stopped,
            siskin_model::Error::Method(error) => Error::Method(error),
            other => Error::Model(other),
        }
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Names the action and the path of a failed file operation.
pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| siskin_data::Error::io(action, &path, source).into()
}

/// An error for a name that does not exist: the nearest of `known`, and those of `shown`.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str], shown: &[&str]) -> Error {
    let near = |a: &str| strsim::jaro_winkler(name, a);
    let nearest = known.iter().max_by(|a, b| near(a).total_cmp(&near(b))).copied().unwrap_or_default();
    Error::UnknownName {
        what: what.into(),
        name: name.into(),
        nearest: nearest.into(),
        known: shown.join(", "),
    }
}
