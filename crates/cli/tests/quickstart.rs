//! The first command of the README keeps its promise: probabilities that need no tuning.

use std::process::Command;

#[test]
fn the_quickstart_is_accurate_and_calibrated_without_tuning() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("quickstart");
    let output = Command::new(env!("CARGO_BIN_EXE_siskin"))
        .args(["quickstart", "--out"])
        .arg(&run)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // The line "raw  accuracy  ECE  MCE  NLL  Brier".
    let raw: Vec<f64> = text
        .lines()
        .find_map(|line| line.strip_prefix("raw "))
        .expect("a line of the raw measures")
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    let (accuracy, ece) = (raw[0], raw[1]);
    assert!(accuracy > 0.92, "accuracy {accuracy}");
    assert!(ece < 0.03, "raw ECE {ece}");
    assert!(run.join("report.html").exists());
}
