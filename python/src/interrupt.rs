//! Long work that Ctrl-C can leave.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often a waiting call looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own without the GIL and waits for it. On Ctrl-C the call returns at once with
/// `KeyboardInterrupt` and sets `cancelled`: work that looks at it ends at its next step, other work when it is done; what it
/// found is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    cancelled: &AtomicBool,
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    watched(py, cancelled, || {}, work)
}

/// [`interruptible`]; `look` is called while it waits.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    cancelled: &AtomicBool,
    mut look: impl FnMut(),
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let (send, mut receive) = channel();
    // The receiver is gone after Ctrl-C: nobody is left to be told.
    std::thread::spawn(move || send.send(work()).ok());
    loop {
        let (answer, back) = py.detach(move || (receive.recv_timeout(LOOK), receive));
        receive = back;
        match answer {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => {
                look();
                py.check_signals().inspect_err(|_| cancelled.store(true, Ordering::Relaxed))?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the computation failed: please report this as a bug"));
            }
        }
    }
}

/// As [`interruptible`] for work that saves when `stop` is set: after Ctrl-C the call waits until that is done.
pub(crate) fn patient<T: Send + 'static>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let (send, mut receive) = channel();
    std::thread::spawn(move || send.send(work()).ok());
    let mut interrupted = None;
    loop {
        let (answer, back) = py.detach(move || (receive.recv_timeout(LOOK), receive));
        receive = back;
        match (answer, interrupted) {
            (Err(RecvTimeoutError::Timeout), before) => {
                // A second Ctrl-C does not wait any longer.
                let now = py.check_signals().err();
                if let (Some(_), Some(again)) = (&before, now.as_ref()) {
                    return Err(again.clone_ref(py));
                }
                stop.fetch_or(now.is_some(), Ordering::Relaxed);
                interrupted = before.or(now);
            }
            (_, Some(error)) => return Err(error),
            (Ok(result), None) => return result,
            (Err(RecvTimeoutError::Disconnected), None) => {
                return Err(PyRuntimeError::new_err("the computation failed: please report this as a bug"));
            }
        }
    }
}
