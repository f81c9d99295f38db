//! Several phases in one run: each `[[phase]]` table of a config overrides keys of `[train]`, `[episode]`, `[fit]` and of the
//! methods, and starts from what the phase before it learned.
//!
//! ```toml
//! method = "cdkt"
//!
//! [[phase]]
//! name = "pre-training"
//! method = "baseline-plus-plus"
//! train = { episodes = 5000 }
//!
//! [[phase]]
//! name = "evidence"
//! train = { episodes = 2000, ema = 0.999 }
//!
//! [[phase]]
//! name = "scalars"
//! kind = "fit-scalars"
//! ```

use crate::config::Config;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use siskin_methods::{Method, MethodName};
use toml::{Table, Value};

/// What a phase does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// Optimiser steps on episodes, or on batches of base classes where the method wants them.
    #[default]
    Train,
    /// The network stays; the scalars of the Gaussian process are fitted to convergence on features of some hundred episodes.
    FitScalars,
}

/// Where a phase starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartFrom {
    /// The last weights of the phase before, averaged where it averages.
    Last,
    /// Its best model by validation.
    Best,
}

/// What becomes of the scalars (output scale, kernel shape, prior mean, temperature) that the phase before learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scalars {
    /// They are kept where the phase has as many of them, in the same parametrisation; else they start by the config.
    #[default]
    Keep,
    /// They start by the config.
    Fresh,
}

/// The keys of a `[[phase]]` table that are its own; all others override the config.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Own {
    name: Option<String>,
    kind: PhaseKind,
    start: Option<StartFrom>,
    scalars: Scalars,
}

const OWN_KEYS: [&str; 4] = ["name", "kind", "start", "scalars"];
/// Keys of a config that are the same in all phases.
const FIXED_KEYS: [&str; 5] = ["seed", "data", "backbone", "test", "phase"];

/// One phase of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Its place, from 0.
    pub index: usize,
    /// What to call it; none in a run of one phase.
    pub name: Option<String>,
    /// What it does.
    pub kind: PhaseKind,
    /// Where it starts.
    pub start: StartFrom,
    /// Which scalars it starts with.
    pub scalars: Scalars,
    /// Training episodes of the run before it.
    pub first: u64,
    /// The config with the phase's keys in place, and without phases.
    pub config: Config,
}

impl Phase {
    /// Training episodes of the run after it.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.length()
    }

    /// Refuses a fit of scalars for a method that has none.
    pub fn check(&self, method: &dyn Method) -> Result<()> {
        match self.kind == PhaseKind::FitScalars && !method.fits_scalars() {
            true => Err(Error::Config(format!(
                "phase {} is of kind fit-scalars, but {} has no scalars that can be fitted; cdkt has. Leave the phase out, or give it \
                 method = \"cdkt\"",
                self.index + 1,
                self.config.method.name()
            ))),
            false => Ok(()),
        }
    }

    /// Its training episodes.
    pub fn length(&self) -> u64 {
        match self.kind {
            PhaseKind::Train => self.config.train.episodes,
            PhaseKind::FitScalars => 0,
        }
    }
}

/// The phases of a config: one where it names none.
pub fn phases(config: &Config) -> Result<Vec<Phase>> {
    let plain = Config { phase: Vec::new(), ..config.clone() };
    if config.phase.is_empty() {
        let (kind, scalars) = (PhaseKind::Train, Scalars::Keep);
        let start = StartFrom::Last;
        return Ok(vec![Phase { index: 0, name: None, kind, start, scalars, first: 0, config: plain }]);
    }
    let base: Table = plain.to_toml().parse().map_err(|e: toml::de::Error| Error::Config(e.to_string()))?;
    let mut phases: Vec<Phase> = Vec::new();
    for (index, table) in config.phase.iter().enumerate() {
        let place = |why: Error| Error::Config(format!("phase {}: {why}", label(index, table)));
        let first = phases.last().map_or(0, Phase::end);
        phases.push(phase(&base, table, index, first).map_err(place)?);
    }
    // Vectors of a frozen network, or of weights that are given, need no training before.
    let given = config.backbone.network.is_some() || config.backbone.weights.is_some();
    if phases[0].kind == PhaseKind::FitScalars && !given {
        let why = "the first phase is fit-scalars: there is no model before it, and no backbone.weights";
        return Err(Error::Config(why.into()));
    }
    Ok(phases)
}

/// The number of a phase, and its name where it has one.
fn label(index: usize, table: &Table) -> String {
    match table.get("name").and_then(Value::as_str) {
        Some(name) => format!("{} ({name})", index + 1),
        None => (index + 1).to_string(),
    }
}

fn phase(base: &Table, table: &Table, index: usize, first: u64) -> Result<Phase> {
    let (own, overrides): (Table, Table) =
        table.clone().into_iter().partition(|(key, _)| OWN_KEYS.contains(&key.as_str()));
    if let Some(key) = overrides.keys().find(|key| FIXED_KEYS.contains(&key.as_str())) {
        return Err(Error::Config(format!("`{key}` is the same in all phases; set it outside of [[phase]]")));
    }
    let mut merged = base.clone();
    merge(&mut merged, overrides.clone());
    let config = Config::from_table(merged)?;
    let chosen = config.method.name();
    if let Some(key) = overrides.keys().find(|key| key.parse::<MethodName>().is_ok() && *key != chosen) {
        return Err(Error::Config(format!("[phase.{key}] has no effect: this phase is by {chosen}")));
    }
    let Own { name, kind, start, scalars } =
        Own::deserialize(own).map_err(|e| crate::config::explained(e.message()))?;
    let start = start.unwrap_or(match kind {
        PhaseKind::Train => StartFrom::Last,
        PhaseKind::FitScalars => StartFrom::Best,
    });
    let name = Some(name.unwrap_or_else(|| format!("phase {}", index + 1)));
    Ok(Phase { index, name, kind, start, scalars, first, config })
}

/// Puts the values of `over` in the place of those of `under`, table by table.
fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
        method = \"cdkt\"
        [train]
        episodes = 7
        learning_rate = 0.01
        [[phase]]
        name = \"first\"
        method = \"baseline-plus-plus\"
        train = { episodes = 30, schedule = \"cosine\" }
        [[phase]]
        scalars = \"fresh\"
        [phase.episode]
        way = 20
        [phase.cdkt]
        kernel = \"rbf\"
        [[phase]]
        kind = \"fit-scalars\"";

    #[test]
    fn a_phase_overrides_keys_and_keeps_the_others() {
        let phases = phases(&Config::parse(TWO, &[]).unwrap()).unwrap();
        let [a, b, c] = phases.as_slice() else { panic!("{phases:?}") };
        assert_eq!((a.name.as_deref(), b.name.as_deref()), (Some("first"), Some("phase 2")));
        assert_eq!((a.first, a.end(), b.first, b.end(), c.first, c.end()), (0, 30, 30, 37, 37, 37));
        assert_eq!((a.config.method.name(), b.config.method.name()), ("baseline-plus-plus", "cdkt"));
        assert_eq!((a.config.train.learning_rate, b.config.train.learning_rate), (0.01, 0.01));
        assert_eq!((a.config.episode.way, b.config.episode.way, c.config.episode.way), (5, 20, 5));
        assert_eq!((a.scalars, b.scalars, c.start), (Scalars::Keep, Scalars::Fresh, StartFrom::Best));
    }

    #[test]
    fn written_out_and_read_again_the_phases_are_the_same() {
        let config = Config::parse(TWO, &[]).unwrap();
        let again = Config::parse(&config.to_toml(), &[]).unwrap();
        assert_eq!(phases(&again).unwrap(), phases(&config).unwrap());
    }

    #[test]
    fn what_a_phase_cannot_have_is_named() {
        for (text, says) in [
            ("[[phase]]\nseed = 3", "`seed` is the same in all phases"),
            (
                "[[phase]]\nname = \"a\"\ntrain = { episods = 3 }",
                "phase 1 (a): unknown name `episods`; did you mean `episodes`",
            ),
            ("[[phase]]\nkind = \"fit-scalar\"", "did you mean `fit-scalars`"),
            ("[[phase]]\nkind = \"fit-scalars\"", "no model before it"),
        ] {
            let error = Config::parse(text, &[]).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn settings_reach_into_phases_by_name_and_number() {
        let set = ["phase.first.train.episodes=3".to_string(), "phase.2.episode.way=10".to_string()];
        let phases = phases(&Config::parse(TWO, &set).unwrap()).unwrap();
        assert_eq!((phases[0].config.train.episodes, phases[1].config.episode.way), (3, 10));
        for wrong in ["phase.4.train.episodes=3", "phase.frist.train.episodes=3"] {
            let error = Config::parse(TWO, &[wrong.into()]).unwrap_err().to_string();
            assert!(error.contains("there is no phase"), "{error}");
        }
    }
}
