//! `siskin fit` and `siskin predict` on tables of vectors: classes, weights, shares, label sets, mistakes.

use crate::support::{ok, run, text};
use serde_json::Value;
use std::path::Path;

/// A .npy file.
pub(crate) fn npy(path: &Path, kind: &str, shape: &str, values: &[u8]) {
    let head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (head.len() as u16).to_le_bytes();
    std::fs::write(path, [b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), values].concat()).unwrap();
}

/// A .npy file of floats, [rows, cols].
pub(crate) fn floats(path: &Path, cols: usize, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy(path, "<f4", &format!("({}, {cols})", values.len() / cols), &bytes);
}

/// Points on a grid; three of four are of class 0, which lies to the left.
fn overlapping(at: &Path) {
    let x: Vec<f32> = (0..80)
        .flat_map(|i| [(i * 7 % 20) as f32 + if i % 4 == 3 { 8.0 } else { 0.0 }, (i % 3) as f32])
        .collect();
    let y: Vec<u8> = (0..80).map(|i| u8::from(i % 4 == 3)).collect();
    floats(&at.join("x.npy"), 2, &x);
    npy(&at.join("x_labels.npy"), "|u1", "(80,)", &y);
    std::fs::write(at.join("x_classes.txt"), "often\nseldom\n").unwrap();
    floats(&at.join("new.npy"), 2, &[0.0, 1.0, 15.0, 1.0, 27.0, 1.0, f32::NAN, 1.0]);
}

fn rows(args: &[&str], at: &Path) -> Vec<Value> {
    let lines = ok(&[args, &["--format", "jsonl"]].concat(), at);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_table_is_fitted_and_asked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    overlapping(at);
    let said = ok(&["fit", "x.npy"], at);
    assert!(said.contains("80 rows of 2 numbers, 2 classes") && said.contains("seldom  20"), "{said}");
    assert!(said.contains("Rows that were left out: "), "{said}");
    assert!(said.contains("Next: siskin predict x.gp NEW.npy"), "{said}");
    let plain = rows(&["predict", "x.gp", "new.npy"], at);
    assert_eq!((&plain[0]["label"], &plain[2]["label"]), (&"often".into(), &"seldom".into()));
    assert!(plain[3]["error"].as_str().unwrap().contains("not finite"));
    let seldom = |rows: &[Value]| rows[1]["probabilities"]["seldom"].as_f64().unwrap();
    let uniform = rows(&["predict", "x.gp", "new.npy", "--class-prior", "uniform"], at);
    assert!(seldom(&uniform) > seldom(&plain) + 0.05, "{} {}", seldom(&uniform), seldom(&plain));
    assert_eq!(seldom(&rows(&["predict", "x.gp", "new.npy", "--class-prior", "3,3"], at)), seldom(&uniform));
    ok(&["fit", "x.npy", "--class-weight", "balanced", "--out", "even.gp"], at);
    assert!(seldom(&rows(&["predict", "even.gp", "new.npy"], at)) > seldom(&plain) + 0.05);
    assert!(
        !rows(&["predict", "x.gp", "new.npy", "--by-class"], at)[1]["set"].as_array().unwrap().is_empty()
    );
    assert!(ok(&["predict", "x.gp", "new.npy", "--format", "csv"], at).contains("p often,p seldom"));
    // The same bytes again; weights of 1 are no weights.
    let bytes = std::fs::read(at.join("x.gp")).unwrap();
    ok(&["fit", "x.npy", "--threads", "1"], at);
    assert!(std::fs::read(at.join("x.gp")).unwrap() == bytes, "other bytes");
    npy(&at.join("once.npy"), "<f4", "(80,)", &1f32.to_le_bytes().repeat(80));
    ok(&["fit", "x.npy", "--weights", "once.npy", "--out", "w.gp"], at);
    assert_eq!(seldom(&rows(&["predict", "w.gp", "new.npy"], at)), seldom(&plain));
    let few = ok(&["fit", "x.npy", "--inducing", "20", "--kernel", "rbf", "--out", "few.gp"], at);
    assert!(few.contains("inducing points") && few.contains("Kernel rbf"), "{few}");
    assert_eq!(rows(&["predict", "few.gp", "new.npy"], at)[2]["label"], "seldom");
    // The same bytes at any number of threads by inducing points too.
    let bytes = std::fs::read(at.join("few.gp")).unwrap();
    let again = ["fit", "x.npy", "--inducing", "20", "--kernel", "rbf", "--out", "few.gp", "--threads", "3"];
    ok(&again, at);
    assert!(std::fs::read(at.join("few.gp")).unwrap() == bytes, "other bytes");
    for flags in [&["--likelihood", "gaussian"][..], &["--inference", "collapsed", "--learn-points", "40"]] {
        let said = ok(&[&["fit", "x.npy", "--out", "other.gp"], flags].concat(), at);
        assert!(said.contains("80 rows of 2 numbers"), "{said}");
        assert_ne!(seldom(&rows(&["predict", "other.gp", "new.npy"], at)), seldom(&plain), "{flags:?}");
    }
}

#[test]
fn a_classifier_of_a_table_says_which_rows_to_label_next() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    overlapping(at);
    ok(&["fit", "x.npy"], at);
    ok(&["fit", "x.npy", "--inducing", "20", "--out", "few.gp"], at);
    for (classifier, advice) in [("x.gp", "label"), ("few.gp", "this one has inducing points")] {
        let output = run(&["suggest", classifier, "new.npy", "-n", "2"], at);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        // A head and two rows.
        assert_eq!(said.lines().count(), 3, "{said}");
        assert!(said.starts_with("label next") && said.contains("new.npy["), "{said}");
        let told = text(&output.stderr);
        assert!(told.contains(advice) && told.contains("left out: new.npy[3]"), "{told}");
    }
}

#[test]
fn a_table_of_labels_gives_label_sets() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let x: Vec<f32> = (0..60).flat_map(|i| [(i % 10) as f32, (i / 10) as f32]).collect();
    let labels: Vec<u8> = (0..60).flat_map(|i| [u8::from(i % 10 > 4), u8::from(i / 10 > 2)]).collect();
    floats(&at.join("x.npy"), 2, &x);
    npy(&at.join("labels.npy"), "|b1", "(60, 2)", &labels);
    let said = ok(&["fit", "x.npy"], at);
    assert!(said.contains("60 rows of 2 numbers with label sets of 2 labels"), "{said}");
    floats(&at.join("new.npy"), 2, &[0.0, 0.0, 9.0, 5.0]);
    let found = rows(&["predict", "x.gp", "new.npy"], at);
    assert_eq!(
        (&found[0]["set"], &found[1]["set"]),
        (&serde_json::json!([]), &serde_json::json!(["0", "1"]))
    );
    let refused = run(&["fit", "x.npy", "--class-weight", "balanced"], at);
    assert!(text(&refused.stderr).contains("label sets have no weights"), "{}", text(&refused.stderr));
}

#[test]
fn mistakes_with_tables_are_answered_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    overlapping(at);
    ok(&["fit", "x.npy"], at);
    ok(&["adapt", "x.npy"], at);
    let bytes = std::fs::read(at.join("x.gp")).unwrap();
    std::fs::write(at.join("cut.gp"), &bytes[..bytes.len() - 9]).unwrap();
    let damaged = [&bytes[..bytes.len() - 9], &[1; 9]].concat();
    std::fs::write(at.join("damaged.gp"), damaged).unwrap();
    std::fs::write(at.join("photo.jpg"), "no vectors").unwrap();
    for (args, said) in [
        (&["fit", "x.npy", "--kernel", "rbg"][..], "kernel \"rbg\" is not known; there are: auto,"),
        (&["fit", "x.npy", "--ard"], "--kernel"),
        (&["fit", "x.npy", "--ard", "--kernel", "auto"], "need a kernel by its name"),
        (&["fit", "x.npy", "--likelihood", "probit"], "logistic-softmax"),
        (&["fit", "x.npy", "--likelihood", "gaussian", "--inducing", "9"], "inducing"),
        (&["fit", "photo.jpg"], "siskin adapt FOLDER"),
        (&["fit", "new.npy"], "neither new_labels.npy nor labels.npy is beside it"),
        (&["fit", "x.npy", "--weights", "new.npy"], "its shape is [4, 2], expected [rows]"),
        (&["fit", "x.npy", "--weights", "x_labels.npy", "--class-weight", "even"], "balanced"),
        (&["predict", "x.gp", "new.npy", "--explain"], "make a task: siskin adapt VECTORS"),
        (&["predict", "x.gp", "new.npy", "--class-prior", "1"], "class prior"),
        (&["predict", "x.gp", "new.npy", "--class-prior", "a,b"], "neither `uniform` nor 2 numbers"),
        (&["predict", "x.task", "new.npy", "--by-class"], "siskin fit wrote"),
        (&["predict", "damaged.gp", "new.npy"], "it is damaged"),
        (&["predict", "cut.gp", "new.npy"], "cut.gp"),
    ] {
        let output = run(args, at);
        assert!(!output.status.success(), "{args:?}");
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
    }
}
