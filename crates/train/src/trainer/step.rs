//! One optimiser step: the trainer asks for episodes and calls the method; what is not finite is skipped, counted and kept.

use super::record::{Line, Scalars};
use super::{Event, Trainer, saved_average};
use crate::atomic;
use crate::checkpoint;
use crate::episodes::Episodes;
use crate::error::{Error, Result, io};
use crate::phase::Phase;
use crate::run_folder::RunFolder;
use crate::schedule::rates;
use crate::team::{self, Team};
use serde::{Deserialize, Serialize};
use siskin_methods::message::{Reader, Writer};
use siskin_methods::{Method, Place, Rates, Share, StepReport};
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// Steps with a non-finite gradient that may follow one another before training stops.
const SKIPS_ALLOWED: u64 = 2;
/// Steps in a row after which a method's notice is passed on.
const NOTICE_AFTER: u64 = 5;

/// `replay.json`: the episodes whose gradients were not finite. The state before them is `diverged.safetensors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// First episode of the first skipped step.
    pub first_episode: u64,
    /// Last episode of the last skipped step.
    pub last_episode: u64,
}

impl Trainer {
    /// The steps that stopped a diverged run, taken again from the state before them; nothing is written. The result is
    /// each step's first episode and report.
    pub fn replay(
        folder: &RunFolder,
        phase: &Phase,
        mut method: Box<dyn Method>,
        episodes: &mut dyn Episodes,
    ) -> Result<Vec<(u64, StepReport)>> {
        let path = folder.replay();
        let bytes = std::fs::read(&path).map_err(io("read the list of a diverged run's episodes", &path))?;
        let replay: Replay = serde_json::from_slice(&bytes)
            .map_err(|e| Error::Run(format!("{} is damaged: {e}", path.display())))?;
        let (_, mut state) = checkpoint::load(&folder.diverged())?;
        saved_average(phase, &mut state, &method.state())?;
        method.load_state(&state)?;
        let never = AtomicBool::new(false);
        let mut reports = Vec::new();
        let mut first = replay.first_episode;
        while first <= replay.last_episode {
            let count = phase.config.train.episodes_per_step.min(replay.last_episode + 1 - first);
            let rates = rates(&phase.config.train, first - phase.first);
            reports.push((first, attempt(episodes, method.as_mut(), first..first + count, rates, &never)?));
            first += count;
        }
        Ok(reports)
    }

    pub(super) fn step(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let config = &self.phase.config.train;
        let first = self.position.episode;
        let count = config.episodes_per_step.min(self.phase.end() - first);
        let rates = rates(config, first - self.phase.first);
        let report = attempt(episodes, self.method.as_mut(), first..first + count, rates, stop)?;
        if report.taken {
            self.position.skipped_in_a_row = 0;
            if let Some(average) = &mut self.average {
                average.add(&self.method.state());
            }
        } else {
            self.position.skipped += 1;
            self.position.skipped_in_a_row += 1;
            if self.position.skipped_in_a_row > SKIPS_ALLOWED {
                return self.diverged(first, count);
            }
        }
        self.position.episode = first + count;
        let episode = self.position.episode;
        self.record.step(&Line::Step {
            episode,
            phase: self.phase.name.as_deref(),
            loss: report.loss,
            accuracy: report.accuracy,
            skipped: self.position.skipped,
            residual: report.residual,
            scalars: Scalars(&self.method.scalars()),
        })?;
        on(&Event::Step { episode, report });
        self.pass_on_notice(on)
    }

    /// Tells of what the method has given notice of in several steps in a row, once.
    fn pass_on_notice(&mut self, on: &mut dyn FnMut(&Event)) -> Result<()> {
        let notice = self.method.notice().map(|notice| notice.to_string());
        self.position.notice = notice.map(|text| match self.position.notice.take() {
            Some((before, steps)) if before == text => (text, steps + 1),
            _ => (text, 1),
        });
        if let Some((text, NOTICE_AFTER)) = &self.position.notice {
            let episode = self.position.episode;
            self.record.line(&Line::Notice { episode, text })?;
            on(&Event::Notice { episode, text: text.clone() });
        }
        Ok(())
    }

    /// Saves the state before the bad steps (they changed nothing) and the list of their episodes, then reports.
    fn diverged(&mut self, first: u64, count: u64) -> Result<()> {
        let in_a_row = self.position.skipped_in_a_row;
        let (checkpoint, replay) = (self.folder.diverged(), self.folder.replay());
        let first_bad = first - (in_a_row - 1) * self.phase.config.train.episodes_per_step;
        self.position.metrics_bytes = self.record.flush()?;
        checkpoint::save(&checkpoint, &self.position, &self.state())?;
        let record = Replay { first_episode: first_bad, last_episode: first + count - 1 };
        let json = serde_json::to_vec(&record).expect("two numbers");
        atomic::write(&replay, &json)?;
        Err(Error::Diverged { in_a_row, first: first_bad, last: first + count - 1, checkpoint, replay })
    }
}

/// One optimiser step on these training episodes, shared out among the team; one whose features are not finite counts as one
/// whose gradient is not.
fn attempt(
    episodes: &mut dyn Episodes,
    method: &mut dyn Method,
    range: Range<u64>,
    rates: Rates,
    stop: &AtomicBool,
) -> Result<StepReport> {
    let team = team::current();
    let count = (range.end - range.start) as usize;
    let own = team::own_part(team.as_ref(), count);
    let mut work = || -> Result<Vec<Share>> {
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let loaded = episodes.training(range.start + own.start as u64, own.len() as u64)?;
        let views = loaded.iter().map(|episode| episode.view()).collect::<Result<Vec<_>>>()?;
        in_pool(|| match team.size() {
            1 => method.all_shares(&views),
            _ => method.shares(&views, Place { first: own.start, count }),
        })
    };
    let taken =
        all_shares(team.as_ref(), work(), stop).and_then(|shares| in_pool(|| method.take(shares, rates)));
    match taken {
        Err(e) if e.is_not_finite() => Ok(StepReport { loss: f64::NAN, ..StepReport::start() }),
        report => report,
    }
}

/// Does `work` inside the pool, so that the Gaussian process uses its threads too.
fn in_pool<T: Send>(work: impl FnOnce() -> siskin_methods::Result<T> + Send) -> Result<T> {
    Ok(rayon::scope(|_| work())?)
}

/// The shares of all episodes of a step, in their order.
fn all_shares(team: &dyn Team, own: Result<Vec<Share>>, stop: &AtomicBool) -> Result<Vec<Share>> {
    if team.size() == 1 {
        return own;
    }
    let bytes = own.map(|shares| {
        let mut out = Writer::default();
        out.length(shares.len());
        shares.into_iter().for_each(|share| out.bytes(&share.into_bytes()));
        out.done()
    });
    let mut all = Vec::new();
    for message in team::gather(team, bytes, stop)? {
        let mut rest = Reader::new(&message);
        for _ in 0..rest.length()? {
            all.push(Share::from_bytes(rest.bytes()?)?);
        }
    }
    Ok(all)
}
