//! What can go wrong with a model, as facts.

use crate::foreign::ForeignFault;
use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, e.g. `read the model`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A model cannot be used.
    #[error("the model {name} cannot be used: {why}")]
    Model {
        /// Its path or name.
        name: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// An ONNX file cannot be a backbone.
    #[error("the network {name} cannot be used: {fault}")]
    Foreign {
        /// Its name or path.
        name: String,
        /// What is wrong.
        fault: ForeignFault,
    },
    /// It was asked to stop before its end.
    #[error("stopped before the end")]
    Stopped,
    /// The data crate reports an error.
    #[error(transparent)]
    Data(#[from] siskin_data::Error),
    /// The method reports an error.
    #[error(transparent)]
    Method(#[from] siskin_methods::Error),
}

impl From<siskin_nn::Error> for Error {
    fn from(error: siskin_nn::Error) -> Error {
        Error::Method(error.into())
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
