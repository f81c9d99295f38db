//! Models of earlier formats: their record is the TOML config of a training.

use crate::spec::ModelSpec;
use serde::Deserialize;
use siskin_methods::MethodName;
use siskin_nn::Architecture;
use toml::{Table, Value};

/// What a config says of the model. The error says what is wrong with it.
pub(crate) fn spec_of_config(config: &str) -> Result<ModelSpec, String> {
    let table: Table = config.parse().map_err(|e: toml::de::Error| e.message().to_string())?;
    let get = |section: &str, key: &str| table.get(section).and_then(|t| t.get(key)).cloned();
    let number = |section: &str, key: &str, default: i64| match get(section, key) {
        None => Ok(default),
        Some(Value::Integer(number)) if number > 0 => Ok(number),
        Some(other) => Err(format!("its {section}.{key} is {other}")),
    };
    let architecture = match get("backbone", "name") {
        None => Architecture::Conv4S,
        Some(name) => Architecture::deserialize(name).map_err(|e| e.message().to_string())?,
    };
    let name = table.get("method").and_then(Value::as_str).map_or(Ok(MethodName::default()), str::parse);
    let name = name.map_err(|e| e.to_string())?;
    let settings = match table.get(name.name()).map(serde_json::to_value) {
        None => serde_json::Map::new(),
        Some(Ok(serde_json::Value::Object(map))) => map,
        Some(_) => return Err(format!("its `{name}` is no table")),
    };
    Ok(ModelSpec {
        architecture,
        image_size: number("data", "image_size", 28)? as u32,
        method: name.parse_settings(settings).map_err(|e| e.to_string())?,
        way: number("episode", "way", 5)? as usize,
        base_classes: None,
        seed: table.get("seed").and_then(Value::as_integer).unwrap_or(0) as u64,
        network: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_becomes_a_spec() {
        let text = "seed = 4\nmethod = \"proto-net\"\n[data]\nimage_size = 84\n[backbone]\nname = \"conv4\"\n\
                    [episode]\nway = 20\n[cdkt]\ntau = 0.3\n";
        let spec = spec_of_config(text).unwrap();
        assert_eq!(
            (spec.architecture, spec.image_size, spec.way, spec.seed),
            (Architecture::Conv4, 84, 20, 4)
        );
        assert_eq!((spec.method.name(), spec.base_classes), ("proto-net", None));
        let spec = spec_of_config("").unwrap();
        assert_eq!((spec.architecture.name(), spec.image_size, spec.way), ("conv4s", 28, 5));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("[data]\nimage_size = -1", "image_size is -1"),
            ("[backbone]\nname = \"conv9\"", "conv9"),
            ("method = \"protonet\"", "protonet"),
            ("cdkt = 3", "no table"),
            ("[cdkt]\ntaus = 3", "taus"),
            ("=", ""),
        ] {
            let error = spec_of_config(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
