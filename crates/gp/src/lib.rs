//! Gaussian-process classification with the logistic-softmax likelihood.

pub mod episode;
mod error;
pub mod exact;
pub mod gauss;
pub mod gibbs;
pub mod inference;
pub mod kernels;
pub mod laplace;
pub mod likelihoods;
pub mod linalg;
pub mod objective;
pub mod ove;
pub mod polya_gamma;
pub mod predict;
pub mod quadrature;
mod query;
pub mod special;
mod task;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod twin;

pub use error::{Error, Result};
pub use query::{Query, QueryGradient};
pub use task::{Gradient, Standard, Task};
