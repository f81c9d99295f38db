//! Objectives for learning kernels, prior mean and temperature, each with its gradient.

mod direct;
mod elbo;
mod predictive;
pub mod released;

pub use direct::{direct, direct_at_fixed_point, natural_bound};
pub use elbo::{Bound, bound, bound_at_fixed_point};
pub use predictive::{predictive, predictive_at_fixed_point};
