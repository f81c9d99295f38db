//! Methods whose head is a Gaussian process on the features.

pub mod cdkt;
pub(crate) mod deep_kernel;
pub mod dkt;
pub mod from_examples;
pub mod ls_gibbs;
pub mod ove;

pub use deep_kernel::{DeepKernel, GpHead, Residual, SampledHead, Slots};
