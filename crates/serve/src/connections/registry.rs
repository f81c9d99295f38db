//! Who is connected. When there are too many, the one that keeps us waiting longest must leave; one that is worked for may stay.

use crate::peer::Peer;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use tokio::task::AbortHandle;

/// Milliseconds after which a request that was looked for is not on its way.
const ON_ITS_WAY: u64 = 300;
/// Milliseconds for which nobody whose first request was looked for is closed for another one.
const ARRIVING: u64 = 100;

/// All open connections.
pub(super) struct Registry {
    start: Instant,
    most: usize,
    most_per_peer: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
    of_peer: HashMap<Peer, usize>,
}

/// What is known of a connection.
pub(super) struct Connection {
    peer: Peer,
    start: Instant,
    /// A request is whole and not answered yet.
    at_work: AtomicBool,
    /// Since when an answer is ready that the client does not take, in milliseconds from `start`; 0 if none is.
    stuck: AtomicU64,
    /// Since when we look for bytes of the client and there are none; 0 if we do not.
    waiting: AtomicU64,
    /// Requests answered.
    answered: AtomicU64,
    task: OnceLock<AbortHandle>,
}

/// Why a connection may be ended, the best reason first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// It does not read its answers, since then.
    Stuck(u64),
    /// It sends nothing, since then.
    Waiting(u64),
    /// It has had most answers already.
    Answered(Reverse<u64>),
    /// It is new, since then: its first request may be on its way.
    New(u64),
}

impl Connection {
    pub(super) fn at_work(&self, yes: bool) {
        self.at_work.store(yes, Ordering::Relaxed);
    }

    pub(super) fn stuck(&self, yes: bool) {
        self.since(&self.stuck, yes);
    }

    pub(super) fn waiting(&self, yes: bool) {
        self.since(&self.waiting, yes);
    }

    /// A request is answered; how many were before it.
    pub(super) fn answered(&self) -> u64 {
        self.at_work(false);
        self.answered.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    fn since(&self, clock: &AtomicU64, yes: bool) {
        if !yes {
            clock.store(0, Ordering::Relaxed);
        } else if clock.load(Ordering::Relaxed) == 0 {
            clock.store(self.start.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn may_be_ended_by(&self, task: AbortHandle) {
        // It is set once, where the task is made.
        let _ = self.task.set(task);
    }

    /// Nobody leaves while he is worked for, and nobody whose first request nobody has looked for yet, or only just.
    /// `now`: milliseconds from `start`.
    fn reason(&self, now: u64) -> Option<Reason> {
        if self.at_work.load(Ordering::Relaxed) || self.task.get().is_none() {
            return None;
        }
        let load = |clock: &AtomicU64| clock.load(Ordering::Relaxed);
        let (stuck, waiting, answered) = (load(&self.stuck), load(&self.waiting), load(&self.answered));
        let lately = waiting + ON_ITS_WAY > now;
        match (stuck, waiting, answered) {
            (0, 0, 0) => None,
            (0, since, 0) if since + ARRIVING > now => None,
            (0, since, 0) if lately => Some(Reason::New(since)),
            (0, since, _) if since > 0 && !lately => Some(Reason::Waiting(since)),
            (0, _, count) => Some(Reason::Answered(Reverse(count))),
            (since, _, _) => Some(Reason::Stuck(since)),
        }
    }
}

/// A place among the connections, free again when dropped.
pub(super) struct Seat {
    registry: Arc<Registry>,
    id: u64,
    connection: Arc<Connection>,
}

impl Seat {
    pub(super) fn connection(&self) -> Arc<Connection> {
        self.connection.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.registry.lock().remove(self.id);
    }
}

impl Open {
    fn remove(&mut self, id: u64) -> Option<Arc<Connection>> {
        let gone = self.all.remove(&id)?;
        if let Some(count) = self.of_peer.get_mut(&gone.peer) {
            *count -= 1;
            if *count == 0 {
                self.of_peer.remove(&gone.peer);
            }
        }
        Some(gone)
    }

    /// Ends the connection that keeps us waiting longest, of one peer or of all. False if all are worked for.
    fn end_one(&mut self, peer: Option<Peer>, now: u64) -> bool {
        let of_peer = self.all.iter().filter(|(_, c)| peer.is_none_or(|p| p == c.peer));
        let ranked = of_peer.filter_map(|(id, c)| Some((c.reason(now)?, *id)));
        let Some((_, id)) = ranked.min() else { return false };
        if let Some(task) = self.remove(id).and_then(|gone| gone.task.get().cloned()) {
            task.abort();
        }
        true
    }
}

impl Registry {
    pub(super) fn new(most: usize, most_per_peer: usize) -> Registry {
        Registry { start: Instant::now(), most, most_per_peer, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A poisoned lock means that another thread panicked; the lists are changed last, so they are whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start.
    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// A seat for this client; nothing where every seat is worked for.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer) -> Option<Seat> {
        let mut open = self.lock();
        let now = self.now();
        if open.of_peer.get(&peer).is_some_and(|count| *count >= self.most_per_peer)
            && !open.end_one(Some(peer), now)
        {
            return None;
        }
        if open.all.len() >= self.most {
            let busiest = open.of_peer.iter().max_by_key(|(_, count)| **count).map(|(peer, _)| *peer);
            if !open.end_one(busiest, now) && !open.end_one(None, now) {
                return None;
            }
        }
        let connection = Arc::new(Connection {
            peer,
            start: self.start,
            at_work: AtomicBool::new(false),
            stuck: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            task: OnceLock::new(),
        });
        let id = open.next;
        open.next += 1;
        open.all.insert(id, connection.clone());
        *open.of_peer.entry(peer).or_default() += 1;
        Some(Seat { registry: self.clone(), id, connection })
    }

    /// Whether every connection of this client is worked for.
    pub(super) fn all_at_work(&self, peer: Peer) -> bool {
        let open = self.lock();
        open.all.values().filter(|c| c.peer == peer).all(|c| c.at_work.load(Ordering::Relaxed))
    }

    /// Whether there is a connection that has had no answer yet and whose request may be on its way.
    pub(super) fn someone_is_new(&self) -> bool {
        let now = self.now();
        let is_new = |c: &Arc<Connection>| {
            let waiting = c.waiting.load(Ordering::Relaxed);
            let lately = waiting == 0 || waiting + ON_ITS_WAY > now;
            c.answered.load(Ordering::Relaxed) == 0 && !c.at_work.load(Ordering::Relaxed) && lately
        };
        self.lock().all.values().any(is_new)
    }

    /// Ends one connection, if one may be ended.
    pub(super) fn make_room(&self) {
        self.lock().end_one(None, self.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(registry: &Arc<Registry>, address: [u8; 4]) -> Option<Seat> {
        let seat = registry.admit(Peer::of(address.into()))?;
        seat.connection.may_be_ended_by(tokio::spawn(std::future::pending::<()>()).abort_handle());
        Some(seat)
    }

    #[tokio::test]
    async fn who_keeps_us_waiting_leaves_and_who_is_worked_for_stays() {
        let registry = Arc::new(Registry::new(3, 2));
        let (first, second) = (seat(&registry, [1; 4]).unwrap(), seat(&registry, [1; 4]).unwrap());
        let other = seat(&registry, [2; 4]).unwrap();
        let ids = || {
            let mut ids: Vec<u64> = registry.lock().all.keys().copied().collect();
            ids.sort_unstable();
            ids
        };
        // The peer with two seats gives one up for its third: the one that does not read, though the other waits too.
        [&first, &other].iter().for_each(|seat| seat.connection.waiting(true));
        second.connection.stuck(true);
        let third = seat(&registry, [1; 4]).unwrap();
        assert_eq!(ids(), [0, 2, 3]);
        // All seats are taken: the peer with most of them gives one up, but not the one that is worked for.
        first.connection.at_work(true);
        third.connection.answered();
        let fourth = seat(&registry, [3; 4]).unwrap();
        assert_eq!(ids(), [0, 2, 4]);
        other.connection.at_work(true);
        // Nobody has looked for the request of the fourth yet.
        assert!(seat(&registry, [4; 4]).is_none());
        drop((first, second, third, other, fourth));
        assert!(registry.lock().all.is_empty() && registry.lock().of_peer.is_empty());
    }

    #[tokio::test]
    async fn who_is_new_stays_while_its_request_may_be_on_its_way() {
        let registry = Arc::new(Registry::new(2, 2));
        let (greedy, new) = (seat(&registry, [1; 4]).unwrap(), seat(&registry, [1; 4]).unwrap());
        // The greedy one sends the next request before it has read its answers; nobody knows yet that it does not.
        greedy.connection.answered();
        new.connection.waiting(true);
        let next = seat(&registry, [1; 4]).unwrap();
        assert!(registry.lock().all.contains_key(&new.id) && !registry.lock().all.contains_key(&greedy.id));
        // Where all are new, a further one waits a moment.
        next.connection.waiting(true);
        assert!(seat(&registry, [1; 4]).is_none());
        // One that has sent nothing for long is no longer new.
        new.connection.waiting.store(1, Ordering::Relaxed);
        assert_eq!(new.connection.reason(ON_ITS_WAY + 1), Some(Reason::Waiting(1)));
        assert_eq!(new.connection.reason(ON_ITS_WAY), Some(Reason::New(1)));
        assert_eq!(new.connection.reason(ARRIVING), None);
    }
}
