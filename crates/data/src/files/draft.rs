//! A file is either its old or its new content, whatever happens while it is written.

use super::open::open;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How the name of every draft ends.
const ENDING: &str = ".siskin-writing";

/// A file on its way to its place: under a name of its own beside it, locked as long as its writer lives. What a killed process
/// left behind is not locked any more, and the next writer in the folder removes it.
#[derive(Debug)]
pub struct Draft {
    file: File,
    path: PathBuf,
    /// Whether the file is in its place.
    placed: bool,
}

impl Draft {
    /// Begins a file in `folder`. With `private`, only its owner may read it.
    pub fn create(folder: &Path, private: bool) -> Result<Draft> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        sweep(folder)?;
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".{}-{count}{ENDING}", std::process::id()));
            let mut options = OpenOptions::new();
            options.write(true).read(true).create_new(true);
            #[cfg(unix)]
            if private {
                use std::os::unix::fs::OpenOptionsExt;
                options.mode(0o600);
            }
            let file = match options.open(&path) {
                // A living process of another machine or container bears the same number.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                other => other?,
            };
            lock(&file)?;
            // Between the two lines above somebody may have swept it away.
            if path.exists() {
                return Ok(Draft { file, path, placed: false });
            }
        }
    }

    /// Moves the file to `target`, which must be in the same folder, and makes that last through a power cut.
    pub fn place(mut self, target: &Path) -> Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, target)?;
        self.placed = true;
        sync_folder(target)
    }

    /// Writes `bytes` at the beginning, over what is there.
    pub fn overwrite_start(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(bytes)
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.placed {
            // It only takes space; that it could not be removed adds nothing to the error that is under way.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writes `bytes` to `path`. After a crash, a full disk or `kill -9` at any point, `path` holds the old bytes or the new ones,
/// never a part; of several writers at once the last one wins.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    put(path, bytes, false)
}

/// [`write()`] for a file that only its owner may read.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    put(path, bytes, true)
}

fn put(path: &Path, bytes: &[u8], private: bool) -> Result<()> {
    let mut draft = Draft::create(path.parent().unwrap_or(Path::new("")), private)?;
    draft.write_all(bytes)?;
    draft.place(path)
}

/// Removes the drafts of processes that are gone.
pub fn sweep(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        // An entry that vanishes meanwhile was swept or placed by its owner.
        let Ok(entry) = entry else { continue };
        if is_draft(&entry.file_name())
            // What only bears such a name, a pipe or a link, is none of ours.
            && let Ok(file) = open(&entry.path(), OpenOptions::new().read(true))
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn is_draft(name: &OsString) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.starts_with(b".") && bytes.ends_with(ENDING.as_bytes())
}

/// Locks a draft. File systems without locks have no sweeper either: it gets no lock.
fn lock(file: &File) -> Result<()> {
    match file.lock() {
        Err(e) if e.kind() == std::io::ErrorKind::Unsupported => Ok(()),
        other => other,
    }
}

/// Makes a rename last through a power cut, where the system can.
fn sync_folder(path: &Path) -> Result<()> {
    if cfg!(unix)
        && let Some(folder) = path.parent()
    {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap();
        names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replaces_the_old_file_whole_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        write(&path, b"new and longer").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new and longer");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_draft_that_is_given_up_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        let mut draft = Draft::create(folder.path(), false).unwrap();
        draft.write_all(b"half").unwrap();
        drop(draft);
        assert_eq!(
            (std::fs::read(&path).unwrap(), names(folder.path())),
            (b"old".to_vec(), vec!["a".into()])
        );
    }

    #[test]
    fn drafts_of_the_dead_are_swept_and_those_of_the_living_stay() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join(format!(".1-7{ENDING}"));
        std::fs::write(&dead, b"half").unwrap();
        std::fs::write(folder.path().join("kept.writing"), b"not ours").unwrap();
        let mut living = Draft::create(folder.path(), false).unwrap();
        assert!(!dead.exists());
        write(&folder.path().join("b"), b"other").unwrap();
        living.write_all(b"whole").unwrap();
        living.place(&folder.path().join("a")).unwrap();
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, ["a", "b", "kept.writing"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_only_bears_the_name_of_a_draft_is_neither_waited_for_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |number: u32| folder.path().join(format!(".1-{number}{ENDING}"));
        assert!(std::process::Command::new("mkfifo").arg(at(1)).status().unwrap().success());
        std::os::unix::fs::symlink(folder.path().join("a"), at(2)).unwrap();
        write(&folder.path().join("a"), b"x").unwrap();
        assert!(at(1).exists() && at(2).is_symlink());
    }

    #[test]
    fn many_writers_of_one_file_leave_one_of_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::thread::scope(|scope| {
            for i in 0..8u8 {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| write(path, &[i; 5000]).unwrap()));
            }
        });
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() == 5000 && bytes.iter().all(|b| *b == bytes[0]));
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[cfg(unix)]
    #[test]
    fn private_files_are_for_their_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_private(&path, b"x").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
