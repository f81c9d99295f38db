//! From files to episodes: sources, images, cache, splits, sampling.

pub mod dataset;
pub mod embeddings;
pub mod error;
pub mod image;
pub mod nearest;
pub mod random;
pub mod source;
pub mod split;

pub use dataset::{Class, ClassImages, Dataset};
pub use embeddings::Embeddings;
pub use error::{Error, Result};
pub use image::{Image, ImageRef};
pub use split::{Items, Members, Split, SplitName, Splits};
