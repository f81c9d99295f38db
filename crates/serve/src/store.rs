//! The tasks of a server: in memory, and as files that survive it.

use crate::error::{Answer, Error, Refusal, Result};
use axum::http::StatusCode;
use siskin_adapt::{Model, TaskClassifier};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A task with its place.
pub struct Entry {
    pub id: String,
    pub task: TaskClassifier,
    /// Index of its model.
    pub model: usize,
    /// Whether it is a file too.
    pub kept: bool,
    /// Seconds since 1970.
    pub created: u64,
    /// The order of use, for tasks that may be dropped.
    used: AtomicU64,
}

/// All tasks.
pub struct Tasks {
    folder: Option<PathBuf>,
    most: usize,
    entries: RwLock<BTreeMap<String, Arc<Entry>>>,
    clock: AtomicU64,
}

impl Tasks {
    /// Opens the folder and loads its tasks. Files that cannot be used stay where they are and are named.
    pub fn open(folder: Option<PathBuf>, most: usize, models: &[Model]) -> Result<(Tasks, Vec<String>)> {
        let mut entries = BTreeMap::new();
        let mut notes = Vec::new();
        if let Some(folder) = &folder {
            let io = |action, path: &Path| {
                let path = path.to_owned();
                move |source| Error::Io { action, path, source }
            };
            std::fs::create_dir_all(folder).map_err(io("create", folder))?;
            let list = std::fs::read_dir(folder).map_err(io("list", folder))?;
            for file in list {
                let path = file.map_err(io("list", folder))?.path();
                let id = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
                if path.extension().is_none_or(|e| e != "task") {
                    continue;
                }
                match load(&path, models) {
                    Ok((task, model)) => {
                        let created = std::fs::metadata(&path).and_then(|m| m.modified()).map_or(0, seconds);
                        let entry = Entry {
                            id: id.clone(),
                            task,
                            model,
                            kept: true,
                            created,
                            used: AtomicU64::new(0),
                        };
                        entries.insert(id, Arc::new(entry));
                    }
                    Err(why) => notes.push(format!("{} is left out: {why}", path.display())),
                }
            }
        }
        let tasks = Tasks { folder, most, entries: RwLock::new(entries), clock: AtomicU64::new(1) };
        Ok((tasks, notes))
    }

    /// Takes a task up; with `keep` it is written to the folder first. Blocking.
    pub fn add(&self, task: TaskClassifier, model: usize, keep: bool) -> Answer<Arc<Entry>> {
        self.make_room()?;
        let tick = self.clock.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now();
        let bytes = task.to_bytes()?;
        let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes).update(&since.to_le_bytes()).update(&tick.to_le_bytes());
        let id = hasher.finalize().to_hex()[..16].to_string();
        let kept = keep && self.folder.is_some();
        if let Some(path) = self.path(&id).filter(|_| kept) {
            task.save(&path)?;
        }
        let created = seconds(now);
        let entry =
            Arc::new(Entry { id: id.clone(), task, model, kept, created, used: AtomicU64::new(tick) });
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(id, entry.clone());
        Ok(entry)
    }

    /// Where there are as many tasks as may be, the one that is not kept and was used longest ago makes room.
    fn make_room(&self) -> Answer<()> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() < self.most {
            return Ok(());
        }
        let oldest = entries.values().filter(|e| !e.kept).min_by_key(|e| e.used.load(Ordering::Relaxed));
        match oldest.map(|e| e.id.clone()) {
            Some(id) => {
                entries.remove(&id);
                Ok(())
            }
            None => {
                let why =
                    format!("there are {} tasks already, as many as may be; delete some", entries.len());
                Err(Refusal::new(StatusCode::CONFLICT, why))
            }
        }
    }

    pub fn get(&self, id: &str) -> Answer<Arc<Entry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(id).ok_or_else(|| unknown(id))?;
        entry.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Ok(entry.clone())
    }

    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Forgets a task and its file. Blocking.
    pub fn delete(&self, id: &str) -> Answer<()> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(id).ok_or_else(|| unknown(id))?.clone();
        // The file first: a task that is gone must not come back after a restart.
        if let Some(path) = self.path(id).filter(|_| entry.kept) {
            std::fs::remove_file(&path).map_err(|e| {
                let why = format!("the file of task {id} cannot be removed: {e}");
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
            })?;
        }
        entries.remove(id);
        Ok(())
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(format!("{id}.task")))
    }
}

fn load(path: &Path, models: &[Model]) -> std::result::Result<(TaskClassifier, usize), String> {
    let task = TaskClassifier::load(path).map_err(|e| e.to_string())?;
    let wanted = task.model().ok_or("it was made from vectors, this server takes images")?;
    let found = models.iter().position(|model| model.hash() == wanted.hash);
    let model = found.ok_or_else(|| format!("its model {} is not served", wanted.name))?;
    Ok((task, model))
}

fn unknown(id: &str) -> Refusal {
    // Whatever was asked for is shown only if it could be an id.
    let shown = if id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()) { id } else { "of this id" };
    Refusal::new(StatusCode::NOT_FOUND, format!("there is no task {shown}"))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
