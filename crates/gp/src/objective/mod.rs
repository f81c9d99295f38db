//! Objectives for learning kernels, prior mean and temperature, each with its gradient in the matrices of a task. [`Objective`] is
//! any of them, with its gradient in features and hyperparameters.

pub(crate) mod direct;
pub(crate) mod elbo;
mod episode;
pub(crate) mod predictive;
mod released;
mod released_predictive;
mod through_kernel;

pub(crate) use direct::{direct, envelope, natural_bound};
pub(crate) use elbo::bound;
pub use episode::{EpisodeGradient, Objective};
pub(crate) use predictive::predictive;
pub use released::{Carry, Draw};
pub use released_predictive::{ReleasedEpisode, ReleasedPredictive, released_predictive};
