//! Reading files that somebody else named.

use super::open::open_named;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Memory that is taken before a file is read, at most: what it says of its length costs nothing (a sparse file has any).
const AHEAD: u64 = 1 << 20;

/// The bytes of a regular file, at most `most`. Devices and pipes are refused: they may never end, or never begin.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = open_named(path)?;
    let length = file.metadata()?.len();
    let too_large = || {
        let why = format!("it has more than the {most} bytes that such a file may have");
        Error::new(ErrorKind::FileTooLarge, why)
    };
    if length > most {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(length.min(AHEAD) as usize);
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_bound_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(read(&path, 4).unwrap_err().to_string().contains("more than the 4 bytes"));
        assert!(read(folder.path(), 5).unwrap_err().to_string().contains("no regular file"));
        #[cfg(unix)]
        for device in ["/dev/zero", "/dev/null"] {
            assert!(read(Path::new(device), 5).unwrap_err().to_string().contains("no regular file"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success() && read(&pipe, 5).unwrap_err().to_string().contains("no regular file"));
    }
}
