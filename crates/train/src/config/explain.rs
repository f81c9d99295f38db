//! What serde says of a wrong config, as a sentence for people.

use crate::error::Error;

/// An error of serde as a sentence: where a key or a name is unknown, with the one that was probably meant.
pub(crate) fn explained(message: &str) -> Error {
    Error::Config(match suggestion(message) {
        Some((wrong, right)) => format!("unknown name `{wrong}`; did you mean `{right}`? ({message})"),
        None => message.to_string(),
    })
}

/// An error of the whole config: as [`explained`], or which key has a value of the wrong type.
pub(super) fn explained_config(error: &toml::de::Error) -> Error {
    match wrong_type(error) {
        Some(sentence) => Error::Config(sentence),
        None if suggestion(error.message()).is_some() => explained(error.message()),
        None => Error::Config(error.to_string().trim().to_string()),
    }
}

/// From serde's "invalid type: string "x", expected u64" and toml's "in `train.episodes`".
fn wrong_type(error: &toml::de::Error) -> Option<String> {
    let (found, expected) = error.message().strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let whole = error.to_string();
    let key = whole.split_once("in `")?.1.split('`').next()?;
    let must = match expected {
        "u64" | "u32" | "usize" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "text in quotes",
        other if other.starts_with("struct") => "a table",
        "a sequence" => "a list",
        other => other,
    };
    Some(format!("{key}: it must be {must}, not {found}"))
}

/// From serde's "unknown field `x`, expected one of `a`, `b`": the wrong name and the nearest right one.
pub(super) fn suggestion(message: &str) -> Option<(String, String)> {
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
