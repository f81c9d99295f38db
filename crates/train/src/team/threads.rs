//! Ranks as threads of one process: a team without MPI, for tests.

use super::{Team, join};
use crate::error::Result;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

struct Threads {
    rank: usize,
    size: usize,
    slots: Arc<Mutex<Vec<Vec<u8>>>>,
    barrier: Arc<Barrier>,
}

impl Team for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather(&self, own: Vec<u8>, _: &AtomicBool) -> Result<Vec<Vec<u8>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)[self.rank] = own;
        self.barrier.wait();
        let all = self.slots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.barrier.wait();
        Ok(all)
    }
}

/// Does `work`, which gets its rank, on so many ranks, and returns what each made. A rank that panics leaves the others waiting.
pub fn on_threads<T: Send>(size: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let slots = Arc::new(Mutex::new(vec![Vec::new(); size]));
    let barrier = Arc::new(Barrier::new(size));
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..size)
            .map(|rank| {
                let team = Threads { rank, size, slots: slots.clone(), barrier: barrier.clone() };
                let work = &work;
                scope.spawn(move || join(Arc::new(team), || work(rank)))
            })
            .collect();
        all.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}
