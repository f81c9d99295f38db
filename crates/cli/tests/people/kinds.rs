//! Photos and drawings: the embedded model that suits them is chosen; given to a model of the other kind they meet a loud warning, everywhere.

use crate::drawings::{drawing, letters};
use crate::server::{FORM, IMAGE, Server, form};
use crate::support::{ok, run, text};

/// A photo, as far as its statistics go: colours and grey levels all over, as a portable pixel map.
fn photo(kind: u32) -> Vec<u8> {
    let mut out = b"P6 60 60 255 ".to_vec();
    for i in 0..60 * 60u32 {
        let (x, y) = (i % 60, i / 60);
        out.extend([(40 + 3 * x + kind * 20) as u8, (200 - 2 * y) as u8, (x * y * (kind + 3) % 251) as u8]);
    }
    out
}

const WARNING: &str = "this model has seen drawn characters, but";

#[test]
fn photos_are_met_with_a_warning_and_drawings_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    letters(at);
    for class in ["cat", "dog"] {
        std::fs::create_dir_all(at.join("pets").join(class)).unwrap();
        for i in 0..2 {
            std::fs::write(at.join(format!("pets/{class}/{i}.ppm")), photo(i)).unwrap();
        }
    }
    let says = |args: &[&str]| {
        let output = run(args, at);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let chosen = says(&["adapt", "pets"]);
    let why = "4 of 4 images that were looked at look like photos: the embedded model mini-imagenet-conv4 is used; --model names another";
    assert!(chosen.contains(why) && !chosen.contains("WARNING"), "{chosen}");
    assert!(
        says(&["predict", "pets.task", "new/ring.pgm"]).contains("this image looks like a drawn character")
    );
    let warned = says(&["adapt", "pets", "--model", "omniglot-conv4s"]);
    assert!(warned.contains(&format!("WARNING: {WARNING} all 4 images look like photos")), "{warned}");
    assert!(says(&["predict", "pets.task", "pets/cat/0.ppm"]).contains("this image looks like a photo"));
    let chosen = says(&["adapt", "letters"]);
    assert!(chosen.contains("look like drawings: the embedded model omniglot-conv4s is used"), "{chosen}");
    assert!(!chosen.contains("WARNING"), "{chosen}");
    assert!(!says(&["predict", "letters.task", "new"]).contains("WARNING"));
    let once = says(&["predict", "letters.task", "new/ring.pgm", "pets"]);
    assert_eq!(once.matches("WARNING").count(), 1, "{once}");
    assert!(once.contains("4 of 5 images look like photos"), "{once}");
    // Programs read the rows; the warning is not among them.
    assert!(!ok(&["predict", "letters.task", "pets", "--format", "jsonl"], at).contains("WARNING"));
}

#[test]
fn the_server_says_so_with_the_task_and_with_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&[], folder.path());
    let part = |class: &str, image: &[u8]| {
        let head =
            format!("--XX\r\nContent-Disposition: form-data; name=\"{class}\"; filename=\"x\"\r\n\r\n");
        [head.as_bytes(), image, b"\r\n"].concat()
    };
    let photos = [part("cat", &photo(0)), part("dog", &photo(1)), b"--XX--\r\n".to_vec()].concat();
    let (status, task) = server.json("POST", "/v1/tasks", FORM, &photos);
    assert_eq!((status, task["model"].as_str()), (201, Some("mini-imagenet-conv4")), "{task}");
    assert_eq!(task["warnings"].as_array().map(Vec::len), Some(0), "{task}");
    let (status, task) = server.json("POST", "/v1/tasks?model=omniglot-conv4s", FORM, &photos);
    assert_eq!((status, task["model"].as_str()), (201, Some("omniglot-conv4s")), "{task}");
    assert!(task["warnings"][0].as_str().unwrap().contains(WARNING), "{task}");
    let (status, task) = server.json("POST", "/v1/tasks", FORM, &form());
    assert_eq!((status, task["warnings"].as_array().map(Vec::len)), (201, Some(0)), "{task}");
    assert_eq!(task["model"], "omniglot-conv4s", "{task}");
    let predict = format!("/v1/tasks/{}/predict", task["id"].as_str().unwrap());
    let warnings = |image: &[u8]| server.json("POST", &predict, IMAGE, image).1["warnings"].clone();
    assert!(warnings(&photo(2))[0].as_str().unwrap().contains(WARNING));
    assert_eq!(warnings(drawing(1, 0).as_bytes()).as_array().map(Vec::len), Some(0));
}

#[test]
fn a_model_that_was_named_at_the_start_is_not_chosen_away() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&["--model", "mini-imagenet-conv4"], folder.path());
    let (status, models) = server.json("GET", "/v1/models", "", b"");
    assert_eq!((status, &models["chosen_by_looks"]), (200, &serde_json::Value::Bool(false)), "{models}");
    let (status, task) = server.json("POST", "/v1/tasks", FORM, &form());
    assert_eq!((status, task["model"].as_str()), (201, Some("mini-imagenet-conv4")), "{task}");
    assert!(task["warnings"][0].as_str().unwrap().contains("this model has seen photos, but"), "{task}");
}
