//! What would go wrong in silence: options without effect, other data under the same name, steps that run away.

use crate::drawings::drawing;
use crate::support::{ok, run, text};
use std::path::Path;

/// Six classes of four drawings, a split of them, and a small training on them.
fn prepared(at: &Path) {
    for class in 0..6 {
        let of_class = at.join(format!("drawings/c{class}"));
        std::fs::create_dir_all(&of_class).unwrap();
        for number in 0..4 {
            let image = drawing(class % 4, 5 * (class / 4) + number);
            std::fs::write(of_class.join(format!("{number}.pgm")), image).unwrap();
        }
    }
    let split = r#"{"train": ["c0", "c1"], "val": ["c2", "c3"], "test": ["c4", "c5"]}"#;
    std::fs::write(at.join("drawings/splits.json"), split).unwrap();
    let config = "
[data]
train = \"drawings\"
[episode]
way = 2
query = 2
[train]
episodes = 2
validate_every = 0
[test]
groups = 1
episodes = 2
query = 2
";
    std::fs::write(at.join("small.toml"), config).unwrap();
}

/// The command must fail and say this.
fn refused(args: &[&str], at: &Path, says: &str) {
    let output = run(args, at);
    let stdout = text(&output.stderr);
    assert!(!output.status.success() && stdout.contains(says), "{args:?}: {stdout}");
}

#[test]
fn other_data_under_the_same_name_are_noticed_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepared(at);
    ok(&["train", "small.toml", "--out", "run"], at);
    let commands: [&[&str]; 3] =
        [&["test", "run"], &["calibrate", "run"], &["export", "run", "--out", "model.safetensors"]];
    ok(commands[0], at);
    ok(commands[1], at);
    // One image of a test class becomes another.
    std::fs::write(at.join("drawings/c4/0.pgm"), drawing(2, 9)).unwrap();
    for command in commands {
        refused(command, at, "it was trained on data");
        // Nor does a setting that names no data make them the same.
        let changed: Vec<&str> = command.iter().copied().chain(["--set", "data.augment=true"]).collect();
        refused(&changed, at, "it was trained on data");
    }
    refused(&["train", "--resume", "run"], at, "data");
    assert!(!at.join("model.safetensors").exists());
}

#[test]
fn options_without_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepared(at);
    let train = |set: &[&'static str]| -> Vec<&'static str> {
        let set = set.iter().flat_map(|set| ["--set", set]);
        ["train", "small.toml", "--out", "run"].into_iter().chain(set).collect()
    };
    let no_effect = "has no effect";
    refused(&train(&["method=maml", "cdkt.tau=1.0"]), at, no_effect);
    refused(&train(&["data.transfer=glyphs", "data.validation_domains=1"]), at, no_effect);
    refused(&train(&["method=maml", "backbone.precision=bf16"]), at, "maml.order");
    refused(&train(&["method=abml", "backbone.precision=bf16"]), at, "abml.order");
    assert!(!at.join("run").exists());

    std::fs::create_dir(at.join("old")).unwrap();
    std::fs::write(at.join("old/last.safetensors"), "").unwrap();
    refused(&["quickstart", "--out", "old", "--set", "train.episodes=1"], at, no_effect);
}

#[test]
fn particles_that_run_away_are_an_error_in_training_and_at_test() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepared(at);
    for method in ["bmaml", "bmaml-chaser"] {
        let set = [
            format!("method={method}"),
            format!("{method}.inner_steps=50"),
            format!("{method}.test_steps=50"),
            format!("{method}.inner_learning_rate=1e6"),
        ];
        let set = set.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["train", "small.toml", "--out", method].into_iter().chain(set).collect();
        // Two skipped steps are told, three in a row stop a run.
        let stdout = ok(&args, at);
        assert!(
            stdout.contains("2 steps were skipped because a gradient was not finite"),
            "{method}: {stdout}"
        );
        refused(&["test", method], at, "not finite");
        let longer = [&args[..3], &["more"], &args[4..], &["--set", "train.episodes=3"]].concat();
        refused(&longer, at, "3 steps in a row gave a non-finite gradient");
        std::fs::remove_dir_all(at.join("more")).unwrap();
    }
}
