//! Checkpoints: the whole state of a run in one safetensors file.

use crate::atomic;
use crate::error::{Error, Result, io};
use crate::team;
use serde::{Deserialize, Serialize};
use siskin_methods::State;
use siskin_model::tensors::{decode, encode};
use siskin_model::{ModelSpec, seal};
use std::path::Path;

/// Where training stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Format of this record.
    pub version: u32,
    /// Training episodes done: the next one has this index in the episode and augmentation streams.
    pub episode: u64,
    /// The phase that training is in, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub phase: usize,
    /// Optimiser steps skipped for a non-finite gradient.
    pub skipped: u64,
    /// How many of them were the latest ones, without a good step after.
    pub skipped_in_a_row: u64,
    /// Validations in which a prediction was not finite.
    #[serde(default)]
    pub validations_without_accuracy: u64,
    /// The validation after the latest step is still to be done: training was stopped within it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub validation_due: bool,
    /// The scalars of a phase of kind `fit-scalars` are fitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fitted: bool,
    /// The best validation of this phase so far.
    #[serde(default, deserialize_with = "best_of_any_format")]
    pub best: Option<Best>,
    /// What the method gave notice of in the latest steps, and for how many of them in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<(String, u64)>,
    /// Length of `metrics.jsonl` at this point: a resumed run cuts what came after.
    pub metrics_bytes: u64,
    /// The model of the phase, so that a checkpoint says by itself what it is; not known of format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
    /// The config of the run.
    pub config: String,
    /// Hash of the data trained on.
    pub data: String,
    /// Read from a file of an earlier format, which has no checksum.
    #[serde(skip)]
    pub unsealed: bool,
}

/// A validation that was better than those before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Mean accuracy.
    pub accuracy: f64,
    /// Mean negative log-probability of the true class; not known of checkpoints of format 1.
    pub nll: Option<f64>,
    /// Training episodes done by then.
    pub episode: u64,
}

fn is_zero(phase: &usize) -> bool {
    *phase == 0
}

/// Format 1 kept the accuracy and the episode.
fn best_of_any_format<'de, D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Option<Best>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Any {
        Now(Best),
        Format1(f64, u64),
    }
    Ok(Option::<Any>::deserialize(d)?.map(|best| match best {
        Any::Now(best) => best,
        Any::Format1(accuracy, episode) => Best { accuracy, nll: None, episode },
    }))
}

/// The format this program writes. It reads format 1 too, which knew neither phases nor NLL, and format 2, which had no checksum.
pub const VERSION: u32 = 3;
const KEY: &str = "siskin";
/// Most bytes of a checkpoint.
const MOST_BYTES: u64 = 16 << 30;

/// A position with the checksum of its file: see [`siskin_model::seal`].
#[derive(Serialize)]
struct Record<'a> {
    checksum: &'static str,
    #[serde(flatten)]
    position: &'a Position,
}

/// Saves atomically: see [`atomic::write`]. The same state gives the same bytes.
pub fn save(path: &Path, position: &Position, state: &State) -> Result<()> {
    if team::current().rank() > 0 {
        return Ok(());
    }
    let record = Record { checksum: seal::ZEROS, position };
    let json = serde_json::to_string(&record).expect("a position is plain data");
    let sealed = encode(state, KEY, &json).and_then(|mut bytes| seal::seal(&mut bytes).map(|()| bytes));
    let bytes = sealed.map_err(|why| Error::Checkpoint { path: path.into(), why })?;
    atomic::write(path, &bytes)
}

/// Reads a checkpoint back.
pub fn load(path: &Path) -> Result<(Position, State)> {
    parse(path, &read(path)?)
}

/// The bytes of a checkpoint.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    siskin_data::files::read(path, MOST_BYTES).map_err(io("read the checkpoint", path))
}

/// A checkpoint from the bytes of `path`.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<(Position, State)> {
    let bad = |why: String| Error::Checkpoint { path: path.into(), why };
    let (json, state) = decode(bytes, KEY).map_err(bad)?;
    let json = json
        .ok_or_else(|| bad("it has no record of a training run; was it written by `siskin train`?".into()))?;
    let damaged = |e: serde_json::Error| bad(format!("its record is damaged ({e})"));
    let mut record: serde_json::Value = serde_json::from_str(&json).map_err(damaged)?;
    let version = record["version"].as_u64();
    if !version.is_some_and(|version| (1..=u64::from(VERSION)).contains(&version)) {
        return Err(bad(format!("its format is {version:?}, this program reads 1 to {VERSION}")));
    }
    let unsealed = !seal::check_checkpoint(bytes, &record).map_err(bad)?;
    record.as_object_mut().map(|fields| fields.remove("checksum"));
    let position: Position = serde_json::from_value(record).map_err(damaged)?;
    Ok((Position { version: VERSION, unsealed, ..position }, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;
    use siskin_methods::{Role, Tensor, Values};

    fn example() -> (Position, State) {
        let position = Position {
            version: VERSION,
            episode: 7,
            skipped: 1,
            skipped_in_a_row: 0,
            validations_without_accuracy: 0,
            validation_due: false,
            phase: 2,
            fitted: false,
            best: Some(Best { accuracy: 0.1 + 0.2, nll: Some(0.7), episode: 5 }),
            notice: None,
            metrics_bytes: 99,
            model: None,
            config: "seed = 1\n".into(),
            data: "abc".into(),
            unsealed: false,
        };
        let mut state = State::default();
        state.push_f64("hyper", &[0.1, f64::MIN_POSITIVE]);
        let values = Values::F32(vec![1.0, -2.5, f32::NAN, 0.0, 3.0, 4.0]);
        state.0.push(Tensor { name: "w".into(), shape: vec![2, 3], values, role: Role::Model });
        (position, state)
    }

    #[test]
    fn comes_back_bit_for_bit_and_saves_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (position, state) = example();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        save(&a, &position, &state).unwrap();
        let (position2, state2) = load(&a).unwrap();
        assert_eq!(position2, position);
        save(&b, &position2, &state2).unwrap();
        assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap());
        assert_eq!(state2.f64s("hyper").unwrap(), &[0.1, f64::MIN_POSITIVE]);
    }

    #[test]
    fn format_1_is_read() {
        let (position, state) = example();
        let json = serde_json::to_string(&position).unwrap();
        let now = format!("\"version\":{VERSION}");
        let old = json.replace(&now, "\"version\":1").replace("\"phase\":2,", "");
        let best = "{\"accuracy\":0.30000000000000004,\"nll\":0.7,\"episode\":5}";
        let old = old.replace(best, "[0.30000000000000004,5]");
        assert_ne!(old, json);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, encode(&state, KEY, &old).unwrap()).unwrap();
        let best = Some(Best { nll: None, ..position.best.unwrap() });
        assert_eq!(load(&path).unwrap().0, Position { phase: 0, best, unsealed: true, ..position });
    }

    #[test]
    fn damaged_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (position, state) = example();
        save(&path, &position, &state).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 4, 8, 40, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let error = load(&path).unwrap_err().to_string();
            assert!(error.contains("not a whole safetensors file"), "{cut}: {error}");
        }
        let other = safetensors::serialize(Vec::<(String, TensorView<'_>)>::new(), None).unwrap();
        std::fs::write(&path, other).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("no record"));
        save(&path, &Position { version: 9, ..position }, &state).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("format is Some(9)"));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (position, state) = example();
        save(&path, &position, &state).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).unwrap();
            assert!(load(&path).is_err(), "bit {bit}");
        }
    }
}
