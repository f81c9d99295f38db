//! What can go wrong in a method.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No method has this name.
    #[error("unknown method `{name}`; did you mean `{}`? These are known: {}", nearest(name, known), known.join(", "))]
    UnknownMethod {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A key of a method's settings is unknown, or its value is of a wrong kind.
    #[error("{key}: {why}")]
    Setting {
        /// The key with its table, e.g. `cdkt.kernel`.
        key: String,
        /// What is wrong, in serde's words.
        why: String,
    },
    /// A value of a method's settings is out of range.
    #[error("{key} = {value}: it must be {must}")]
    Value {
        /// The key with its table, e.g. `cdkt.tau`.
        key: String,
        /// Its value.
        value: String,
        /// What it must be.
        must: &'static str,
    },
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
    /// A method that reads pixels at test got precomputed feature vectors.
    #[error(
        "this method changes its network for each task and needs images; it cannot work on precomputed vectors"
    )]
    NoPixels,
    /// A method that reads features at test got pixels.
    #[error("this method reads features, but these rows are pixels")]
    NoFeatures,
    /// Pixels of another size than the network takes.
    #[error(
        "this method reads images of {wanted:?} (channels, height, width) at test, but these are {found:?}"
    )]
    PixelShape {
        /// What the network takes.
        wanted: [usize; 3],
        /// What came.
        found: [usize; 3],
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

/// The known name that is most like `name`.
fn nearest(name: &str, known: &[&'static str]) -> &'static str {
    let alike = |k: &&&'static str| strsim::jaro_winkler(name, k);
    known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b))).copied().unwrap_or("")
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
