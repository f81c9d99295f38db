//! Objectives for learning kernels, prior mean and temperature, each with its gradient.

mod direct;
mod elbo;
mod leave_one_out;
mod predictive;
pub mod released;
pub mod released_predictive;

pub(crate) use direct::envelope;
pub use direct::{direct, natural_bound};
pub use elbo::bound;
pub(crate) use leave_one_out::leave_one_out_at;
pub use leave_one_out::{LeaveOneOut, leave_one_out};
pub use predictive::predictive;
