//! Which keys of two configs differ.

use crate::config::Config;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// A key on which two configs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedKey {
    /// The key with its tables, e.g. `train.episodes`.
    pub key: String,
    /// The value found, or `unset`.
    pub found: String,
    /// The value wanted, or `unset`.
    pub wanted: String,
}

/// Every key on which two configs differ, by name.
pub fn changed_keys(wanted: &Config, found: &Config) -> Result<Vec<ChangedKey>> {
    let (wanted, found) = (leaves_of(wanted)?, leaves_of(found)?);
    let of = |list: &[(String, String)], key: &str| {
        list.iter().find(|(k, _)| k == key).map_or("unset".into(), |(_, v)| v.clone())
    };
    let mut keys: Vec<&String> = wanted.iter().chain(&found).map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    let pairs = keys.into_iter().map(|key| ChangedKey {
        key: key.clone(),
        found: of(&found, key),
        wanted: of(&wanted, key),
    });
    Ok(pairs.filter(|pair| pair.found != pair.wanted).collect())
}

/// Every key with its value as text, the method's settings included.
fn leaves_of(config: &Config) -> Result<Vec<(String, String)>> {
    let table: toml::Table =
        config.to_toml().parse().map_err(|e: toml::de::Error| Error::Config(e.to_string()))?;
    let mut out = Vec::new();
    leaves("", &toml::Value::Table(table), &mut out);
    Ok(out)
}

fn leaves(prefix: &str, value: &toml::Value, out: &mut Vec<(String, String)>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                leaves(&name, value, out);
            }
        }
        leaf => out.push((prefix.into(), leaf.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_keys_are_named() {
        let config =
            |set: &[&str]| Config::parse("", &set.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap();
        let (a, b) =
            (config(&["train.episodes=7"]), config(&["train.episodes=9", "data.split=lake", "cdkt.tau=2"]));
        let named = |changed: Vec<ChangedKey>| {
            let words = changed.into_iter().map(|c| format!("{} {} {}", c.key, c.found, c.wanted));
            words.collect::<Vec<_>>()
        };
        let changed = named(changed_keys(&a, &b).unwrap());
        assert_eq!(changed[1..], ["data.split \"lake\" unset", "train.episodes 9 7"]);
        assert!(changed[0].starts_with("cdkt.tau 2.0 "), "settings of the method count too: {changed:?}");
        assert!(changed_keys(&a, &a).unwrap().is_empty());
    }
}
