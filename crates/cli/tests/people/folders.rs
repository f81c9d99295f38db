//! From folders of images, or files of vectors, to answers.

use crate::drawings::{drawing, letters};
use crate::support::{ok, run, siskin, text};
use crate::tables::{floats, npy};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

#[test]
fn a_folder_becomes_a_task_and_a_task_names_new_drawings() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    letters(at);
    let stdout = ok(&["adapt", "letters"], at);
    assert!(stdout.contains("4 classes, 7 examples") && stdout.contains("letters.task"), "{stdout}");
    assert!(stdout.contains("rest on the model's validation classes"), "{stdout}");

    // Never none of these: who is whom is asked, not whether a drawing is strange.
    let predict = ["predict", "letters.task", "new", "--format", "jsonl", "--explain", "2", "--abstain", "0"];
    let lines = ok(&predict, at);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 5);
    for row in &rows {
        let path = row["path"].as_str().unwrap();
        if path.ends_with("broken.png") {
            assert!(row["error"].as_str().unwrap().contains("no image that can be read"), "{row}");
            continue;
        }
        assert_eq!(format!("new/{}.pgm", row["label"].as_str().unwrap()), path);
        let sum: f64 = row["probabilities"].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        assert_eq!(row["nearest"][0]["class"], row["label"]);
        assert!(
            row["entropy"].is_f64() && row["latent_variance"].is_f64() && row["none_of_these"].is_boolean()
        );
    }

    let table = ok(&["predict", "letters.task", "new", "--explain"], at);
    assert!(table.contains("error: the content is no image") && table.contains("kernel "), "{table}");
    let csv = ok(
        &["predict", "letters.task", "new/ring.pgm", "new/broken.png", "--format", "csv", "--abstain", "0"],
        at,
    );
    let mut csv = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(csv.headers().unwrap().len(), 9 + 4);
    let cells: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!((&cells[0][2], &cells[0][1]), ("ring", ""));
    assert!(!cells[1][1].is_empty() && cells[1][2].is_empty());

    let mut child = siskin(&["predict", "letters.task", "-", "--format", "jsonl", "--abstain", "0"], at)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"new/times.pgm\nnew/gone.png\n").unwrap();
    let piped = text(&child.wait_with_output().unwrap().stdout);
    assert!(piped.lines().count() == 2 && piped.contains("\"label\":\"times\""), "{piped}");
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    letters(at);
    ok(&["adapt", "letters", "--out", "t.task"], at);
    let whole = std::fs::read(at.join("t.task")).unwrap();
    std::fs::write(at.join("cut.task"), &whole[..whole.len() - 9]).unwrap();
    std::fs::create_dir_all(at.join("one/only")).unwrap();
    std::fs::write(at.join("one/only/1.pgm"), drawing(0, 0)).unwrap();
    for path in ["phone/a/1.pgm", "phone/b/2.HEIC", "hole/a/1.pgm", "hole/b/1.pgm", "hole/nothing/notes.txt"]
    {
        std::fs::create_dir_all(at.join(path).parent().unwrap()).unwrap();
        let content = if path.ends_with("HEIC") { "no image that is known".into() } else { drawing(0, 0) };
        std::fs::write(at.join(path), content).unwrap();
    }
    for (args, says) in [
        (&["adapt", "one"][..], "only the class `only` was given"),
        (&["adapt", "nowhere"][..], "nowhere"),
        (&["adapt", "letters", "--model", "nowhere"][..], "omniglot-conv4s"),
        (&["adapt", "phone"][..], "2.HEIC"),
        (&["adapt", "hole"][..], "nothing has no image"),
        (&["predict", "cut.task", "new"][..], "not a whole one"),
        (&["predict", "t.task", "gone.png"][..], "Nothing could be predicted"),
        (&["predict", "t.task", "hole/nothing"][..], "Nothing could be predicted"),
        (&["serve", "--max-body", "0"][..], "1..=4096"),
        (&["predict", "t.task", "new", "--level", "1"][..], "between 0 and 1"),
        (&["predict", "letters/ring/0.pgm", "new"][..], "no task file"),
        (&["serve", "--host", "0.0.0.0", "--port", "0", "--state", "s"][..], "give a token"),
        (&["serve", "--port", "0", "--model", "nowhere", "--state", "s"][..], "nowhere"),
    ] {
        let output = run(args, at);
        assert!(!output.status.success(), "{args:?} should fail");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
    let skipped = ok(&["adapt", "hole", "--on-bad-image", "skip"], at);
    assert!(
        skipped.contains("left out: ") && skipped.contains("hole/nothing: no image of a class"),
        "{skipped}"
    );
    assert!(ok(&["adapt", "letters", "--out", "t.task"], at).contains("Replaced: t.task"));
    assert!(ok(&["doctor"], at).contains("all right"));
    assert!(ok(&["completions", "bash"], at).contains("_siskin"));
}

#[test]
fn vectors_are_answered_row_by_row_and_bad_ones_stay_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let x: Vec<f32> = (0..20).flat_map(|i| [(i % 2) as f32, (i % 3) as f32 / 9.0, 1.0]).collect();
    floats(&at.join("x.npy"), 3, &x);
    npy(&at.join("labels.npy"), "|u1", "(20,)", &[0, 1].repeat(10));
    let stdout = ok(&["adapt", "x.npy"], at);
    assert!(stdout.contains("Next: siskin predict x.task VECTORS.npy"), "{stdout}");
    floats(&at.join("q.npy"), 3, &[0.0, 0.1, 1.0, f32::NAN, 0.1, 1.0, 1.0, 0.1, 1.0]);
    floats(&at.join("wide.npy"), 5, &[0.0; 10]);
    let lines = ok(&["predict", "x.task", "wide.npy", "q.npy", "--format", "jsonl", "--abstain", "0"], at);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows[0]["error"].as_str().unwrap().contains("have 5 numbers, those of the task 3"), "{lines}");
    assert!(rows[2]["error"].as_str().unwrap().contains("not finite"), "{lines}");
    assert_eq!((&rows[1]["label"], &rows[3]["label"]), (&"0".into(), &"1".into()));
    let both = run(&["adapt", "x.npy", "--model", "omniglot-conv4s"], at);
    assert!(text(&both.stderr).contains("leave --model"), "{}", text(&both.stderr));
}
