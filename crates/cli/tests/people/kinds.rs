//! Photos given to a model of drawings: a loud warning, everywhere.

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
    let warned = says(&["adapt", "pets"]);
    assert!(warned.contains(&format!("WARNING: {WARNING} all 4 images look like photos")), "{warned}");
    assert!(says(&["predict", "pets.task", "pets/cat/0.ppm"]).contains("this image looks like a photo"));
    assert!(!says(&["adapt", "letters"]).contains("WARNING"));
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
    assert_eq!(status, 201, "{task}");
    assert!(task["warnings"][0].as_str().unwrap().contains(WARNING), "{task}");
    let (status, task) = server.json("POST", "/v1/tasks", FORM, &form());
    assert_eq!((status, task["warnings"].as_array().map(Vec::len)), (201, Some(0)), "{task}");
    let predict = format!("/v1/tasks/{}/predict", task["id"].as_str().unwrap());
    let warnings = |image: &[u8]| server.json("POST", &predict, IMAGE, image).1["warnings"].clone();
    assert!(warnings(&photo(2))[0].as_str().unwrap().contains(WARNING));
    assert_eq!(warnings(drawing(1, 0).as_bytes()).as_array().map(Vec::len), Some(0));
}
