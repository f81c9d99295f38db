//! What a model is, below training and below tasks.
//!
//! | question | file |
//! | --- | --- |
//! | What must be known to build a model? | `spec.rs` |
//! | What does it say of itself? | `card.rs`, `look.rs` |
//! | How is it kept? | `file.rs`, `seal.rs`, `tensors.rs`, `legacy.rs`, `kept_card.rs` |
//! | How is it opened? | `model.rs`; its backbone alone: `backbone.rs` |
//! | From images to features? | `view.rs`, `embed.rs`, `kept_features.rs` |
//! | How is somebody else's network used? | `foreign/` |

mod backbone;
mod card;
mod embed;
mod error;
mod file;
pub mod foreign;
mod kept_card;
mod kept_features;
mod legacy;
mod look;
mod model;
pub mod seal;
mod spec;
pub mod tensors;
mod view;

pub use card::{Card, FeatureFacts, LeftOutFacts, NoveltyFacts, ShapeFacts, TestFacts};
pub use embed::embed;
pub use error::{Error, Result};
pub use kept_features::{ImageKey, KeptFeatures, images_at_a_time};
pub use look::{Look, Looks, Mismatch};
pub use model::{EMBEDDED, Model, ModelHead, unit};
pub use siskin_nn::DeviceChoice;
pub use spec::ModelSpec;
pub use view::View;
