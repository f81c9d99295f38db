//! The cache: each image is decoded once, into a pack that later runs map.
//!
//! ```text
//! <cache>/packs/<key>.pack       pixels; the key is the hash of names and file contents
//! <cache>/sources/<stamp>.json   which pack belongs to files of these names, sizes and times
//! <cache>/names/<name>.json      data sets that were imported under a name
//! ```

pub(crate) mod build;
pub(crate) mod pack;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::fault::BadFile;
use crate::split::Scheme;
use crate::{Error, Result};

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
        let text = std::fs::read(self.record_path(stamp)).ok()?;
        serde_json::from_slice(&text).ok()
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

    /// Writes a small file so that it is there whole or not at all.
    pub(crate) fn store_json(&self, path: &Path, value: &impl serde::Serialize) -> Result<()> {
        let folder = path.parent().unwrap_or(&self.folder);
        let io = |source| Error::io("write", path, source);
        let json = serde_json::to_vec_pretty(value)
            .map_err(|e| Error::BadCache { path: path.to_owned(), reason: e.to_string() })?;
        let mut temp = tempfile::Builder::new().prefix("writing-").tempfile_in(folder).map_err(io)?;
        temp.write_all(&json).map_err(io)?;
        temp.as_file().sync_all().map_err(io)?;
        temp.persist(path).map_err(|e| io(e.error))?;
        sync_folder(folder)
    }
}

/// Makes a rename last through a power cut, where the system can.
fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        let file = std::fs::File::open(folder).map_err(|source| Error::io("open", folder, source))?;
        file.sync_all().map_err(|source| Error::io("write", folder, source))?;
    }
    Ok(())
}
