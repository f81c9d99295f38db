//! `--set KEY=VALUE`: one key of a config, also of a phase.

use crate::error::{Error, Result};

/// Applies `a.b=value`: the value is TOML (`3`, `0.5`, `true`, `"text"`), or text where it does not parse as TOML.
pub(super) fn apply(table: &mut toml::Table, setting: &str) -> Result<()> {
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
