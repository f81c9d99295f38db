//! The table of settings: a TOML file.
//!
//! ```toml
//! config = "glyphs.toml"        # beside this file
//!
//! [set]                         # for all runs
//! train.episodes = 200
//!
//! [[grid]]                      # every combination of these values; there may be several grids
//! cdkt.tau = [0.2, 1.0]
//! seed = [0, 1, 2, 3]
//! ```

use crate::config::{Config, explained_config};
use crate::error::{Error, Result, io};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Most runs of a table.
const MOST_RUNS: usize = 100_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    config: PathBuf,
    #[serde(default)]
    set: Table,
    grid: Vec<Table>,
}

/// Keys and values of one run.
type Settings = Vec<(String, String)>;

/// Every run of the table: what it says of the run, and the whole config. `set`: further settings of all runs.
pub(super) fn read(path: &Path, set: &[String]) -> Result<Vec<(Settings, Config)>> {
    const MOST_BYTES: u64 = 16 << 20;
    let text = |bytes| String::from_utf8(bytes).map_err(std::io::Error::other);
    let text =
        siskin_data::files::read(path, MOST_BYTES).and_then(text).map_err(io("read the table", path))?;
    let named = |error: Error| match error {
        Error::Config(why) => Error::Config(format!("{}: {why}", path.display())),
        other => other,
    };
    runs(&text, path.parent().unwrap_or(Path::new("")), set).map_err(named)
}

fn runs(text: &str, beside: &Path, set: &[String]) -> Result<Vec<(Settings, Config)>> {
    let file: File = toml::from_str(text).map_err(|e| explained_config(&e))?;
    let common: Vec<String> = flat(&file.set)
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .chain(set.iter().cloned())
        .collect();
    let config = beside.join(&file.config);
    let mut runs = Vec::new();
    for (number, grid) in (1..).zip(&file.grid) {
        for settings in combinations(grid).map_err(|why| Error::Config(format!("grid {number}: {why}")))? {
            let mut all = common.clone();
            all.extend(settings.iter().map(|(key, value)| format!("{key}={value}")));
            let place = |error| Error::Config(format!("grid {number}, {}: {error}", words(&settings)));
            let config = Config::load(&config, &all).map_err(place)?;
            let shown = settings.into_iter().map(|(key, value)| (key, plain(&value))).collect();
            runs.push((shown, config));
        }
    }
    if runs.is_empty() {
        return Err(Error::Config("there is no run in it; write e.g. [[grid]] with seed = [0, 1]".into()));
    }
    Ok(runs)
}

fn words(settings: &Settings) -> String {
    settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Keys with dots between and their values as TOML.
fn flat(table: &Table) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                all.extend(flat(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            other => all.push((key.clone(), other.clone())),
        }
    }
    all
}

/// Every combination of the values of a grid; the last key changes first.
fn combinations(grid: &Table) -> std::result::Result<Vec<Settings>, String> {
    let mut all: Vec<Settings> = vec![Vec::new()];
    for (key, value) in flat(grid) {
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        if values.is_empty() {
            return Err(format!("{key} has no value"));
        }
        if all.len().saturating_mul(values.len()) > MOST_RUNS {
            return Err(format!("it has more than {MOST_RUNS} runs"));
        }
        let with = |settings: &Settings, value: &Value| {
            let mut settings = settings.clone();
            settings.push((key.clone(), value.to_string()));
            settings
        };
        all = all.iter().flat_map(|settings| values.iter().map(move |v| with(settings, v))).collect();
    }
    Ok(all)
}

/// A value as people write it: text without quotes.
fn plain(value: &str) -> String {
    match format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v")) {
        Some(Value::String(text)) => text,
        _ => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<(Settings, Config)>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("c.toml"), "[episode]\nway = 3\n").unwrap();
        runs(text, folder.path(), &["train.episodes=9".into()])
    }

    #[test]
    fn every_combination_is_a_run_with_its_config() {
        let runs = read_text(
            "config = \"c.toml\"\n[set]\nepisode.shot = 4\n[[grid]]\ncdkt.tau = [0.5, 2.0]\nseed = [7, 8]\n\
             [[grid]]\nmethod = \"proto-net\"\n",
        )
        .unwrap();
        let shown: Vec<String> = runs.iter().map(|(settings, _)| words(settings)).collect();
        assert_eq!(
            shown,
            [
                "cdkt.tau=0.5 seed=7",
                "cdkt.tau=0.5 seed=8",
                "cdkt.tau=2.0 seed=7",
                "cdkt.tau=2.0 seed=8",
                "method=proto-net"
            ]
        );
        let by_hand = "seed = 8\n[episode]\nway = 3\nshot = 4\n[train]\nepisodes = 9\n[cdkt]\ntau = 2.0\n";
        assert_eq!(runs[3].1, Config::parse(by_hand, &[]).unwrap());
        assert_eq!(runs[4].1.method.name(), "proto-net");
    }

    #[test]
    fn mistakes_say_in_which_grid_they_are() {
        for (text, says) in [
            ("config = \"c.toml\"\n[[grid]]\ntrain.episods = [1]", "grid 1, train.episods=1: "),
            ("config = \"c.toml\"\n[[grid]]\nseed = []", "grid 1: seed has no value"),
            ("config = \"c.toml\"\ngrid = []", "no run in it"),
            ("config = \"c.toml\"\n[[grids]]\nseed = 1", "did you mean `grid`"),
            ("config = \"absent.toml\"\n[[grid]]\nseed = 1", "absent.toml"),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let many: Vec<String> = (0..400).map(|i| i.to_string()).collect();
        let list = many.join(", ");
        let error =
            read_text(&format!("config = \"c.toml\"\n[[grid]]\nseed = [{list}]\nepisode.way = [{list}]"));
        assert!(error.unwrap_err().to_string().contains("more than 100000 runs"));
    }
}
