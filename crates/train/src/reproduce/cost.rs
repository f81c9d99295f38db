//! What a plan costs: episodes, and hours by a short timing on this machine.

use super::plan::{Plan, PlannedRun};
use super::scenario::images;
use super::state::State;
use crate::compare::same_test;
use crate::config::{Config, TestConfig};
use crate::error::Result;
use crate::phase::{Phase, PhaseKind, phases};
use crate::run::device;
use crate::schedule::rates;
use crate::synthetic::Drawn;
use siskin_cpu::{Seconds, time};
use siskin_methods::{Method, Purpose, TaskRows, TrainsOn};

/// Base classes of the timing: those of mini-ImageNet. Their number hardly matters.
const BASE_CLASSES: usize = 64;
/// A step that takes longer is not repeated.
const LONG: f64 = 1.0;

/// Seconds of the parts of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// One training episode (or batch).
    pub train: f64,
    /// What a method needs of one image at test.
    embed: f64,
    /// The answer to one test episode.
    predict: f64,
}

/// The parts of a training as timed on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// By the clock on the wall, as busy as the machine is.
    pub wall: Times,
    /// On all cores together, which other programs do not change; wall time where the system does not tell.
    pub cpu: Times,
}

impl Timing {
    /// Times a few steps of the method of `config` on synthetic images.
    pub fn of(config: &Config) -> Result<Timing> {
        let mut method = fresh_method(config)?;
        let train = train(method.as_mut(), config)?;
        let [embed, predict] = answers(method.as_ref(), config)?;
        // Episodes of a test are answered side by side, one on each thread.
        let threads = rayon::current_num_threads() as f64;
        let wall = Times { train: train.wall, embed: embed.wall, predict: predict.wall / threads };
        let cpu = Times { train: train.busy(), embed: embed.busy(), predict: predict.busy() };
        Ok(Timing { wall, cpu })
    }
}

/// A fresh method of `config`.
fn fresh_method(config: &Config) -> Result<Box<dyn Method>> {
    Ok(config.model(BASE_CLASSES, None).build(device(config)?)?)
}

/// What is left to do of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Training episodes (or batches) left.
    pub episodes: u64,
    /// Seconds of wall time left, validations and test included.
    pub wall: f64,
    /// The same in CPU time.
    pub cpu: f64,
}

impl Plan {
    /// Training episodes that a run has left.
    pub fn episodes_left(&self, run: &PlannedRun) -> Result<u64> {
        let whole = run.config.train.episodes;
        if !self.is_trained_here(run)? {
            return Ok(0);
        }
        Ok(match self.training_state(run)? {
            State::Stopped { done, .. } => whole.saturating_sub(done),
            State::Trained { .. } => 0,
            _ => whole,
        })
    }

    /// What is left of a run, by a timing of its config.
    pub fn cost(&self, run: &PlannedRun, timing: &Timing) -> Result<Cost> {
        cost(&run.config, self.episodes_left(run)?, &run.test()?, timing)
    }
}

/// What is left of a training and its test by `config`, where so many episodes are left.
fn cost(config: &Config, episodes: u64, test: &TestConfig, timing: &Timing) -> Result<Cost> {
    let (train, e) = (&config.train, &config.episode);
    let begin = (train.episodes - episodes.min(train.episodes)).max(train.validate_from);
    let validations = match train.validate_every() {
        0 => 0,
        every => train.episodes / every - (begin / every).min(train.episodes / every),
    };
    let (val_images, test_images) =
        images(config.data.transfer.as_deref().unwrap_or(&config.data.train)).unwrap_or((u64::MAX, u64::MAX));
    let each = test.way.unwrap_or(e.way) * (test.shot.unwrap_or(e.shot) + test.query);
    let seconds = |times: &Times| {
        let answers = |episodes: u64, images_of_each: usize, most: u64| {
            let images = (episodes * images_of_each as u64).min(most);
            episodes as f64 * times.predict + images as f64 * times.embed
        };
        let validation = answers(train.validate_episodes, e.way * (e.shot + e.query), val_images);
        let tuning = answers(test.episodes, each, val_images);
        let tests = answers(test.groups * test.episodes, each, test_images);
        episodes as f64 * times.train + validations as f64 * validation + tuning + tests
    };
    Ok(Cost { episodes, wall: seconds(&timing.wall), cpu: seconds(&timing.cpu) })
}

/// One phase of a training before it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseCost {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// How long an episode takes.
    pub timing: Timing,
    /// What the phase takes.
    pub cost: Cost,
}

/// What a training by `config` takes on this machine, phase by phase, and its test with the last one. Fits of scalars are not
/// timed and not listed.
pub fn predict(config: &Config) -> Result<Vec<PhaseCost>> {
    let all = phases(config)?;
    for phase in all.iter().filter(|phase| phase.kind == PhaseKind::FitScalars) {
        phase.check(fresh_method(&phase.config)?.as_ref())?;
    }
    let trained: Vec<&Phase> = all.iter().filter(|phase| phase.kind == PhaseKind::Train).collect();
    let test = same_test(config)?;
    let none = TestConfig { groups: 0, episodes: 0, ..test.clone() };
    let of = |(index, phase): (usize, &&Phase)| {
        let timing = Timing::of(&phase.config)?;
        let test = if index + 1 == trained.len() { &test } else { &none };
        let cost = cost(&phase.config, phase.length(), test, &timing)?;
        Ok(PhaseCost { name: phase.name.clone(), timing, cost })
    };
    trained.iter().enumerate().map(of).collect()
}

/// The time of `work`: of the first round where it is long, else the shorter of two more; divided by `parts`.
fn timed(parts: usize, mut work: impl FnMut() -> Result<()> + Send) -> Result<Seconds> {
    let mut once = || {
        // Inside the pool, as training and tests are.
        let (done, seconds) = time(|| rayon::scope(|_| work()));
        done.map(|()| seconds)
    };
    let mut found = once()?;
    if found.wall < LONG {
        let (a, b) = (once()?, once()?);
        found = if a.wall < b.wall { a } else { b };
    }
    let parts = parts as f64;
    Ok(Seconds { wall: found.wall / parts, cpu: found.cpu.map(|cpu| cpu.max(0.0) / parts) })
}

fn train(method: &mut dyn Method, config: &Config) -> Result<Seconds> {
    let (e, image) = (&config.episode, image(config));
    let (drawn, way, count) = match method.trains_on() {
        TrainsOn::Episodes => {
            (Drawn::new(e.way, e.shot, e.query, image), e.way, config.train.episodes_per_step as usize)
        }
        TrainsOn::Batches { size } => {
            let classes = size.min(BASE_CLASSES);
            (Drawn::new(classes, 0, size.div_ceil(classes), image), BASE_CLASSES, 1)
        }
    };
    let episode = siskin_methods::EpisodeRows { way, ..drawn.episode()? };
    let episodes = vec![episode; count];
    let rates = rates(&config.train, 0);
    timed(count, || {
        method.train_step(&episodes, rates)?;
        Ok(())
    })
}

/// Of what a method needs of one image, and of the answer to one episode.
fn answers(method: &dyn Method, config: &Config) -> Result<[Seconds; 2]> {
    let way = config.test.way.unwrap_or(config.episode.way);
    let shot = config.test.shot.unwrap_or(config.episode.shot);
    let drawn = Drawn::new(way, shot, config.test.query, image(config));
    let episode = drawn.episode()?;
    let embed = timed(drawn.labels.len(), || {
        method.embed(episode.images)?;
        Ok(())
    })?;
    let rows = method.embed(episode.images)?;
    let (support, query) = (rows.select(&drawn.support), rows.select(&drawn.query));
    let labels: Vec<usize> = drawn.support.iter().map(|&row| drawn.labels[row]).collect();
    let task =
        TaskRows { support: &support, labels: &labels, way, query: &query, index: 0, purpose: Purpose::Test };
    let predict = timed(1, || {
        method.predict(&task)?;
        Ok(())
    })?;
    Ok([embed, predict])
}

/// Channels, height and width of what the network sees.
fn image(config: &Config) -> [usize; 3] {
    let side = config.data.image_size as usize;
    [config.backbone.name.channels(), side, side]
}
