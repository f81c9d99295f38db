//! Methods that are pre-trained as an ordinary classifier of the base classes.

pub mod baseline_plus_plus;
pub mod feature_transfer;
pub(crate) mod pretraining;
pub(crate) mod support_fit;

pub use pretraining::{BaseClassifier, Pretrained};
pub use support_fit::SupportClassifier;
