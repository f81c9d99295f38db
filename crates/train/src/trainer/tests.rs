use super::validate::is_better;
use super::*;
use crate::config::Select;
use crate::episodes::{TrainingEpisode, Validation};
use siskin_methods::{
    EpisodeRows, FeatureEpisode, Features, Images, Notice, Place, Prediction, Rates, Rows, ScalarFit, Share,
    State, StepReport, TaskRows,
};
use std::path::Path;
use std::sync::atomic::Ordering;

/// A method whose whole state is one number that depends on every step taken. Episode `first` has the label `first`.
struct Counter {
    x: f64,
    bad: Vec<u64>,
}

fn counter(x: f64) -> Box<Counter> {
    Box::new(Counter { x, bad: Vec::new() })
}

/// A share without a network.
fn share(loss: f64) -> Share {
    let (parts, numbers, carried) = (vec![], vec![], vec![]);
    Share { loss, accuracy: None, residual: None, notice: None, parts, numbers, carried }
}

impl Method for Counter {
    fn shares(&self, episodes: &[EpisodeRows<'_>], _: Place) -> siskin_methods::Result<Vec<Share>> {
        Ok(episodes.iter().map(|episode| share(episode.labels[0] as f64)).collect())
    }
    fn take(&mut self, shares: Vec<Share>, rates: Rates) -> siskin_methods::Result<StepReport> {
        let first = shares[0].loss as u64;
        if self.bad.contains(&first) {
            return Ok(StepReport { loss: f64::NAN, accuracy: None, taken: false, residual: None });
        }
        self.x = (self.x * 1.1 + rates.network.learning_rate + first as f64).sin();
        Ok(StepReport { loss: self.x, accuracy: Some(0.5), taken: true, residual: None })
    }
    fn embed(&self, _: Images<'_>) -> siskin_methods::Result<Rows> {
        Ok(Rows::Features(Features { values: vec![], rows: 0, dim: 1 }))
    }
    fn predict(&self, task: &TaskRows<'_>) -> siskin_methods::Result<Prediction> {
        Ok(Prediction { probabilities: vec![], way: task.way, latent: None })
    }
    fn scalars(&self) -> Vec<(String, f64)> {
        vec![("x".into(), self.x)]
    }
    fn notice(&self) -> Option<Notice> {
        (self.x < -0.9).then_some(Notice::KernelIsIdentity)
    }
    fn fit_scalars(&mut self, _: &[FeatureEpisode], _: usize) -> siskin_methods::Result<Option<ScalarFit>> {
        self.x += 10.0;
        Ok(Some(ScalarFit { before: 1.0, after: 0.5, iterations: 3, converged: true }))
    }
    fn state(&self) -> State {
        let mut state = State::default();
        state.push_f64("x", &[self.x]);
        state
    }
    fn load_state(&mut self, state: &State) -> siskin_methods::Result<()> {
        self.x = state.f64s("x")?[0];
        Ok(())
    }
}

/// The first `stopped` validations are stopped, the next `blind` ones have no finite prediction.
#[derive(Default)]
struct Script {
    blind: usize,
    stopped: usize,
}

impl Episodes for Script {
    fn training(&mut self, first: u64, _: u64) -> Result<Vec<TrainingEpisode>> {
        let (shape, labels) = ([1, 1, 1, 1], vec![first as usize]);
        let (support, query) = (vec![], vec![0]);
        Ok(vec![TrainingEpisode { shape, pixels: vec![0.0], labels, support, query, way: 2 }])
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
        let x = method.scalars()[0].1;
        Ok(Validation::Measured { accuracy: x, nll: x.abs() })
    }
    fn features(&mut self, _: &dyn Method, _: &AtomicBool) -> Result<Vec<FeatureEpisode>> {
        Ok(Vec::new())
    }
}

/// The data of every run here.
fn data() -> DataFacts {
    DataFacts { hash: "data".into(), base_classes: 3, network: None }
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
    let mut tasks = Script::default();
    for (part, steps) in stops.iter().chain([&usize::MAX]).enumerate() {
        let method = Box::new(Counter { x: 0.3, bad: bad.clone() });
        let mut trainer = match part {
            0 => Trainer::start(run.clone(), &config, &data(), method)?,
            _ => Trainer::resume(run.clone(), &config, &data(), method)?,
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
    let mut trainer = Trainer::start(run.clone(), &config, &data(), counter(0.3)).unwrap();
    // The stop comes in the first validation, after the step to episode 6.
    tasks.stopped = 1;
    let outcome = trainer.run(&mut tasks, &stop, &mut |event| match event {
        Event::Step { episode, .. } => stop.store(*episode == 6, Ordering::Relaxed),
        _ => panic!("the validation was stopped"),
    });
    assert_eq!(outcome.unwrap(), Outcome::Stopped);
    let (position, _) = checkpoint::load(&run.last()).unwrap();
    assert_eq!((position.episode, position.validation_due), (6, true));
    // The folder is for one at a time.
    let both = Trainer::resume(run.clone(), &config, &data(), counter(0.0)).err().unwrap().to_string();
    assert!(both.contains("another siskin"), "{both}");
    drop(trainer);
    let mut trainer = Trainer::resume(run, &config, &data(), counter(0.0)).unwrap();
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
        let mut trainer = Trainer::start(folder.clone(), &config, &data(), counter(0.3)).unwrap();
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
    let method = Box::new(Counter { x: 0.0, bad: vec![4, 6, 8] });
    let phase = phase_at(&config(), 0).unwrap();
    let again = Trainer::replay(&run, &phase, method, &mut Script::default()).unwrap();
    let seen: Vec<_> = again.iter().map(|(first, report)| (*first, report.taken)).collect();
    assert_eq!(seen, [(4, false), (6, false), (8, false)]);
}

#[test]
fn other_data_is_refused() {
    let root = tempfile::tempdir().unwrap();
    train(root.path(), &[], vec![]).unwrap();
    let run = RunFolder::open(root.path()).unwrap();
    let error = Trainer::resume(run, &config(), &DataFacts { hash: "other".into(), ..data() }, counter(0.0))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("trained on data data"), "{error}");
}

/// Trains in one go; the episodes of the validations and the trainer.
fn validated(folder: &Path, set: &[&str], blind: usize) -> (Vec<u64>, Trainer) {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    let config = Config::parse("", &set).unwrap();
    let run = RunFolder::create(folder, &config, "data").unwrap();
    let mut trainer = Trainer::start(run, &config, &data(), counter(0.3)).unwrap();
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
    assert_eq!(trainer.best().unwrap().episode, 8);
    let lines = std::fs::read_to_string(some.join("metrics.jsonl")).unwrap();
    let blind = lines.lines().filter(|l| l.contains("\"accuracy\":null,\"nll\":null,\"best\":false")).count();
    assert_eq!(blind, 3, "{lines}");
    assert_eq!(crate::curve::Curve::read(&some).unwrap().accuracies.len(), 1);
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

/// Two training phases with averaged weights and a fit: stopped after each of `stops` steps and resumed.
fn train_phases(folder: &Path, stops: &[usize]) -> Vec<String> {
    let text = "
        [train]
        validate_every = 4
        save_every = 3
        ema = 0.8
        select = \"nll\"
        [[phase]]
        name = \"a\"
        train = { episodes = 7, learning_rate = 0.3 }
        [[phase]]
        name = \"b\"
        train = { episodes = 9, warmup_episodes = 3, ema = 0.0 }
        [[phase]]
        name = \"c\"
        kind = \"fit-scalars\"";
    let config = Config::parse(text, &[]).unwrap();
    let phases = phases(&config).unwrap();
    let mut run = RunFolder::create(folder, &config, "data").unwrap();
    let mut notes = Vec::new();
    for (part, steps) in stops.iter().chain([&usize::MAX]).enumerate() {
        let mut trainer = match part {
            0 => Trainer::start(run.clone(), &config, &data(), counter(0.3)).unwrap(),
            _ => Trainer::resume(run.clone(), &config, &data(), counter(0.0)).unwrap(),
        };
        let (stop, mut left) = (AtomicBool::new(false), *steps);
        loop {
            let outcome = trainer.run(&mut Script::default(), &stop, &mut |event| match event {
                Event::Step { .. } => {
                    left -= 1;
                    stop.store(left == 0, Ordering::Relaxed);
                }
                other => notes.push(format!("{other:?}")),
            });
            let next = phases.get(trainer.phase().index + 1);
            let (Outcome::Finished, Some(next)) = (outcome.unwrap(), next) else { break };
            trainer.enter(next.clone(), counter(0.0)).unwrap();
        }
        run = RunFolder::open(folder).unwrap();
    }
    notes
}

#[test]
fn phases_with_averages_and_a_fit_resume_to_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let whole = root.path().join("whole");
    let notes = train_phases(&whole, &[]);
    assert!(notes.iter().any(|line| line.starts_with("Fitted")), "{notes:?}");
    for stops in [vec![1], vec![7], vec![7, 1], vec![3, 3, 3, 3], vec![16]] {
        let parts = root.path().join(format!("{stops:?}"));
        train_phases(&parts, &stops);
        assert!(files(&whole) == files(&parts), "other bytes when stopped after {stops:?} steps");
    }
    let (position, _) = checkpoint::load(&whole.join("best.safetensors")).unwrap();
    assert_eq!((position.phase, position.episode, position.fitted), (2, 16, true));
    let lines = std::fs::read_to_string(whole.join("metrics.jsonl")).unwrap();
    assert!(lines.contains("\"kind\":\"fit\",\"episode\":16,\"phase\":\"c\""), "{lines}");
}

#[test]
fn an_average_is_validated_and_saved_as_the_best_and_training_goes_on_from_the_newest() {
    let root = tempfile::tempdir().unwrap();
    let set = ["train.episodes=6", "train.validate_every=3", "train.ema=0.9"].map(String::from);
    let config = Config::parse("", &set).unwrap();
    let run = RunFolder::create(root.path(), &config, "data").unwrap();
    let mut trainer = Trainer::start(run.clone(), &config, &data(), counter(0.3)).unwrap();
    let (mut seen, mut average) = (Vec::new(), Average::new(0.9, &counter(0.3).state()));
    let mut newest = counter(0.3);
    trainer
        .run(&mut Script::default(), &AtomicBool::new(false), &mut |event| match event {
            Event::Validated { accuracy, .. } => seen.push(accuracy.unwrap()),
            Event::Step { report, .. } => {
                newest.x = report.loss;
                average.add(&newest.state());
                if seen.is_empty() {
                    assert!(!run.best().exists());
                }
            }
            _ => {}
        })
        .unwrap();
    let mean = average.model(&newest.state()).f64s("x").unwrap()[0];
    assert_eq!(seen[1], mean);
    assert_eq!(trainer.model().f64s("x").unwrap(), [mean]);
    assert_eq!(checkpoint::load(&run.last()).unwrap().1.f64s("x").unwrap(), [newest.x]);
}

#[test]
fn the_best_is_chosen_by_accuracy_or_by_nll() {
    let best = |accuracy, nll| Best { accuracy, nll: Some(nll), episode: 1 };
    let (sure, sharp) = (best(0.9, 0.8), best(0.8, 0.4));
    assert!(
        is_better(&sure, Some(&sharp), Select::Accuracy) && !is_better(&sharp, Some(&sure), Select::Accuracy)
    );
    assert!(is_better(&sharp, Some(&sure), Select::Nll) && !is_better(&sure, Some(&sharp), Select::Nll));
    assert!(is_better(&sharp, None, Select::Nll) && is_better(&sharp, None, Select::Accuracy));
}

/// A method that is dead from its third step on.
struct Dying(u64);

impl Method for Dying {
    fn shares(&self, _: &[EpisodeRows<'_>], _: Place) -> siskin_methods::Result<Vec<Share>> {
        Ok(vec![share(1.0)])
    }
    fn take(&mut self, _: Vec<Share>, _: Rates) -> siskin_methods::Result<StepReport> {
        self.0 += 1;
        Ok(StepReport { loss: 1.0, accuracy: None, taken: true, residual: None })
    }
    fn embed(&self, _: Images<'_>) -> siskin_methods::Result<Rows> {
        Ok(Rows::Features(Features { values: vec![], rows: 0, dim: 1 }))
    }
    fn predict(&self, task: &TaskRows<'_>) -> siskin_methods::Result<Prediction> {
        Ok(Prediction { probabilities: vec![], way: task.way, latent: None })
    }
    fn notice(&self) -> Option<Notice> {
        (self.0 >= 3).then_some(Notice::KernelIsIdentity)
    }
    fn state(&self) -> State {
        State::default()
    }
    fn load_state(&mut self, _: &State) -> siskin_methods::Result<()> {
        Ok(())
    }
}

#[test]
fn a_dead_kernel_is_told_once_after_five_steps() {
    let root = tempfile::tempdir().unwrap();
    let set = ["train.episodes=20", "train.validate_every=0", "train.ema=0.5"].map(String::from);
    let config = Config::parse("", &set).unwrap();
    let run = RunFolder::create(root.path(), &config, "data").unwrap();
    let mut trainer = Trainer::start(run, &config, &data(), Box::new(Dying(0))).unwrap();
    let mut notes = Vec::new();
    trainer
        .run(&mut Script::default(), &AtomicBool::new(false), &mut |event| {
            if let Event::Notice { episode, text } = event {
                notes.push((*episode, text.clone()));
            }
        })
        .unwrap();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].0 == 7 && notes[0].1.contains("the kernel is dead"), "{notes:?}");
}
