//! The training loop: episodes in, checkpoints and metrics out; stopped and resumed anywhere, the bytes are the same.

use crate::atomic;
use crate::checkpoint::{self, Position};
use crate::config::{Config, Schedule, TrainConfig};
use crate::error::{Error, Result, io};
use crate::events::EventWriter;
use crate::run_folder::{Metrics, RunFolder};
use serde::{Deserialize, Serialize};
use siskin_methods::{Method, Rates, StepReport};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Steps with a non-finite gradient that may follow one another before training stops.
const SKIPS_ALLOWED: u64 = 2;

/// What happened, for a progress bar.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An optimiser step.
    Step {
        /// Episodes done in all.
        episode: u64,
        /// What the step did.
        report: StepReport,
    },
    /// A validation.
    Validated {
        /// Episodes done in all.
        episode: u64,
        /// Mean accuracy; none where a prediction was not finite.
        accuracy: Option<f64>,
        /// Whether it is the best so far.
        best: bool,
    },
}

/// `replay.json`: the episodes whose gradients were not finite. The state before them is `diverged.safetensors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// First episode of the first skipped step.
    pub first_episode: u64,
    /// Last episode of the last skipped step.
    pub last_episode: u64,
}

/// How training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All episodes are done.
    Finished,
    /// Somebody asked to stop; the state is saved.
    Stopped,
}

/// The parts of a run that training needs from outside.
pub trait Tasks {
    /// One optimiser step on the training episodes `first..first + count`.
    fn step(&mut self, method: &mut dyn Method, first: u64, count: u64, rates: Rates) -> Result<StepReport>;

    /// Mean accuracy over the validation episodes, or why there is none. Ends early where `stop` is set.
    fn validate(&mut self, method: &dyn Method, stop: &AtomicBool) -> Result<Validation>;
}

/// What a validation found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Validation {
    /// The mean accuracy.
    Accuracy(f64),
    /// A prediction was not finite.
    NotFinite,
    /// It was stopped before its end: nothing is known.
    Stopped,
}

/// A run in progress.
pub struct Trainer {
    config: TrainConfig,
    folder: RunFolder,
    method: Box<dyn Method>,
    position: Position,
    metrics: Metrics,
    events: EventWriter,
    /// When the newest checkpoint was written, or training began.
    saved: Instant,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
enum Line<'a> {
    Step {
        episode: u64,
        loss: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        accuracy: Option<f64>,
        skipped: u64,
        #[serde(flatten)]
        scalars: Scalars<'a>,
    },
    Validation {
        episode: u64,
        accuracy: Option<f64>,
        best: bool,
    },
}

/// Named numbers as keys of the line itself.
struct Scalars<'a>(&'a [(String, f64)]);

impl Serialize for Scalars<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Trainer {
    /// A run from its start.
    pub fn start(folder: RunFolder, config: &Config, data: &str, method: Box<dyn Method>) -> Result<Trainer> {
        let position = Position {
            version: checkpoint::VERSION,
            episode: 0,
            skipped: 0,
            skipped_in_a_row: 0,
            validations_without_accuracy: 0,
            validation_due: false,
            best: None,
            metrics_bytes: 0,
            config: config.to_toml(),
            data: data.into(),
        };
        Trainer::at(folder, config, method, position)
    }

    /// A run from its newest checkpoint. The data must be what the run began with.
    pub fn resume(
        folder: RunFolder,
        config: &Config,
        data: &str,
        mut method: Box<dyn Method>,
    ) -> Result<Trainer> {
        let path = folder.newest();
        let (position, state) = checkpoint::load(&path)?;
        if position.data != data {
            let why = format!("it was trained on data {}, this is {data}: give the same data", position.data);
            return Err(Error::Checkpoint { path, why });
        }
        method.load_state(&state)?;
        Trainer::at(folder, config, method, position)
    }

    fn at(
        folder: RunFolder,
        config: &Config,
        method: Box<dyn Method>,
        position: Position,
    ) -> Result<Trainer> {
        let metrics = Metrics::open(&folder, position.metrics_bytes)?;
        let events = EventWriter::create(folder.path())?;
        let saved = Instant::now();
        Ok(Trainer { config: config.train.clone(), folder, method, position, metrics, events, saved })
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

    /// Best validation accuracy and its episode.
    pub fn best(&self) -> Option<(f64, u64)> {
        self.position.best
    }

    /// Trains to the end, or until `stop` is set; then the state is saved.
    pub fn run(
        &mut self,
        tasks: &mut dyn Tasks,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        while self.position.validation_due || self.position.episode < self.config.episodes {
            if stop.load(Ordering::Relaxed) {
                self.save()?;
                return Ok(Outcome::Stopped);
            }
            let first = self.position.episode;
            if !self.position.validation_due {
                self.step(tasks, on)?;
                self.position.validation_due = self.validation_is_due(first);
            }
            if self.position.validation_due {
                self.validate(tasks, stop, on)?;
            }
            if !self.position.validation_due && self.save_is_due(first) {
                self.save()?;
            }
        }
        // Without a validation the last model is the best; with validations that all failed there is none.
        if self.position.best.is_none() && self.position.validations_without_accuracy == 0 {
            checkpoint::save(&self.folder.best(), &self.position, &self.method.state())?;
        }
        Ok(Outcome::Finished)
    }

    /// Whether the steps since episode `first` passed a multiple of `every`.
    fn passed(&self, every: u64, first: u64) -> bool {
        every > 0 && self.position.episode / every > first / every
    }

    /// All episodes are done.
    fn at_the_end(&self) -> bool {
        self.position.episode == self.config.episodes
    }

    fn validation_is_due(&self, first: u64) -> bool {
        let every = self.config.validate_every();
        (self.passed(every, first) || (every > 0 && self.at_the_end()))
            && self.position.episode > self.config.validate_from
    }

    /// By episodes or by the clock. When a checkpoint is written changes nothing else.
    fn save_is_due(&self, first: u64) -> bool {
        let minutes = self.config.save_minutes;
        let waited = minutes > 0.0 && self.saved.elapsed() >= Duration::from_secs_f64(60.0 * minutes);
        waited || self.passed(self.config.save_every, first) || self.at_the_end()
    }

    /// The steps that stopped a diverged run, taken again from the state before them; nothing is written. The result is
    /// each step's first episode and report.
    pub fn replay(
        folder: &RunFolder,
        config: &Config,
        mut method: Box<dyn Method>,
        tasks: &mut dyn Tasks,
    ) -> Result<Vec<(u64, StepReport)>> {
        let path = folder.replay();
        let bytes = std::fs::read(&path).map_err(io("read the list of a diverged run's episodes", &path))?;
        let replay: Replay = serde_json::from_slice(&bytes)
            .map_err(|e| Error::Run(format!("{} is damaged: {e}", path.display())))?;
        let (_, state) = checkpoint::load(&folder.diverged())?;
        method.load_state(&state)?;
        let mut reports = Vec::new();
        let mut first = replay.first_episode;
        while first <= replay.last_episode {
            let count = config.train.episodes_per_step.min(replay.last_episode + 1 - first);
            let rates = rates(&config.train, first);
            reports.push((first, attempt(tasks, method.as_mut(), first, count, rates)?));
            first += count;
        }
        Ok(reports)
    }

    fn step(&mut self, tasks: &mut dyn Tasks, on: &mut dyn FnMut(&Event)) -> Result<()> {
        let first = self.position.episode;
        let count = self.config.episodes_per_step.min(self.config.episodes - first);
        let rates = rates(&self.config, first);
        let report = attempt(tasks, self.method.as_mut(), first, count, rates)?;
        if report.taken {
            self.position.skipped_in_a_row = 0;
        } else {
            self.position.skipped += 1;
            self.position.skipped_in_a_row += 1;
            if self.position.skipped_in_a_row > SKIPS_ALLOWED {
                return self.diverged(first, count);
            }
        }
        self.position.episode = first + count;
        let episode = self.position.episode;
        let scalars = self.method.scalars();
        let line = Line::Step {
            episode,
            loss: report.loss,
            accuracy: report.accuracy,
            skipped: self.position.skipped,
            scalars: Scalars(&scalars),
        };
        self.metrics.write(&line)?;
        self.events.scalar("train/loss", episode, report.loss)?;
        if let Some(accuracy) = report.accuracy {
            self.events.scalar("train/accuracy", episode, accuracy)?;
        }
        for (name, value) in &scalars {
            self.events.scalar(&format!("hyper/{name}"), episode, *value)?;
        }
        on(&Event::Step { episode, report });
        Ok(())
    }

    /// Validates; where `stop` is set the validation stays due.
    fn validate(
        &mut self,
        tasks: &mut dyn Tasks,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let accuracy = match tasks.validate(self.method.as_ref(), stop)? {
            Validation::Accuracy(accuracy) => Some(accuracy),
            Validation::NotFinite => None,
            Validation::Stopped => return Ok(()),
        };
        self.position.validation_due = false;
        let episode = self.position.episode;
        let better = |accuracy: &f64| self.position.best.is_none_or(|(reached, _)| *accuracy > reached);
        let new_best = accuracy.filter(better);
        let best = new_best.is_some();
        self.metrics.write(&Line::Validation { episode, accuracy, best })?;
        match accuracy {
            Some(accuracy) => self.events.scalar("validation/accuracy", episode, accuracy)?,
            None => self.position.validations_without_accuracy += 1,
        }
        if let Some(accuracy) = new_best {
            self.position.best = Some((accuracy, episode));
            self.position.metrics_bytes = self.metrics.flush()?;
            checkpoint::save(&self.folder.best(), &self.position, &self.method.state())?;
        }
        on(&Event::Validated { episode, accuracy, best });
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        self.position.metrics_bytes = self.metrics.flush()?;
        checkpoint::save(&self.folder.last(), &self.position, &self.method.state())?;
        self.saved = Instant::now();
        Ok(())
    }

    /// Saves the state before the bad steps (they changed nothing) and the list of their episodes, then reports.
    fn diverged(&mut self, first: u64, count: u64) -> Result<()> {
        let in_a_row = self.position.skipped_in_a_row;
        let (checkpoint, replay) = (self.folder.diverged(), self.folder.replay());
        let first_bad = first - (in_a_row - 1) * self.config.episodes_per_step;
        self.position.metrics_bytes = self.metrics.flush()?;
        checkpoint::save(&checkpoint, &self.position, &self.method.state())?;
        let record = Replay { first_episode: first_bad, last_episode: first + count - 1 };
        let json = serde_json::to_vec(&record).expect("two numbers");
        atomic::write(&replay, &json)?;
        Err(Error::Diverged { in_a_row, first: first_bad, last: first + count - 1, checkpoint, replay })
    }
}

/// A step; one whose features are not finite counts as one whose gradient is not.
fn attempt(
    tasks: &mut dyn Tasks,
    method: &mut dyn Method,
    first: u64,
    count: u64,
    rates: Rates,
) -> Result<StepReport> {
    match tasks.step(method, first, count, rates) {
        Err(Error::Method(e)) if e.is_not_finite() => {
            Ok(StepReport { loss: f64::NAN, accuracy: None, taken: false })
        }
        other => other,
    }
}

/// Adam's rates for the step that begins at `episode`.
fn rates(config: &TrainConfig, episode: u64) -> Rates {
    let factor = match config.schedule {
        Schedule::Constant => 1.0,
        Schedule::Cosine => {
            let done = episode as f64 / config.episodes as f64;
            0.01 + 0.99 * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
        }
    };
    Rates { network: factor * config.learning_rate, kernel: factor * config.kernel_learning_rate }
}

#[cfg(test)]
mod tests;
