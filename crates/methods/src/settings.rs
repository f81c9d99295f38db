//! What can be chosen about a method: one serde struct per method, and [`MethodSettings`], which holds that of any method.

use crate::error::{Error, Result};
use crate::registry::MethodName;
use crate::{Method, Setup};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::any::Any;
use std::fmt;

/// The settings of one method, and how the method is built of them. In a config file they are the table of its name.
///
/// The struct has `#[serde(deny_unknown_fields, default)]`, so that each key can be left out and a wrong one is an error.
pub trait Settings:
    Clone + PartialEq + fmt::Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The name in configs and on the command line.
    const NAME: &'static str;
    /// What the method is, in a line.
    const ABOUT: &'static str;
    /// Where the paper describes or measures it.
    const PAPER: &'static str;

    /// Whether every value is in its range, and which are not.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// A fresh method.
    fn build(&self, setup: Setup) -> Result<Box<dyn Method>>;
}

/// [`Settings`] of some method, without its type.
trait AnySettings: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn check(&self) -> Result<()>;
    fn build(&self, setup: Setup) -> Result<Box<dyn Method>>;
    fn to_json(&self) -> Value;
    fn boxed(&self) -> Box<dyn AnySettings>;
    fn equals(&self, other: &dyn AnySettings) -> bool;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<S: Settings> AnySettings for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn check(&self) -> Result<()> {
        Settings::check(self)
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Settings::build(self, setup)
    }

    fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("settings are a plain table of plain values")
    }

    fn boxed(&self) -> Box<dyn AnySettings> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn AnySettings) -> bool {
        other.as_any().downcast_ref::<S>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A method's name with its settings. As JSON: `{"name": "maml", "settings": {"order": "second", ...}}`.
#[derive(Debug)]
pub struct MethodSettings(Box<dyn AnySettings>);

impl MethodSettings {
    /// The settings of one method: also of a method that is not registered in this crate.
    pub fn of<S: Settings>(settings: S) -> MethodSettings {
        MethodSettings(Box::new(settings))
    }

    /// Reads the table of a method, e.g. of a config file, and checks its values. The error names the key.
    pub fn parse<S: Settings>(table: Map<String, Value>) -> Result<MethodSettings> {
        let settings: S = serde_json::from_value(Value::Object(table.clone()))
            .map_err(|error| name_the_key::<S>(table, &error))?;
        settings.check()?;
        Ok(MethodSettings::of(settings))
    }

    /// The name of the method.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// All settings as a table. Keys that are not set are not in it.
    pub fn table(&self) -> Map<String, Value> {
        match self.0.to_json() {
            Value::Object(map) => map.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        }
    }

    /// The settings as those of method `S`, where it is this method.
    pub fn get<S: Settings>(&self) -> Option<&S> {
        self.0.as_any().downcast_ref()
    }

    /// The same, to change them.
    pub fn get_mut<S: Settings>(&mut self) -> Option<&mut S> {
        self.0.as_any_mut().downcast_mut()
    }

    /// Whether every value is in its range.
    pub fn check(&self) -> Result<()> {
        self.0.check()
    }

    /// A fresh method.
    pub fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        self.0.build(setup)
    }
}

/// serde does not say which key has the wrong value: the first one that is wrong alone has it.
fn name_the_key<S: Settings>(table: Map<String, Value>, error: &serde_json::Error) -> Error {
    let alone = |key: &String, value: &Value| Map::from_iter([(key.clone(), value.clone())]);
    let wrong = table.iter().find_map(|(key, value)| {
        serde_json::from_value::<S>(Value::Object(alone(key, value))).err().map(|error| (key, error))
    });
    let (key, why) = match wrong {
        Some((key, error)) => (format!("{}.{key}", S::NAME), error.to_string()),
        None => (S::NAME.to_string(), error.to_string()),
    };
    Error::Setting { key, why }
}

impl Default for MethodSettings {
    /// Those of CDKT.
    fn default() -> Self {
        MethodName::default().defaults()
    }
}

impl Clone for MethodSettings {
    fn clone(&self) -> Self {
        MethodSettings(self.0.boxed())
    }
}

impl PartialEq for MethodSettings {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_ref())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    settings: Map<String, Value>,
}

impl Serialize for MethodSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        Written { name: self.name().into(), settings: self.table() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MethodSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let Written { name, settings } = Written::deserialize(deserializer)?;
        let parse = || name.parse::<MethodName>()?.parse_settings(settings);
        parse().map_err(serde::de::Error::custom)
    }
}

/// Refuses values out of range, by key. `method` is the name of the table.
pub(crate) struct Check {
    pub method: &'static str,
}

impl Check {
    /// Counts of at least 1.
    pub(crate) fn at_least_one(&self, counts: &[(&str, usize)]) -> Result<&Self> {
        match counts.iter().find(|(_, count)| *count == 0) {
            Some((key, _)) => Err(self.error(key, "0", "at least 1")),
            None => Ok(self),
        }
    }

    /// Finite numbers above 0.
    pub(crate) fn positive(&self, numbers: &[(&str, f64)]) -> Result<&Self> {
        match numbers.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            Some((key, value)) => Err(self.error(key, &value.to_string(), "a number above 0")),
            None => Ok(self),
        }
    }

    /// Numbers of at least 0 and less than 1.
    pub(crate) fn share(&self, numbers: &[(&str, f64)]) -> Result<&Self> {
        match numbers.iter().find(|(_, value)| !(0.0..1.0).contains(value)) {
            Some((key, value)) => Err(self.error(key, &value.to_string(), "at least 0 and less than 1")),
            None => Ok(self),
        }
    }

    /// The released kernel of Bayesian MAML takes its bandwidth from a median that is 0 with two particles.
    pub(crate) fn released_particles(&self, as_released: bool, particles: usize) -> Result<()> {
        match as_released && particles < 3 {
            true => {
                Err(self.error("particles", &particles.to_string(), "at least 3 with as_released = true"))
            }
            false => Ok(()),
        }
    }

    fn error(&self, key: &str, value: &str, must: &'static str) -> Error {
        Error::Value { key: format!("{}.{key}", self.method), value: value.into(), must }
    }
}
