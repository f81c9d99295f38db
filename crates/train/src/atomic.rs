//! A file is either its old or its new content, whatever happens while it is written.

use crate::error::{Result, io};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes `bytes` to `path` by a temporary file beside it, fsync and rename.
///
/// After a crash, a full disk or `kill -9` at any point, `path` holds the old bytes or the new ones, never a part.
/// The temporary name is fixed, so a left-over of a killed process is overwritten by the next save.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".writing");
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()
    })();
    if let Err(source) = written {
        // The half-written file only takes space; that it could not be removed adds nothing to the error.
        let _ = std::fs::remove_file(&temporary);
        return Err(io("write", path)(source));
    }
    std::fs::rename(&temporary, path).map_err(io("write", path))?;
    sync_folder(path)
}

/// Makes the rename itself durable.
fn sync_folder(path: &Path) -> Result<()> {
    if cfg!(unix)
        && let Some(folder) = path.parent()
    {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder).and_then(|f| f.sync_all()).map_err(io("sync", folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_old_file_whole_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        write(&path, b"new and longer").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new and longer");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        // A folder in the place of the temporary file makes the write fail for any user, root included.
        std::fs::create_dir(folder.path().join("a.writing")).unwrap();
        let error = write(&path, b"new").unwrap_err().to_string();
        assert!(error.contains("cannot write"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
}
