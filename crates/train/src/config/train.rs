//! `[train]`: how long and how fast to train, when to validate, what to keep.

use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// By what the best model is chosen on the validation episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// The highest accuracy.
    #[default]
    Accuracy,
    /// The lowest mean negative log-probability of the true class.
    Nll,
}

/// `[train]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Training episodes in all (the paper's epoch is 100); batches for methods that train on batches.
    pub episodes: u64,
    /// Episodes in one optimiser step.
    pub episodes_per_step: u64,
    /// Adam's rate for the network.
    pub learning_rate: f64,
    /// Adam's rate for the kernel, tau and the prior mean.
    pub kernel_learning_rate: f64,
    /// How the rates change.
    pub schedule: Schedule,
    /// Episodes in which the rates rise to their full height.
    pub warmup_episodes: u64,
    /// With `schedule = "step"`: the rates fall after every so many episodes.
    pub step_every: u64,
    /// With `schedule = "step"`: by this factor.
    pub step_factor: f64,
    /// Decoupled weight decay of the network (AdamW); 0 means none.
    pub weight_decay: f64,
    /// The share of the old average that each step keeps in the running average of the weights (EMA), e.g. 0.999. The
    /// average is validated, tested and saved as the best model. 0 means none.
    pub ema: f64,
    /// By what the best model is chosen.
    pub select: Select,
    /// Validate every so many episodes; 0 means never (the last model is then also the best). Unset means five times in
    /// the run, or every 500 episodes where that is more often.
    pub validate_every: Option<u64>,
    /// Validate only after more than this many episodes.
    pub validate_from: u64,
    /// Episodes of one validation.
    pub validate_episodes: u64,
    /// Classes of a validation episode; unset means as trained.
    pub validate_way: Option<usize>,
    /// Support images of each class in it; unset means as trained.
    pub validate_shot: Option<usize>,
    /// Query images of each class in it; unset means as trained.
    pub validate_query: Option<usize>,
    /// Save `last.safetensors` every so many episodes.
    pub save_every: u64,
    /// Save it also when so many minutes went by since the last time; 0 means by episodes alone.
    pub save_minutes: f64,
}

impl TrainConfig {
    /// Episodes from one validation to the next; 0 means never.
    pub fn validate_every(&self) -> u64 {
        self.validate_every.unwrap_or((self.episodes / 5).clamp(1, 500))
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        TrainConfig {
            episodes: 2_000,
            episodes_per_step: 1,
            learning_rate: 1e-3,
            kernel_learning_rate: 1e-2,
            schedule: Schedule::Constant,
            warmup_episodes: 0,
            step_every: 10_000,
            step_factor: 0.1,
            weight_decay: 0.0,
            ema: 0.0,
            select: Select::Accuracy,
            validate_every: None,
            validate_from: 0,
            validate_episodes: 100,
            validate_way: None,
            validate_shot: None,
            validate_query: None,
            save_every: 500,
            save_minutes: 2.0,
        }
    }
}
