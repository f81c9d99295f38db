//! Work on the cores, in turns: nobody keeps a core longer than a turn, and what costs much does not keep what costs little
//! waiting.

use crate::error::{Refusal, Reply};
use crate::lanes::{Lane, Place};
use crate::options::Limits;
use crate::peer::Peer;
use axum::http::StatusCode;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A request that is expected to take more seconds than this, or has taken more, is heavy.
const LIGHT: f64 = 0.25;
/// Most heavy requests of one client that wait; more would wait for longer than they may.
const MOST_HEAVY: usize = 128;

/// Two lanes: the system shares the cores between them, whatever waits in either.
pub(crate) struct Work {
    light: Lane,
    heavy: Lane,
    wait: Duration,
}

impl Work {
    pub(crate) fn new(limits: &Limits) -> std::io::Result<Work> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let lanes = || {
            // A light turn has one thread: its time does not depend on what else runs.
            let light = Lane::new("light", cores.max(2), 1, limits.max_connections)?;
            Ok((light, Lane::new("heavy", 2, cores.div_ceil(2), MOST_HEAVY)?))
        };
        let (light, heavy) = lanes().map_err(|e: rayon::ThreadPoolBuildError| std::io::Error::other(e))?;
        Ok(Work { light, heavy, wait: limits.work_timeout })
    }

    /// The work of one request of this client that will take about so many seconds of one core.
    pub(crate) fn job(&self, peer: Peer, seconds: f64) -> Job<'_> {
        Job { work: self, peer, started: Instant::now(), expected: seconds, used: Duration::ZERO }
    }
}

/// The work of one request.
pub(crate) struct Job<'a> {
    work: &'a Work,
    peer: Peer,
    started: Instant,
    expected: f64,
    used: Duration,
}

/// Tells a turn that nobody waits for it any more, also where the request is dropped with its connection.
struct Late(Arc<AtomicBool>);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Job<'_> {
    /// Runs `turn` as soon as its lane has a thread for it. It should be short, or look at its flag often: the flag is set
    /// when the time of the request is over or its client is gone. Its thread is kept until it ends.
    pub(crate) async fn turn<T: Send + 'static>(
        &mut self,
        turn: impl FnOnce(&Arc<AtomicBool>) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        let place = self.wait().await?;
        let late = Late(Arc::new(AtomicBool::new(false)));
        let (flag, (done, answer)) = (late.0.clone(), oneshot::channel());
        let begun = Instant::now();
        place.run(move || {
            let result = catch_unwind(AssertUnwindSafe(|| turn(&flag)));
            // Nobody may be there to hear it.
            let _ = done.send(result);
        });
        let answered = tokio::time::timeout(self.left(), answer).await;
        self.used += begun.elapsed();
        match answered {
            Ok(Ok(Ok(answer))) => answer,
            Ok(_) => Err(broken()),
            Err(_) => Err(self.too_long()),
        }
    }

    fn left(&self) -> Duration {
        self.work.wait.saturating_sub(self.started.elapsed())
    }

    /// More is known of the work by now: it will take about so many seconds more.
    pub(crate) fn expect(&mut self, seconds: f64) {
        self.expected = self.used.as_secs_f64() + seconds;
    }

    async fn wait(&self) -> Reply<Place> {
        let heavy = self.expected.max(self.used.as_secs_f64()) > LIGHT;
        let lane = if heavy { &self.work.heavy } else { &self.work.light };
        match tokio::time::timeout(self.left(), lane.place(self.peer)).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(busy()),
        }
    }

    fn too_long(&self) -> Refusal {
        let why = format!("the work took longer than {} s; send less at a time", self.work.wait.as_secs());
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

pub(crate) fn busy() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is busy; try again")
}

fn broken() -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the work failed in an unforeseen way")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    fn work(wait: Duration) -> Work {
        Work::new(&Limits { work_timeout: wait, ..Limits::default() }).unwrap()
    }

    /// Runs until it is told to stop.
    fn endless(late: &Arc<AtomicBool>) -> Reply<()> {
        while !late.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    #[tokio::test]
    async fn work_that_takes_too_long_is_told_to_stop_and_its_thread_is_free_again() {
        let work = work(Duration::from_millis(50));
        for _ in 0..20 {
            let answer = work.job(Peer::default(), 0.0).turn(endless).await;
            assert_eq!(answer.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        }
        let endless = Work::new(&Limits { work_timeout: Duration::MAX, ..Limits::default() }).unwrap();
        assert_eq!(endless.job(Peer::default(), 0.0).turn(|_| Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_stops_its_work() {
        let work = work(Duration::from_secs(60));
        let ended = Arc::new(Semaphore::new(0));
        let counter = ended.clone();
        let mut job = work.job(Peer::default(), 0.0);
        let turn = job.turn(move |late| {
            endless(late)?;
            counter.add_permits(1);
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), turn).await.is_err());
        // Without the flag the turn would never end.
        assert!(tokio::time::timeout(Duration::from_secs(5), ended.acquire()).await.is_ok());
    }

    #[tokio::test]
    async fn heavy_work_does_not_keep_light_work_waiting() {
        let work = Arc::new(work(Duration::from_secs(5)));
        let heavy: Vec<_> = (0..10)
            .map(|_| {
                let work = work.clone();
                tokio::spawn(async move { work.job(Peer::default(), 10.0).turn(endless).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let light = async { work.job(Peer::default(), 0.01).turn(|_| Ok(())).await };
        assert!(tokio::time::timeout(Duration::from_secs(1), light).await.unwrap().is_ok());
        heavy.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_takes_no_thread_away() {
        let work = work(Duration::from_secs(5));
        for _ in 0..20 {
            let answer: Reply<()> = work.job(Peer::default(), 0.0).turn(|_| panic!("on purpose")).await;
            assert_eq!(answer.unwrap_err().status, StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
}
