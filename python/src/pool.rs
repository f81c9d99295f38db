//! Threads that a forked process makes anew.

use crate::interrupt::interruptible;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// The threads of classifiers of vectors.
pub(crate) static VECTORS: Pool = Pool(Mutex::new(None));

/// A thread pool made at its first use. Threads do not survive a fork, which is how `multiprocessing` starts its workers on
/// Linux before Python 3.14: a child that waited for the threads of its parent would wait for ever.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Option<(u32, Arc<ThreadPool>)>>);

impl Pool {
    /// [`interruptible`] work whose parallel parts run in this pool.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> PyResult<T> + Send + 'static,
    ) -> PyResult<T> {
        let threads = self.threads()?;
        interruptible(py, &AtomicBool::default(), move || threads.install(work))
    }

    /// The threads, started if this process has none yet.
    pub(crate) fn threads(&self) -> PyResult<Arc<ThreadPool>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((of, threads)) = &*kept
            && *of == process
        {
            return Ok(threads.clone());
        }
        let fresh = ThreadPoolBuilder::new()
            .build()
            .map_err(|e| PyRuntimeError::new_err(format!("threads cannot be started: {e}")))?;
        let fresh = Arc::new(fresh);
        // The pool of the parent is forgotten, not ended: its threads are not here to hear of it.
        std::mem::forget(kept.replace((process, fresh.clone())));
        Ok(fresh)
    }
}
