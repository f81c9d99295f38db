//! The training loop: episodes in, checkpoints and metrics out; stopped and resumed anywhere, the bytes are the same.
//!
//! A [`Trainer`] trains one phase after another. In each it asks for episodes, gives them to the method, and now and then
//! validates and saves.

mod events;
mod handover;
mod record;

pub use events::{Event, Outcome};

use crate::atomic;
use crate::average::Average;
use crate::checkpoint::{self, Best, Position};
use crate::config::{Config, Select};
use crate::episodes::{Episodes, Validation};
use crate::error::{Error, Result, io};
use crate::phase::{Phase, PhaseKind, phases};
use crate::run_data::DataFacts;
use crate::run_folder::RunFolder;
use crate::schedule::rates;
use handover::handed_over;
use record::{Line, Record, Scalars};
use serde::{Deserialize, Serialize};
use siskin_methods::{Method, Rates, State, StepReport};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
            model: Some(phase.config.model(data.base_classes)),
            config: config.to_toml(),
            data: data.hash.clone(),
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
        let (mut position, mut state) = checkpoint::load(&path)?;
        if position.data != data.hash {
            let (was, is) = (position.data, &data.hash);
            let why = format!("it was trained on data {was}, this is {is}: give the same data");
            return Err(Error::Checkpoint { path, why });
        }
        let phase = phase_at(config, position.phase)?;
        position.model = Some(phase.config.model(data.base_classes));
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
        let record = Record::open(&folder, position.metrics_bytes)?;
        Ok(Trainer { phase, folder, method, average, position, record, saved: Instant::now() })
    }

    /// Goes on to the next phase: `method` is fresh and takes over what the phase before it learned.
    pub fn enter(&mut self, phase: Phase, mut method: Box<dyn Method>) -> Result<()> {
        let before = self.outcome(&phase)?;
        method.load_state(&handed_over(method.state(), &before, phase.scalars))?;
        self.average = new_average(&phase, &method.state());
        let position = self.position.clone();
        let base_classes = position.model.as_ref().and_then(|model| model.base_classes).unwrap_or_default();
        self.position = Position {
            model: Some(phase.config.model(base_classes)),
            phase: phase.index,
            skipped_in_a_row: 0,
            fitted: false,
            best: None,
            notice: None,
            ..position
        };
        (self.method, self.phase) = (method, phase);
        self.save()
    }

    /// The model of the phase that `next` starts from.
    fn outcome(&self, next: &Phase) -> Result<State> {
        use crate::phase::StartFrom;
        if next.start == StartFrom::Best && self.folder.best().exists() {
            let (position, state) = checkpoint::load(&self.folder.best())?;
            if position.phase == self.position.phase {
                return Ok(state);
            }
        }
        Ok(self.model())
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

    /// Trains to the end of the phase, or until `stop` is set; then the state is saved.
    pub fn run(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        while self.position.validation_due || !self.at_the_end() {
            if stop.load(Ordering::Relaxed) {
                self.save()?;
                return Ok(Outcome::Stopped);
            }
            let first = self.position.episode;
            if !self.position.validation_due {
                match self.phase.kind {
                    PhaseKind::Train => self.step(episodes, on)?,
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
        let mut reports = Vec::new();
        let mut first = replay.first_episode;
        while first <= replay.last_episode {
            let count = phase.config.train.episodes_per_step.min(replay.last_episode + 1 - first);
            let rates = rates(&phase.config.train, first - phase.first);
            reports.push((first, attempt(episodes, method.as_mut(), first..first + count, rates)?));
            first += count;
        }
        Ok(reports)
    }

    fn step(&mut self, episodes: &mut dyn Episodes, on: &mut dyn FnMut(&Event)) -> Result<()> {
        let config = &self.phase.config.train;
        let first = self.position.episode;
        let count = config.episodes_per_step.min(self.phase.end() - first);
        let rates = rates(config, first - self.phase.first);
        let report = attempt(episodes, self.method.as_mut(), first..first + count, rates)?;
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

    /// Fits the scalars of the method on features of some hundred episodes.
    fn fit(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let features = episodes.features(self.method.as_ref(), stop)?;
        let fit = self.method.fit_scalars(&features, self.phase.config.fit.iterations)?.ok_or_else(|| {
            Error::Config(format!(
                "a phase is of kind fit-scalars, but {} has no scalars that can be fitted; cdkt has",
                self.phase.config.method.name()
            ))
        })?;
        self.position.fitted = true;
        let scalars = self.method.scalars();
        self.record.step(&Line::Fit {
            episode: self.position.episode,
            phase: self.phase.name.as_deref(),
            loss_before: fit.before,
            loss: fit.after,
            iterations: fit.iterations,
            converged: fit.converged,
            scalars: Scalars(&scalars),
        })?;
        on(&Event::Fitted { fit, scalars });
        Ok(())
    }

    /// Validates; where `stop` is set the validation stays due.
    fn validate(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let measured = match self.as_model(|method| episodes.validate(method, stop))? {
            Validation::Measured { accuracy, nll } => Some((accuracy, nll)),
            Validation::NotFinite => None,
            Validation::Stopped => return Ok(()),
        };
        self.position.validation_due = false;
        let episode = self.position.episode;
        let found = measured.map(|(accuracy, nll)| Best { accuracy, nll: Some(nll), episode });
        let select = self.phase.config.train.select;
        let new_best = found.filter(|found| is_better(found, self.position.best.as_ref(), select));
        let (accuracy, nll, best) = (measured.map(|m| m.0), measured.map(|m| m.1), new_best.is_some());
        let phase = self.phase.name.as_deref();
        self.record.validation(&Line::Validation { episode, phase, accuracy, nll, best })?;
        if measured.is_none() {
            self.position.validations_without_accuracy += 1;
        }
        if new_best.is_some() {
            self.position.best = new_best;
            self.position.metrics_bytes = self.record.flush()?;
            if self.average.is_some() {
                // The best model is an average, from which training cannot go on.
                self.save()?;
            }
            checkpoint::save(&self.folder.best(), &self.position, &self.model())?;
        }
        on(&Event::Validated { episode, accuracy, nll, best });
        Ok(())
    }

    /// The state of the model: with averaged weights where they are averaged.
    fn model(&self) -> State {
        let state = self.method.state();
        self.average.as_ref().map_or_else(|| state.clone(), |average| average.model(&state))
    }

    /// Does `work` with the model, see [`Trainer::model`].
    fn as_model<T>(&mut self, work: impl FnOnce(&dyn Method) -> Result<T>) -> Result<T> {
        let Some(average) = &self.average else { return work(self.method.as_ref()) };
        let newest = self.method.state();
        self.method.load_state(&average.model(&newest))?;
        let result = work(self.method.as_ref());
        self.method.load_state(&newest)?;
        result
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

/// Phase `index` of a config.
pub fn phase_at(config: &Config, index: usize) -> Result<Phase> {
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

fn is_better(found: &Best, best: Option<&Best>, select: Select) -> bool {
    best.is_none_or(|best| match select {
        Select::Accuracy => found.accuracy > best.accuracy,
        Select::Nll => found.nll.unwrap_or(f64::INFINITY) < best.nll.unwrap_or(f64::INFINITY),
    })
}

/// One optimiser step on these training episodes; one whose features are not finite counts as one whose gradient is not.
fn attempt(
    episodes: &mut dyn Episodes,
    method: &mut dyn Method,
    range: std::ops::Range<u64>,
    rates: Rates,
) -> Result<StepReport> {
    let loaded = episodes.training(range.start, range.end - range.start)?;
    let views = loaded.iter().map(|episode| episode.view()).collect::<Result<Vec<_>>>()?;
    // Inside the pool, so that the Gaussian process uses its threads too.
    match rayon::scope(|_| method.train_step(&views, rates)) {
        Err(e) if e.is_not_finite() => Ok(StepReport { loss: f64::NAN, accuracy: None, taken: false }),
        report => Ok(report?),
    }
}

#[cfg(test)]
mod tests;
