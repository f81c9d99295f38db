//! Small runs on the embedded glyphs, shared by the tests.

use siskin_data::{Cache, OnBadImage, Opener, Silent};
use siskin_train::config::Config;
use siskin_train::run::Run;
use siskin_train::trainer::{Event, Outcome};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Three classes, six episodes.
const SMALL: [&str; 8] = [
    "episode.way=3",
    "episode.query=3",
    "train.episodes=6",
    "train.validate_every=4",
    "train.validate_episodes=3",
    "train.save_every=2",
    "test.groups=2",
    "test.episodes=3",
];

/// The small config with more settings.
pub(crate) fn config(more: &[&str]) -> Config {
    let settings: Vec<String> = SMALL.iter().chain(more).map(|s| s.to_string()).collect();
    Config::parse("", &settings).unwrap()
}

/// Opens data without a cache.
pub(crate) fn with_opener<T>(work: impl FnOnce(&Opener<'_>) -> T) -> T {
    let cache = Cache::new(std::env::temp_dir());
    work(&Opener { cache: &cache, on_bad: OnBadImage::Error, shorter_side: None, progress: &Silent })
}

/// Trains in `folder`, stopping once after `stop_after` steps and resuming.
pub(crate) fn train(folder: &Path, config: &Config, stop_after: Option<u64>) {
    let stop = AtomicBool::new(false);
    let mut run = with_opener(|opener| Run::start(folder, config.clone(), opener)).unwrap();
    let outcome = run.train(&stop, &mut |event| {
        if let (Event::Step { episode, .. }, Some(after)) = (event, stop_after) {
            stop.store(*episode == after, Ordering::Relaxed);
        }
    });
    assert_eq!(outcome.unwrap() == Outcome::Stopped, stop_after.is_some());
    // A run holds its folder as long as it lives.
    drop(run);
    if stop_after.is_some() {
        let mut run = with_opener(|opener| Run::resume(folder, opener)).unwrap();
        assert_eq!(run.train(&AtomicBool::new(false), &mut |_| {}).unwrap(), Outcome::Finished);
    }
}

/// Two run folders hold the same bytes.
pub(crate) fn assert_same_run(a: &Path, b: &Path) {
    for file in ["last.safetensors", "best.safetensors", "metrics.jsonl"] {
        assert!(
            std::fs::read(a.join(file)).unwrap() == std::fs::read(b.join(file)).unwrap(),
            "{file} differs"
        );
    }
}
