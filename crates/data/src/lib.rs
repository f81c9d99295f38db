//! From files to episodes: sources, images, cache, splits, sampling.

pub mod cache;
pub mod check;
pub mod dataset;
pub mod embeddings;
pub mod error;
pub mod fault;
pub mod files;
#[doc(hidden)]
pub mod fuzzing;
pub mod image;
pub mod import;
pub mod loader;
pub mod nearest;
pub mod open;
pub mod preview;
pub mod progress;
pub mod sampler;
pub mod shell;
pub mod source;
pub mod split;

pub use cache::Cache;
pub use dataset::{Class, ClassImages, Dataset};
pub use embeddings::Embeddings;
pub use error::{Error, Result};
pub use fault::{BadFile, Fault, OnBadImage};
pub use image::transform::{Channels, Transform};
pub use image::{Image, ImageRef};
pub use loader::{EpisodePart, LoadedEpisode, Loader, LoaderConfig};
pub use open::{Opened, Opener, Source};
pub use progress::{Progress, Silent};
pub use sampler::{
    Count, Episode, EpisodeClass, EpisodeList, EpisodeSource, EpisodeSpec, Sampler, ShortClasses,
};
pub use split::{Items, Members, Scheme, Split, SplitName, Splits};
