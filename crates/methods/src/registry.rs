//! The list of methods. A new method has one line here; names, help, config tables and constructors follow from it.

use crate::error::{Error, Result};
use crate::settings::{MethodSettings, Settings};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// Every method, in the order in which people see them. The first is the default.
static METHODS: &[Entry] = &[
    Entry::of::<crate::gp::cdkt::CdktSettings>(),
    Entry::of::<crate::gp::dkt::DktSettings>(),
    Entry::of::<crate::gp::ls_gibbs::LsGibbsSettings>(),
    Entry::of::<crate::gp::ove::OveSettings>(),
    Entry::of::<crate::transfer::feature_transfer::FeatureTransferSettings>(),
    Entry::of::<crate::transfer::baseline_plus_plus::BaselinePlusPlusSettings>(),
    Entry::of::<crate::metric::matching_net::MatchingNetSettings>(),
    Entry::of::<crate::metric::proto_net::ProtoNetSettings>(),
    Entry::of::<crate::metric::relation_net::RelationNetSettings>(),
    Entry::of::<crate::gradient::maml::MamlSettings>(),
    Entry::of::<crate::gradient::bmaml::BmamlSettings>(),
    Entry::of::<crate::gradient::bmaml_chaser::BmamlChaserSettings>(),
    Entry::of::<crate::gradient::abml::AbmlSettings>(),
];

/// What is known of a method without building it.
struct Entry {
    name: &'static str,
    about: &'static str,
    paper: &'static str,
    defaults: fn() -> MethodSettings,
    parse: fn(Map<String, Value>) -> Result<MethodSettings>,
}

impl Entry {
    const fn of<S: Settings>() -> Entry {
        Entry {
            name: S::NAME,
            about: S::ABOUT,
            paper: S::PAPER,
            defaults: || MethodSettings::of(S::default()),
            parse: MethodSettings::parse::<S>,
        }
    }
}

/// The name of a registered method, and what is known of it.
#[derive(Clone, Copy)]
pub struct MethodName(&'static Entry);

impl MethodName {
    /// Every method.
    pub fn all() -> impl ExactSizeIterator<Item = MethodName> + Clone {
        METHODS.iter().map(MethodName)
    }

    /// The name used in configs and on the command line.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        self.0.about
    }

    /// Where the paper describes or measures it.
    pub fn paper(self) -> &'static str {
        self.0.paper
    }

    /// Its settings where nothing is chosen.
    pub fn defaults(self) -> MethodSettings {
        (self.0.defaults)()
    }

    /// Its settings from a table, checked. What the table leaves out has its default.
    pub fn parse_settings(self, table: Map<String, Value>) -> Result<MethodSettings> {
        (self.0.parse)(table)
    }
}

impl Default for MethodName {
    fn default() -> Self {
        MethodName(&METHODS[0])
    }
}

impl PartialEq for MethodName {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for MethodName {}

impl fmt::Debug for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name())
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MethodName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        MethodName::all().find(|method| method.name() == name).ok_or_else(|| Error::UnknownMethod {
            name: name.into(),
            known: MethodName::all().map(MethodName::name).collect(),
        })
    }
}

impl Serialize for MethodName {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for MethodName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
