//! Methods that take gradient steps for each task: on all weights, or on particles of the last layer.

pub mod abml;
pub mod bmaml;
pub mod bmaml_chaser;
mod gaussian_weights;
pub(crate) mod inner;
pub mod maml;
pub(crate) mod particles;
pub(crate) mod svgd;

pub use inner::MetaGradient;
