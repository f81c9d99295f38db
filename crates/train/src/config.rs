//! One TOML file describes a run: data, episodes, backbone, method, training, testing.

use crate::error::{Error, Result, io};
use crate::phase;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use siskin_methods::{MethodName, MethodSettings};
use siskin_model::ModelSpec;
use siskin_nn::{Architecture, Hardware, Precision};
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
    /// How scalars are fitted in a phase of kind `fit-scalars`.
    pub fit: FitConfig,
    /// The phases of the run, in order; none means one phase by the keys above. See [`crate::phase`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phase: Vec<toml::Table>,
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

/// The numbers that convolutions multiply, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrecisionName {
    /// Single precision.
    #[default]
    F32,
    /// bf16 products with f32 sums, on a CPU that has them.
    Bf16,
    /// The same results anywhere, slowly.
    Bf16Emulated,
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Precision {
        match name {
            PrecisionName::F32 => Precision::F32,
            PrecisionName::Bf16 => Precision::Bf16,
            PrecisionName::Bf16Emulated => Precision::Bf16Emulated,
        }
    }
}

impl std::str::FromStr for PrecisionName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let named = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
        PrecisionName::deserialize(named).map_err(|e| explained(&e.to_string()))
    }
}

/// `[backbone]`: the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackboneConfig {
    /// `conv4`, `conv4s`, `conv6` or `resnet12`.
    pub name: Architecture,
    /// `cpu`, or `cuda`, `wgpu`, `metal` where compiled in.
    pub device: Hardware,
    /// The numbers that convolutions multiply.
    pub precision: PrecisionName,
    /// A safetensors file whose weights training starts from, in place of random ones; see docs/weights.md.
    pub weights: Option<String>,
    /// Whether the CPU uses the fused blocks; false means Burn's own operations, some ten times slower.
    pub fused: bool,
}

impl Default for BackboneConfig {
    fn default() -> Self {
        BackboneConfig {
            name: Architecture::Conv4S,
            device: Hardware::Cpu,
            precision: PrecisionName::F32,
            weights: None,
            fused: true,
        }
    }
}

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
    /// Steps of the quasi-Newton method at most.
    pub iterations: usize,
}

impl Default for FitConfig {
    fn default() -> Self {
        FitConfig { episodes: 200, shapes: Vec::new(), split: FitSplit::Train, iterations: 100 }
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
        Config::load_by(path, settings, None)
    }

    /// As [`Config::load`], by `method` in place of the file's.
    pub fn load_by(path: &Path, settings: &[String], method: Option<MethodName>) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(io("read the config", path))?;
        Config::read(&text, settings, method, false).map_err(|e| in_file(path, e))
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
        Config::read(text, settings, None, false)
    }

    /// [`Config::load_saved`] from text.
    pub fn parse_saved(text: &str, settings: &[String]) -> Result<Config> {
        Config::read(text, settings, None, true)
    }

    /// `method`: in place of that of the text. `saved`: whether a run wrote the text.
    fn read(text: &str, settings: &[String], method: Option<MethodName>, saved: bool) -> Result<Config> {
        let mut table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| Error::Config(e.to_string()))?;
        let any_method = saved || !table.contains_key("method");
        let of_text = chosen(&table)?;
        let written: Vec<MethodName> =
            MethodName::all().filter(|method| table.contains_key(method.name())).collect();
        for setting in settings {
            apply(&mut table, setting)?;
        }
        if let Some(method) = method {
            table.insert("method".into(), toml::Value::String(method.name().into()));
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
        let config = Config::from_table(table)?;
        phase::phases(&config)?;
        Ok(config)
    }

    /// From a parsed table; unknown keys, wrong types and values out of range get a sentence. Tables of methods that are not
    /// chosen are left out.
    pub(crate) fn from_table(mut table: toml::Table) -> Result<Config> {
        let method = chosen(&table)?;
        let own = settings_of(method, table.get(method.name()))?;
        table.retain(|key, _| key != "method" && key.parse::<MethodName>().is_err());
        let mut config = Config::deserialize(table).map_err(|e| {
            let plain = e.to_string().trim().to_string();
            if suggestion(e.message()).is_some() { explained(e.message()) } else { Error::Config(plain) }
        })?;
        config.method = own;
        config.check()?;
        Ok(config)
    }

    /// The model it describes, trained on so many base classes.
    pub fn model(&self, base_classes: usize) -> ModelSpec {
        ModelSpec {
            architecture: self.backbone.name,
            image_size: self.data.image_size,
            method: self.method.clone(),
            way: self.episode.way,
            base_classes: Some(base_classes),
            seed: self.seed,
        }
    }

    /// The config with settings applied.
    pub fn changed(&self, settings: &[String]) -> Result<Config> {
        Config::parse_saved(&self.to_toml(), settings)
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
            ("train.step_every", self.train.step_every),
            ("fit.episodes", self.fit.episodes),
            ("train.validate_shot", self.train.validate_shot.unwrap_or(1) as u64),
            ("train.validate_query", self.train.validate_query.unwrap_or(1) as u64),
            ("train.validate_episodes", self.train.validate_episodes),
            ("test.batches", self.test.batches),
            ("test.episodes", self.test.episodes),
            ("test.query", self.test.query as u64),
            ("data.image_size", self.data.image_size as u64),
        ];
        if let Some((key, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(Error::Config(format!("{key} = 0: it must be at least 1")));
        }
        let at_most = [
            ("data.image_size", self.data.image_size as u64, 1_024),
            ("episode.way", self.episode.way as u64, 1_000),
            ("episode.shot", self.episode.shot as u64, 1_000),
            ("episode.query", self.episode.query as u64, 1_000),
            ("train.episodes_per_step", self.train.episodes_per_step, 10_000),
            ("test.query", self.test.query as u64, 1_000),
        ];
        if let Some((key, value, most)) = at_most.iter().find(|(_, value, most)| value > most) {
            return Err(Error::Config(format!("{key} = {value}: it must be at most {most}")));
        }
        if self.episode.way < 2 {
            return Err(Error::Config(format!("episode.way = {}: it must be at least 2", self.episode.way)));
        }
        if let Some(way) = self.train.validate_way.filter(|way| *way < 2) {
            return Err(Error::Config(format!("train.validate_way = {way}: it must be at least 2")));
        }
        if let Some([way, shot]) = self.fit.shapes.iter().find(|[way, shot]| *way < 2 || *shot == 0) {
            return Err(Error::Config(format!(
                "fit.shapes has [{way}, {shot}]: a shape is [classes, images of each], at least [2, 1]"
            )));
        }
        if !(0.0..1.0).contains(&self.train.ema) {
            return Err(Error::Config(format!(
                "train.ema = {}: it must be at least 0 (no average) and less than 1, e.g. 0.999",
                self.train.ema
            )));
        }
        if !(0.0..f64::INFINITY).contains(&self.train.weight_decay) {
            return Err(Error::Config(format!(
                "train.weight_decay = {}: it must be a number of at least 0",
                self.train.weight_decay
            )));
        }
        let positive = [
            ("train.learning_rate", self.train.learning_rate),
            ("train.kernel_learning_rate", self.train.kernel_learning_rate),
            ("train.step_factor", self.train.step_factor),
        ];
        if let (Some(_), Some(other)) = (self.data.validation_domains, &self.data.transfer) {
            return Err(Error::Config(format!(
                "data.validation_domains has no effect beside data.transfer = {other:?}: the classes of {other} validate"
            )));
        }
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
    let mut path = path.into_iter();
    while let Some(part) = path.next() {
        let next = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = match next {
            toml::Value::Table(inner) => inner,
            toml::Value::Array(phases) => phase_named(phases, path.next().unwrap_or_default(), setting)?,
            _ => return Err(Error::Config(format!("--set {setting}: `{part}` is a value, not a table"))),
        };
    }
    at.insert(last.to_string(), value);
    Ok(())
}

/// The phase of this name, or of this number from 1.
fn phase_named<'a>(phases: &'a mut [toml::Value], name: &str, setting: &str) -> Result<&'a mut toml::Table> {
    let named = |phase: &toml::Value| phase.get("name").and_then(toml::Value::as_str) == Some(name);
    let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let place = phases.iter().position(named).or(number);
    let found = place.and_then(|place| phases.get_mut(place)).and_then(toml::Value::as_table_mut);
    found.ok_or_else(|| {
        Error::Config(format!(
            "--set {setting}: there is no phase `{name}`; give its name, or its number from 1"
        ))
    })
}

/// An error of serde as a sentence: where a key or a name is unknown, with the one that was probably meant.
pub(crate) fn explained(message: &str) -> Error {
    Error::Config(match suggestion(message) {
        Some((wrong, right)) => format!("unknown name `{wrong}`; did you mean `{right}`? ({message})"),
        None => message.to_string(),
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
