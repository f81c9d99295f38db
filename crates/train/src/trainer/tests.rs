use super::*;
use siskin_methods::{Episode, Features, Images, Prediction, Rows, State, Task};
use std::path::Path;

/// A method whose whole state is one number that depends on every step taken.
struct Counter(f64);

impl Method for Counter {
    fn train_step(&mut self, _: &[Episode<'_>], rates: Rates) -> siskin_methods::Result<StepReport> {
        self.0 = (self.0 * 1.1 + rates.network).sin();
        Ok(StepReport { loss: self.0, accuracy: Some(0.5), taken: true })
    }
    fn embed(&self, _: Images<'_>) -> siskin_methods::Result<Rows> {
        Ok(Rows::Features(Features { values: vec![], rows: 0, dim: 1 }))
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

/// Steps at the listed episodes have no finite gradient; the first `stopped` validations are stopped, the next `blind` ones
/// have no finite prediction.
#[derive(Default)]
struct Script {
    bad: Vec<u64>,
    blind: usize,
    stopped: usize,
}

impl Tasks for Script {
    fn step(&mut self, method: &mut dyn Method, first: u64, _: u64, rates: Rates) -> Result<StepReport> {
        if self.bad.contains(&first) {
            return Ok(StepReport { loss: f64::NAN, accuracy: None, taken: false });
        }
        Ok(method.train_step(&[], Rates { network: rates.network + first as f64, ..rates })?)
    }
    fn validate(&mut self, method: &dyn Method, _: &AtomicBool) -> Result<Validation> {
        if self.stopped > 0 {
            self.stopped -= 1;
            return Ok(Validation::Stopped);
        }
        if self.blind > 0 {
            self.blind -= 1;
            return Ok(Validation::NotFinite);
        }
        Ok(Validation::Accuracy(method.scalars()[0].1))
    }
}

fn config() -> Config {
    let set =
        ["train.episodes=23", "train.episodes_per_step=2", "train.validate_every=6", "train.save_every=4"];
    Config::parse("", &set.map(String::from)).unwrap()
}

/// Trains in `folder`, stopping and resuming after each of `stops` steps.
fn train(folder: &Path, stops: &[usize], bad: Vec<u64>) -> Result<()> {
    let config = config();
    let mut run = RunFolder::create(folder, &config, "data")?;
    let mut tasks = Script { bad, ..Script::default() };
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
        assert!(files(&whole) == files(&parts), "other bytes when stopped after {stops:?} steps");
    }
}

/// The files of a run that went through without a stop, by the settings of [`config`].
fn files(folder: &Path) -> [Vec<u8>; 3] {
    ["last.safetensors", "best.safetensors", "metrics.jsonl"].map(|f| std::fs::read(folder.join(f)).unwrap())
}

#[test]
fn a_validation_that_was_stopped_is_done_by_the_resumed_run() {
    let root = tempfile::tempdir().unwrap();
    let (whole, parts) = (root.path().join("whole"), root.path().join("parts"));
    train(&whole, &[], vec![]).unwrap();
    let config = config();
    let run = RunFolder::create(&parts, &config, "data").unwrap();
    let mut tasks = Script::default();
    let stop = AtomicBool::new(false);
    let mut trainer = Trainer::start(run.clone(), &config, "data", Box::new(Counter(0.3))).unwrap();
    // The stop comes in the first validation, after the step to episode 6.
    tasks.stopped = 1;
    let outcome = trainer.run(&mut tasks, &stop, &mut |event| match event {
        Event::Step { episode, .. } => stop.store(*episode == 6, Ordering::Relaxed),
        Event::Validated { .. } => panic!("the validation was stopped"),
    });
    assert_eq!(outcome.unwrap(), Outcome::Stopped);
    let (position, _) = checkpoint::load(&run.last()).unwrap();
    assert_eq!((position.episode, position.validation_due), (6, true));
    let mut trainer = Trainer::resume(run, &config, "data", Box::new(Counter(0.0))).unwrap();
    let outcome = trainer.run(&mut tasks, &AtomicBool::new(false), &mut |_| {});
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    assert!(files(&whole) == files(&parts));
}

#[test]
fn saves_by_the_clock_change_no_byte() {
    let root = tempfile::tempdir().unwrap();
    let run = |name: &str, minutes: f64| {
        let mut config = config();
        config.train.save_every = 1_000;
        config.train.save_minutes = minutes;
        let folder = RunFolder::create(&root.path().join(name), &config, "data").unwrap();
        let mut trainer = Trainer::start(folder.clone(), &config, "data", Box::new(Counter(0.3))).unwrap();
        let mut seen = Vec::new();
        let outcome = trainer.run(&mut Script::default(), &AtomicBool::new(false), &mut |event| {
            if let Event::Step { .. } = event {
                seen.push(checkpoint::load(&folder.last()).ok().map(|(position, _)| position.episode));
            }
        });
        assert_eq!(outcome.unwrap(), Outcome::Finished);
        let state = checkpoint::load(&folder.last()).unwrap().1;
        (seen, state, std::fs::read(folder.path().join("metrics.jsonl")).unwrap())
    };
    let (often, never) = (run("often", 1e-9), run("never", 0.0));
    assert_eq!(often.0[..3], [None, Some(2), Some(4)], "a checkpoint after every step");
    assert!(never.0.iter().all(Option::is_none), "no checkpoint before the end");
    assert_eq!(often.1, never.1);
    assert_eq!(often.2, never.2);
}

#[test]
fn a_run_is_validated_five_times_unless_told_otherwise() {
    let root = tempfile::tempdir().unwrap();
    let seen = |name: &str, set: &[&str]| validated(&root.path().join(name), set, 0).0;
    assert_eq!(seen("a", &["train.episodes=100"]), [20, 40, 60, 80, 100]);
    assert_eq!(seen("b", &["train.episodes=3"]), [1, 2, 3]);
    assert_eq!(seen("c", &["train.episodes=3000"]), [500, 1000, 1500, 2000, 2500, 3000]);
    assert_eq!(seen("d", &["train.episodes=100", "train.validate_every=60"]), [60, 100]);
    assert!(seen("e", &["train.episodes=100", "train.validate_every=0"]).is_empty());
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
    let mut tasks = Script { bad: vec![4, 6, 8], ..Script::default() };
    let again = Trainer::replay(&run, &config(), Box::new(Counter(0.0)), &mut tasks).unwrap();
    let seen: Vec<_> = again.iter().map(|(first, report)| (*first, report.taken)).collect();
    assert_eq!(seen, [(4, false), (6, false), (8, false)]);
}

#[test]
fn other_data_is_refused() {
    let root = tempfile::tempdir().unwrap();
    train(root.path(), &[], vec![]).unwrap();
    let run = RunFolder::open(root.path()).unwrap();
    let error = Trainer::resume(run, &config(), "other", Box::new(Counter(0.0))).err().unwrap().to_string();
    assert!(error.contains("trained on data data"), "{error}");
}

/// Trains in one go; the episodes of the validations and the trainer.
fn validated(folder: &Path, set: &[&str], blind: usize) -> (Vec<u64>, Trainer) {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    let config = Config::parse("", &set).unwrap();
    let run = RunFolder::create(folder, &config, "data").unwrap();
    let mut trainer = Trainer::start(run, &config, "data", Box::new(Counter(0.3))).unwrap();
    let (mut tasks, mut seen) = (Script { blind, ..Script::default() }, Vec::new());
    let outcome = trainer.run(&mut tasks, &AtomicBool::new(false), &mut |event| {
        if let Event::Validated { episode, .. } = event {
            seen.push(*episode);
        }
    });
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    (seen, trainer)
}

#[test]
fn a_validation_without_accuracy_is_counted_and_never_the_best() {
    let root = tempfile::tempdir().unwrap();
    let some = root.path().join("some");
    let (seen, trainer) = validated(&some, &["train.episodes=8", "train.validate_every=2"], 3);
    assert_eq!((seen, trainer.validations_without_accuracy()), (vec![2, 4, 6, 8], 3));
    assert_eq!(trainer.best().unwrap().1, 8);
    let lines = std::fs::read_to_string(some.join("metrics.jsonl")).unwrap();
    let blind = lines.lines().filter(|l| l.contains("\"accuracy\":null,\"best\":false")).count();
    assert_eq!(blind, 3, "{lines}");
    assert_eq!(crate::curve::Curve::read(&some).unwrap().validations.len(), 1);
    let none = root.path().join("none");
    let (_, trainer) = validated(&none, &["train.episodes=4", "train.validate_every=2"], 9);
    assert!(trainer.best().is_none() && !none.join("best.safetensors").exists());
    assert!(none.join("last.safetensors").exists());
}

#[test]
fn validations_begin_after_validate_from() {
    // The reference validates in the epochs after the hundredth from the end: 99 times.
    let root = tempfile::tempdir().unwrap();
    let set = ["train.episodes=600", "train.validate_every=1", "train.validate_from=501"];
    let (seen, _) = validated(root.path(), &set, 0);
    assert_eq!((seen.len(), seen[0]), (99, 502));
}
