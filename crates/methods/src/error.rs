//! What can go wrong in a method.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two settings do not go together.
    #[error("{0}")]
    Settings(String),
    /// The method cannot be tested with this number of classes.
    #[error("{why}; this episode has {way} classes")]
    Way {
        /// Classes of the episode.
        way: usize,
        /// Why not, and what to do.
        why: String,
    },
    /// The steps on a task's support left the finite numbers.
    #[error(
        "the answer to a task is not finite. Where training went well, the steps on the task's support are too long: \
         lower {key}. Where its loss grew or steps were skipped, lower train.learning_rate and train again"
    )]
    Diverged {
        /// The setting that sets their length.
        key: &'static str,
    },
    /// A saved state does not fit.
    #[error("the saved state does not fit this model: {0}")]
    State(String),
    /// The Gaussian-process head reports an error.
    #[error(transparent)]
    Gp(#[from] siskin_gp::Error),
    /// The network reports an error.
    #[error(transparent)]
    Network(#[from] siskin_nn::Error),
}

impl Error {
    /// Whether a NaN or an infinity where a number must be is all that is wrong: a training step can then be skipped, and
    /// a validation has no accuracy.
    pub fn is_not_finite(&self) -> bool {
        matches!(self, Error::Gp(siskin_gp::Error::NotFinite { .. }) | Error::Diverged { .. })
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
