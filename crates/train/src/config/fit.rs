//! `[fit]`: on which episodes the scalars of a phase of kind `fit-scalars` are fitted.

use serde::{Deserialize, Serialize};

/// Of which classes the episodes are that scalars are fitted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitSplit {
    /// The training classes, which the network knows.
    #[default]
    Train,
    /// The validation classes. The figures of a model fitted so are those of a tuned model.
    Validation,
}

/// `[fit]`: the episodes of a phase of kind `fit-scalars`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FitConfig {
    /// Episodes in all.
    pub episodes: u64,
    /// Their classes and support images of each, `[[way, shot], ...]`; empty means the shape of `[episode]`. The queries of
    /// each class are those of `[episode]`.
    pub shapes: Vec<[usize; 2]>,
    /// Of which classes.
    pub split: FitSplit,
    /// Images are augmented, each once, and a random crop takes at least this part of the area: for a model that will see images unlike those of
    /// training, whose scalars would be too sure on the images it knows. Unset: as at test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop_area: Option<f64>,
    /// Steps of the quasi-Newton method at most.
    pub iterations: usize,
}

impl Default for FitConfig {
    fn default() -> Self {
        FitConfig {
            episodes: 200,
            shapes: Vec::new(),
            split: FitSplit::Train,
            crop_area: None,
            iterations: 100,
        }
    }
}
