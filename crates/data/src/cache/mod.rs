//! The cache: each image is decoded once, into a pack that later runs map.
//!
//! ```text
//! <cache>/packs/<key>.pack       pixels; the key is the hash of names and file contents
//! <cache>/sources/<stamp>.json   which pack belongs to files of these names, sizes and times
//! <cache>/names/<name>.json      data sets that were imported under a name
//! ```

pub(crate) mod build;
pub(crate) mod pack;

use std::path::{Path, PathBuf};

use crate::fault::BadFile;
use crate::files::{self, Lock};
use crate::progress::Progress;
use crate::split::Scheme;
use crate::{Error, Result};

/// Most bytes of a small file.
const MOST_JSON: u64 = 256 << 20;

/// A folder of packs.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

/// What is known of a source that was read before.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Record {
    pub pack: String,
    pub name: String,
    pub layout: String,
    pub schemes: Vec<Scheme>,
    pub bad: Vec<BadFile>,
    pub ignored: Vec<String>,
}

impl Cache {
    /// The cache in `folder`, which is made when something is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Cache { folder: folder.into() }
    }

    /// Where the cache is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `$SISKIN_CACHE`, or the folder for caches of this system.
    pub fn default_folder() -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = |below: &str| variable("HOME").map(|home| home.join(below));
        variable("SISKIN_CACHE").or_else(|| {
            let caches = if cfg!(windows) {
                variable("LOCALAPPDATA")
            } else if cfg!(target_os = "macos") {
                home("Library/Caches")
            } else {
                variable("XDG_CACHE_HOME").or_else(|| home(".cache"))
            };
            caches.map(|folder| folder.join("siskin"))
        })
    }

    /// A room of the cache, made if it is not there.
    pub(crate) fn room(&self, name: &str) -> Result<PathBuf> {
        let room = self.folder.join(name);
        std::fs::create_dir_all(&room).map_err(|source| Error::io("create", &room, source))?;
        Ok(room)
    }

    /// The record of a source with this stamp, if there is one that can be read.
    pub(crate) fn record(&self, stamp: &blake3::Hash) -> Option<Record> {
        self.read_json(&self.record_path(stamp))
    }

    fn record_path(&self, stamp: &blake3::Hash) -> PathBuf {
        self.folder.join("sources").join(format!("{}.json", &stamp.to_hex()[..32]))
    }

    /// Remembers which pack belongs to a source.
    pub(crate) fn remember(&self, stamp: &blake3::Hash, record: &Record) -> Result<()> {
        self.room("sources")?;
        self.store_json(&self.record_path(stamp), record)
    }

    /// Where the pack of a record lies.
    pub(crate) fn pack_path(&self, record: &Record) -> PathBuf {
        pack::pack_path(&self.folder.join("packs"), &record.pack)
    }

    /// Writes a small file so that it is there whole or not at all: the checksum of its JSON, and the JSON.
    pub(crate) fn store_json(&self, path: &Path, value: &impl serde::Serialize) -> Result<()> {
        let json = serde_json::to_string_pretty(value)
            .map_err(|e| Error::BadCache { path: path.to_owned(), reason: e.to_string() })?;
        let text = format!("{}\n{json}\n", blake3::hash(json.as_bytes()));
        files::write(path, text.as_bytes()).map_err(|source| Error::io("write", path, source))
    }

    /// What [`Cache::store_json`] wrote; nothing if it is not there, or damaged.
    pub(crate) fn read_json<T: serde::de::DeserializeOwned>(&self, path: &Path) -> Option<T> {
        let text = String::from_utf8(files::read(path, MOST_JSON).ok()?).ok()?;
        let (sum, json) = text.strip_suffix('\n')?.split_once('\n')?;
        (blake3::hash(json.as_bytes()).to_hex().as_str() == sum).then(|| serde_json::from_str(json).ok())?
    }

    /// Keeps others from reading the same source into the cache at the same time: they wait, and then find it there.
    pub(crate) fn lock(&self, progress: &dyn Progress) -> Result<Lock> {
        let room = self.room("sources")?;
        let waiting =
            || progress.note("Another siskin is reading data into this cache; waiting for its end.");
        Lock::wait(&room, waiting).map_err(|source| Error::io("lock", &room, source))
    }
}
