//! Who waits for a seat: a queue for each client, so that one with many connections keeps nobody else waiting.

use crate::peer::Peer;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// Things of clients that wait, each until its time is over.
pub(super) struct Queue<T> {
    most: usize,
    of_peer: HashMap<Peer, VecDeque<(T, Instant)>>,
}

impl<T> Queue<T> {
    pub(super) fn new(most: usize) -> Queue<T> {
        Queue { most, of_peer: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_peer.is_empty()
    }

    pub(super) fn has(&self, peer: Peer) -> bool {
        self.of_peer.contains_key(&peer)
    }

    pub(super) fn peers(&self) -> Vec<Peer> {
        self.of_peer.keys().copied().collect()
    }

    pub(super) fn is_full(&self) -> bool {
        self.of_peer.values().map(VecDeque::len).sum::<usize>() >= self.most
    }

    /// The client that has most here.
    pub(super) fn busiest(&self) -> Option<Peer> {
        self.of_peer.iter().max_by_key(|(_, queue)| queue.len()).map(|(peer, _)| *peer)
    }

    /// Lets one wait until then.
    pub(super) fn push(&mut self, peer: Peer, one: T, until: Instant) {
        self.of_peer.entry(peer).or_default().push_back((one, until));
    }

    /// The one of this client that has waited longest.
    pub(super) fn pop(&mut self, peer: Peer) -> Option<T> {
        let queue = self.of_peer.get_mut(&peer)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.of_peer.remove(&peer);
        }
        first.map(|(one, _)| one)
    }

    /// Those whose time is over.
    pub(super) fn late(&mut self, now: Instant) -> Vec<T> {
        let mut late = Vec::new();
        for peer in self.peers() {
            while self.of_peer.get(&peer).and_then(VecDeque::front).is_some_and(|(_, until)| *until <= now) {
                late.extend(self.pop(peer));
            }
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_brings_most_loses_first_and_nobody_waits_too_long() {
        let [many, one] = [[1; 4], [2; 4]].map(|address| Peer::of(address.into()));
        let now = Instant::now();
        let mut queue = Queue::new(3);
        queue.push(one, 0, now + Duration::from_secs(9));
        queue.push(many, 1, now);
        assert!(!queue.is_full());
        queue.push(many, 2, now);
        assert!(queue.is_full() && queue.busiest() == Some(many));
        queue.push(many, 3, now);
        queue.push(one, 4, now);
        assert_eq!((queue.pop(many), queue.pop(many)), (Some(1), Some(2)));
        assert_eq!(queue.pop(one), Some(0));
        let mut late = queue.late(now);
        late.sort_unstable();
        assert_eq!(late, [3, 4]);
        assert!(queue.is_empty() && queue.pop(one).is_none());
    }
}
