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
        /// Mean accuracy.
        accuracy: f64,
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

    /// Mean accuracy over the validation episodes.
    fn validate(&mut self, method: &dyn Method) -> Result<f64>;
}

/// A run in progress.
pub struct Trainer {
    config: TrainConfig,
    folder: RunFolder,
    method: Box<dyn Method>,
    position: Position,
    metrics: Metrics,
    events: EventWriter,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
enum Line<'a> {
    Step {
        episode: u64,
        loss: f64,
        accuracy: f64,
        skipped: u64,
        #[serde(flatten)]
        scalars: Scalars<'a>,
    },
    Validation {
        episode: u64,
        accuracy: f64,
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
        let path = folder.last();
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
        Ok(Trainer { config: config.train.clone(), folder, method, position, metrics, events })
    }

    /// Episodes done so far.
    pub fn episode(&self) -> u64 {
        self.position.episode
    }

    /// Steps skipped so far for a non-finite gradient.
    pub fn skipped(&self) -> u64 {
        self.position.skipped
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
        while self.position.episode < self.config.episodes {
            if stop.load(Ordering::Relaxed) {
                self.save()?;
                return Ok(Outcome::Stopped);
            }
            let first = self.position.episode;
            self.step(tasks, on)?;
            let passed = |every: u64| every > 0 && self.position.episode / every > first / every;
            let (validate, save) = (passed(self.config.validate_every), passed(self.config.save_every));
            let end = self.position.episode == self.config.episodes;
            if (validate || (end && self.config.validate_every > 0))
                && self.position.episode >= self.config.validate_from
            {
                self.validate(tasks, on)?;
            }
            if save || end {
                self.save()?;
            }
        }
        if self.position.best.is_none() {
            checkpoint::save(&self.folder.best(), &self.position, &self.method.state())?;
        }
        Ok(Outcome::Finished)
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
        self.events.scalar("train/accuracy", episode, report.accuracy)?;
        for (name, value) in &scalars {
            self.events.scalar(&format!("hyper/{name}"), episode, *value)?;
        }
        on(&Event::Step { episode, report });
        Ok(())
    }

    fn validate(&mut self, tasks: &mut dyn Tasks, on: &mut dyn FnMut(&Event)) -> Result<()> {
        let accuracy = tasks.validate(self.method.as_ref())?;
        let episode = self.position.episode;
        let best = self.position.best.is_none_or(|(reached, _)| accuracy > reached);
        self.metrics.write(&Line::Validation { episode, accuracy, best })?;
        self.events.scalar("validation/accuracy", episode, accuracy)?;
        if best {
            self.position.best = Some((accuracy, episode));
            self.position.metrics_bytes = self.metrics.flush()?;
            checkpoint::save(&self.folder.best(), &self.position, &self.method.state())?;
        }
        on(&Event::Validated { episode, accuracy, best });
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        self.position.metrics_bytes = self.metrics.flush()?;
        checkpoint::save(&self.folder.last(), &self.position, &self.method.state())
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
            Ok(StepReport { loss: f64::NAN, accuracy: 0.0, taken: false })
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
mod tests {
    use super::*;
    use siskin_methods::{Episode, Features, Images, Prediction, State, Task};
    use std::path::Path;

    /// A method whose whole state is one number that depends on every step taken.
    struct Counter(f64);

    impl Method for Counter {
        fn train_step(&mut self, _: &[Episode<'_>], rates: Rates) -> siskin_methods::Result<StepReport> {
            self.0 = (self.0 * 1.1 + rates.network).sin();
            Ok(StepReport { loss: self.0, accuracy: 0.5, taken: true })
        }
        fn embed(&self, _: Images<'_>) -> siskin_methods::Result<Features> {
            Ok(Features { values: vec![], rows: 0, dim: 1 })
        }
        fn predict(&self, task: &Task<'_>) -> siskin_methods::Result<Prediction> {
            Ok(Prediction { probabilities: vec![], way: task.way, latent: None })
        }
        fn scalars(&self) -> Vec<(String, f64)> {
            vec![("x".into(), self.0)]
        }
        fn state(&self) -> State {
            let mut state = State::default();
            state.push_f64("x", &[self.0]);
            state
        }
        fn load_state(&mut self, state: &State) -> siskin_methods::Result<()> {
            self.0 = state.f64s("x")?[0];
            Ok(())
        }
    }

    /// Steps at the listed episodes have no finite gradient.
    struct Script {
        bad: Vec<u64>,
    }

    impl Tasks for Script {
        fn step(&mut self, method: &mut dyn Method, first: u64, _: u64, rates: Rates) -> Result<StepReport> {
            if self.bad.contains(&first) {
                return Ok(StepReport { loss: f64::NAN, accuracy: 0.0, taken: false });
            }
            Ok(method.train_step(&[], Rates { network: rates.network + first as f64, ..rates })?)
        }
        fn validate(&mut self, method: &dyn Method) -> Result<f64> {
            Ok(method.scalars()[0].1)
        }
    }

    fn config() -> Config {
        let set = [
            "train.episodes=23",
            "train.episodes_per_step=2",
            "train.validate_every=6",
            "train.save_every=4",
        ];
        Config::parse("", &set.map(String::from)).unwrap()
    }

    /// Trains in `folder`, stopping and resuming after each of `stops` steps.
    fn train(folder: &Path, stops: &[usize], bad: Vec<u64>) -> Result<()> {
        let config = config();
        let mut run = RunFolder::create(folder, &config, "data")?;
        let mut tasks = Script { bad };
        for (part, steps) in stops.iter().chain([&usize::MAX]).enumerate() {
            let method = Box::new(Counter(0.3));
            let mut trainer = match part {
                0 => Trainer::start(run.clone(), &config, "data", method)?,
                _ => Trainer::resume(run.clone(), &config, "data", method)?,
            };
            let stop = AtomicBool::new(false);
            let mut left = *steps;
            let outcome = trainer.run(&mut tasks, &stop, &mut |event| {
                if matches!(event, Event::Step { .. }) {
                    left -= 1;
                    stop.store(left == 0, Ordering::Relaxed);
                }
            })?;
            assert_eq!(outcome == Outcome::Finished, *steps == usize::MAX);
            run = RunFolder::open(folder)?;
        }
        Ok(())
    }

    #[test]
    fn stopped_and_resumed_anywhere_gives_the_same_bytes() {
        let root = tempfile::tempdir().unwrap();
        let whole = root.path().join("whole");
        train(&whole, &[], vec![8]).unwrap();
        for stops in [vec![1], vec![3], vec![5, 1, 4], vec![11]] {
            let parts = root.path().join(format!("{stops:?}"));
            train(&parts, &stops, vec![8]).unwrap();
            for file in ["last.safetensors", "best.safetensors", "metrics.jsonl"] {
                let read = |folder: &Path| std::fs::read(folder.join(file)).unwrap();
                assert!(read(&whole) == read(&parts), "{file} differs when stopped after {stops:?} steps");
            }
        }
    }

    #[test]
    fn one_bad_step_is_skipped_and_three_in_a_row_stop_the_run() {
        let root = tempfile::tempdir().unwrap();
        train(&root.path().join("two"), &[], vec![4, 6]).unwrap();
        let lines = std::fs::read_to_string(root.path().join("two/metrics.jsonl")).unwrap();
        assert!(lines.lines().any(|l| l.contains("\"episode\":8") && l.contains("\"skipped\":2")), "{lines}");
        let folder = root.path().join("three");
        let error = train(&folder, &[], vec![4, 6, 8]).unwrap_err();
        assert!(matches!(error, Error::Diverged { in_a_row: 3, first: 4, last: 9, .. }), "{error}");
        let (position, state) = checkpoint::load(&folder.join("diverged.safetensors")).unwrap();
        assert_eq!(position.episode, 8);
        let (_, before) = checkpoint::load(&folder.join("last.safetensors")).unwrap();
        assert_eq!(state, before, "the skipped steps changed nothing");
        let run = RunFolder::open(&folder).unwrap();
        let mut tasks = Script { bad: vec![4, 6, 8] };
        let again = Trainer::replay(&run, &config(), Box::new(Counter(0.0)), &mut tasks).unwrap();
        let seen: Vec<_> = again.iter().map(|(first, report)| (*first, report.taken)).collect();
        assert_eq!(seen, [(4, false), (6, false), (8, false)]);
    }

    #[test]
    fn other_data_is_refused() {
        let root = tempfile::tempdir().unwrap();
        train(root.path(), &[], vec![]).unwrap();
        let run = RunFolder::open(root.path()).unwrap();
        let error =
            Trainer::resume(run, &config(), "other", Box::new(Counter(0.0))).err().unwrap().to_string();
        assert!(error.contains("trained on data data"), "{error}");
    }
}
