//! Gaussian-process classification with the logistic-softmax likelihood.

mod error;
pub mod gauss;
pub mod inference;
pub mod linalg;
pub mod objective;
pub mod special;
mod task;

pub use error::{Error, Result};
pub use task::{Gradient, Standard, Task};
