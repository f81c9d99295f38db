//! A file is either its old or its new content, whatever happens while it is written.

use crate::error::{Result, io};
use crate::team;
use std::path::Path;

/// Writes `bytes` to `path`: see [`siskin_data::files::write`]. Of several processes at one work the first one writes.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if team::current().rank() > 0 {
        return Ok(());
    }
    siskin_data::files::write(path, bytes).map_err(io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_old_file_and_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::create_dir(&path).unwrap();
        // A folder in the place of the file makes the write fail for any user, root included.
        let error = write(&path, b"new").unwrap_err().to_string();
        assert!(error.contains("cannot write") && path.is_dir(), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
