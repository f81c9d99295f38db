//! The folder of task files: ours alone while the server runs, and for nobody else to read.

use crate::error::{Error, Refusal, Reply, Result};
use crate::task::ServedTask;
use siskin_adapt::Model;
use siskin_data::files::{self, Lock};
use std::path::{Path, PathBuf};

/// The folder, locked.
pub(super) struct Folder {
    path: PathBuf,
    _lock: Lock,
}

impl Folder {
    /// Makes the folder if it is not there, takes its lock, and lets only its owner in.
    pub(super) fn open(path: PathBuf) -> Result<Folder> {
        make(&path).map_err(io("create", &path))?;
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
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o700))
}

#[cfg(not(unix))]
fn make(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

fn io(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { action, path: path.clone(), source }
}
