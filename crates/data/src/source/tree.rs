//! A tree of files, wherever it lies: a folder, a .zip, a .tar, a .tar.gz, or the images within an IDX file.
//!
//! Layouts look only at paths and at small text files, so each of them can be read from a folder and, in place,
//! from an archive.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{archive, idx, walk};
use crate::fault::{BadFile, Fault};
use crate::{Error, Result};

/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 128 << 20;

/// What a tree is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeKind {
    /// A folder.
    Folder,
    /// A .zip archive.
    Zip,
    /// A .tar archive.
    Tar,
    /// A .tar.gz or .tgz archive.
    TarGz,
    /// A pair of IDX files (images and labels), as EMNIST comes.
    Idx,
}

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Path within the tree, `/` between the parts.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change in nanoseconds, where the tree is a folder.
    pub modified: u128,
}

/// The files of a folder or archive, sorted by path.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Where it lies.
    pub root: PathBuf,
    /// What it is made of.
    pub kind: TreeKind,
    /// Its files, sorted by path.
    pub files: Vec<TreeFile>,
    /// What could not be listed, and why.
    pub refused: Vec<BadFile>,
}

impl TreeKind {
    /// By what is at `path`: a folder, or a file whose name ends as archives' names do.
    pub fn of(path: &Path) -> Result<Self> {
        let meta = std::fs::metadata(path).map_err(|source| Error::io("open", path, source))?;
        if meta.is_dir() {
            return Ok(TreeKind::Folder);
        }
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        match () {
            _ if name.ends_with(".zip") => Ok(TreeKind::Zip),
            _ if name.ends_with(".tar") => Ok(TreeKind::Tar),
            _ if name.ends_with(".tar.gz") || name.ends_with(".tgz") => Ok(TreeKind::TarGz),
            _ if name.ends_with("-ubyte") || name.ends_with("-ubyte.gz") => Ok(TreeKind::Idx),
            _ => Err(Error::NotATree { path: path.to_owned() }),
        }
    }
}

impl Tree {
    /// Lists the folder or archive at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let kind = TreeKind::of(path)?;
        let (mut files, mut refused) = match kind {
            TreeKind::Folder => walk::list(path)?,
            TreeKind::Zip => archive::list_zip(path)?,
            TreeKind::Tar | TreeKind::TarGz => archive::list_tar(path, kind)?,
            TreeKind::Idx => (idx::list(path)?, Vec::new()),
        };
        files.sort_by(|a, b| a.path.cmp(&b.path));
        refused.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { root: path.to_owned(), kind, files, refused })
    }

    /// What changes whenever the tree may have changed: names, sizes and times of the files of a folder; size and
    /// time of an archive. Cheap: no file is read.
    pub(crate) fn stamp(path: &Path) -> Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        let canonical = path.canonicalize().map_err(|source| Error::io("open", path, source))?;
        hasher.update(canonical.as_os_str().as_encoded_bytes());
        let mut add = |file: &TreeFile| {
            crate::dataset::hash_text(&mut hasher, &file.path);
            hasher.update(&file.bytes.to_le_bytes()).update(&file.modified.to_le_bytes());
        };
        match TreeKind::of(path)? {
            TreeKind::Folder => {
                let (mut files, mut refused) = walk::list(path)?;
                files.sort_by(|a, b| a.path.cmp(&b.path));
                refused.sort_by(|a, b| a.path.cmp(&b.path));
                files.iter().for_each(&mut add);
                for bad in refused {
                    crate::dataset::hash_text(&mut hasher, &bad.to_string());
                }
            }
            TreeKind::Idx => {
                add(&walk::stat(path)?);
                add(&walk::stat(&idx::labels_beside(path)?)?);
            }
            TreeKind::Zip | TreeKind::Tar | TreeKind::TarGz => add(&walk::stat(path)?),
        }
        Ok(hasher.finalize())
    }

    /// How a file of the tree is named to people.
    pub fn display(&self, path: &str) -> String {
        match self.kind {
            TreeKind::Folder => self.root.join(path).display().to_string(),
            _ => format!("{}:{path}", self.root.display()),
        }
    }

    /// Whether the tree has a file of this path.
    pub fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
    }

    /// The text of a small file (a list, a table), at most `limit` bytes of UTF-8.
    pub fn text(&self, path: &str, limit: u64) -> Result<String> {
        let mut result = Err(Fault::Unreadable { reason: "it is not there".into() });
        self.stream(&[path], limit, &mut |_, read| {
            result = read;
            true
        })?;
        let bytes = result.map_err(|fault| Error::List {
            path: self.display(path),
            line: None,
            problem: fault.to_string(),
        })?;
        String::from_utf8(bytes).map_err(|_| Error::List {
            path: self.display(path),
            line: None,
            problem: "it is not UTF-8 text".into(),
        })
    }

    /// Reads the `wanted` files, each once, in the order that is cheapest, and gives `(index in wanted, bytes)` to
    /// `sink` until it answers `false`. A file that cannot be read is given as its fault.
    pub fn stream(&self, wanted: &[&str], limit: u64, sink: Sink<'_>) -> Result<()> {
        match self.kind {
            TreeKind::Folder => {
                for (index, path) in wanted.iter().enumerate() {
                    let read = File::open(self.root.join(path))
                        .map_err(|e| Fault::Unreadable { reason: e.to_string() })
                        .and_then(|file| read_bounded(file, limit));
                    if !sink(index, read) {
                        break;
                    }
                }
                Ok(())
            }
            TreeKind::Zip => archive::stream_zip(&self.root, wanted, limit, sink),
            TreeKind::Tar | TreeKind::TarGz => {
                archive::stream_tar(&self.root, self.kind, wanted, limit, sink)
            }
            TreeKind::Idx => idx::stream(&self.root, wanted, sink),
        }
    }
}

/// Takes the files of a tree as they are read; answers whether to go on.
pub type Sink<'a> = &'a mut dyn FnMut(usize, std::result::Result<Vec<u8>, Fault>) -> bool;

/// All bytes of `reader`, or the fault that there are more than `limit` or that it cannot be read.
pub(super) fn read_bounded(reader: impl Read, limit: u64) -> std::result::Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    reader
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Fault::Unreadable { reason: e.to_string() })?;
    if bytes.len() as u64 > limit {
        return Err(Fault::TooManyBytes { bytes: bytes.len() as u64, limit });
    }
    Ok(bytes)
}
