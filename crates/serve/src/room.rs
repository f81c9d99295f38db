//! Memory for bodies, claimed as it is used. Small bodies always have room, and a part is kept for bodies of middling size and for
//! clients that have little; who brings a large body and stops in the middle gives his room up as soon as somebody else needs it.

use crate::error::{Refusal, Reply};
use crate::peer::Peer;
use crate::work::busy;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Bytes of each body that are not counted: their number is bounded by the number of connections. More is claimed in steps of
/// this size.
pub(crate) const STEP: usize = 64 << 10;
/// A body with more bytes than this is large: a photo of a telephone is, a drawing or a small photo is not.
const LARGE: usize = 1 << 20;
/// A body that has claimed no step for so long makes room for others, unless it waits for room itself. Who has waited for so long
/// gets the room of the largest body that is arriving.
const STALLED: Duration = Duration::from_millis(500);
/// Longest wait for room: two that wait for each other must not wait for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for all bodies.
pub(crate) struct Room {
    all: usize,
    state: Mutex<State>,
    freed: Notify,
}

struct State {
    free: usize,
    next: u64,
    /// Bytes that each client has claimed.
    of_peer: HashMap<Peer, usize>,
    /// Bodies that are arriving.
    arriving: HashMap<u64, Arriving>,
}

struct Arriving {
    peer: Peer,
    bytes: usize,
    /// When it claimed last, or waited for room.
    last: Instant,
    /// How to end it.
    given_up: Arc<Notify>,
}

/// What one body has claimed; given back when dropped.
pub(crate) struct Claim {
    room: Arc<Room>,
    id: u64,
    peer: Peer,
    bytes: usize,
    /// How long it has waited for room, all in all.
    waited: Duration,
    given_up: Arc<Notify>,
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Arc<Room> {
        let state = State { free: bytes, next: 0, of_peer: HashMap::new(), arriving: HashMap::new() };
        Arc::new(Room { all: bytes, state: Mutex::new(state), freed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock means that another thread panicked between two additions; the sum is still right.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a body of this client that begins to arrive.
    pub(crate) fn begin(self: &Arc<Self>, peer: Peer) -> Claim {
        let mut state = self.lock();
        let (id, given_up) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        let arriving = Arriving { peer, bytes: 0, last: Instant::now(), given_up: given_up.clone() };
        state.arriving.insert(id, arriving);
        Claim { room: self.clone(), id, peer, bytes: 0, waited: Duration::ZERO, given_up }
    }

    /// Bytes that must stay free when a body of so many bytes grows, whose client has so many: large bodies leave a quarter to others,
    /// and half of all to other clients; the rest of a client's bodies leave an eighth to other clients.
    fn kept(&self, body: usize, peer: usize) -> usize {
        match (body > LARGE, peer) {
            (true, peer) if peer > self.all / 2 => self.all / 2,
            (true, _) => self.all / 4,
            (false, peer) if peer > self.all / 8 => self.all / 8,
            (false, _) => 0,
        }
    }

    /// A step more for this body, if there is room; else who stands in its way may have to leave.
    fn step(&self, claim: &Claim) -> bool {
        let mut state = self.lock();
        let of_peer = state.of_peer.get(&claim.peer).copied().unwrap_or(0);
        let got = state.free >= STEP + self.kept(claim.bytes + STEP, of_peer + STEP);
        if got {
            state.free -= STEP;
            *state.of_peer.entry(claim.peer).or_default() += STEP;
        } else if !state.end_stalled(claim.id) && claim.waited > STALLED {
            state.end_largest(claim.id, claim.bytes);
        }
        if let Some(arriving) = state.arriving.get_mut(&claim.id) {
            arriving.last = Instant::now();
            arriving.bytes += if got { STEP } else { 0 };
        }
        got
    }
}

impl State {
    /// Ends the body that has stood still longest, if one has.
    fn end_stalled(&mut self, but: u64) -> bool {
        let others = self.arriving.iter().filter(|(id, other)| **id != but && other.last.elapsed() > STALLED);
        let stalled = others.min_by_key(|(_, other)| other.last).map(|(id, _)| *id);
        stalled.is_some_and(|id| self.end(id))
    }

    /// Ends the largest arriving body of the client that has most arriving bytes, if it is larger than the one that needs its room.
    fn end_largest(&mut self, but: u64, bytes: usize) -> bool {
        let mut of_peer: HashMap<Peer, usize> = HashMap::new();
        for other in self.arriving.values() {
            *of_peer.entry(other.peer).or_default() += other.bytes;
        }
        let others = self.arriving.iter().filter(|(id, other)| **id != but && other.bytes > bytes);
        let largest = others.max_by_key(|(_, other)| (of_peer[&other.peer], other.bytes)).map(|(id, _)| *id);
        largest.is_some_and(|id| self.end(id))
    }

    fn end(&mut self, id: u64) -> bool {
        let ended = self.arriving.remove(&id);
        ended.is_some_and(|ended| {
            ended.given_up.notify_one();
            true
        })
    }
}

impl Claim {
    /// Room for the first `total` bytes of the body.
    pub(crate) async fn grow_to(&mut self, total: usize) -> Reply<()> {
        let since = Instant::now();
        while total > self.bytes + STEP {
            let freed = self.room.freed.notified();
            if self.room.step(self) {
                self.bytes += STEP;
                continue;
            }
            if since.elapsed() > PATIENCE {
                return Err(busy());
            }
            let begun = Instant::now();
            tokio::select! {
                // Looked at again now and then: others may have come to a stand meanwhile.
                _ = tokio::time::timeout(STALLED / 5, freed) => self.waited += begun.elapsed(),
                refusal = self.given_up() => return Err(refusal),
            }
        }
        Ok(())
    }

    /// Ends when somebody else needs the room of this body more.
    pub(crate) async fn given_up(&self) -> Refusal {
        self.given_up.notified().await;
        Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body stood still, or was the largest, while others needed its room; send it again",
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
        if let Some(bytes) = state.of_peer.get_mut(&self.peer) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                state.of_peer.remove(&self.peer);
            }
        }
        state.arriving.remove(&self.id);
        drop(state);
        self.room.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        Peer::of([number; 4].into())
    }

    #[tokio::test]
    async fn room_is_claimed_as_it_is_used_and_given_back() {
        let room = Room::new(8 * STEP);
        let mut many: Vec<Claim> = (0..100).map(|_| room.begin(peer(1))).collect();
        for claim in &mut many {
            claim.grow_to(1).await.unwrap();
            claim.grow_to(STEP).await.unwrap();
        }
        assert_eq!(room.lock().free, 8 * STEP, "small bodies need no room");
        many[0].grow_to(8 * STEP).await.unwrap();
        let mut other = room.begin(peer(2));
        other.grow_to(STEP + 1).await.unwrap();
        assert_eq!(room.lock().free, 0);
        drop((many, other));
        let state = room.lock();
        assert_eq!((state.free, state.arriving.len(), state.of_peer.len()), (8 * STEP, 0, 0));
    }

    #[tokio::test]
    async fn who_stands_still_makes_room_and_who_is_whole_stays() {
        let room = Room::new(8 * STEP);
        let (mut still, mut whole) = (room.begin(peer(1)), room.begin(peer(1)));
        still.grow_to(5 * STEP).await.unwrap();
        whole.grow_to(4 * STEP).await.unwrap();
        whole.whole();
        let holder = tokio::spawn(async move {
            let refusal = still.given_up().await;
            drop(still);
            refusal.status
        });
        let mut next = room.begin(peer(1));
        let start = Instant::now();
        next.grow_to(5 * STEP).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(holder.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
        let mut none = room.begin(peer(1));
        next.whole();
        assert_eq!(none.grow_to(2 * STEP).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
    }

    /// Large bodies of one client that arrive step by step and never come to an end.
    fn trickles(room: &Arc<Room>, from: Peer) -> Vec<tokio::task::JoinHandle<Refusal>> {
        let one = |_| {
            let mut claim = room.begin(from);
            tokio::spawn(async move {
                for step in 2.. {
                    if let Err(refusal) = claim.grow_to(step * STEP).await {
                        return refusal;
                    }
                    let pause = Duration::from_millis(if step < 400 { 0 } else { 300 });
                    tokio::select! {
                        refusal = claim.given_up() => return refusal,
                        () = tokio::time::sleep(pause) => {}
                    }
                }
                unreachable!("it has no end")
            })
        };
        (0..9).map(one).collect()
    }

    #[tokio::test]
    async fn middling_bodies_and_other_clients_have_room_beside_large_ones() {
        let room = Room::new(64 << 20);
        let held = trickles(&room, peer(1));
        tokio::time::sleep(Duration::from_millis(700)).await;
        // Who waits for room does not stand still.
        let waited = Instant::now();
        let mut photo = room.begin(peer(1));
        photo.grow_to(400_000).await.unwrap();
        let mut other = room.begin(peer(2));
        other.grow_to(12 << 20).await.unwrap();
        assert!(waited.elapsed() < Duration::from_millis(400), "{:?}", waited.elapsed());
        // A large one of the same side gets the room of a larger one.
        let mut large = room.begin(peer(1));
        large.grow_to(2 << 20).await.unwrap();
        assert!(waited.elapsed() < Duration::from_secs(3), "{:?}", waited.elapsed());
        assert!(held.iter().any(tokio::task::JoinHandle::is_finished));
        held.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
