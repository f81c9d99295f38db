//! Files that hold a classifier of vectors: its bytes, JSON about it, and a checksum over both.

use crate::error::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::Serialize;
use serde::de::DeserializeOwned;
use siskin_data::files;
use std::collections::HashMap;
use std::path::Path;

/// Most bytes of a file.
const MOST_BYTES: u64 = 4 << 30;
/// A kind of such files.
pub(crate) struct Kind {
    /// Key in the header of the version, the checksum and the JSON.
    pub key: &'static str,
    /// Raised when the meaning of a stored field changes.
    pub version: u32,
    /// The command that makes one.
    pub made_by: &'static str,
}

impl Kind {
    /// Writes a file: the old one or the new one, never a part.
    pub(crate) fn save(&self, path: &Path, about: &impl Serialize, classifier: &[u8]) -> Result<()> {
        let file = self.bytes(about, classifier)?;
        files::write(path, &file).map_err(|source| siskin_data::Error::io("write", path, source).into())
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self, about: &impl Serialize, classifier: &[u8]) -> Result<Vec<u8>> {
        let json = serde_json::to_string(about)?;
        // One entry: several would be written in an order that changes from run to run.
        let header = format!("{} {} {json}", self.version, checksum(&json, classifier));
        let entries = HashMap::from([(self.key.to_owned(), header)]);
        let bad = |why: safetensors::SafeTensorError| refused(self.key, why.to_string());
        let view = TensorView::new(Dtype::U8, vec![classifier.len()], classifier).map_err(bad)?;
        serialize([("classifier", view)], Some(entries)).map_err(bad)
    }

    /// What a file holds; `None` if it is of another kind, or no safetensors file at all.
    pub(crate) fn load<A: DeserializeOwned>(&self, path: &Path) -> Result<Option<(A, Vec<u8>)>> {
        let bytes =
            files::read(path, MOST_BYTES).map_err(|source| siskin_data::Error::io("read", path, source))?;
        self.parse(&bytes, &path.display().to_string(), true)
    }

    /// `sealed`: whether the checksum must fit.
    pub(crate) fn parse<A: DeserializeOwned>(
        &self,
        bytes: &[u8],
        name: &str,
        sealed: bool,
    ) -> Result<Option<(A, Vec<u8>)>> {
        let bad = |why: String| refused(name, why);
        let Ok((_, metadata)) = SafeTensors::read_metadata(bytes) else { return Ok(None) };
        let entries = metadata.metadata().clone().unwrap_or_default();
        let Some(header) = entries.get(self.key) else { return Ok(None) };
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| bad(e.to_string()))?;
        let classifier = tensors.tensor("classifier").map_err(|e| bad(e.to_string()))?.data().to_vec();
        let mut parts = header.splitn(3, ' ');
        let [version, kept, json] = [(); 3].map(|()| parts.next().unwrap_or_default());
        if version != self.version.to_string() {
            let found = if version.parse::<u32>().is_ok() { version } else { "an earlier one" };
            return Err(bad(format!(
                "its format is {found}, this program reads {}. Make it again: {}",
                self.version, self.made_by
            )));
        }
        if sealed && kept != checksum(json, &classifier) {
            let why = format!("it is damaged: the checksum does not fit. Make it again: {}", self.made_by);
            return Err(bad(why));
        }
        Ok(Some((serde_json::from_str(json)?, classifier)))
    }
}

fn refused(name: &str, why: String) -> Error {
    Error::Task { name: name.into(), why }
}

fn checksum(json: &str, classifier: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    for bytes in [json.as_bytes(), classifier] {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { key: "kind", version: 3, made_by: "siskin fit X.npy" };

    #[test]
    fn a_file_is_whole_or_refused_and_others_are_left_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        KIND.save(&path, &vec!["x", "y"], b"classifier").unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let read = |kind: &Kind, bytes: &[u8]| kind.parse::<Vec<String>>(bytes, "a", true);
        let (about, classifier) = read(&KIND, &bytes).unwrap().unwrap();
        assert_eq!(
            (about, classifier.as_slice()),
            (vec!["x".to_owned(), "y".to_owned()], &b"classifier"[..])
        );
        assert!(read(&Kind { key: "other", ..KIND }, &bytes).unwrap().is_none());
        assert!(read(&KIND, b"no safetensors").unwrap().is_none());
        let newer = read(&Kind { version: 2, ..KIND }, &bytes).unwrap_err().to_string();
        assert!(newer.contains("its format is 3, this program reads 2"), "{newer}");
        // A header that begins with no version, as those of earlier programs.
        let mut former = bytes.clone();
        let place = bytes.windows(3).position(|w| w == b"\"3 ").unwrap() + 1;
        former[place..place + 2].copy_from_slice(b"{}");
        let said = read(&KIND, &former).unwrap_err().to_string();
        assert!(said.contains("its format is an earlier one, this program reads 3. Make it again"), "{said}");
        for place in
            [bytes.len() - 1, bytes.len() - 10, bytes.windows(3).position(|w| w == b"[\\\"").unwrap() + 3]
        {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            let said = read(&KIND, &damaged).unwrap_err().to_string();
            assert!(said.contains("it is damaged") && said.contains("siskin fit X.npy"), "{place}: {said}");
        }
    }
}
