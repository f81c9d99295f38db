//! Objectives for learning kernels, prior mean and temperature, each with its gradient in the matrices of a task. [`Objective`] is
//! any of them, with its gradient in features and hyperparameters.

mod direct;
mod elbo;
mod episode;
mod folds;
mod leave_one_out;
mod predictive;
pub mod released;
pub mod released_predictive;
mod through_kernel;

pub(crate) use direct::envelope;
pub use direct::{direct, natural_bound};
pub use elbo::bound;
pub use episode::{EpisodeGradient, Objective};
pub(crate) use leave_one_out::leave_one_out_of;
pub use leave_one_out::{LeaveOneOut, leave_one_out};
pub use predictive::predictive;
