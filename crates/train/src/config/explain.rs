//! What serde says of a wrong config, as a sentence for people.

use crate::error::Error;

/// An error of serde as a sentence: where a key or a name is unknown, with the one that was probably meant.
pub(crate) fn explained(message: &str) -> Error {
    Error::Config(match (suggestion(message), wrong_value(message)) {
        (Some((wrong, right)), _) => {
            format!("unknown name `{wrong}`; did you mean `{right}`? ({message})")
        }
        (None, Some(sentence)) => sentence,
        (None, None) => message.to_string(),
    })
}

/// An error of the whole config: as [`explained`], or which key has a value of the wrong type.
pub(crate) fn explained_config(error: &toml::de::Error) -> Error {
    let whole = error.to_string();
    // toml ends with "in `train.episodes`".
    let key = whole.split_once("in `").and_then(|(_, rest)| rest.split('`').next());
    match (key, wrong_value(error.message())) {
        (Some(key), Some(sentence)) => Error::Config(format!("{key}: {sentence}")),
        _ if suggestion(error.message()).is_some() => explained(error.message()),
        _ => Error::Config(whole.trim().to_string()),
    }
}

/// The setting `key` of a method, and what serde says of its value.
pub(super) fn explained_setting(key: &str, why: &str) -> Error {
    Error::Config(match (suggestion(why), wrong_value(why)) {
        (Some((wrong, right)), _) => {
            format!("{key}: unknown name `{wrong}`; did you mean `{right}`? ({why})")
        }
        (None, Some(sentence)) => format!("{key}: {sentence}"),
        (None, None) => format!("{key}: {why}"),
    })
}

/// From serde's "invalid type: string "x", expected u64" or "invalid value: integer `-1`, expected u64".
fn wrong_value(message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.split_once(", expected ")?;
    let must = match expected {
        "u64" | "u32" | "usize" if found.starts_with("integer") => "a whole number of at least 0",
        "u64" | "u32" | "usize" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a string" => "text in quotes",
        // serde, of an enum.
        "string only" => "a name in quotes",
        other if other.starts_with("struct") => "a table",
        "a sequence" => "a list",
        other => other,
    };
    Some(match found_value(found) {
        Some(found) => format!("it must be {must}, not {found}"),
        None => format!("it must be {must}"),
    })
}

/// The value as it is written in a config, from serde's words for it.
fn found_value(found: &str) -> Option<String> {
    let kinds = ["integer", "floating point", "boolean", "string", "character"];
    match kinds.iter().find_map(|kind| found.strip_prefix(kind)) {
        Some(value) => Some(value.trim().trim_matches('`').to_string()),
        None => match found {
            "sequence" => Some("a list".into()),
            "map" => Some("a table".into()),
            // What serde says of a value where a name belongs: nothing of the value.
            "unit variant" | "unit value" => None,
            other => Some(other.to_string()),
        },
    }
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
