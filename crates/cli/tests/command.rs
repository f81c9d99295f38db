//! The command as a person meets it: alone, redirected, explained, and with what it writes for people to read.

mod support;

use std::path::Path;
use support::{ok, run, text};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

const SMALL: &str = "
data.train = \"glyphs\"
[episode]
way = 3
query = 3
[train]
episodes = 4
validate_every = 2
validate_episodes = 3
[test]
groups = 2
episodes = 4
query = 3
";

#[test]
fn alone_it_explains_itself_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let stdout = ok(&[], folder.path());
    assert!(stdout.contains("siskin quickstart") && stdout.contains("Usage:"), "{stdout}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn words_are_explained_and_pages_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(ok(&["explain", "ece"], at).contains("how far, on average, the confidence lies"));
    assert!(ok(&["explain", "conformal", "set"], at).contains("the classes that are possible"));
    assert!(ok(&["explain", "task"], at).starts_with("task: some labelled examples of each class"));
    assert!(ok(&["explain"], at).contains("  shot"));
    let unknown = run(&["explain", "shto"], at);
    assert!(!unknown.status.success() && text(&unknown.stderr).contains("Did you mean: shot?"));
    assert!(ok(&["man"], at).contains(".TH siskin 1"));
    ok(&["man", "--out", "pages"], at);
    let pages = names(&at.join("pages"));
    for page in ["siskin.1", "siskin-train.1", "siskin-data-episodes.1"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&["completions", shell], at).contains("siskin"));
    }
}

/// Every command that makes something to look at writes a page, and a list of episodes is a test.
#[test]
fn every_run_has_its_page_and_lists_of_episodes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL).unwrap();
    let stdout = ok(&["train", "small.toml", "--out", "my run"], at);
    assert!(stdout.contains("The first checkpoint is due at episode 4"), "{stdout}");
    assert!(stdout.contains("Next: siskin test 'my run'"), "{stdout}");
    let page = |path: &str| std::fs::read_to_string(at.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(page("my run/report.html").contains("validation accuracy, best at episode"));

    ok(&["test", "my run"], at);
    let tested = page("my run/report.html");
    for part in ["An episode", "As predicted", "how often the most probable class is the right one", "[cdkt]"]
    {
        assert!(tested.contains(part), "{part}");
    }
    assert!(!tested.contains("Tuned on validation") && !tested.contains("[dkt]"));
    ok(&["calibrate", "my run"], at);
    assert!(page("my run/report.html").contains("Tuned on validation"));

    // The list has the episodes of the protocol's first group, so the accuracy is that of the group.
    let list = [
        "data",
        "episodes",
        "--data",
        "glyphs",
        "--way",
        "3",
        "--query",
        "3",
        "--count",
        "4",
        "--out",
        "list.jsonl",
    ];
    ok(&list, at);
    let report: serde_json::Value = serde_json::from_str(&ok(&["test", "my run", "--json"], at)).unwrap();
    let listed = ok(&["test", "my run", "--episodes", "list.jsonl", "--json"], at);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((listed["episodes"].as_u64(), listed["groups"].as_array().unwrap().len()), (Some(4), 1));
    assert_eq!(listed["over_episodes"]["mean"], report["groups"][0]);

    // An exported model and a run answer the same list.
    ok(&["export", "my run", "--out", "model.safetensors"], at);
    let compare = ["compare", "--run", "a=my run", "--run", "b=model.safetensors", "--data", "glyphs"];
    let stdout =
        ok(&[&compare[..], &["--episodes", "list.jsonl", "--out", "c", "--format", "csv"]].concat(), at);
    let cells: Vec<Vec<&str>> = stdout.lines().map(|line| line.split(',').collect()).collect();
    let accuracy = cells[0].iter().position(|name| *name == "accuracy").unwrap();
    assert_eq!(cells[1][accuracy], cells[2][accuracy]);
    assert_eq!(cells[1][accuracy].parse::<f64>().unwrap(), listed["over_episodes"]["mean"].as_f64().unwrap());
    assert!(page("c/report.html").contains("how often the most probable class is the right one"));

    // A list of other data is refused.
    let text_of_list = std::fs::read_to_string(at.join("list.jsonl")).unwrap();
    std::fs::write(
        at.join("other.jsonl"),
        text_of_list.replacen("content_hash\":\"", "content_hash\":\"0", 1),
    )
    .unwrap();
    let refused = run(&["test", "my run", "--episodes", "other.jsonl"], at);
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("content hash"),
        "{}",
        text(&refused.stderr)
    );
}

/// Lists of tasks of several sizes have an accuracy, but no measures of probabilities.
#[test]
fn a_list_of_tasks_of_several_sizes_is_tested_and_not_calibrated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL).unwrap();
    ok(&["train", "small.toml", "--out", "run", "--set", "train.validate_every=0"], at);
    ok(
        &[
            "data", "episodes", "--data", "glyphs", "--way", "2-5", "--query", "2", "--count", "6", "--out",
            "l",
        ],
        at,
    );
    assert!(ok(&["test", "run", "--episodes", "l"], at).contains("2 to 5-way 1-shot"));
    let refused = run(&["calibrate", "run", "--episodes", "l"], at);
    assert!(text(&refused.stderr).contains("cannot be measured together"), "{}", text(&refused.stderr));
}

#[test]
fn a_split_without_test_classes_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for class in 0..5 {
        std::fs::create_dir_all(at.join(format!("d/c{class}"))).unwrap();
        std::fs::write(at.join(format!("d/c{class}/1.pgm")), b"P2 2 2 255 0 1 2 3").unwrap();
    }
    let warned =
        |make: &str| text(&run(&["data", "split", "--data", "d", "--make", make, "--out", "s"], at).stderr);
    assert!(warned("3,2").contains("no class is left for the test"), "{}", warned("3,2"));
    assert!(warned("2,2").contains("one class alone is left for the test"), "{}", warned("2,2"));
    assert!(warned("3,0").contains("no class is left for validation"));
    let page = run(&["adapt", "d", "--out", "it's.task"], at);
    assert!(text(&page.stdout).contains(r"siskin predict 'it'\''s.task'"), "{}", text(&page.stdout));
    assert!(at.join("it's.report.html").exists());
}
