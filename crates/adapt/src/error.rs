//! What can go wrong between a person's images and an answer, as facts.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task file cannot be used.
    #[error("the task file {name} cannot be used: {why}")]
    Task {
        /// Its path or name.
        name: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The task was made with another model.
    #[error(
        "this task was made with the model {expected} (hash {expected_hash}), not with {found} (hash {found_hash}). \
         Give that model, or adapt again with this one.{hint}"
    )]
    OtherModel {
        /// Name of the task's model.
        expected: String,
        /// Its hash, shortened.
        expected_hash: String,
        /// Name of the model given.
        found: String,
        /// Its hash, shortened.
        found_hash: String,
        /// What makes another model of it, where that is not plain to see.
        hint: &'static str,
    },
    /// The labelled examples do not make a task.
    #[error("{0}")]
    Support(String),
    /// A setting of a prediction is out of range, or cannot be honoured.
    #[error("{0}")]
    Rules(String),
    /// The header of a task file cannot be written as JSON.
    #[error("the header of the task file: {0}")]
    Json(#[from] serde_json::Error),
    /// The one who asked wants it no more.
    #[error("the work was stopped before its end")]
    Stopped,
    /// The model crate reports an error.
    #[error(transparent)]
    Model(siskin_model::Error),
    /// The data crate reports an error, or a file could not be read or written.
    #[error(transparent)]
    Data(#[from] siskin_data::Error),
    /// The method reports an error.
    #[error(transparent)]
    Method(#[from] siskin_methods::Error),
    /// The Gaussian process reports an error.
    #[error("Gaussian process: {0}")]
    Gp(siskin_gp::Error),
    /// The calibration crate reports an error.
    #[error(transparent)]
    Calib(#[from] siskin_calib::Error),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<siskin_gp::Error> for Error {
    fn from(error: siskin_gp::Error) -> Error {
        match error {
            siskin_gp::Error::Cancelled => Error::Stopped,
            other => Error::Gp(other),
        }
    }
}

impl From<siskin_model::Error> for Error {
    fn from(error: siskin_model::Error) -> Error {
        match error {
            siskin_model::Error::Stopped => Error::Stopped,
            other => Error::Model(other),
        }
    }
}
