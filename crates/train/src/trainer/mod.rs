//! The training loop: episodes in, checkpoints and metrics out; stopped and resumed anywhere, the bytes are the same.
//!
//! A [`Trainer`] trains one phase after another. In each it asks for episodes, gives them to the method, and now and then
//! validates and saves.

mod events;
mod fit;
mod handover;
mod record;
mod step;
mod validate;

pub use events::{Event, Outcome};
pub use step::Replay;

use crate::average::Average;
use crate::checkpoint::{self, Best, Position};
use crate::config::Config;
use crate::episodes::Episodes;
use crate::error::{Error, Result};
use crate::phase::{Phase, PhaseKind, StartFrom, phases};
use crate::run_data::DataFacts;
use crate::run_folder::RunFolder;
use crate::team::{self, Team};
use handover::handed_over;
use record::Record;
use siskin_methods::{Method, State};
use siskin_model::seal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A run in progress.
pub struct Trainer {
    phase: Phase,
    folder: RunFolder,
    method: Box<dyn Method>,
    average: Option<Average>,
    position: Position,
    record: Record,
    /// When the newest checkpoint was written, or training began.
    saved: Instant,
    /// Who shares the episodes.
    team: Arc<dyn Team>,
}

impl Trainer {
    /// A run from the start of its first phase.
    pub fn start(
        folder: RunFolder,
        config: &Config,
        data: &DataFacts,
        method: Box<dyn Method>,
    ) -> Result<Trainer> {
        let phase = phase_at(config, 0)?;
        let position = Position {
            version: checkpoint::VERSION,
            episode: 0,
            phase: 0,
            skipped: 0,
            skipped_in_a_row: 0,
            validations_without_accuracy: 0,
            validation_due: false,
            fitted: false,
            best: None,
            notice: None,
            metrics_bytes: 0,
            model: Some(phase.config.model(data.base_classes, data.network.as_ref())),
            config: config.to_toml(),
            data: data.hash.clone(),
            unsealed: false,
        };
        let average = new_average(&phase, &method.state());
        Trainer::at(folder, phase, position, method, average)
    }

    /// A run from its newest checkpoint; `method` is that of the phase it stands in. The data must be what the run began with.
    pub fn resume(
        folder: RunFolder,
        config: &Config,
        data: &DataFacts,
        mut method: Box<dyn Method>,
    ) -> Result<Trainer> {
        let path = folder.newest();
        let bytes = team::from_first(team::current().as_ref(), || checkpoint::read(&path))?;
        let (mut position, mut state) = checkpoint::parse(&path, &bytes)?;
        if position.data != data.hash {
            let (was, is) = (position.data, &data.hash);
            let why = format!("it was trained on data {was}, this is {is}: give the same data");
            return Err(Error::Checkpoint { path, why });
        }
        let phase = phase_at(config, position.phase)?;
        position.model = Some(phase.config.model(data.base_classes, data.network.as_ref()));
        let average = saved_average(&phase, &mut state, &method.state())?;
        method.load_state(&state)?;
        Trainer::at(folder, phase, position, method, average)
    }

    fn at(
        folder: RunFolder,
        phase: Phase,
        position: Position,
        method: Box<dyn Method>,
        average: Option<Average>,
    ) -> Result<Trainer> {
        let record = Record::open(&folder, position.metrics_bytes, phase.length())?;
        let (saved, team) = (Instant::now(), team::current());
        Ok(Trainer { phase, folder, method, average, position, record, saved, team })
    }

    /// Goes on to the next phase: `method` is fresh and takes over what the phase before it learned.
    pub(crate) fn enter(&mut self, phase: Phase, mut method: Box<dyn Method>) -> Result<()> {
        let before = self.outcome(&phase)?;
        method.load_state(&handed_over(method.state(), &before, phase.scalars))?;
        self.average = new_average(&phase, &method.state());
        let position = self.position.clone();
        let before = position.model.as_ref();
        let base_classes = before.and_then(|model| model.base_classes).unwrap_or_default();
        let network = before.and_then(|model| model.network.as_ref());
        self.position = Position {
            model: Some(phase.config.model(base_classes, network)),
            phase: phase.index,
            skipped_in_a_row: 0,
            fitted: false,
            best: None,
            notice: None,
            ..position
        };
        self.record.phase(phase.length());
        (self.method, self.phase) = (method, phase);
        self.save()
    }

    /// The model of the phase that `next` starts from.
    fn outcome(&self, next: &Phase) -> Result<State> {
        let best = self.folder.best();
        let bytes =
            team::from_first(self.team.as_ref(), || match next.start == StartFrom::Best && best.exists() {
                true => checkpoint::read(&best),
                false => Ok(Vec::new()),
            })?;
        if !bytes.is_empty() {
            let (position, state) = checkpoint::parse(&best, &bytes)?;
            if position.phase == self.position.phase {
                return Ok(state);
            }
        }
        Ok(self.model())
    }

    /// What people should be told who resume it: that its checkpoint had no checksum.
    pub fn notice(&self) -> Option<String> {
        let what = format!("The checkpoint of {}", self.folder.path().display());
        self.position.unsealed.then(|| seal::notice(&what, "The next one that is saved has a checksum."))
    }

    /// The phase it is in.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Episodes done so far.
    pub fn episode(&self) -> u64 {
        self.position.episode
    }

    /// Steps skipped so far for a non-finite gradient.
    pub fn skipped(&self) -> u64 {
        self.position.skipped
    }

    /// Validations so far that gave no accuracy, because a prediction was not finite.
    pub fn validations_without_accuracy(&self) -> u64 {
        self.position.validations_without_accuracy
    }

    /// What the method holds beside a model, in MiB, where adapting to a task takes more than a forward pass.
    pub fn extra_memory_mib(&self) -> Option<f64> {
        self.method.extra_memory_mib()
    }

    /// The best validation of the phase.
    pub fn best(&self) -> Option<Best> {
        self.position.best
    }

    /// Trains to the end of the phase, or until `stop` is set; then the state is saved. It is saved too where another process
    /// of the team is gone.
    pub fn run(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        let ended = self.work(episodes, stop, on);
        if let Err(Error::RankLost) = ended {
            // A step that is not taken changes nothing: this is the state before it.
            self.save()?;
        }
        ended
    }

    fn work(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        while self.position.validation_due || !self.at_the_end() {
            if team::agree(self.team.as_ref(), stop)? {
                self.save()?;
                return Ok(Outcome::Stopped);
            }
            let first = self.position.episode;
            if !self.position.validation_due {
                match self.phase.kind {
                    PhaseKind::Train => self.step(episodes, stop, on)?,
                    PhaseKind::FitScalars => match self.fit(episodes, stop, on) {
                        Err(Error::Stopped) => continue,
                        done => done?,
                    },
                }
                self.position.validation_due = self.validation_is_due(first);
            }
            if self.position.validation_due {
                self.validate(episodes, stop, on)?;
            }
            if !self.position.validation_due && self.save_is_due(first) {
                self.save()?;
            }
        }
        // Without a validation the last model is the best; with validations that all failed there is none.
        if self.position.best.is_none() && self.position.validations_without_accuracy == 0 {
            checkpoint::save(&self.folder.best(), &self.position, &self.model())?;
        }
        Ok(Outcome::Finished)
    }

    /// Whether the steps since episode `first` passed a multiple of `every` episodes of the phase.
    fn passed(&self, every: u64, first: u64) -> bool {
        let begin = self.phase.first;
        every > 0 && (self.position.episode - begin) / every > (first - begin) / every
    }

    /// All episodes of the phase are done, or its fit.
    fn at_the_end(&self) -> bool {
        match self.phase.kind {
            PhaseKind::Train => self.position.episode >= self.phase.end(),
            PhaseKind::FitScalars => self.position.fitted,
        }
    }

    fn validation_is_due(&self, first: u64) -> bool {
        let config = &self.phase.config.train;
        let every = config.validate_every();
        let fitted = self.phase.kind == PhaseKind::FitScalars;
        (self.passed(every, first) || (every > 0 && self.at_the_end()))
            && (fitted || self.position.episode - self.phase.first > config.validate_from)
    }

    /// By episodes or by the clock. When a checkpoint is written changes nothing else.
    fn save_is_due(&self, first: u64) -> bool {
        let minutes = self.phase.config.train.save_minutes;
        let waited = minutes > 0.0 && self.saved.elapsed() >= Duration::from_secs_f64(60.0 * minutes);
        waited || self.passed(self.phase.config.train.save_every, first) || self.at_the_end()
    }

    /// By when the next checkpoint is written, in a sentence: until then a run that is killed has nothing to go on from.
    /// Nothing where there is one already.
    pub fn first_save(&self) -> Option<String> {
        if self.folder.newest().exists() || self.at_the_end() {
            return None;
        }
        let train = &self.phase.config.train;
        let last = self.phase.end();
        let episode =
            if train.save_every == 0 { last } else { last.min(self.phase.first + train.save_every) };
        let by = match train.save_minutes > 0.0 {
            true => format!(" or after {} minutes, whichever is sooner", train.save_minutes),
            false => String::new(),
        };
        // Scalars are fitted without episodes.
        let when = match episode > self.phase.first {
            true => format!("at episode {episode}"),
            false => "at the end of this phase".into(),
        };
        Some(format!("The first checkpoint is due {when}{by}."))
    }

    /// The state of the model: with averaged weights where they are averaged.
    fn model(&self) -> State {
        let state = self.method.state();
        self.average.as_ref().map_or_else(|| state.clone(), |average| average.model(&state))
    }

    /// The state to go on from.
    fn state(&self) -> State {
        let mut state = self.method.state();
        if let Some(average) = &self.average {
            average.save(&mut state);
        }
        state
    }

    fn save(&mut self) -> Result<()> {
        self.position.metrics_bytes = self.record.flush()?;
        checkpoint::save(&self.folder.last(), &self.position, &self.state())?;
        self.saved = Instant::now();
        Ok(())
    }
}

/// Phase `index` of a config.
pub(crate) fn phase_at(config: &Config, index: usize) -> Result<Phase> {
    let phases = phases(config)?;
    let count = phases.len();
    phases.into_iter().nth(index).ok_or_else(|| {
        Error::Run(format!("the run stands in phase {}, its config has {count} of them", index + 1))
    })
}

/// How slowly the average of the weights moves, where the phase has one.
fn decay(phase: &Phase) -> Option<f64> {
    Some(phase.config.train.ema).filter(|decay| *decay > 0.0 && phase.kind == PhaseKind::Train)
}

fn new_average(phase: &Phase, state: &State) -> Option<Average> {
    decay(phase).map(|decay| Average::new(decay, state))
}

/// Takes the average out of the state of a checkpoint.
fn saved_average(phase: &Phase, state: &mut State, fresh: &State) -> Result<Option<Average>> {
    decay(phase).map(|decay| Average::take(decay, state, fresh)).transpose()
}

#[cfg(test)]
mod tests;
