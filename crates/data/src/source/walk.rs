//! The files of a folder, symbolic links followed, loops found.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::tree::TreeFile;
use crate::fault::{BadFile, Fault};
use crate::{Error, Result};

/// How deep folders may be nested.
const MAX_DEPTH: usize = 32;

/// The files below `root`, unsorted, and what could not be listed.
pub(super) fn list(root: &Path) -> Result<(Vec<TreeFile>, Vec<BadFile>)> {
    let mut walk = Walk { files: Vec::new(), refused: Vec::new() };
    let canonical = root.canonicalize().map_err(|source| Error::io("open", root, source))?;
    // The root itself must be readable; what lies below is refused file by file.
    std::fs::read_dir(root).map_err(|source| Error::io("list", root, source))?;
    walk.folder(root, "", &mut vec![canonical]);
    Ok((walk.files, walk.refused))
}

/// Size and time of one file.
pub(super) fn stat(path: &Path) -> Result<TreeFile> {
    let meta = std::fs::metadata(path).map_err(|source| Error::io("open", path, source))?;
    Ok(tree_file(path.to_string_lossy().into_owned(), &meta))
}

fn tree_file(path: String, meta: &std::fs::Metadata) -> TreeFile {
    let modified = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    TreeFile { path, bytes: meta.len(), modified: modified.map_or(0, |d| d.as_nanos()) }
}

struct Walk {
    files: Vec<TreeFile>,
    refused: Vec<BadFile>,
}

impl Walk {
    /// `above`: the canonical paths of this folder and of those above it.
    fn folder(&mut self, folder: &Path, prefix: &str, above: &mut Vec<PathBuf>) {
        if above.len() > MAX_DEPTH {
            return self.refuse(folder, Fault::TooDeep { limit: MAX_DEPTH });
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) => return self.refuse(folder, Fault::Unreadable { reason: e.to_string() }),
        };
        for entry in entries {
            match entry {
                Ok(entry) => self.entry(&entry.path(), prefix, above),
                Err(e) => self.refuse(folder, Fault::Unreadable { reason: e.to_string() }),
            }
        }
    }

    fn entry(&mut self, path: &Path, prefix: &str, above: &mut Vec<PathBuf>) {
        let Some(name) = path.file_name() else { return };
        let Some(name) = name.to_str() else {
            return self.refuse(path, Fault::NameNotUtf8);
        };
        if name.starts_with('.') {
            return;
        }
        let relative = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        let meta = match std::fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) => return self.refuse(path, Fault::Unreadable { reason: e.to_string() }),
        };
        if meta.is_file() {
            self.files.push(tree_file(relative, &meta));
        } else if meta.is_dir() {
            let canonical = match path.canonicalize() {
                Ok(canonical) => canonical,
                Err(e) => return self.refuse(path, Fault::Unreadable { reason: e.to_string() }),
            };
            if above.contains(&canonical) {
                return self.refuse(path, Fault::LinkLoop);
            }
            above.push(canonical);
            self.folder(path, &relative, above);
            above.pop();
        } else {
            self.refuse(path, Fault::SpecialFile);
        }
    }

    fn refuse(&mut self, path: &Path, fault: Fault) {
        self.refused.push(BadFile { path: path.display().to_string(), fault });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_and_hidden_ones_left_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for name in ["a/b/1.png", "a/2.png", ".DS_Store", "a/._2.png"] {
            std::fs::write(dir.path().join(name), b"x").unwrap();
        }
        let (mut files, refused) = list(dir.path()).unwrap();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let paths: Vec<_> = files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["a/2.png", "a/b/1.png"]);
        assert_eq!(files[0].bytes, 1);
        assert!(refused.is_empty());
    }

    #[test]
    fn a_missing_root_is_an_error_with_its_path() {
        let error = list(Path::new("no/such/folder")).unwrap_err().to_string();
        assert!(error.contains("no/such/folder"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_loops_and_dead_ends_are_named() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
        std::fs::write(dir.path().join("elsewhere/1.png"), b"x").unwrap();
        symlink(dir.path().join("elsewhere"), root.join("b")).unwrap();
        symlink(&root, root.join("a/up")).unwrap();
        symlink("self", root.join("a/self")).unwrap();
        symlink("nowhere", root.join("a/dead.png")).unwrap();
        let (files, mut refused) = list(&root).unwrap();
        assert_eq!(files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["b/1.png"]);
        refused.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(refused.len(), 3, "{refused:?}");
        assert!(matches!(&refused[0].fault, Fault::Unreadable { .. }), "dead link: {:?}", refused[0]);
        assert!(matches!(&refused[1].fault, Fault::Unreadable { .. }), "a link to itself: {:?}", refused[1]);
        assert_eq!(refused[2].fault, Fault::LinkLoop);
        assert!(refused[2].path.ends_with("a/up"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_not_utf8_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.png")), b"x").unwrap();
        let (files, refused) = list(dir.path()).unwrap();
        assert!(files.is_empty());
        assert_eq!(refused[0].fault, Fault::NameNotUtf8);
        assert!(refused[0].path.contains("caf"), "{refused:?}");
    }
}
