//! One TOML file describes a run: data, episodes, backbone, method, training, testing.

mod backbone;
mod check;
mod data;
mod explain;
mod fit;
mod set;
mod test;
mod train;

pub use backbone::{BackboneConfig, PrecisionName};
pub use data::{DataConfig, EpisodeConfig};
pub(crate) use explain::{explained, explained_config};
pub use fit::{FitConfig, FitSplit};
pub use test::TestConfig;
pub use train::{Select, TrainConfig};

use crate::error::{Error, Result, io};
use crate::phase;
use explain::explained_setting;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use set::apply;
use siskin_methods::{MethodName, MethodSettings};
use siskin_model::ModelSpec;
use siskin_model::foreign::NetworkRef;
use siskin_nn::Architecture;
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

impl Config {
    /// Reads a file and applies `key=value` settings in order, e.g. `train.episodes=500`.
    pub fn load(path: &Path, settings: &[String]) -> Result<Config> {
        Config::load_by(path, settings, None)
    }

    /// As [`Config::load`], by `method` in place of the file's.
    pub fn load_by(path: &Path, settings: &[String], method: Option<MethodName>) -> Result<Config> {
        let text = read(path)?;
        Config::read(&text, settings, method, false).map_err(|e| in_file(path, e))
    }

    /// The config that a run wrote, with settings. Earlier versions wrote the tables of all methods: those of others are
    /// left out.
    pub(crate) fn load_saved(path: &Path, settings: &[String]) -> Result<Config> {
        let text = read(path)?;
        Config::parse_saved(&text, settings).map_err(|e| in_file(path, e))
    }

    /// Parses TOML text and applies settings. What belongs to another method has no effect and is refused: each such
    /// setting, and each such table of a text that names its method. A text without the key `method` is for any method.
    pub fn parse(text: &str, settings: &[String]) -> Result<Config> {
        Config::read(text, settings, None, false)
    }

    /// [`Config::load_saved`] from text.
    pub(crate) fn parse_saved(text: &str, settings: &[String]) -> Result<Config> {
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
        rename(&mut table);
        for setting in settings {
            apply(&mut table, setting)?;
            rename(&mut table);
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
        let mut config = Config::deserialize(table).map_err(|e| explained_config(&e))?;
        config.method = own;
        config.check()?;
        Ok(config)
    }

    /// The model it describes, trained on so many base classes, on vectors of `network` if there is one.
    pub fn model(&self, base_classes: usize, network: Option<&NetworkRef>) -> ModelSpec {
        let rank = self.backbone.rank.unwrap_or(0);
        let (architecture, image_size) = match network {
            None => (self.backbone.name, self.data.image_size),
            Some(NetworkRef { spec, .. }) => {
                (Architecture::Frozen { dim: spec.dim, rank }, spec.preprocessing.size)
            }
        };
        ModelSpec {
            architecture,
            image_size,
            method: self.method.clone(),
            way: self.episode.way,
            base_classes: Some(base_classes),
            seed: self.seed,
            network: network.cloned(),
        }
    }

    /// The config with other data, whole.
    pub fn on_data(mut self, name: &str) -> Config {
        self.data.train = name.into();
        (self.data.transfer, self.data.split, self.data.validation_domains) = (None, None, None);
        self
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
}

/// Keys that had another name in earlier versions.
fn rename(table: &mut toml::Table) {
    if let Some(test) = table.get_mut("test").and_then(toml::Value::as_table_mut)
        && let Some(groups) = test.remove("batches")
    {
        test.insert("groups".into(), groups);
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
        siskin_methods::Error::Setting { key, why } => explained_setting(&key, &why),
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

/// The text of a config: a regular file of bounded size.
fn read(path: &Path) -> Result<String> {
    const MOST_BYTES: u64 = 16 << 20;
    let text = |bytes| String::from_utf8(bytes).map_err(std::io::Error::other);
    siskin_data::files::read(path, MOST_BYTES).and_then(text).map_err(io("read the config", path))
}

#[cfg(test)]
mod tests;
