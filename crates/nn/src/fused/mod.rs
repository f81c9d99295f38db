//! The fused CPU path: operations of Burn's autodiff on the `flex` device that run the kernels of `siskin-cpu`.
//!
//! The plain composition of Burn operations computes the same on every other device, and is the oracle of the tests.

mod conv;
mod flex;
mod stack;
mod tangent;

pub use conv::{Engine, convolution};
pub(crate) use stack::Fused;
pub(crate) use tangent::tangent_norm;
