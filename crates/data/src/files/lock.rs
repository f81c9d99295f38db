//! One process at a time in a folder.

use super::open::open;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

/// Name of the file that is locked. It stays when the lock ends: a file that is removed could be locked twice.
const NAME: &str = ".siskin-lock";
/// Longer than [`Lock::is_taken`] holds the lock to see whether it is free.
const QUESTION: Duration = Duration::from_millis(20);
/// Most digits of the number of a process.
const MOST_DIGITS: u64 = 20;

/// Held as long as it lives; the system ends it with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of `folder`, or says who holds it. What killed processes left half-written in the folder is removed.
    pub fn take(folder: &Path) -> Result<Lock> {
        let mut file = lock_file(folder)?;
        let first = file.try_lock();
        if matches!(first, Err(TryLockError::WouldBlock)) {
            std::thread::sleep(QUESTION);
        }
        match first.or_else(|_| file.try_lock()) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who it is only helps people; without it the fact stays.
                let _ = (&file).take(MOST_DIGITS).read_to_string(&mut holder);
                let holder = match holder.trim().parse::<u32>() {
                    Ok(id) => format!("another siskin (process {id})"),
                    Err(_) => "another siskin".to_owned(),
                };
                let why = format!("{holder} is at work there; wait for its end, or choose another folder");
                return Err(std::io::Error::new(ErrorKind::WouldBlock, why));
            }
            // File systems without locks: their users must see to it themselves.
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(e),
        }
        sign(&mut file)?;
        super::sweep(folder)?;
        Ok(Lock { _file: file })
    }

    /// Waits for the lock of `folder`; `waiting` is called once if there is somebody to wait for.
    pub fn wait(folder: &Path, waiting: impl FnOnce()) -> Result<Lock> {
        match Lock::take(folder) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
        waiting();
        let mut file = lock_file(folder)?;
        file.lock()?;
        sign(&mut file)?;
        Ok(Lock { _file: file })
    }

    /// Whether somebody holds the lock of `folder` now.
    pub fn is_taken(folder: &Path) -> Result<bool> {
        match open(&folder.join(NAME), OpenOptions::new().read(true)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            file => match file?.try_lock_shared() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(e)) => Err(e),
            },
        }
    }
}

fn lock_file(folder: &Path) -> Result<File> {
    let opened =
        open(&folder.join(NAME), OpenOptions::new().read(true).write(true).create(true).truncate(false));
    opened.map_err(|e| match e.kind() {
        ErrorKind::InvalidInput => std::io::Error::new(e.kind(), format!("its file {NAME}: {e}")),
        _ => e,
    })
}

/// Writes the number of this process, for the message to others. A file with something else in it is none of ours.
fn sign(file: &mut File) -> Result<()> {
    let mut found = Vec::new();
    (&*file).take(MOST_DIGITS + 1).read_to_end(&mut found)?;
    if found.len() as u64 > MOST_DIGITS || !found.iter().all(u8::is_ascii_digit) {
        let why = format!("its file {NAME} has something else in it than a lock; move it away");
        return Err(std::io::Error::new(ErrorKind::InvalidData, why));
    }
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    write!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_was_first_and_comes_in_after() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Lock::is_taken(folder.path()).unwrap());
        let first = Lock::take(folder.path()).unwrap();
        assert!(Lock::is_taken(folder.path()).unwrap());
        let error = Lock::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        let mut waited = false;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                drop(first);
            });
            Lock::wait(folder.path(), || waited = true).unwrap();
        });
        assert!(waited);
        Lock::take(folder.path()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_no_lock_of_ours_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, lock) = (folder.path().join("victim"), folder.path().join(NAME));
        std::fs::write(&victim, b"precious words").unwrap();
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        assert!(Lock::take(folder.path()).unwrap_err().to_string().contains("a link"));
        assert!(Lock::wait(folder.path(), || ()).is_err() && Lock::is_taken(folder.path()).is_err());
        std::fs::remove_file(&lock).unwrap();
        // A second name of the same file is no link that could be seen; its content is.
        std::fs::hard_link(&victim, &lock).unwrap();
        assert!(Lock::take(folder.path()).unwrap_err().to_string().contains("something else"));
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious words");
        std::fs::remove_file(&lock).unwrap();
        std::fs::write(&lock, b"4711").unwrap();
        Lock::take(folder.path()).unwrap();
    }
}
