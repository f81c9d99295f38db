//! Several processes at one work: who has which part of it, and how they put the parts together.
//!
//! The one thing a [`Team`] must be able to do is [`Team::gather`]: everybody gives bytes, everybody gets those of all, in the
//! order of their ranks. Whatever is added up is added by everybody in the same order, so that results do not depend on the
//! number of ranks. A process alone is a team of one and goes the same way.

mod threads;

pub use threads::on_threads;

use crate::error::{Error, Result};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Processes at one work.
pub trait Team: Send + Sync {
    /// The place of this process, from 0. Rank 0 writes and speaks.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Everybody's bytes by rank. All ranks call it the same number of times. Where `stop` is set and others do not come any
    /// more: [`Error::RankLost`].
    fn gather(&self, own: Vec<u8>, stop: &AtomicBool) -> Result<Vec<Vec<u8>>>;
}

/// A process alone.
#[derive(Debug, Clone, Copy)]
pub struct Alone;

impl Team for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn gather(&self, own: Vec<u8>, _: &AtomicBool) -> Result<Vec<Vec<u8>>> {
        Ok(vec![own])
    }
}

thread_local! {
    // All work that is shared out begins on the thread that joined: a training, a validation, a test.
    static JOINED: RefCell<Option<Arc<dyn Team>>> = const { RefCell::new(None) };
}

/// Does `work` as one of `team`.
pub fn join<T>(team: Arc<dyn Team>, work: impl FnOnce() -> T) -> T {
    let before = JOINED.replace(Some(team));
    let done = work();
    JOINED.set(before);
    done
}

/// The team of this thread: [`Alone`] where it joined none.
pub fn current() -> Arc<dyn Team> {
    JOINED.with_borrow(|joined| joined.clone().unwrap_or_else(|| Arc::new(Alone)))
}

/// Which of `count` parts this rank has: a block of nearly equal size.
pub(crate) fn own_part(team: &dyn Team, count: usize) -> Range<usize> {
    let at = |rank: usize| count * rank / team.size();
    at(team.rank())..at(team.rank() + 1)
}

/// Whether any rank was asked to stop.
pub(crate) fn agree(team: &dyn Team, stop: &AtomicBool) -> Result<bool> {
    let own = stop.load(Ordering::Relaxed);
    if team.size() == 1 {
        return Ok(own);
    }
    let all = team.gather(vec![u8::from(own)], stop)?;
    Ok(all.iter().any(|flag| flag.first() == Some(&1)))
}

/// What rank 0 reads, for everybody.
pub(crate) fn from_first(team: &dyn Team, read: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let own = if team.rank() == 0 { read() } else { Ok(Vec::new()) };
    Ok(gather(team, own, &AtomicBool::new(false))?.swap_remove(0))
}

const DONE: u8 = 0;
const STOPPED: u8 = 1;
const NOT_FINITE: u8 = 2;
const FAILED: u8 = 3;

/// Everybody's part by rank, or what went wrong: this rank's own error, else that of the first other rank.
pub(crate) fn gather(team: &dyn Team, own: Result<Vec<u8>>, stop: &AtomicBool) -> Result<Vec<Vec<u8>>> {
    if team.size() == 1 {
        return own.map(|own| vec![own]);
    }
    let mut message = Vec::new();
    match &own {
        Ok(bytes) => {
            message.push(DONE);
            message.extend(bytes);
        }
        Err(Error::Stopped) => message.push(STOPPED),
        Err(error) if error.is_not_finite() => message.push(NOT_FINITE),
        Err(error) => {
            message.push(FAILED);
            message.extend(error.to_string().bytes());
        }
    }
    let mut all = team.gather(message, stop)?;
    own?;
    for (rank, message) in all.iter_mut().enumerate() {
        match (!message.is_empty()).then(|| message.remove(0)) {
            Some(DONE) => {}
            Some(STOPPED) => return Err(Error::Stopped),
            Some(NOT_FINITE) => return Err(Error::NotFinite { rank }),
            _ => return Err(Error::Rank { rank, why: String::from_utf8_lossy(message).into_owned() }),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_and_in_order() {
        for size in 1..6 {
            for count in 0..12 {
                let parts = on_threads(size, |_| own_part(current().as_ref(), count));
                let all: Vec<usize> = parts.iter().cloned().flatten().collect();
                assert_eq!(all, (0..count).collect::<Vec<_>>());
                assert!(parts.iter().all(|part| part.len() <= count.div_ceil(size)), "{parts:?}");
            }
        }
    }

    #[test]
    fn everybody_gets_all_parts_or_the_same_reason() {
        let stop = AtomicBool::new(false);
        let given =
            on_threads(3, |rank| gather(current().as_ref(), Ok(vec![rank as u8; rank]), &stop).unwrap());
        assert!(given.iter().all(|all| *all == [vec![], vec![1], vec![2, 2]]), "{given:?}");
        let failed = on_threads(3, |rank| {
            let own = if rank == 1 { Err(Error::Run("no disk".into())) } else { Ok(vec![]) };
            gather(current().as_ref(), own, &stop).unwrap_err().to_string()
        });
        assert_eq!(failed, ["rank 1: no disk", "no disk", "rank 1: no disk"]);
        let stopped = on_threads(2, |rank| {
            gather(current().as_ref(), if rank == 0 { Err(Error::Stopped) } else { Ok(vec![]) }, &stop)
        });
        assert!(stopped.iter().all(|end| matches!(end, Err(Error::Stopped))), "{stopped:?}");
        let found = on_threads(3, |rank| agree(current().as_ref(), &AtomicBool::new(rank == 2)).unwrap());
        assert_eq!(found, [true; 3]);
        let read = on_threads(3, |rank| from_first(current().as_ref(), || Ok(vec![7 + rank as u8])).unwrap());
        assert_eq!(read, vec![vec![7]; 3]);
    }
}
