//! From files to episodes: sources, images, cache, splits, sampling.

pub mod dataset;
pub mod embeddings;
pub mod error;
pub mod image;
pub mod loader;
pub mod nearest;
pub mod preview;
pub mod random;
pub mod sampler;
pub mod source;
pub mod split;

pub use dataset::{Class, ClassImages, Dataset};
pub use embeddings::Embeddings;
pub use error::{Error, Result};
pub use image::transform::{Channels, Transform};
pub use image::{Image, ImageRef};
pub use loader::{Batch, Loader, LoaderConfig};
pub use sampler::{
    Count, Episode, EpisodeClass, EpisodeList, EpisodeSource, EpisodeSpec, Sampler, ShortClasses,
};
pub use split::{Items, Members, Split, SplitName, Splits};
