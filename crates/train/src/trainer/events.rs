//! What a trainer tells of while it works, for a progress bar.

use siskin_methods::{ScalarFit, StepReport};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A phase begins, or is gone on with. Runs of one phase do not tell of it.
    Phase {
        /// Its place, from 0.
        index: usize,
        /// How many there are.
        count: usize,
        /// Its name.
        name: String,
    },
    /// An optimiser step.
    Step {
        /// Episodes done in all.
        episode: u64,
        /// What the step did.
        report: StepReport,
    },
    /// Something about the model that somebody should look at, e.g. a kernel that tells no images apart any more.
    Notice {
        /// Episodes done in all.
        episode: u64,
        /// A sentence.
        text: String,
    },
    /// The scalars were fitted.
    Fitted {
        /// How far the loss fell.
        fit: ScalarFit,
        /// The scalars by name.
        scalars: Vec<(String, f64)>,
    },
    /// A validation.
    Validated {
        /// Episodes done in all.
        episode: u64,
        /// Mean accuracy; none where a prediction was not finite.
        accuracy: Option<f64>,
        /// Mean negative log-probability of the true class; none where a prediction was not finite.
        nll: Option<f64>,
        /// Whether it is the best of the phase so far.
        best: bool,
    },
}

/// How training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All episodes are done.
    Finished,
    /// Somebody asked to stop; the state is saved.
    Stopped,
}
