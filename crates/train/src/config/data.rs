//! `[data]` and `[episode]`: which images, and how many in an episode.

use serde::{Deserialize, Serialize};
use siskin_data::image::augment::LEAST_AREA;

/// `[data]`: where the images come from and how they are shown to the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// `glyphs`, the name of an imported data set, or the path of a folder, list or archive.
    pub train: String,
    /// Validation and test classes from another data set (cross-domain); unset means the same.
    pub transfer: Option<String>,
    /// Which of the data set's own splits to use, where it has several (e.g. `lake`, `vinyals`).
    pub split: Option<String>,
    /// For a split without validation classes: so many domains (alphabets) of the training classes, the last by
    /// name, validate instead of training.
    pub validation_domains: Option<usize>,
    /// Rotations by 90, 180 and 270 degrees as new classes.
    pub rotations: bool,
    /// Side of the square image the network sees, in pixels.
    pub image_size: u32,
    /// The reference's augmentation (crop, jitter, flip) in training.
    pub augment: bool,
    /// The least part of an image's area that a random crop takes; unset: 0.08, as the reference. More suits small networks and
    /// short trainings.
    pub crop_area: Option<f64>,
}

impl DataConfig {
    /// The least part of an image's area that a random crop takes, where training images are augmented.
    pub(crate) fn least_crop(&self) -> Option<f64> {
        self.augment.then_some(self.crop_area.unwrap_or(LEAST_AREA))
    }

    /// Whether both name the same images. How images are shown to the network does not matter here.
    pub(crate) fn names_the_same(&self, other: &DataConfig) -> bool {
        let named = |data: &DataConfig| (data.train.clone(), data.transfer.clone(), data.rotations);
        named(self) == named(other)
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            train: "glyphs".into(),
            transfer: None,
            split: None,
            validation_domains: None,
            rotations: false,
            image_size: 28,
            augment: false,
            crop_area: None,
        }
    }
}

/// `[episode]`: the shape of an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EpisodeConfig {
    /// Classes in an episode.
    pub way: usize,
    /// Support images of each class.
    pub shot: usize,
    /// Query images of each class.
    pub query: usize,
}

impl Default for EpisodeConfig {
    fn default() -> Self {
        EpisodeConfig { way: 5, shot: 1, query: 16 }
    }
}
