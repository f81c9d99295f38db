//! Tasks of an added network that are made anew, changed and asked: nothing is lost in silence, and the network sees each photo once.

use crate::networks::{photos, refused};
use crate::server::{FORM, Server, form};
use crate::support::{ok, run, text};
use siskin_adapt::foreign::tiny;
use std::path::Path;

/// Photos, and a small network that was added as `tiny`.
fn prepared(at: &Path) {
    photos(at);
    std::fs::write(at.join("tiny.onnx"), tiny::network(Some(16))).unwrap();
    ok(&["model", "add", "tiny.onnx", "--name", "tiny", "--preset", "siglip"], at);
}

/// What a command tells beside its output.
fn told(args: &[&str], at: &Path) -> String {
    let output = run(args, at);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

/// What is told by a command that fails, which may have told what it does before.
fn failed(args: &[&str], at: &Path) -> String {
    let output = run(args, at);
    assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn a_task_is_not_replaced_by_what_would_lose_a_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepared(at);
    ok(&["adapt", "photos", "--model", "tiny"], at);
    let bytes = || std::fs::read(at.join("photos.task")).unwrap();
    let before = bytes();
    // `--to` was forgotten.
    for change in [["--add", "new"], ["--remove", "sky"], ["--remove-example", "1.ppm"]] {
        let why = refused(&[&["adapt", "photos"], &change[..]].concat(), at);
        assert!(why.contains(&format!("siskin adapt {} {} --to photos.task", change[0], change[1])), "{why}");
    }
    // So was the model.
    let why = failed(&["adapt", "photos"], at);
    assert!(why.contains("was made with the model tiny") && why.contains("--model tiny"), "{why}");
    // A class would be lost.
    std::fs::create_dir(at.join("few")).unwrap();
    for class in ["grass", "sky"] {
        std::fs::create_dir(at.join("few").join(class)).unwrap();
        (0..2).for_each(|n| {
            let image = format!("{class}/{n}.ppm");
            std::fs::copy(at.join("photos").join(&image), at.join("few").join(&image)).map(drop).unwrap();
        });
    }
    let fewer = ["adapt", "few", "--model", "tiny", "--out", "photos.task"];
    let why = refused(&fewer, at);
    assert!(why.contains("would be lost: sand") && why.contains("--add few --to photos.task"), "{why}");
    std::fs::write(at.join("letter.txt"), "text").unwrap();
    assert!(failed(&["adapt", "few", "--out", "letter.txt"], at).contains("--replace"));
    assert_eq!(bytes(), before, "nothing was written");
    // The same again is easy.
    assert!(ok(&["adapt", "photos", "--model", "tiny"], at).contains("Replaced: photos.task"));
    assert_eq!(bytes(), before);
    let told = told(&["adapt", "photos", "--model", "mini-imagenet-conv4"], at);
    assert!(told.contains("note: photos.task was made with tiny before"), "{told}");
    ok(&[&fewer[..], &["--replace"]].concat(), at);
    assert!(bytes() != before);
}

#[test]
fn a_network_sees_each_photo_once_and_may_get_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepared(at);
    ok(&["adapt", "photos", "--model", "tiny"], at);
    let again = ok(&["embed", "tiny", "photos", "--out", "v.npy"], at);
    assert!(again.contains("12 vectors of 8 numbers (12 from the cache)"), "{again}");
    let first = std::fs::read(at.join("photos.task")).unwrap();
    ok(&["adapt", "photos", "--model", "tiny"], at);
    assert_eq!(std::fs::read(at.join("photos.task")).unwrap(), first, "kept features are the same bits");

    // More photos, and one fewer by its name.
    std::fs::create_dir_all(at.join("more/sky")).unwrap();
    std::fs::copy(at.join("new/sky.ppm"), at.join("more/sky/late.ppm")).unwrap();
    let more = ok(&["adapt", "--add", "more", "--to", "photos.task"], at);
    assert!(more.contains("sky  5") && more.contains("Next: siskin predict photos.task"), "{more}");
    let page = || std::fs::read_to_string(at.join("photos.report.html")).unwrap();
    assert!(page().contains("The examples that were added"));
    assert!(
        refused(&["adapt", "--remove-example", "lat.ppm", "--to", "photos.task"], at).contains("late.ppm")
    );
    assert!(refused(&["adapt", "--remove-example", "1.ppm", "--to", "photos.task"], at).contains("Several"));
    let fewer = ok(&["adapt", "--remove-example", "late.ppm", "--to", "photos.task"], at);
    assert!(fewer.contains("sky  4") && page().contains("no photos"), "{fewer}");

    // A task finds its network by what it is, not by its name.
    let answers = || ok(&["predict", "photos.task", "new", "--format", "jsonl"], at);
    let before = answers();
    ok(&["model", "add", "tiny.onnx", "--name", "renamed", "--preset", "siglip"], at);
    ok(&["model", "remove", "tiny"], at);
    assert_eq!(answers(), before);
    ok(&["model", "add", "tiny.onnx", "--name", "tiny", "--preset", "clip"], at);
    assert_eq!(answers(), before, "another preset is another network");
    ok(&["model", "remove", "renamed"], at);
    let why = text(&run(&["predict", "photos.task", "new"], at).stderr);
    assert!(why.contains("preset"), "{why}");
}

/// Only the classes that are asked about go through the network.
#[test]
fn a_test_embeds_the_test_classes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    prepared(at);
    let splits = serde_json::json!({"train": ["sky"], "val": [], "test": ["grass", "sand"]});
    std::fs::write(at.join("photos/splits.json"), splits.to_string()).unwrap();
    let small = ["test.groups=1", "test.episodes=2", "test.way=2", "test.shot=1", "test.query=2"];
    let small: Vec<&str> = small.iter().flat_map(|set| ["--set", set]).collect();
    ok(&[&["test", "tiny", "--data", "photos"][..], &small].concat(), at);
    let again = ok(&["embed", "tiny", "photos", "--out", "v.npy"], at);
    assert!(again.contains("(8 from the cache)"), "{again}");
}

#[test]
fn photos_are_told_of_better_networks_and_the_server_offers_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    let none = told(&["adapt", "photos"], at);
    assert!(none.contains("a pretrained network is far better"), "{none}");
    std::fs::remove_file(at.join("photos.task")).unwrap();
    prepared(at);
    let there = told(&["adapt", "photos"], at);
    assert!(there.contains("added here: tiny (--model tiny)"), "{there}");

    let server = Server::start(&[], at);
    let models = server.json("GET", "/v1/models", "", b"").1;
    let last = models["models"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["name"], &last["added"]), (&"tiny".into(), &true.into()));
    let (status, task) = server.json("POST", "/v1/tasks?model=tiny", FORM, &form());
    assert_eq!((status, &task["model"]), (201, &"tiny".into()), "{task}");
}

#[test]
fn what_is_mistaken_for_a_task_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    ok(&["adapt", "photos"], at);
    let why = refused(&["predict", "photos", "new"], at);
    assert!(why.contains("siskin predict photos.task new"), "{why}");
    let why = refused(&["predict", "new/sky.ppm", "photos.task"], at);
    assert!(why.contains("The task comes first: siskin predict photos.task new/sky.ppm"), "{why}");
    assert!(refused(&["suggest", "photos/", "new"], at).contains("siskin suggest photos.task new"));
    let plain = ok(&["predict", "photos.task", "new"], at);
    let more = ok(&["predict", "photos.task", "new", "--explain"], at);
    assert!(!plain.contains("entropy") && more.contains("entropy") && more.contains("variance"), "{more}");
    std::fs::create_dir(at.join("photos/empty")).unwrap();
    assert!(failed(&["adapt", "photos"], at).contains("--on-bad-image skip"));
    std::fs::create_dir(at.join("void")).unwrap();
    assert!(
        refused(&["adapt", "void"], at)
            .contains("there is no file in it. A data set has one folder of images per class")
    );
    let label = ok(&["suggest", "photos.task", "new"], at);
    assert!(label.starts_with("label next") && label.lines().next().unwrap().contains("score"), "{label}");
}
