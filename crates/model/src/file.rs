//! Model files: the learned arrays as safetensors, the card in the header, and a checksum over the whole file.
//!
//! The header holds one record, `{"checksum": ..., "card": ...}`. The checksum is the blake3 hash of all bytes of the file with
//! 64 zeros in its place, so that a changed byte anywhere is found.

use crate::card::{self, Card};
use crate::legacy::spec_of_config;
use crate::seal;
use crate::tensors::{decode, encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use siskin_methods::State;

/// Key of the record in the header.
pub(crate) const KEY: &str = "siskin-model";

#[derive(Serialize)]
struct Record<'a> {
    checksum: &'a str,
    card: &'a Card,
}

/// The bytes of a model file. The same model gives the same bytes.
pub(crate) fn to_bytes(card: &Card, state: &State) -> Result<Vec<u8>, String> {
    let record = serde_json::to_string(&Record { checksum: seal::ZEROS, card }).map_err(|e| e.to_string())?;
    let mut bytes = encode(state, KEY, &record)?;
    seal::seal(&mut bytes)?;
    Ok(bytes)
}

/// The card and the learned arrays of a model file, and whether a checksum says that they are whole. The error says what is wrong, and for files of earlier formats that
/// cannot be read how to convert them.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Card, State, bool), String> {
    let (json, state) = decode(bytes, KEY)?;
    let json = json.ok_or("it has no model card: `siskin export` writes models, `siskin adapt` tasks")?;
    let record: Value = serde_json::from_str(&json).map_err(|e| format!("its card is damaged ({e})"))?;
    if record.get("checksum").is_none() {
        return Ok((card_of_format_2(&record, &state)?, state, false));
    }
    seal::check(bytes)?;
    Ok((parse_card(&record["card"])?, state, true))
}

/// A card of the format of today, or of the one before.
pub(crate) fn parse_card(card: &Value) -> Result<Card, String> {
    let mut card = card.clone();
    if card["version"] == 3 {
        of_format_3(&mut card).ok_or("its card is damaged")?;
    }
    check_version(&card, card::VERSION)?;
    Card::deserialize(card).map_err(|e| format!("its card is damaged ({e})"))
}

/// Format 3 had a temperature for each shape, one score for "none of these" and no scores of strangers. Its scores of sets are
/// `1 - p` of the true class, which is never less than the probability of the classes before it: sets may be wider, not
/// narrower.
fn of_format_3(card: &mut Value) -> Option<()> {
    for shape in card["validation"].as_array_mut()? {
        let fields = shape.as_object_mut()?;
        let novelty = serde_json::json!({
            "name": "1 - largest similarity",
            "weights": [["distance", 1.0]],
            "members": fields.remove("novelty")?,
            "strangers": [],
            "auroc": fields.remove("novelty_auroc")?,
        });
        let temperature = fields.get("temperature")?.get("value")?.clone();
        fields.insert("novelty".into(), novelty);
        fields.insert("temperature".into(), temperature);
    }
    let fields = card.as_object_mut()?;
    fields.insert("temperature".into(), 1.0.into());
    fields.insert("version".into(), card::VERSION.into());
    Some(())
}

/// The card of a file without a checksum, whose model is described by the TOML config of its training.
fn card_of_format_2(record: &Value, state: &State) -> Result<Card, String> {
    check_version(record, 2)?;
    let config = record["config"].as_str().ok_or("its card is damaged (no config)")?;
    let spec = spec_of_config(config).map_err(|why| format!("its config cannot be used: {why}"))?;
    let former_hash = blake3::hash(&encode(state, "config", config)?).to_hex().to_string();
    let mut card = record.clone();
    let fields = card.as_object_mut().ok_or("its card is damaged")?;
    fields.remove("config");
    fields.insert("version".into(), 3.into());
    fields.insert("former_hash".into(), former_hash.into());
    fields.insert("model".into(), serde_json::to_value(spec).map_err(|e| e.to_string())?);
    parse_card(&card)
}

fn check_version(card: &Value, wanted: u32) -> Result<(), String> {
    match card["version"].as_u64() {
        Some(version) if version == u64::from(wanted) => Ok(()),
        found => {
            let found = found.map_or("unknown".into(), |v| v.to_string());
            Err(format!(
                "its card has the format {found}, this program reads {}, 3 and 2. Export the model again from its run: \
                 siskin export RUN --out FILE",
                card::VERSION
            ))
        }
    }
}
