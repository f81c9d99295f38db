//! Gaussian-process classification with the logistic-softmax likelihood.

mod error;

pub use error::{Error, Result};
