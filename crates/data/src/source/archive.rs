//! Archives, read in place: nothing is ever unpacked to disk.
//!
//! An archive is not trusted: entries that lead outside it, links and special files are refused one by one; an
//! archive that grows beyond all measure when unpacked (a bomb) is refused as a whole.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use super::tree::{Sink, TreeFile, TreeKind, read_bounded};
use crate::fault::{BadFile, Fault};
use crate::{Error, Result};

/// Unpacked, an archive may be this many times its size ...
const MAX_RATIO: u64 = 200;
/// ... and more only as long as it stays below this many bytes.
const SMALL_TOTAL: u64 = 64 << 20;
/// And never more than this many bytes.
const MAX_TOTAL: u64 = 1 << 40;
/// Entries of an archive.
const MAX_ENTRIES: usize = 5_000_000;
/// Bytes between the end of one tar entry and the beginning of the next: padding, headers, long names.
const MAX_HEADER_BYTES: u64 = 1 << 20;

type Listed = (Vec<TreeFile>, Vec<BadFile>);

/// Lists a .zip from its central directory.
pub(super) fn list_zip(path: &Path) -> Result<Listed> {
    let file = open(path)?;
    let mut budget = Budget::new(path, &file)?;
    let archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|e| bad(path, e))?;
    let mut listing = Listing::new(path);
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(|e| bad(path, e))?;
        let kind = if entry.is_dir() {
            EntryKind::Folder
        } else if entry.is_symlink() {
            EntryKind::Link
        } else {
            EntryKind::File
        };
        budget.count(entry.size())?;
        listing.add(
            String::from_utf8(entry.name_raw().to_vec()).map_err(|e| e.into_bytes()),
            kind,
            entry.size(),
        );
    }
    Ok(listing.done())
}

/// Gives the wanted entries of a .zip to `sink`.
pub(super) fn stream_zip(path: &Path, wanted: &[&str], limit: u64, sink: Sink<'_>) -> Result<()> {
    let mut archive = zip::ZipArchive::new(BufReader::new(open(path)?)).map_err(|e| bad(path, e))?;
    let names = archive.file_names_raw().map(|raw| std::str::from_utf8(raw).ok().and_then(clean));
    let index_of: HashMap<String, usize> =
        names.enumerate().filter_map(|(i, name)| name.map(|name| (name, i))).collect();
    for (index, wanted_path) in wanted.iter().enumerate() {
        let found = index_of.get(*wanted_path).ok_or(zip::result::ZipError::FileNotFound);
        let read = match found.and_then(|&i| archive.by_index(i)) {
            Ok(entry) if entry.size() > limit => Err(Fault::TooManyBytes { bytes: entry.size(), limit }),
            // The declared size is a claim: what is really unpacked is bounded by it.
            Ok(entry) => {
                let declared = entry.size();
                read_bounded(entry, declared)
            }
            Err(e) => Err(Fault::Unreadable { reason: e.to_string() }),
        };
        if !sink(index, read) {
            break;
        }
    }
    Ok(())
}

/// Lists a .tar or .tar.gz by reading through it.
pub(super) fn list_tar(path: &Path, kind: TreeKind) -> Result<Listed> {
    let mut listing = Listing::new(path);
    each_tar_entry(path, kind, |name, entry_kind, size, _| {
        listing.add(name, entry_kind, size);
        Ok(true)
    })?;
    Ok(listing.done())
}

/// Gives the wanted entries of a .tar or .tar.gz to `sink`, in the order of the archive.
pub(super) fn stream_tar(
    path: &Path,
    kind: TreeKind,
    wanted: &[&str],
    limit: u64,
    sink: Sink<'_>,
) -> Result<()> {
    let mut open: HashMap<&str, usize> = wanted.iter().enumerate().map(|(i, path)| (*path, i)).collect();
    let mut stopped = false;
    each_tar_entry(path, kind, |name, entry_kind, size, reader| {
        let index = name.ok().as_deref().and_then(clean).and_then(|name| open.remove(name.as_str()));
        if let (Some(index), EntryKind::File) = (index, entry_kind) {
            let read = if size > limit {
                Err(Fault::TooManyBytes { bytes: size, limit })
            } else {
                read_bounded(reader, limit)
            };
            stopped = !sink(index, read);
        }
        Ok(!stopped && !open.is_empty())
    })?;
    if !stopped {
        let mut missing: Vec<usize> = open.into_values().collect();
        missing.sort_unstable();
        for index in missing {
            if !sink(index, Err(Fault::Unreadable { reason: "it is not in the archive any more".into() })) {
                break;
            }
        }
    }
    Ok(())
}

/// Gives name, kind, size and reader of each entry to `visit` until it answers `false`.
fn each_tar_entry(
    path: &Path,
    kind: TreeKind,
    mut visit: impl FnMut(std::result::Result<String, Vec<u8>>, EntryKind, u64, &mut dyn Read) -> Result<bool>,
) -> Result<()> {
    let file = open(path)?;
    let mut budget = Budget::new(path, &file)?;
    let file = BufReader::with_capacity(1 << 16, file);
    let reader: Box<dyn Read> = match kind {
        TreeKind::TarGz => Box::new(flate2::read::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    };
    // Between two entries the reader may take no more than headers and long names need: a name of gigabytes is a bomb.
    let allowance = Rc::new(Cell::new(MAX_HEADER_BYTES));
    let mut archive = tar::Archive::new(Guarded { inner: reader, allowance: allowance.clone() });
    for entry in archive.entries().map_err(|e| bad(path, e))? {
        let mut entry = entry.map_err(|e| bad(path, e))?;
        let entry_kind = match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                EntryKind::File
            }
            tar::EntryType::Directory => EntryKind::Folder,
            tar::EntryType::Link | tar::EntryType::Symlink => EntryKind::Link,
            tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => continue,
            _ => EntryKind::Special,
        };
        let name = String::from_utf8(entry.path_bytes().into_owned()).map_err(|e| e.into_bytes());
        let size = entry.size();
        budget.count(size)?;
        allowance.set(size.saturating_add(MAX_HEADER_BYTES));
        if !visit(name, entry_kind, size, &mut entry)? {
            break;
        }
        std::io::copy(&mut entry, &mut std::io::sink()).map_err(|e| bad(path, e))?;
        allowance.set(MAX_HEADER_BYTES);
    }
    Ok(())
}

/// A reader that gives at most `allowance` bytes.
struct Guarded<R> {
    inner: R,
    allowance: Rc<Cell<u64>>,
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let allowed = self.allowance.get();
        if allowed == 0 && !buffer.is_empty() {
            return Err(std::io::Error::other("the headers between two entries are too large"));
        }
        let room = buffer.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
        let read = self.inner.read(&mut buffer[..room])?;
        self.allowance.set(allowed - read as u64);
        Ok(read)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    File,
    Folder,
    Link,
    Special,
}

/// Counts what an archive would unpack to.
struct Budget<'a> {
    path: &'a Path,
    packed: u64,
    total: u64,
    entries: usize,
}

impl<'a> Budget<'a> {
    fn new(path: &'a Path, file: &File) -> Result<Self> {
        let packed = file.metadata().map_err(|source| Error::io("open", path, source))?.len();
        Ok(Budget { path, packed, total: 0, entries: 0 })
    }

    fn count(&mut self, bytes: u64) -> Result<()> {
        self.entries += 1;
        self.total = self.total.saturating_add(bytes);
        let allowed = self.packed.saturating_mul(MAX_RATIO).clamp(SMALL_TOTAL, MAX_TOTAL);
        if self.total > allowed || self.entries > MAX_ENTRIES {
            return Err(Error::ArchiveBomb {
                path: self.path.to_owned(),
                packed: self.packed,
                unpacked: self.total,
                entries: self.entries,
            });
        }
        Ok(())
    }
}

/// The entries found so far.
struct Listing<'a> {
    archive: &'a Path,
    files: Vec<TreeFile>,
    refused: Vec<BadFile>,
}

impl<'a> Listing<'a> {
    fn new(archive: &'a Path) -> Self {
        Listing { archive, files: Vec::new(), refused: Vec::new() }
    }

    fn add(&mut self, name: std::result::Result<String, Vec<u8>>, kind: EntryKind, bytes: u64) {
        let name = match name {
            Ok(name) => name,
            Err(raw) => return self.refuse(&String::from_utf8_lossy(&raw), Fault::NameNotUtf8),
        };
        let Some(path) = clean(&name) else {
            return self.refuse(&name, Fault::OutsideArchive);
        };
        match kind {
            EntryKind::Folder => {}
            EntryKind::Link => self.refuse(&name, Fault::LinkInArchive),
            EntryKind::Special => self.refuse(&name, Fault::SpecialFile),
            EntryKind::File if hidden(&path) => {}
            EntryKind::File => self.files.push(TreeFile { path, bytes, modified: 0 }),
        }
    }

    fn refuse(&mut self, name: &str, fault: Fault) {
        self.refused.push(BadFile { path: format!("{}:{name}", self.archive.display()), fault });
    }

    /// An archive may hold a name twice; it is one file here.
    fn done(mut self) -> Listed {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.files.dedup_by(|a, b| a.path == b.path);
        (self.files, self.refused)
    }
}

/// The path without `.` parts, or nothing if it is absolute or leads outside.
fn clean(name: &str) -> Option<String> {
    if name.starts_with(['/', '\\']) || name.contains('\0') || name.get(1..2) == Some(":") {
        return None;
    }
    let parts: Vec<&str> = name.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") { None } else { Some(parts.join("/")) }
}

/// Files that file managers leave behind.
fn hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.') || part == "__MACOSX")
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| Error::io("open", path, source))
}

fn bad(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::BadArchive { path: path.to_owned(), reason: error.to_string() }
}
