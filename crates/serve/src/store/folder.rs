//! The folder of task files: ours alone while the server runs, and for nobody else to read.

use crate::error::{Error, Refusal, Reply, Result};
use crate::task::ServedTask;
use siskin_adapt::Model;
use siskin_data::files::{self, Lock};
use siskin_data::shell::quoted;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder, locked.
pub(super) struct Folder {
    path: PathBuf,
    _lock: Lock,
}

impl Folder {
    /// Makes the folder for its owner alone if it is not there, and takes its lock. One that was there stays as it is; where others may
    /// write in it, it is refused: they could put a task in place of ours.
    pub(super) fn open(path: PathBuf) -> Result<Folder> {
        make(&path).map_err(io("use", &path))?;
        let lock = Lock::take(&path).map_err(io("use", &path))?;
        Ok(Folder { path, _lock: lock })
    }

    /// Id and path of each task file, in order.
    pub(super) fn list(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut found = Vec::new();
        for file in std::fs::read_dir(&self.path).map_err(io("list", &self.path))? {
            let path = file.map_err(io("list", &self.path))?.path();
            if path.extension().is_some_and(|e| e == "task")
                && let Some(id) = path.file_stem()
            {
                found.push((id.to_string_lossy().into_owned(), path));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Writes the file of a task: it is there whole when this returns.
    pub(super) fn save(&self, id: &str, bytes: &[u8]) -> Reply<()> {
        files::write_private(&self.file(id), bytes).map_err(|e| Refusal::failure("keeping the task", e))
    }

    pub(super) fn remove(&self, id: &str) -> Reply<()> {
        std::fs::remove_file(self.file(id)).map_err(|e| Refusal::failure("removing the task's file", e))
    }

    fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.task"))
    }
}

/// Reads a task file, and finds the model it was made with.
pub(super) fn load(path: &Path, models: &[Model]) -> std::result::Result<(ServedTask, usize), String> {
    let task = ServedTask::load(path).map_err(|e| e.to_string())?;
    let wanted = task.model().ok_or("it was made from vectors, this server takes images")?;
    let found = models.iter().position(|model| model.hash() == wanted.hash);
    let model = found.ok_or_else(|| format!("its model {} is not served", wanted.name))?;
    Ok((task, model))
}

#[cfg(unix)]
fn make(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    /// Write permission of the group and of others.
    const OTHERS: u32 = 0o022;
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        made => return made,
    }
    match std::fs::metadata(path)?.permissions().mode() & OTHERS {
        0 => Ok(()),
        _ => {
            let why = format!(
                "others may write in it; keep them out by `chmod go-w {}`, or choose another folder",
                quoted(path)
            );
            Err(std::io::Error::new(ErrorKind::PermissionDenied, why))
        }
    }
}

#[cfg(not(unix))]
fn make(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

fn io(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { action, path: path.clone(), source }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_of_ours_is_for_its_owner_and_one_of_others_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let new = folder.path().join("a/new");
        Folder::open(new.clone()).unwrap();
        assert_eq!(mode(&new), 0o700);
        let theirs = folder.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        for (before, opens) in [(0o755, true), (0o500, true), (0o775, false), (0o777, false)] {
            std::fs::set_permissions(&theirs, PermissionsExt::from_mode(before)).unwrap();
            let opened = Folder::open(theirs.clone());
            // Who is not root cannot write in a folder of 0500; that is another matter.
            if before != 0o500 {
                assert_eq!(opened.is_ok(), opens, "{before:o}");
            }
            assert_eq!(mode(&theirs), before);
        }
        let why = Folder::open(theirs).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("others may write in it"), "{why}");
    }
}
