//! What may run at the same time: bodies in memory, and work on the cores.

use crate::error::{Answer, Refusal};
use crate::options::Limits;
use axum::http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies are counted in pieces of this many bytes.
const PIECE: usize = 1024;

/// The two queues.
pub struct Work {
    cores: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    most_pieces: usize,
    wait: Duration,
}

impl Work {
    pub fn new(limits: &Limits) -> Work {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let pieces = limits.body_budget.max(limits.max_body).div_ceil(PIECE);
        Work {
            cores: Arc::new(Semaphore::new(cores)),
            bodies: Arc::new(Semaphore::new(pieces)),
            most_pieces: pieces,
            wait: limits.work_timeout,
        }
    }

    /// Room for a body of `bytes`, held until dropped.
    pub async fn body(&self, bytes: usize) -> Answer<OwnedSemaphorePermit> {
        let pieces = bytes.div_ceil(PIECE).clamp(1, self.most_pieces) as u32;
        let room = self.bodies.clone().acquire_many_owned(pieces);
        match tokio::time::timeout(self.wait, room).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy()),
        }
    }

    /// Runs `job` on a thread for blocking work as soon as a core is free. A job that takes too long is answered for and
    /// told so by its flag; it keeps its core until it ends.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&AtomicBool) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let started = tokio::time::Instant::now();
        let core = match tokio::time::timeout(self.wait, self.cores.clone().acquire_owned()).await {
            Ok(Ok(core)) => core,
            _ => return Err(busy()),
        };
        let late = Arc::new(AtomicBool::new(false));
        let told = late.clone();
        let job = tokio::task::spawn_blocking(move || {
            let answer = job(&told);
            drop(core);
            answer
        });
        match tokio::time::timeout(self.wait.saturating_sub(started.elapsed()), job).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the work failed in an unforeseen way"))
            }
            Err(_) => {
                late.store(true, Ordering::Relaxed);
                let why = format!("the work took longer than {} s; send less at a time", self.wait.as_secs());
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why))
            }
        }
    }
}

fn busy() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is busy; try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_too_long_is_told_to_stop() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let limits = Limits { work_timeout: Duration::from_millis(50), ..Limits::default() };
        let work = Work::new(&limits);
        let ended = Arc::new(Semaphore::new(0));
        let told = ended.clone();
        let answer = runtime.block_on(work.run(move |late| {
            while !late.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            told.add_permits(1);
            Ok(())
        }));
        assert_eq!(answer.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        // Without the flag the job would never end.
        assert!(runtime.block_on(ended.acquire()).is_ok());
        let endless = Limits { work_timeout: Duration::MAX, ..Limits::default() };
        assert_eq!(runtime.block_on(Work::new(&endless).run(|_| Ok(7))).unwrap(), 7);
    }
}
