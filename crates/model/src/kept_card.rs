//! The card in the folder of a run, which `siskin export` leaves there: what was measured of the model, with a checksum.

use crate::card::Card;
use crate::error::{Error, Result};
use crate::file::parse_card;
use crate::model::{bad, write};
use serde::Serialize;
use serde_json::Value;
use siskin_data::files;
use std::path::Path;

/// Its name.
const CARD: &str = "card.json";
/// Most bytes of it.
const MOST_BYTES: u64 = 64 << 20;

#[derive(Serialize)]
struct Record<'a> {
    /// blake3 of the card as JSON without spaces.
    checksum: String,
    card: &'a Card,
}

fn checksum(card: &Card) -> std::result::Result<String, String> {
    let json = serde_json::to_vec(card).map_err(|e| e.to_string())?;
    Ok(blake3::hash(&json).to_hex().to_string())
}

/// Writes it.
pub(crate) fn keep(folder: &Path, card: &Card) -> Result<()> {
    let record = || {
        let record = Record { checksum: checksum(card)?, card };
        serde_json::to_string_pretty(&record).map_err(|e| e.to_string())
    };
    let json = record().map_err(|why| bad(&folder.display().to_string(), why))?;
    write(&folder.join(CARD), json.as_bytes())
}

/// The card in the folder of a run, unless training went on since: then its measurements are of another model, and it is `fresh`.
/// Then whether a checksum says that it is whole; those of earlier versions have none.
pub(crate) fn kept(folder: &Path, fresh: Card) -> Result<(Card, bool)> {
    let path = folder.join(CARD);
    let json = match files::read(&path, MOST_BYTES) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok((fresh, true)),
        Err(source) => return Err(Error::Io { action: "read", path, source }),
        Ok(json) => json,
    };
    let (card, sealed) = match parse(&json).map_err(|why| bad(&path.display().to_string(), why))? {
        Some(found) => found,
        None => return Ok((fresh, true)),
    };
    let same = card.episodes == fresh.episodes && card.model == fresh.model;
    Ok(if same { (card, sealed) } else { (fresh, true) })
}

/// None for a card of format 2 or 3, which is measured again by the next export.
fn parse(json: &[u8]) -> std::result::Result<Option<(Card, bool)>, String> {
    let value: Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    match (&value["checksum"], value["version"].as_u64()) {
        (Value::Null, Some(2 | 3)) => Ok(None),
        (Value::Null, Some(_)) => Ok(Some((parse_card(&value)?, false))),
        (found, _) => {
            let card = parse_card(&value["card"])?;
            match found.as_str() == Some(checksum(&card)?.as_str()) {
                true => Ok(Some((card, true))),
                false => Err("it is damaged: the checksum does not fit. Delete it, and export again".into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EMBEDDED, Model};

    #[test]
    fn a_changed_number_is_found_and_a_card_of_another_model_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let measured = Model::open(EMBEDDED[0].0).unwrap().card().unwrap().clone();
        let fresh = Card::fresh("run".into(), measured.model.clone(), measured.episodes, "data".into());
        assert_eq!(kept(folder.path(), fresh.clone()).unwrap(), (fresh.clone(), true));
        keep(folder.path(), &measured).unwrap();
        assert_eq!(kept(folder.path(), fresh.clone()).unwrap(), (measured.clone(), true));
        let other = Card { episodes: measured.episodes + 1, ..fresh.clone() };
        assert_eq!(kept(folder.path(), other.clone()).unwrap(), (other, true));
        let path = folder.path().join(CARD);
        let whole = std::fs::read_to_string(&path).unwrap();
        let changed = whole.replacen(&measured.data, "other data", 1);
        assert_ne!(whole, changed);
        std::fs::write(&path, changed).unwrap();
        assert!(kept(folder.path(), fresh.clone()).unwrap_err().to_string().contains("checksum"));
        // As earlier versions wrote it.
        std::fs::write(&path, serde_json::to_string(&measured).unwrap()).unwrap();
        assert_eq!(kept(folder.path(), fresh).unwrap(), (measured, false));
    }
}
