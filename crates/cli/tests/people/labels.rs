//! Images in several classes, and which images to label next.

use crate::drawings::{drawing, letters};
use crate::server::{FORM, Server, form};
use crate::support::{ok as good, run, text};
use base64::Engine as _;
use serde_json::{Value, json};
use std::path::Path;

/// Several drawings over each other.
fn together(kinds: &[i32], shift: i32) -> String {
    let all: Vec<Vec<u32>> = kinds
        .iter()
        .map(|&kind| drawing(kind, shift).split_whitespace().skip(4).map(|v| v.parse().unwrap()).collect())
        .collect();
    let pixel = |i: usize| all.iter().map(|one| one[i]).min().unwrap().to_string();
    format!("P2 105 105 255 {}", (0..all[0].len()).map(pixel).collect::<Vec<_>>().join(" "))
}

/// `scenes/<class>/<name>.pgm`: crosses and rings, alone and together.
fn scenes(at: &Path) {
    for (name, kinds) in [("cross", &[0][..]), ("ring", &[1]), ("both", &[0, 1])] {
        for shift in 0..4 {
            for &kind in kinds {
                let folder = at.join("scenes").join(["cross", "ring"][kind as usize]);
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(folder.join(format!("{name}{shift}.pgm")), together(kinds, shift)).unwrap();
            }
        }
    }
}

#[test]
fn an_image_in_two_folders_has_two_labels() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    scenes(at);
    let said = good(&["adapt", "scenes", "--label-sets"], at);
    assert!(said.contains("12 images, some of them in several classes: label sets of 2 labels"), "{said}");
    assert!(said.contains("  cross  8") && said.contains("  ring  8"), "{said}");
    for (name, kinds) in [("cross", &[0][..]), ("ring", &[1]), ("both", &[0, 1])] {
        std::fs::write(at.join(format!("{name}.pgm")), together(kinds, -2)).unwrap();
    }
    let ask =
        ["predict", "scenes.task", "both.pgm", "cross.pgm", "ring.pgm", "scenes.task", "--format", "jsonl"];
    let lines = good(&ask, at);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["set"], json!(["cross", "ring"]), "{lines}");
    assert_eq!((&rows[1]["set"], &rows[2]["set"]), (&json!(["cross"]), &json!(["ring"])), "{lines}");
    let number = |row: &Value, of: &str, name: &str| row[of][name].as_f64().unwrap();
    for row in &rows[..3] {
        let size = number(row, "sizes", "1") + 2.0 * number(row, "sizes", "2");
        let labels = number(row, "labels", "cross") + number(row, "labels", "ring");
        assert!((size - labels).abs() < 1e-6, "{row}");
    }
    assert!(rows[3]["error"].is_string(), "{lines}");
    let table = good(&["predict", "scenes.task", "both.pgm"], at);
    assert!(table.contains("cross + ring"), "{table}");
    let csv = good(&["predict", "scenes.task", "both.pgm", "--format", "csv"], at);
    assert!(csv.starts_with("path,error,set,set_probability,cross,ring\nboth.pgm,,cross;ring,"), "{csv}");
    for (args, says) in [
        (&["predict", "scenes.task", "both.pgm", "--explain"][..], "label sets"),
        (&["adapt", "--add", "scenes", "--to", "scenes.task"], "made anew"),
        (&["suggest", "scenes.task", "both.pgm"], "label sets"),
    ] {
        let output = run(args, at);
        assert!(!output.status.success() && text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }
    let mut damaged = std::fs::read(at.join("scenes.task")).unwrap();
    let last = damaged.len() - 9;
    damaged[last] ^= 1;
    std::fs::write(at.join("scenes.task"), damaged).unwrap();
    assert!(text(&run(&["predict", "scenes.task", "both.pgm"], at).stderr).contains("checksum"));
}

#[test]
fn the_server_takes_label_sets() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    scenes(at);
    let encoded = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let class = |name: &str| {
        let files = std::fs::read_dir(at.join("scenes").join(name)).unwrap();
        let images: Vec<String> =
            files.map(|file| encoded(&std::fs::read(file.unwrap().path()).unwrap())).collect();
        json!({ "name": name, "images": images })
    };
    let kind = "Content-Type: application/json\r\n";
    let both = encoded(together(&[0, 1], -2).as_bytes());
    let cross = encoded(drawing(0, -2).as_bytes());
    let questions = json!({ "images": [both, "bm8gaW1hZ2U=", cross] });
    let (id, first) = {
        let server = Server::start(&[], at);
        let ask = |path: &str, body: &Value| server.json("POST", path, kind, body.to_string().as_bytes());
        let task =
            json!({ "name": "scenes", "label_sets": true, "classes": [class("cross"), class("ring")] });
        let (status, task) = ask("/v1/tasks", &task);
        assert_eq!(status, 201, "{task}");
        assert_eq!((&task["label_sets"], &task["examples"]), (&json!(true), &json!(12)), "{task}");
        assert_eq!(
            task["classes"],
            json!([{"name": "cross", "examples": 8}, {"name": "ring", "examples": 8}])
        );
        let id = task["id"].as_str().unwrap().to_owned();
        let (status, first) = ask(&format!("/v1/tasks/{id}/predict"), &questions);
        let told = &first["predictions"];
        assert_eq!((status, &told[0]["set"]), (200, &json!(["cross", "ring"])), "{first}");
        assert_eq!(told[2]["set"], json!(["cross"]), "{first}");
        assert!(told[1]["error"].is_string() && told[0]["labels"]["ring"].as_f64() > Some(0.5), "{first}");
        let sizes: f64 = told[0]["sizes"].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).sum();
        assert!((sizes - 1.0).abs() < 1e-9, "{first}");
        // What is for tasks with one class per image is refused with a sentence; so is a task without any image in two classes.
        let strict = json!({ "images": questions["images"], "level": 0.5 });
        for (path, body) in [
            ("predict", &strict),
            ("suggest", &questions),
            ("examples", &json!({ "classes": [class("ring")] })),
        ] {
            let (status, refusal) = ask(&format!("/v1/tasks/{id}/{path}"), body);
            assert!(
                status == 422 && refusal["error"].as_str().unwrap().contains("label sets"),
                "{path}: {refusal}"
            );
        }
        for (method, path) in [("GET", "examples"), ("DELETE", "classes/ring"), ("DELETE", "examples/0")] {
            assert_eq!(
                server.ask(method, &format!("/v1/tasks/{id}/{path}"), "", b"").0,
                422,
                "{method} {path}"
            );
        }
        let (status, refusal) = server.json("POST", "/v1/tasks?label_sets=true", FORM, &form());
        assert!(
            status == 422 && refusal["error"].as_str().unwrap().contains("no image stands in two"),
            "{refusal}"
        );
        let many: Vec<Value> = (0..60).map(|i| json!({ "name": i.to_string(), "images": [both] })).collect();
        let (status, refusal) = ask("/v1/tasks", &json!({ "label_sets": true, "classes": many }));
        assert!(status == 422 && refusal["error"].as_str().unwrap().contains("s of one core"), "{refusal}");
        (id, first)
    };
    // It is a file like any other task, and a file of the command line is one of the server's.
    let server = Server::start(&[], at);
    let body = questions.to_string();
    let (_, again) = server.json("POST", &format!("/v1/tasks/{id}/predict"), kind, body.as_bytes());
    assert_eq!(again, first);
    let (_, list) = server.json("GET", "/v1/tasks", "", b"");
    assert_eq!(list["tasks"][0]["label_sets"], json!(true), "{list}");
    let file = at.join("state").join(format!("{id}.task"));
    std::fs::write(at.join("both.pgm"), together(&[0, 1], -2)).unwrap();
    let line = good(&["predict", file.to_str().unwrap(), "both.pgm", "--format", "jsonl"], at);
    let row: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(row["set"], first["predictions"][0]["set"], "{line}");
    assert_eq!(server.ask("DELETE", &format!("/v1/tasks/{id}"), "", b"").0, 204);
}

#[test]
fn the_next_image_to_label_is_told_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    letters(at);
    good(&["adapt", "letters"], at);
    let output = run(&["suggest", "letters.task", "new", "-n", "2", "--format", "jsonl"], at);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    let rows: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() == 2 && rows[0]["score"].as_f64() >= rows[1]["score"].as_f64(), "{said}");
    assert!(told.contains("broken.png") && told.contains("a class has one example"), "{told}");
    for by in ["entropy", "margin", "variance"] {
        let table = good(&["suggest", "letters.task", "new", "-n", "9", "--by", by], at);
        let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
        assert!(table.lines().count() == 5 && head == ["label", "next", "score", "now"], "{table}");
    }
    assert!(!run(&["suggest", "letters.task", "new", "-n", "0"], at).status.success());
    assert!(
        text(&run(&["suggest", "letters.task", "nowhere"], at).stderr).contains("nothing to choose from")
    );
}

#[test]
fn the_server_suggests_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&[], folder.path());
    let (_, task) = server.json("POST", "/v1/tasks?name=shapes", FORM, &form());
    let path = format!("/v1/tasks/{}/suggest", task["id"].as_str().unwrap());
    let encoded = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let images: Vec<String> = [drawing(0, -2), "no image".into(), drawing(3, 0)]
        .iter()
        .map(|image| encoded(image.as_bytes()))
        .collect();
    let kind = "Content-Type: application/json\r\n";
    let ask = |body: Value| server.json("POST", &path, kind, body.to_string().as_bytes());
    let (status, found) = ask(json!({ "images": images, "count": 5 }));
    assert_eq!(status, 200, "{found}");
    let places: Vec<u64> =
        found["suggestions"].as_array().unwrap().iter().map(|s| s["index"].as_u64().unwrap()).collect();
    assert!(places.len() == 2 && places.contains(&0) && places.contains(&2), "{found}");
    assert_eq!(found["errors"][0]["index"], 1);
    // The drawing of no class of the task tells the most.
    assert_eq!(places[0], 2, "{found}");
    assert!(found["advice"].is_null() || found["advice"]["sentence"].is_string(), "{found}");
    for wrong in [
        json!({ "images": images, "count": 0 }),
        json!({ "images": images, "criterion": "luck" }),
        json!({ "images": [] }),
    ] {
        let (status, said) = ask(wrong);
        assert!((400..500).contains(&status) && said["error"].is_string(), "{status} {said}");
    }
}
