//! One TOML file describes a run: data, episodes, backbone, method, training, testing.

use crate::error::{Error, Result, io};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use siskin_methods::{MethodName, MethodSettings};
use std::path::Path;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Every random number of the run follows from this.
    pub seed: u64,
    /// The method with its settings: the key `method` and the table of its name. `siskin methods` lists the methods.
    #[serde(skip)]
    pub method: MethodSettings,
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
        Config::parse(&text, settings).map_err(|e| in_file(path, e))
    }

    /// The config that a run wrote, with settings. Earlier versions wrote the tables of all methods: those of others are
    /// left out.
    pub fn load_saved(path: &Path, settings: &[String]) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(io("read the config", path))?;
        Config::parse_saved(&text, settings).map_err(|e| in_file(path, e))
    }

    /// Parses TOML text and applies settings. What belongs to another method has no effect and is refused: each such
    /// setting, and each such table of a text that names its method. A text without the key `method` is for any method.
    pub fn parse(text: &str, settings: &[String]) -> Result<Config> {
        Config::read(text, settings, false)
    }

    /// [`Config::load_saved`] from text.
    pub fn parse_saved(text: &str, settings: &[String]) -> Result<Config> {
        Config::read(text, settings, true)
    }

    /// `saved`: whether a run wrote the text.
    fn read(text: &str, settings: &[String], saved: bool) -> Result<Config> {
        let mut table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| Error::Config(e.to_string()))?;
        let any_method = saved || !table.contains_key("method");
        let of_text = chosen(&table)?;
        let written: Vec<MethodName> =
            MethodName::all().filter(|method| table.contains_key(method.name())).collect();
        for setting in settings {
            apply(&mut table, setting)?;
        }
        let method = chosen(&table)?;
        for other in written.into_iter().filter(|&other| other != method) {
            if other != of_text && !any_method {
                return Err(no_effect(&format!("[{other}]"), other, method));
            }
            // Not chosen, but to be understood: a wrong key in it is an error too.
            settings_of(other, table.get(other.name()))?;
        }
        for setting in settings {
            let first = setting.split(['.', '=']).next().unwrap_or_default().trim();
            match first.parse::<MethodName>() {
                Ok(other) if other != method => {
                    return Err(no_effect(&format!("--set {setting}"), other, method));
                }
                _ => {}
            }
        }
        let own = settings_of(method, table.get(method.name()))?;
        table.retain(|key, _| key != "method" && key.parse::<MethodName>().is_err());
        let mut config: Config = serde_path(table)?;
        config.method = own;
        config.check()?;
        Ok(config)
    }

    /// The config with every key written out.
    pub fn to_toml(&self) -> String {
        let name = self.method.name();
        let rest = toml::to_string_pretty(self).expect("a config is plain tables of plain values");
        let own = toml::to_string_pretty(&self.method.table()).expect("settings are plain values");
        format!("method = \"{name}\"\n{rest}\n[{name}]\n{own}")
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

/// The method that a table names, or the default one.
fn chosen(table: &toml::Table) -> Result<MethodName> {
    match table.get("method") {
        None => Ok(MethodName::default()),
        Some(toml::Value::String(name)) => Ok(name.parse()?),
        Some(other) => Err(Error::Config(format!("method = {other}: it must be a name, e.g. \"cdkt\""))),
    }
}

/// The settings of a method from its table, if there is one.
fn settings_of(method: MethodName, table: Option<&toml::Value>) -> Result<MethodSettings> {
    let table = match table {
        None => Map::new(),
        Some(value) => match serde_json::to_value(value) {
            Ok(Value::Object(map)) => map,
            _ => return Err(Error::Config(format!("{method} = {value}: it must be a table, [{method}]"))),
        },
    };
    method.parse_settings(table).map_err(|error| match error {
        siskin_methods::Error::Setting { key, why } => Error::Config(match suggestion(&why) {
            Some((wrong, right)) => {
                format!("{key}: unknown name `{wrong}`; did you mean `{right}`? ({why})")
            }
            None => format!("{key}: {why}"),
        }),
        other => Error::Config(other.to_string()),
    })
}

fn no_effect(what: &str, other: MethodName, method: MethodName) -> Error {
    Error::Config(format!(
        "{what} has no effect: it belongs to the method {other}, and this run is by {method}. Take it out, or choose \
         method = \"{other}\""
    ))
}

fn in_file(path: &Path, error: Error) -> Error {
    match error {
        Error::Config(why) => Error::Config(format!("{}: {why}", path.display())),
        other => other,
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
