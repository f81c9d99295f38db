//! What must be known of a foreign network beside its file, and what a person may ask for when adding it.

use super::fault::ForeignFault;
use super::preprocess::{Preprocessing, Preset};
use serde::{Deserialize, Serialize};

/// Where the channels stand in the network's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// [1, 3, H, W].
    Nchw,
    /// [1, H, W, 3].
    Nhwc,
}

/// How an output becomes one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// [1, D] as it is.
    None,
    /// The first of the tokens [1, T, D].
    First,
    /// The mean of the tokens [1, T, D], or over all places of [1, D, H, W].
    Mean,
}

/// A foreign network as data: with the file of this hash it gives these features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignSpec {
    /// blake3 of the ONNX file.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Name of the input that takes the image.
    pub input: String,
    /// Where its channels stand.
    pub layout: Layout,
    /// What becomes of an image.
    pub preprocessing: Preprocessing,
    /// Name of the output that gives the features.
    pub output: String,
    /// How it becomes one vector.
    pub pool: Pool,
    /// Length of a vector.
    pub dim: usize,
}

impl ForeignSpec {
    /// Hash of all of it: tasks and kept features belong to one.
    pub fn hash(&self) -> String {
        // Every field is plain data with fixed names: writing it as JSON cannot fail, and an empty text would only make the
        // hash useless, not wrong.
        blake3::hash(serde_json::to_string(self).unwrap_or_default().as_bytes()).to_hex().to_string()
    }
}

/// The added network that a trained head stands on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRef {
    /// The name it was added under.
    pub name: String,
    /// What it must be, whatever its name.
    pub spec: ForeignSpec,
}

/// What a person asks for; what is not said is read from the file or taken from the preset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wishes {
    /// The family of the network; ImageNet's preprocessing if not said.
    pub preset: Option<Preset>,
    /// Name of the output.
    pub output: Option<String>,
    /// Side of the input, in pixels.
    pub size: Option<u32>,
    /// Mean of the channels, from 0 to 1.
    pub mean: Option<[f32; 3]>,
    /// Standard deviation of the channels.
    pub std: Option<[f32; 3]>,
    /// Whether the network takes blue first.
    #[serde(default)]
    pub bgr: bool,
    /// Squash, or take the centre: `true` squashes.
    pub squash: Option<bool>,
    /// How an output with several vectors becomes one.
    pub pool: Option<Pool>,
}

impl Wishes {
    /// Refuses means and deviations of colours from 0 to 255.
    pub fn check(&self) -> Result<(), ForeignFault> {
        for (what, given) in [("the mean", self.mean), ("the standard deviation", self.std)] {
            if let Some(&value) = given.iter().flatten().find(|v| **v > 1.0) {
                let must = "of colours from 0 to 1: where they are meant from 0 to 255, divide mean and standard deviation by 255";
                return Err(ForeignFault::Setting { what, value: f64::from(value), must });
            }
        }
        Ok(())
    }

    /// The preprocessing for inputs of `size` pixels.
    pub fn preprocessing(&self, size: u32) -> Preprocessing {
        use super::preprocess::Resize;
        let mut of = self.preset.unwrap_or(Preset::Imagenet).preprocessing(size);
        of.mean = self.mean.unwrap_or(of.mean);
        of.std = self.std.unwrap_or(of.std);
        of.bgr = self.bgr;
        of.resize = match (self.squash, of.resize) {
            (Some(true), _) => Resize::Squash,
            (Some(false), Resize::Squash) => Resize::Crop { shorter: size },
            (_, preset) => preset,
        };
        of
    }
}
