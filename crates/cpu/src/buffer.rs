//! Memory that is used again: buffers come from a workspace and return to it when dropped.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store of buffers. Clones share the same store; after the first step a training loop allocates nothing large.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    free: Arc<Mutex<Vec<Vec<f32>>>>,
}

impl Workspace {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer of `len` floats with unspecified (but initialised) contents.
    pub(crate) fn take(&self, len: usize) -> Buffer {
        let found = {
            let mut free = self.lock();
            // The smallest that fits, yet never one more than twice too large: that one serves a larger request.
            let best = (0..free.len())
                .filter(|&i| free[i].len() >= len && free[i].len() / 2 <= len)
                .min_by_key(|&i| free[i].len());
            best.map(|i| free.swap_remove(i))
        };
        Buffer { data: found.unwrap_or_else(|| vec![0.0; len]), len, home: self.clone() }
    }

    /// A buffer of zeros.
    pub(crate) fn take_zeroed(&self, len: usize) -> Buffer {
        let mut buffer = self.take(len);
        buffer.fill(0.0);
        buffer
    }

    /// Floats held ready for the next steps.
    pub fn idle(&self) -> usize {
        self.lock().iter().map(Vec::len).sum()
    }

    /// Gives the idle memory back to the system.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<f32>>> {
        // A panic elsewhere leaves the list of free buffers whole.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Floats on loan from a [`Workspace`]; they go back to it when this is dropped.
#[derive(Debug)]
pub struct Buffer {
    data: Vec<f32>,
    len: usize,
    home: Workspace,
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.data[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.lock().push(std::mem::take(&mut self.data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again() {
        let workspace = Workspace::new();
        let first = workspace.take(1000).as_ptr();
        assert_eq!(workspace.idle(), 1000);
        let again = workspace.take(900);
        assert_eq!((again.as_ptr(), again.len()), (first, 900));
        assert_eq!(workspace.idle(), 0);
    }

    #[test]
    fn a_small_request_leaves_a_large_buffer_alone() {
        let workspace = Workspace::new();
        drop(workspace.take(1000));
        let small = workspace.take(10);
        assert_eq!((small.len(), workspace.idle()), (10, 1000));
    }
}
