//! Whole small runs of CDKT on the embedded glyphs: stopped and resumed, on one thread and on two, by every objective.

use siskin_data::{Cache, OnBadImage, Opener, Silent};
use siskin_train::config::Config;
use siskin_train::run::{Model, Run};
use siskin_train::testing;
use siskin_train::trainer::{Event, Outcome};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const SMALL: [&str; 8] = [
    "episode.way=3",
    "episode.query=3",
    "train.episodes=6",
    "train.validate_every=4",
    "train.validate_episodes=3",
    "train.save_every=2",
    "test.batches=2",
    "test.episodes=3",
];

fn config(more: &[&str]) -> Config {
    let settings: Vec<String> = SMALL.iter().chain(more).map(|s| s.to_string()).collect();
    Config::parse("", &settings).unwrap()
}

fn with_opener<T>(work: impl FnOnce(&Opener<'_>) -> T) -> T {
    let cache = Cache::new(std::env::temp_dir());
    work(&Opener { cache: &cache, on_bad: OnBadImage::Error, shorter_side: None, progress: &Silent })
}

/// Trains in `folder`, stopping once after `stop_after` steps and resuming.
fn train(folder: &Path, config: &Config, stop_after: Option<u64>) {
    let stop = AtomicBool::new(false);
    let mut run = with_opener(|opener| Run::start(folder, config.clone(), opener)).unwrap();
    let outcome = run.train(&stop, &mut |event| {
        if let (Event::Step { episode, .. }, Some(after)) = (event, stop_after) {
            stop.store(*episode == after, Ordering::Relaxed);
        }
    });
    assert_eq!(outcome.unwrap() == Outcome::Stopped, stop_after.is_some());
    if stop_after.is_some() {
        let mut run = with_opener(|opener| Run::resume(folder, opener)).unwrap();
        assert_eq!(run.train(&AtomicBool::new(false), &mut |_| {}).unwrap(), Outcome::Finished);
    }
}

fn assert_same_run(a: &Path, b: &Path) {
    for file in ["last.safetensors", "best.safetensors", "metrics.jsonl"] {
        assert!(
            std::fs::read(a.join(file)).unwrap() == std::fs::read(b.join(file)).unwrap(),
            "{file} differs"
        );
    }
}

#[test]
fn a_stopped_and_resumed_run_has_the_bytes_of_one_that_never_stopped() {
    let root = tempfile::tempdir().unwrap();
    for more in [&[][..], &["cdkt.objective=released", "cdkt.inference=paper", "cdkt.steps=2"][..]] {
        let name = |part: &str| root.path().join(format!("{}{part}", more.len()));
        train(&name("whole"), &config(more), None);
        for after in [1, 4] {
            let parts = name(&after.to_string());
            train(&parts, &config(more), Some(after));
            assert_same_run(&name("whole"), &parts);
        }
    }
}

#[test]
fn one_thread_and_two_give_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| train(&root.path().join(threads.to_string()), &config(&[]), None));
    }
    assert_same_run(&root.path().join("1"), &root.path().join("2"));
}

#[test]
fn every_objective_trains_and_tests() {
    let root = tempfile::tempdir().unwrap();
    for (objective, inference) in [
        ("elbo", "paper"),
        ("elbo", "joint"),
        ("elbo", "collapsed"),
        ("direct", "collapsed"),
        ("direct", "natural"),
        ("predictive", "paper"),
        ("predictive", "joint"),
        ("predictive", "collapsed"),
        ("released", "paper"),
    ] {
        let folder = root.path().join(format!("{objective}-{inference}"));
        let (objective, inference) =
            (format!("cdkt.objective={objective}"), format!("cdkt.inference={inference}"));
        let config =
            config(&[&objective, &inference, "cdkt.steps=2", "train.episodes=2", "cdkt.learn_tau=true"]);
        train(&folder, &config, None);
        let lines = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
        assert!(
            lines.contains("\"skipped\":0") && !lines.contains("null"),
            "{objective} {inference}: {lines}"
        );
        let model = with_opener(|opener| Model::open(&folder, &[], opener)).unwrap();
        let answers = testing::answers(&model, siskin_data::SplitName::Test, 2).unwrap();
        let report = testing::report(&model, &answers).unwrap();
        assert_eq!((report.episodes, report.batches.len()), (6, 2));
    }
}

#[test]
fn a_shared_output_scale_is_tested_with_any_number_of_classes_and_one_per_class_says_why_not() {
    let root = tempfile::tempdir().unwrap();
    for scale in ["shared", "per-class"] {
        let folder = root.path().join(scale);
        train(&folder, &config(&[&format!("cdkt.output_scale={scale}"), "train.episodes=1"]), None);
        let settings = ["test.way=4".to_string(), "test.shot=2".to_string()];
        let model = with_opener(|opener| Model::open(&folder, &settings, opener)).unwrap();
        let answers = testing::answers(&model, siskin_data::SplitName::Test, 1);
        match scale {
            "shared" => assert_eq!(answers.unwrap()[0].prediction.way, 4),
            _ => assert!(answers.unwrap_err().to_string().contains("output_scale = \"shared\"")),
        }
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused_before_anything_is_written() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("run");
    let config = config(&["cdkt.objective=predictive", "cdkt.inference=natural"]);
    let error = with_opener(|opener| Run::start(&folder, config, opener)).err().unwrap().to_string();
    assert!(error.contains("does not go with"), "{error}");
    assert!(!folder.exists());
}
