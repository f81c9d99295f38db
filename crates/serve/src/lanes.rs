//! Threads that clients share: each for one turn at a time, the clients in turn, and of each client its requests in their order.

use crate::peer::Peer;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Pools of threads, each for one turn at a time.
#[derive(Clone)]
pub(crate) struct Lane(Arc<Shared>);

struct Shared {
    /// Most requests of one client that wait.
    most_waiting: usize,
    state: Mutex<State>,
}

struct State {
    free: Vec<Arc<ThreadPool>>,
    /// Who waits, the client whose turn is next first. Nobody is here without a request.
    waiting: VecDeque<(Peer, VecDeque<oneshot::Sender<Place>>)>,
}

/// A pool for one turn; the next one gets it when this is dropped.
pub(crate) struct Place {
    lane: Lane,
    pool: Option<Arc<ThreadPool>>,
}

/// Too many requests of this client wait already.
pub(crate) struct Full;

impl Lane {
    pub(crate) fn new(
        name: &'static str,
        pools: usize,
        threads: usize,
        most_waiting: usize,
    ) -> Result<Lane, rayon::ThreadPoolBuildError> {
        let pool = |i| {
            let named = move |t| format!("{name} {i}.{t}");
            ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build().map(Arc::new)
        };
        let free = (0..pools).map(pool).collect::<Result<Vec<_>, _>>()?;
        let state = Mutex::new(State { free, waiting: VecDeque::new() });
        Ok(Lane(Arc::new(Shared { most_waiting, state })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock means that another thread panicked; the lists are still lists.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place as soon as it is this client's turn.
    pub(crate) async fn place(&self, peer: Peer) -> Result<Place, Full> {
        let turn = {
            let mut state = self.lock();
            if let Some(pool) = state.free.pop() {
                return Ok(Place { lane: self.clone(), pool: Some(pool) });
            }
            let (told, turn) = oneshot::channel();
            match state.waiting.iter_mut().find(|(other, _)| *other == peer) {
                None => state.waiting.push_back((peer, VecDeque::from([told]))),
                Some((_, queue)) => {
                    // Who has gone away counts no more.
                    queue.retain(|told| !told.is_closed());
                    if queue.len() >= self.0.most_waiting {
                        return Err(Full);
                    }
                    queue.push_back(told);
                }
            }
            turn
        };
        turn.await.map_err(|_| Full)
    }

    /// Hands a pool on.
    fn pass(&self, mut pool: Arc<ThreadPool>) {
        loop {
            let next = {
                let mut state = self.lock();
                match state.next() {
                    Some(next) => next,
                    None => return state.free.push(pool),
                }
            };
            let place = Place { lane: self.clone(), pool: Some(pool) };
            // What cannot be handed over comes back: its client has gone away.
            let Err(mut back) = next.send(place) else { return };
            let Some(returned) = back.pool.take() else { return };
            pool = returned;
        }
    }
}

impl State {
    /// The first request of the client whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        let (peer, mut queue) = self.waiting.pop_front()?;
        let next = queue.pop_front();
        if !queue.is_empty() {
            self.waiting.push_back((peer, queue));
        }
        next
    }
}

impl Place {
    /// Runs `turn` on the pool and passes it on.
    pub(crate) fn run(mut self, turn: impl FnOnce() + Send + 'static) {
        let Some(pool) = self.pool.take() else { return };
        let runs_in = pool.clone();
        let place = Place { lane: self.lane.clone(), pool: Some(pool) };
        runs_in.spawn(move || {
            turn();
            drop(place);
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            self.lane.pass(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        Peer::of([number; 4].into())
    }

    #[tokio::test]
    async fn clients_have_turns_one_after_the_other() {
        let lane = Lane::new("lane", 1, 1, 100).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = lane.place(peer(9)).await.ok().unwrap();
        let mut all = Vec::new();
        for (from, name) in [(1, "a1"), (1, "a2"), (1, "gone"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")] {
            let (lane, order) = (lane.clone(), order.clone());
            let one = tokio::spawn(async move {
                let place = lane.place(peer(from)).await.ok().unwrap();
                order.lock().unwrap().push(name);
                drop(place);
            });
            // Each waits before the next one comes.
            tokio::task::yield_now().await;
            match name {
                "gone" => one.abort(),
                _ => all.push(one),
            }
        }
        drop(first);
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!(lane.lock().free.len(), 1);
    }

    #[tokio::test]
    async fn of_one_client_only_so_many_wait() {
        let lane = Lane::new("lane", 1, 1, 2).unwrap();
        let first = lane.place(peer(1)).await.ok().unwrap();
        let wait = |from| {
            let lane = lane.clone();
            tokio::spawn(async move { lane.place(peer(from)).await.is_ok() })
        };
        let (one, two) = (wait(1), wait(1));
        tokio::task::yield_now().await;
        assert!(!wait(1).await.unwrap(), "a third one is too many");
        let other = wait(2);
        tokio::task::yield_now().await;
        two.abort();
        tokio::task::yield_now().await;
        let again = wait(1);
        tokio::task::yield_now().await;
        drop(first);
        assert!(one.await.unwrap() && other.await.unwrap() && again.await.unwrap());
    }
}
