//! Opening files at places where somebody else may have put something: a link to a file that must stay, a pipe that never begins.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens a file of ours, as `options` say. What lies there in its place is left alone: links are not followed, pipes are not
/// waited for, and only a regular file is taken.
pub fn open(path: &Path, options: &mut OpenOptions) -> Result<File> {
    #[cfg(not(unix))]
    if path.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
        return Err(link());
    }
    checked(at_once(options, true).open(path).map_err(|e| match path.is_symlink() {
        true => link(),
        false => e,
    })?)
}

/// Opens a file that somebody named, for reading: by a link, if they like.
pub(super) fn open_named(path: &Path) -> Result<File> {
    // Asked before, for to open a device may do something already, ...
    regular(&std::fs::metadata(path)?)?;
    // ... and after, for it may be another one now.
    checked(at_once(OpenOptions::new().read(true), false).open(path)?)
}

/// Options that wait for nobody, and follow no link if `own`.
#[cfg(unix)]
fn at_once(options: &mut OpenOptions, own: bool) -> &mut OpenOptions {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = if own { OFlags::NONBLOCK | OFlags::NOFOLLOW } else { OFlags::NONBLOCK };
    options.custom_flags(flags.bits() as i32)
}

#[cfg(not(unix))]
fn at_once(options: &mut OpenOptions, _own: bool) -> &mut OpenOptions {
    options
}

fn checked(file: File) -> Result<File> {
    regular(&file.metadata()?)?;
    Ok(file)
}

fn regular(metadata: &Metadata) -> Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

fn link() -> Error {
    Error::new(ErrorKind::InvalidInput, "it is a link, and links are not followed here; remove it")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_regular_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), b"precious").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        for name in ["link", "dangling", "pipe"] {
            let read = open(&at(name), OpenOptions::new().read(true));
            let write = open(&at(name), OpenOptions::new().write(true).create(true).truncate(true));
            assert!(read.is_err() && write.is_err(), "{name}");
        }
        assert_eq!(std::fs::read(at("file")).unwrap(), b"precious");
        assert!(!at("nowhere").exists());
        assert!(open(&at("file"), OpenOptions::new().read(true)).is_ok());
        assert!(open_named(&at("link")).is_ok() && open_named(&at("pipe")).is_err());
    }
}
