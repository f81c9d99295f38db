//! `siskin compare` as a person meets it: trained once, tested together, stopped and given again, one method failing.

mod support;

use support::{run, text};

const SMALL: &str = "
[episode]
way = 2
query = 3
[train]
episodes = 3
validate_every = 2
validate_episodes = 2
[test]
groups = 2
episodes = 4
query = 5
";

fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    folder
}

const COMPARE: [&str; 6] = ["compare", "small.toml", "--methods", "dkt,cdkt", "--out", "out"];

#[test]
fn methods_are_trained_once_and_tested_on_the_same_episodes() {
    let folder = prepared();
    let at = folder.path();
    let first = run(&COMPARE, at);
    let stdout = text(&first.stdout);
    assert!(first.status.success(), "{stdout}{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("dkt: training, 0 of 3 episodes done."), "{stdout}");
    assert!(
        stdout.contains("2-way 1-shot, 5 queries per class, 8 episodes in 2 groups, on glyphs"),
        "{stdout}"
    );
    assert!(stdout.contains("difference to cdkt"), "cdkt is the reference of itself: {stdout}");

    let read = |name: &str| std::fs::read_to_string(at.join("out").join(name)).unwrap();
    let csv = read("compare.csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["method", "dkt", "cdkt"]);
    let column = |name: &str| rows[0].iter().position(|cell| *cell == name).unwrap();
    // The accuracy of a row is that of `siskin test`, and the difference of two rows that of their accuracies.
    let number = |row: usize, name: &str| rows[row][column(name)].parse::<f64>().unwrap();
    let tested = run(&["test", "out/dkt", "--json"], at);
    let report: serde_json::Value = serde_json::from_slice(&tested.stdout).unwrap();
    assert_eq!(number(1, "accuracy"), report["over_groups"]["mean"].as_f64().unwrap());
    let apart = number(1, "accuracy") - number(2, "accuracy");
    assert!((number(1, "accuracy_difference") - apart).abs() < 1e-12);
    assert_eq!(rows[2][column("accuracy_difference")], "", "no difference to itself");
    let calibrated = run(&["calibrate", "out/dkt", "--json"], at);
    let measures: serde_json::Value = serde_json::from_slice(&calibrated.stdout).unwrap();
    for (cell, part, measure) in
        [("raw_ece", "raw", "ece"), ("tuned_mce", "tuned", "mce"), ("tuned_nll", "tuned", "nll")]
    {
        assert_eq!(number(1, cell), measures[part][measure].as_f64().unwrap(), "{cell}");
    }
    let low = number(1, "raw_ece_difference_low");
    assert!(low <= number(1, "raw_ece_difference_high"));

    let html = read("report.html");
    for name in ["dkt", "cdkt"] {
        let diagram = format!("Reliability diagrams: {name}\"");
        assert!(html.matches(&diagram).count() >= 2, "{name}: raw and tuned, each in a chart of its own");
    }
    assert!(read("compare.md").contains("| dkt |"));
    serde_json::from_str::<serde_json::Value>(&read("compare.json")).unwrap();

    // As if killed before the first save: only a best model is there.
    std::fs::remove_file(at.join("out/dkt/last.safetensors")).unwrap();
    let again = text(&run(&COMPARE, at).stderr);
    assert!(
        again.contains("\ndkt: training, 0 of 3") || again.starts_with("dkt: training, 0 of 3"),
        "{again}"
    );
    assert!(again.contains("cdkt: already trained"), "{again}");
    assert_eq!(read("compare.csv"), csv, "given again, the same figures");

    let other = run(
        &[
            "compare",
            "--run",
            "a=out/dkt",
            "--run",
            "out/cdkt",
            "--set",
            "test.way=3",
            "--out",
            "b",
            "--format",
            "csv",
        ],
        at,
    );
    let stdout = text(&other.stdout);
    assert!(
        other.status.success() && stdout.starts_with("method,") && stdout.contains("\na,"),
        "{stdout}{}",
        text(&other.stderr)
    );
}

#[test]
fn one_method_that_fails_is_reported_and_the_others_go_on() {
    let folder = prepared();
    let at = folder.path();
    let train = run(&["train", "small.toml", "--method", "dkt", "--set", "seed=9", "--out", "out/dkt"], at);
    assert!(train.status.success(), "{}", text(&train.stderr));
    let output = run(&COMPARE, at);
    let (stdout, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success(), "a failure shows in the exit code");
    assert!(errors.contains("seed is 9, now 0") && errors.contains("1 of 2 methods failed"), "{errors}");
    assert!(stdout.contains("\ncdkt ") && stdout.contains("dkt failed: out/dkt holds a run"), "{stdout}");
    let html = std::fs::read_to_string(at.join("out/report.html")).unwrap();
    assert!(html.contains("What failed") && html.contains("seed is 9"), "the page says it too");
}

#[test]
fn mistakes_are_named_before_anything_is_trained() {
    let folder = prepared();
    let at = folder.path();
    for (args, says) in [
        (&["compare"][..], "CONFIG"),
        (&["compare", "small.toml"][..], "Give --methods"),
        (&["compare", "small.toml", "--methods", "dkt,nonsense"][..], "nonsense"),
        (
            &["compare", "small.toml", "--methods", "dkt", "--reference", "ove"][..],
            "not one of those compared",
        ),
        (&["compare", "small.toml", "--methods", "dkt,dkt"][..], "dkt is there twice"),
        (&["compare", "--run", "x", "--set", "seed=3"][..], "only `test.` keys"),
        (&["compare", "--run", "x"][..], "x holds no run"),
    ] {
        let output = run(args, at);
        assert!(!output.status.success(), "{args:?} should fail");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
    assert!(!at.join("runs").exists(), "nothing was trained");
}
