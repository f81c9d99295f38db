//! Models that were added under a name.
//!
//! ```text
//! <cache>/models/<name>/network.onnx   the file, as it was given
//! <cache>/models/<name>/model.json     checksum and spec
//! ```

use super::network::{ForeignNetwork, MOST_BYTES};
use super::spec::{ForeignSpec, NetworkRef};
use crate::error::{Error, Result};
use siskin_data::{Cache, files};
use std::path::{Path, PathBuf};

const NETWORK: &str = "network.onnx";
const SPEC: &str = "model.json";
/// Most bytes of the spec.
const MOST_SPEC: u64 = 1 << 20;
/// Most letters of a name.
const MOST_NAME: usize = 64;

/// A folder of added models.
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
}

impl Registry {
    /// The registry in the cache folder `cache`; nothing is made before something is added.
    pub fn new(cache: &Path) -> Registry {
        Registry { folder: cache.join("models") }
    }

    /// That of this system's cache folder.
    pub fn default_folder() -> Option<Registry> {
        Cache::default_folder().map(|cache| Registry::new(&cache))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names of all models, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = named.filter(|name| self.has(name)).collect();
        names.sort();
        names
    }

    /// Whether there is a model of this name.
    pub fn has(&self, name: &str) -> bool {
        is_name(name) && self.folder.join(name).join(SPEC).is_file()
    }

    /// Refuses names that are none, and one that is taken.
    pub fn check_free(&self, name: &str) -> Result<()> {
        if !is_name(name) {
            return Err(bad(
                name,
                format!(
                    "a name has 1 to {MOST_NAME} of the characters a-z, A-Z, 0-9, - _ and ., begins with a letter or a digit, \
                     and is none of an embedded model"
                ),
            ));
        }
        if self.has(name) {
            return Err(bad(
                name,
                format!("there is one of this name already; remove it first: siskin model remove {name}"),
            ));
        }
        Ok(())
    }

    /// Keeps a file under a name that is free. The spec is written last: a model is there whole or not at all.
    pub fn add(&self, name: &str, spec: &ForeignSpec, bytes: &[u8]) -> Result<()> {
        self.check_free(name)?;
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).map_err(|source| io("create", &folder, source))?;
        let json = serde_json::to_string_pretty(spec).map_err(|e| bad(name, e.to_string()))?;
        let sealed = format!("{}\n{json}\n", blake3::hash(json.as_bytes()));
        for (file, bytes) in [(NETWORK, bytes), (SPEC, sealed.as_bytes())] {
            let path = folder.join(file);
            files::write(&path, bytes).map_err(|source| io("write", &path, source))?;
        }
        Ok(())
    }

    /// What is known of a model, without loading it.
    pub fn spec(&self, name: &str) -> Result<ForeignSpec> {
        let path = self.folder.join(name).join(SPEC);
        if !self.has(name) {
            return Err(self.unknown(name));
        }
        let bytes = files::read(&path, MOST_SPEC).map_err(|source| io("read", &path, source))?;
        let damaged = || bad(name, "its spec is damaged: remove it and add it again".into());
        let text = String::from_utf8(bytes).map_err(|_| damaged())?;
        let (sum, json) = text.trim_end().split_once('\n').ok_or_else(damaged)?;
        if blake3::hash(json.as_bytes()).to_hex().as_str() != sum {
            return Err(damaged());
        }
        serde_json::from_str(json)
            .map_err(|e| bad(name, format!("its spec cannot be read ({e}); add it again")))
    }

    /// Loads a model, after a check that its file is the one that was added.
    pub fn open(&self, name: &str) -> Result<ForeignNetwork> {
        let (spec, path) = (self.spec(name)?, self.folder.join(name).join(NETWORK));
        let bytes = files::read(&path, MOST_BYTES).map_err(|source| io("read", &path, source))?;
        ForeignNetwork::load(spec, bytes).map_err(|fault| Error::Foreign { name: name.into(), fault })
    }

    /// A model that is loaded when its features are first asked for.
    pub fn later(&self, name: &str) -> Result<ForeignNetwork> {
        ForeignNetwork::later(self.spec(name)?, self.folder.join(name).join(NETWORK))
            .map_err(|fault| Error::Foreign { name: name.into(), fault })
    }

    /// The name of a model by its [`ForeignSpec::hash`].
    pub fn name_of(&self, hash: &str) -> Option<String> {
        self.names().into_iter().find(|name| self.spec(name).is_ok_and(|spec| spec.hash() == hash))
    }

    /// The network that a trained head needs: of its name, or the same one under another name.
    pub fn wanted(&self, network: &NetworkRef) -> Result<ForeignNetwork> {
        let is_it = |name: &str| self.spec(name).is_ok_and(|spec| spec == network.spec);
        let others = || self.names().into_iter().find(|name| is_it(name));
        match Some(network.name.clone()).filter(|name| is_it(name)).or_else(others) {
            Some(name) => self.open(&name),
            None => Err(bad(
                &network.name,
                format!(
                    "the head stands on this network ({:.1} MB, blake3 {}), which was not added on this machine with the same \
                     preprocessing; see siskin model add --help",
                    network.spec.bytes as f64 / 1e6,
                    network.spec.file.chars().take(12).collect::<String>()
                ),
            )),
        }
    }

    /// Forgets a model and removes its files.
    pub fn remove(&self, name: &str) -> Result<()> {
        if !self.has(name) {
            return Err(self.unknown(name));
        }
        let folder = self.folder.join(name);
        // The spec first: what is left of a removal that was cut short is no model.
        let spec = folder.join(SPEC);
        std::fs::remove_file(&spec).map_err(|source| io("remove", &spec, source))?;
        std::fs::remove_dir_all(&folder).map_err(|source| io("remove", &folder, source))
    }

    fn unknown(&self, name: &str) -> Error {
        if is_embedded(name) {
            let why = "it is a model inside the program, not an added one: it is always there, with its own preprocessing";
            return bad(name, why.into());
        }
        let there = self.names();
        let there = if there.is_empty() { "none".into() } else { there.join(", ") };
        bad(name, format!("no model of this name was added; there are: {there}"))
    }
}

/// Names that are safe as folders everywhere, and not taken by embedded models.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.len() <= MOST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
        && !is_embedded(name)
}

fn is_embedded(name: &str) -> bool {
    crate::EMBEDDED.iter().any(|(embedded, _)| *embedded == name)
}

fn bad(name: &str, why: String) -> Error {
    Error::Model { name: name.into(), why }
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { action, path: path.into(), source }
}
