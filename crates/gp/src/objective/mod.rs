//! Objectives for learning kernels, prior mean and temperature, each with its gradient.

mod elbo;
pub mod released;

pub use elbo::{Bound, bound, bound_at_fixed_point};
