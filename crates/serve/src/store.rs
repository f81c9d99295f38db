//! The tasks of a server: in memory, and as files that survive it.

mod folder;

use crate::error::{Refusal, Reply, Result};
use crate::options::Limits;
use crate::task::ServedTask;
use axum::http::StatusCode;
use folder::Folder;
use siskin_adapt::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CHANGING: &str = "the task was changed by another request meanwhile; look at it and try again";

/// A task with its place.
pub(crate) struct Entry {
    pub id: String,
    pub task: ServedTask,
    /// Index of its model.
    pub model: usize,
    /// Whether it is a file too.
    pub kept: bool,
    /// Seconds since 1970.
    pub created: u64,
    /// The order of use, for tasks that may be dropped.
    used: AtomicU64,
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.task.held_bytes()
    }
}

/// All tasks.
pub(crate) struct Tasks {
    folder: Option<Folder>,
    most: usize,
    most_bytes: u64,
    held: Mutex<Held>,
    clock: AtomicU64,
}

/// The tasks and the places that are promised to tasks on their way: together they stay within the bounds.
#[derive(Default)]
struct Held {
    entries: BTreeMap<String, Arc<Entry>>,
    bytes: u64,
    promised: usize,
    promised_bytes: u64,
    /// Tasks whose file is being changed. Nobody waits for a disk while he holds the lock, and no task has two changes at a time.
    changing: BTreeSet<String>,
}

impl Held {
    fn insert(&mut self, entry: Arc<Entry>) {
        self.bytes += entry.bytes();
        self.entries.insert(entry.id.clone(), entry);
    }

    fn remove(&mut self, id: &str) {
        if let Some(gone) = self.entries.remove(id) {
            self.bytes -= gone.bytes();
        }
    }
}

/// A place that is promised to a task; given back when dropped.
struct Place<'a> {
    tasks: &'a Tasks,
    bytes: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut held = self.tasks.lock();
        held.promised -= 1;
        held.promised_bytes -= self.bytes;
    }
}

/// A change of a task that is under way, with the bytes promised to it; over when dropped.
struct Change<'a> {
    tasks: &'a Tasks,
    id: String,
    bytes: u64,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut held = self.tasks.lock();
        held.changing.remove(&self.id);
        held.promised_bytes -= self.bytes;
    }
}

impl Tasks {
    /// Opens the folder and loads its tasks. Files that cannot be used stay where they are and are named.
    pub(crate) fn open(
        folder: Option<PathBuf>,
        limits: &Limits,
        models: &[Model],
    ) -> Result<(Tasks, Vec<String>)> {
        let (most, most_bytes) = (limits.max_tasks, limits.task_memory);
        let mut held = Held::default();
        let mut notes = Vec::new();
        let folder = folder.map(Folder::open).transpose()?;
        if let Some(folder) = &folder {
            for (id, path) in folder.list()? {
                match folder::load(&path, models) {
                    Ok((task, model)) => {
                        let created = std::fs::metadata(&path).and_then(|m| m.modified()).map_or(0, seconds);
                        let used = AtomicU64::new(0);
                        let entry = Entry { id, task, model, kept: true, created, used };
                        if held.bytes + entry.bytes() > most_bytes {
                            notes.push(format!(
                                "{} is left out: the tasks need too much memory",
                                path.display()
                            ));
                        } else {
                            held.insert(Arc::new(entry));
                        }
                    }
                    Err(why) => notes.push(format!("{} is left out: {why}", path.display())),
                }
            }
        }
        let tasks = Tasks { folder, most, most_bytes, held: Mutex::new(held), clock: AtomicU64::new(1) };
        Ok((tasks, notes))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // A poisoned lock means that another thread panicked; the map and its sums are changed together, last.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a task up; with `keep` it is written to the folder first. Blocking.
    pub(crate) fn add(&self, task: ServedTask, model: usize, keep: bool) -> Reply<Arc<Entry>> {
        let tick = self.clock.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now();
        let bytes = task.to_bytes()?;
        let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes).update(&since.to_le_bytes()).update(&tick.to_le_bytes());
        let id = hasher.finalize().to_hex()[..16].to_string();
        let kept = keep && self.folder.is_some();
        let created = seconds(now);
        let entry = Arc::new(Entry { id, task, model, kept, created, used: AtomicU64::new(tick) });
        let place = self.promise(entry.bytes())?;
        if let Some(folder) = self.folder.as_ref().filter(|_| kept) {
            folder.save(&entry.id, &bytes)?;
        }
        let mut held = self.lock();
        held.insert(entry.clone());
        drop(held);
        drop(place);
        Ok(entry)
    }

    /// A place for a task of so many bytes. Where there is none, tasks that are not kept make room, the one first that was
    /// used longest ago.
    fn promise(&self, bytes: u64) -> Reply<Place<'_>> {
        let mut held = self.lock();
        loop {
            let (count, all) = (held.entries.len() + held.promised, held.bytes + held.promised_bytes);
            if count < self.most && all + bytes <= self.most_bytes {
                held.promised += 1;
                held.promised_bytes += bytes;
                return Ok(Place { tasks: self, bytes });
            }
            let loose = held.entries.values().filter(|e| !e.kept && !held.changing.contains(&e.id));
            let oldest = loose.min_by_key(|e| e.used.load(Ordering::Relaxed)).map(|e| e.id.clone());
            let Some(id) = oldest else {
                let why = match count < self.most {
                    false => format!("there are {count} tasks already, as many as may be; delete some"),
                    true => format!(
                        "the tasks take {} MB already, and this one {}; at most {} are taken. Delete some",
                        all >> 20,
                        bytes >> 20,
                        self.most_bytes >> 20
                    ),
                };
                return Err(conflict(why));
            };
            held.remove(&id);
        }
    }

    /// Puts a changed task in the place of `old`, which must still be there. Blocking.
    pub(crate) fn replace(&self, old: &Arc<Entry>, task: ServedTask) -> Reply<Arc<Entry>> {
        let (id, model, kept, created) = (old.id.clone(), old.model, old.kept, old.created);
        let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        let entry = Arc::new(Entry { id, task, model, kept, created, used });
        let bytes = entry.task.to_bytes()?;
        let place = self.place_beside(old, &entry)?;
        if let Some(folder) = self.folder.as_ref().filter(|_| kept) {
            folder.save(&entry.id, &bytes)?;
        }
        let mut held = self.lock();
        held.remove(&old.id);
        held.insert(entry.clone());
        drop(held);
        drop(place);
        Ok(entry)
    }

    /// The place of `old` for its successor, and what that needs beyond it.
    fn place_beside(&self, old: &Arc<Entry>, new: &Entry) -> Reply<Change<'_>> {
        let mut held = self.lock();
        let now = held.entries.get(&old.id).ok_or_else(|| unknown(&old.id))?;
        if !Arc::ptr_eq(now, old) {
            return Err(conflict(CHANGING));
        }
        let more = new.bytes().saturating_sub(old.bytes());
        let all = held.bytes + held.promised_bytes + more;
        if all > self.most_bytes && more > 0 {
            let most = self.most_bytes >> 20;
            return Err(conflict(format!(
                "the tasks would take {} MB, at most {most} are taken. Delete some",
                all >> 20
            )));
        }
        if !held.changing.insert(old.id.clone()) {
            return Err(conflict(CHANGING));
        }
        held.promised_bytes += more;
        Ok(Change { tasks: self, id: old.id.clone(), bytes: more })
    }

    pub(crate) fn get(&self, id: &str) -> Reply<Arc<Entry>> {
        let held = self.lock();
        let entry = held.entries.get(id).ok_or_else(|| unknown(id))?;
        entry.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Ok(entry.clone())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.lock().entries.values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Forgets a task and its file. Blocking.
    pub(crate) fn delete(&self, id: &str) -> Reply<()> {
        let mut held = self.lock();
        let entry = held.entries.get(id).ok_or_else(|| unknown(id))?.clone();
        if held.changing.contains(id) {
            return Err(conflict(CHANGING));
        }
        held.remove(id);
        drop(held);
        // A task that is gone must not come back after a restart: where its file stays, it stays.
        let gone = self.folder.as_ref().filter(|_| entry.kept).map_or(Ok(()), |folder| folder.remove(id));
        if gone.is_err() {
            self.lock().insert(entry);
        }
        gone
    }
}

fn conflict(why: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, why)
}

fn unknown(id: &str) -> Refusal {
    // Whatever was asked for is shown only if it could be an id.
    let shown = if id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()) { id } else { "of this id" };
    Refusal::new(StatusCode::NOT_FOUND, format!("there is no task {shown}"))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
