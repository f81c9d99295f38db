//! Memory for bodies, claimed as it is used. Small bodies always have room; who brings a large one and stops in the middle gives
//! his room up as soon as somebody else needs it.

use crate::error::{Refusal, Reply};
use crate::work::busy;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Bytes of each body that are not counted: their number is bounded by the number of connections. More is claimed in steps of
/// this size.
pub(crate) const STEP: usize = 64 << 10;
/// A body that has claimed no step for so long makes room for others.
const STALLED: Duration = Duration::from_millis(500);
/// Longest wait for room: two that wait for each other must not wait for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for all bodies.
pub(crate) struct Room {
    state: Mutex<State>,
    freed: Notify,
}

struct State {
    free: usize,
    next: u64,
    /// Bodies that are arriving: when each claimed last, and how to end it.
    arriving: HashMap<u64, (Instant, Arc<Notify>)>,
}

/// What one body has claimed; given back when dropped.
pub(crate) struct Claim {
    room: Arc<Room>,
    id: u64,
    bytes: usize,
    given_up: Arc<Notify>,
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Arc<Room> {
        let state = State { free: bytes, next: 0, arriving: HashMap::new() };
        Arc::new(Room { state: Mutex::new(state), freed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock means that another thread panicked between two additions; the sum is still right.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a body that begins to arrive.
    pub(crate) fn begin(self: &Arc<Self>) -> Claim {
        let mut state = self.lock();
        let (id, given_up) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.arriving.insert(id, (Instant::now(), given_up.clone()));
        Claim { room: self.clone(), id, bytes: 0, given_up }
    }
}

impl State {
    fn take_step(&mut self, id: u64) -> bool {
        if self.free < STEP {
            return false;
        }
        self.free -= STEP;
        if let Some((last, _)) = self.arriving.get_mut(&id) {
            *last = Instant::now();
        }
        true
    }

    /// Ends the body that has stood still longest, if one has.
    fn end_stalled(&mut self, but: u64) {
        let others = self.arriving.iter().filter(|(id, (last, _))| **id != but && last.elapsed() > STALLED);
        if let Some(id) = others.min_by_key(|(_, (last, _))| *last).map(|(id, _)| *id)
            && let Some((_, given_up)) = self.arriving.remove(&id)
        {
            given_up.notify_one();
        }
    }
}

impl Claim {
    /// Room for the first `total` bytes of the body.
    pub(crate) async fn grow_to(&mut self, total: usize) -> Reply<()> {
        let since = Instant::now();
        while total > self.bytes + STEP {
            let freed = self.room.freed.notified();
            let got = {
                let mut state = self.room.lock();
                let got = state.take_step(self.id);
                if !got {
                    state.end_stalled(self.id);
                }
                got
            };
            if got {
                self.bytes += STEP;
            } else if since.elapsed() > PATIENCE {
                return Err(busy());
            } else {
                // Looked at again now and then: others may have come to a stand meanwhile.
                let _ = tokio::time::timeout(STALLED / 5, freed).await;
            }
        }
        Ok(())
    }

    /// Ends when somebody else needs the room of this body, which stands still.
    pub(crate) async fn given_up(&self) -> Refusal {
        self.given_up.notified().await;
        Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body stood still while others needed its room; send it again",
        )
    }

    /// The body is whole: it is worked on, and stays.
    pub(crate) fn whole(&self) {
        self.room.lock().arriving.remove(&self.id);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.room.lock();
        state.free += self.bytes;
        state.arriving.remove(&self.id);
        drop(state);
        self.room.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_is_claimed_as_it_is_used_and_given_back() {
        let room = Room::new(4 * STEP);
        let mut many: Vec<Claim> = (0..100).map(|_| room.begin()).collect();
        for claim in &mut many {
            claim.grow_to(1).await.unwrap();
            claim.grow_to(STEP).await.unwrap();
        }
        assert_eq!(room.lock().free, 4 * STEP, "small bodies need no room");
        many[0].grow_to(4 * STEP + 1).await.unwrap();
        assert_eq!(room.lock().free, 0);
        drop(many);
        let state = room.lock();
        assert_eq!((state.free, state.arriving.len()), (4 * STEP, 0));
    }

    #[tokio::test]
    async fn who_stands_still_makes_room_and_who_is_whole_stays() {
        let room = Room::new(4 * STEP);
        let (mut still, mut whole) = (room.begin(), room.begin());
        still.grow_to(3 * STEP).await.unwrap();
        whole.grow_to(3 * STEP).await.unwrap();
        whole.whole();
        let holder = tokio::spawn(async move {
            let refusal = still.given_up().await;
            drop(still);
            refusal.status
        });
        let mut next = room.begin();
        let start = Instant::now();
        next.grow_to(3 * STEP).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(holder.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
        let mut none = room.begin();
        next.whole();
        assert_eq!(none.grow_to(2 * STEP).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
