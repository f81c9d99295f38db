//! One TOML file describes a run: data, episodes, backbone, method, training, testing.

use crate::error::{Error, Result, io};
use serde::{Deserialize, Serialize};
use siskin_methods::MethodName;
use siskin_methods::abml::AbmlConfig;
use siskin_methods::bmaml::BmamlConfig;
use siskin_methods::bmaml_chaser::BmamlChaserConfig;
use siskin_methods::cdkt::CdktConfig;
use siskin_methods::dkt::DktConfig;
use siskin_methods::ls_gibbs::LsGibbsConfig;
use siskin_methods::maml::MamlConfig;
use siskin_methods::ove::OveConfig;
use siskin_methods::relation_net::RelationNetConfig;
use std::path::Path;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Every random number of the run follows from this.
    pub seed: u64,
    /// The method; `siskin methods` lists them.
    pub method: MethodName,
    /// Which images.
    pub data: DataConfig,
    /// The shape of a training episode.
    pub episode: EpisodeConfig,
    /// The network.
    pub backbone: BackboneConfig,
    /// How long and how fast to train, and when to validate.
    pub train: TrainConfig,
    /// The test protocol.
    pub test: TestConfig,
    /// What CDKT does with features and labels.
    pub cdkt: CdktConfig,
    /// What DKT does.
    pub dkt: DktConfig,
    /// What LS-Gibbs does.
    #[serde(rename = "ls-gibbs")]
    pub ls_gibbs: LsGibbsConfig,
    /// What OVE does.
    pub ove: OveConfig,
    /// What RelationNet is trained for.
    #[serde(rename = "relation-net")]
    pub relation_net: RelationNetConfig,
    /// The inner steps of MAML.
    pub maml: MamlConfig,
    /// Particles and steps of Bayesian MAML.
    pub bmaml: BmamlConfig,
    /// Particles, steps and leader of Bayesian MAML with the chaser loss.
    #[serde(rename = "bmaml-chaser")]
    pub bmaml_chaser: BmamlChaserConfig,
    /// Samples, steps and priors of ABML.
    pub abml: AbmlConfig,
}

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

/// `[backbone]`: the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackboneConfig {
    /// `conv4`, `conv4s`, `conv6` or `resnet12`.
    pub name: String,
    /// `cpu`, or `cuda`, `wgpu`, `metal` where compiled in.
    pub device: String,
    /// `f32`, or `bf16` on a CPU that has it: bf16 products with f32 sums. `bf16-emulated` computes the same anywhere,
    /// slowly.
    pub precision: String,
    /// A safetensors file whose weights training starts from, in place of random ones; see docs/weights.md.
    pub weights: Option<String>,
    /// Whether the CPU uses the fused blocks; false means Burn's own operations, some ten times slower.
    pub fused: bool,
}

impl Default for BackboneConfig {
    fn default() -> Self {
        BackboneConfig {
            name: "conv4s".into(),
            device: "cpu".into(),
            precision: "f32".into(),
            weights: None,
            fused: true,
        }
    }
}

/// How the learning rates fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// They stay, as in the paper.
    #[default]
    Constant,
    /// Half a cosine from the full rate to a hundredth of it.
    Cosine,
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
    /// How the rates fall.
    pub schedule: Schedule,
    /// Validate every so many episodes; 0 means never (the last model is then also the best). Unset means five times in
    /// the run, or every 500 episodes where that is more often.
    pub validate_every: Option<u64>,
    /// Validate only after more than this many episodes.
    pub validate_from: u64,
    /// Episodes of one validation.
    pub validate_episodes: u64,
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
            validate_every: None,
            validate_from: 0,
            validate_episodes: 100,
            save_every: 500,
            save_minutes: 2.0,
        }
    }
}

/// `[test]`: the paper's protocol is 5 batches of 600 episodes with 15 queries a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestConfig {
    /// Batches; each has its own seed.
    pub batches: u64,
    /// Episodes in a batch.
    pub episodes: u64,
    /// Query images of each class.
    pub query: usize,
    /// Classes in a test episode; unset means as trained.
    pub way: Option<usize>,
    /// Support images of each class; unset means as trained.
    pub shot: Option<usize>,
}

impl Default for TestConfig {
    fn default() -> Self {
        TestConfig { batches: 5, episodes: 600, query: 15, way: None, shot: None }
    }
}

impl Config {
    /// Reads a file and applies `key=value` settings in order, e.g. `train.episodes=500`.
    pub fn load(path: &Path, settings: &[String]) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(io("read the config", path))?;
        Config::parse(&text, settings).map_err(|e| match e {
            Error::Config(why) => Error::Config(format!("{}: {why}", path.display())),
            other => other,
        })
    }

    /// Parses TOML text and applies settings.
    pub fn parse(text: &str, settings: &[String]) -> Result<Config> {
        let mut table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| Error::Config(e.to_string()))?;
        for setting in settings {
            apply(&mut table, setting)?;
        }
        let config: Config = serde_path(table)?;
        config.check()?;
        Ok(config)
    }

    /// The config with every key written out.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a config is plain tables of plain values")
    }

    fn check(&self) -> Result<()> {
        let at_least_one = [
            ("episode.shot", self.episode.shot as u64),
            ("episode.query", self.episode.query as u64),
            ("train.episodes", self.train.episodes),
            ("train.episodes_per_step", self.train.episodes_per_step),
            ("train.save_every", self.train.save_every),
            ("train.validate_episodes", self.train.validate_episodes),
            ("test.batches", self.test.batches),
            ("test.episodes", self.test.episodes),
            ("test.query", self.test.query as u64),
            ("data.image_size", self.data.image_size as u64),
            ("cdkt.steps", self.cdkt.steps as u64),
            ("cdkt.test_steps", self.cdkt.test_steps as u64),
            ("ls-gibbs.chains", self.ls_gibbs.chains as u64),
            ("ls-gibbs.sweeps", self.ls_gibbs.sweeps as u64),
            ("ls-gibbs.test_sweeps", self.ls_gibbs.test_sweeps as u64),
            ("ove.chains", self.ove.chains as u64),
            ("ove.sweeps", self.ove.sweeps as u64),
            ("ove.test_sweeps", self.ove.test_sweeps as u64),
            ("maml.inner_steps", self.maml.inner_steps as u64),
            ("bmaml.particles", self.bmaml.particles as u64),
            ("bmaml.inner_steps", self.bmaml.inner_steps as u64),
            ("bmaml-chaser.particles", self.bmaml_chaser.particles as u64),
            ("bmaml-chaser.inner_steps", self.bmaml_chaser.inner_steps as u64),
            ("bmaml-chaser.leader_steps", self.bmaml_chaser.leader_steps as u64),
            ("abml.inner_steps", self.abml.inner_steps as u64),
            ("abml.samples", self.abml.samples as u64),
            ("abml.test_samples", self.abml.test_samples as u64),
        ];
        if let Some((key, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(Error::Config(format!("{key} = 0: it must be at least 1")));
        }
        if self.episode.way < 2 {
            return Err(Error::Config(format!("episode.way = {}: it must be at least 2", self.episode.way)));
        }
        let positive = [
            ("train.learning_rate", self.train.learning_rate),
            ("train.kernel_learning_rate", self.train.kernel_learning_rate),
            ("cdkt.tau", self.cdkt.tau),
            ("cdkt.initial_output_scale", self.cdkt.initial_output_scale),
            ("dkt.initial_output_scale", self.dkt.initial_output_scale),
            ("dkt.noise", self.dkt.noise),
            ("ls-gibbs.initial_output_scale", self.ls_gibbs.initial_output_scale),
            ("ove.initial_output_scale", self.ove.initial_output_scale),
            ("maml.inner_learning_rate", self.maml.inner_learning_rate),
            ("bmaml.inner_learning_rate", self.bmaml.inner_learning_rate),
            ("bmaml-chaser.inner_learning_rate", self.bmaml_chaser.inner_learning_rate),
            ("bmaml-chaser.leader_learning_rate", self.bmaml_chaser.leader_learning_rate),
            ("abml.inner_learning_rate", self.abml.inner_learning_rate),
            ("abml.kl_weight", self.abml.kl_weight),
            ("abml.hyper_prior_weight", self.abml.hyper_prior_weight),
            ("abml.initial_deviation", self.abml.initial_deviation),
        ];
        // Ten years: what `Duration` holds for certain.
        if !(0.0..=5_256_000.0).contains(&self.train.save_minutes) {
            return Err(Error::Config(format!(
                "train.save_minutes = {}: it must be at least 0 (never by the clock) and at most 5256000",
                self.train.save_minutes
            )));
        }
        match positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            Some((key, value)) => Err(Error::Config(format!("{key} = {value}: it must be a number above 0"))),
            None => Ok(()),
        }
    }
}

/// Applies `a.b=value`: the value is TOML (`3`, `0.5`, `true`, `"text"`), or text where it does not parse as TOML.
fn apply(table: &mut toml::Table, setting: &str) -> Result<()> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(Error::Config(format!(
            "--set {setting}: there is no `=`; write e.g. --set train.episodes=500"
        )));
    };
    let value = match format!("v = {}", value.trim()).parse::<toml::Table>() {
        Ok(mut parsed) => parsed.remove("v").unwrap_or_else(|| toml::Value::String(value.into())),
        Err(_) => toml::Value::String(value.trim().into()),
    };
    let mut path: Vec<&str> = key.trim().split('.').collect();
    let last = path.pop().unwrap_or_default();
    let mut at = table;
    for part in path {
        let next = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = match next {
            toml::Value::Table(inner) => inner,
            _ => return Err(Error::Config(format!("--set {setting}: `{part}` is a value, not a table"))),
        };
    }
    at.insert(last.to_string(), value);
    Ok(())
}

/// Deserialises, and where a key or a name is unknown says which one was probably meant.
fn serde_path(table: toml::Table) -> Result<Config> {
    Config::deserialize(table).map_err(|e| {
        let message = e.message().to_string();
        Error::Config(match suggestion(&message) {
            Some((wrong, right)) => format!("unknown name `{wrong}`; did you mean `{right}`? ({message})"),
            None => e.to_string().trim().to_string(),
        })
    })
}

/// From serde's "unknown field `x`, expected one of `a`, `b`": the wrong name and the nearest right one.
fn suggestion(message: &str) -> Option<(String, String)> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let wrong = names.next()?.to_string();
    let right = names.max_by(|a, b| {
        let near = |s: &str| strsim::jaro_winkler(&wrong, s);
        near(a).total_cmp(&near(b))
    })?;
    Some((wrong.clone(), right.to_string()))
}

#[cfg(test)]
mod tests;
