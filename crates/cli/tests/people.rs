//! `siskin adapt`, `predict` and `serve` as a person or a program meets them, with the embedded model.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn siskin(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siskin"));
    command
        .args(args)
        .current_dir(folder)
        .env("SISKIN_CACHE", folder.join("cache"))
        .env_remove("SISKIN_TOKEN");
    command
}

fn run(args: &[&str], folder: &Path) -> Output {
    siskin(args, folder).output().unwrap()
}

fn good(args: &[&str], folder: &Path) -> String {
    let output = run(args, folder);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A drawing as a portable grey map: black strokes on white, one of four kinds, moved a little.
fn drawing(kind: i32, shift: i32) -> String {
    let mut out = "P2 105 105 255".to_string();
    for i in 0..105 * 105 {
        let (x, y) = (i % 105 - 52 - shift, i / 105 - 52 + shift);
        let near = |d: i32| d.abs() <= 2;
        let dark = x.abs() < 36
            && y.abs() < 36
            && match kind {
                0 => near(x) || near(y),
                1 => near(x * x / 30 + y * y / 30 - 30),
                2 => near(x - y) || near(x + y),
                _ => near(y + 30) || near(x + 30),
            };
        write!(out, " {}", if dark { 0 } else { 255 }).unwrap();
    }
    out
}

/// `letters/<class>/<n>.pgm` and `new/<class>.pgm`, beside a file that is no image.
fn letters(at: &Path) {
    for (kind, (class, shots)) in
        [("cross", 1), ("ring", 2), ("times", 1), ("corner", 3)].into_iter().enumerate()
    {
        std::fs::create_dir_all(at.join("letters").join(class)).unwrap();
        for shot in 0..shots {
            std::fs::write(at.join(format!("letters/{class}/{shot}.pgm")), drawing(kind as i32, shot))
                .unwrap();
        }
        std::fs::create_dir_all(at.join("new")).unwrap();
        std::fs::write(at.join(format!("new/{class}.pgm")), drawing(kind as i32, -3)).unwrap();
    }
    std::fs::write(at.join("new/broken.png"), b"no image").unwrap();
}

#[test]
fn a_folder_becomes_a_task_and_a_task_names_new_drawings() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    letters(at);
    let said = good(&["adapt", "letters"], at);
    assert!(said.contains("4 classes, 7 examples") && said.contains("letters.task"), "{said}");
    assert!(said.contains("Calibrated on the model's validation classes"), "{said}");

    let lines = good(&["predict", "letters.task", "new", "--format", "jsonl", "--explain", "2"], at);
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

    let table = good(&["predict", "letters.task", "new", "--explain"], at);
    assert!(table.contains("error: the content is no image") && table.contains("kernel "), "{table}");
    let csv = good(&["predict", "letters.task", "new/ring.pgm", "new/broken.png", "--format", "csv"], at);
    let mut csv = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(csv.headers().unwrap().len(), 8 + 4);
    let cells: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!((&cells[0][2], &cells[0][1]), ("ring", ""));
    assert!(!cells[1][1].is_empty() && cells[1][2].is_empty());

    let mut child = siskin(&["predict", "letters.task", "-", "--format", "jsonl"], at)
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
    good(&["adapt", "letters", "--out", "t.task"], at);
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
    let skipped = good(&["adapt", "hole", "--on-bad-image", "skip"], at);
    assert!(
        skipped.contains("left out: ") && skipped.contains("hole/nothing: no image of a class"),
        "{skipped}"
    );
    assert!(good(&["adapt", "letters", "--out", "t.task"], at).contains("Replaced: t.task"));
    assert!(good(&["doctor"], at).contains("all right"));
    assert!(good(&["completions", "bash"], at).contains("_siskin"));
}

/// A .npy file.
fn npy(path: &Path, kind: &str, shape: &str, values: &[u8]) {
    let head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (head.len() as u16).to_le_bytes();
    std::fs::write(path, [b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), values].concat()).unwrap();
}

/// A .npy file of floats, [rows, cols].
fn floats(path: &Path, cols: usize, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy(path, "<f4", &format!("({}, {cols})", values.len() / cols), &bytes);
}

#[test]
fn vectors_are_answered_row_by_row_and_bad_ones_stay_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let x: Vec<f32> = (0..20).flat_map(|i| [(i % 2) as f32, (i % 3) as f32 / 9.0, 1.0]).collect();
    floats(&at.join("x.npy"), 3, &x);
    npy(&at.join("labels.npy"), "|u1", "(20,)", &[0, 1].repeat(10));
    let said = good(&["adapt", "x.npy"], at);
    assert!(said.contains("Next: siskin predict x.task VECTORS.npy"), "{said}");
    floats(&at.join("q.npy"), 3, &[0.0, 0.1, 1.0, f32::NAN, 0.1, 1.0, 1.0, 0.1, 1.0]);
    floats(&at.join("wide.npy"), 5, &[0.0; 10]);
    let lines = good(&["predict", "x.task", "wide.npy", "q.npy", "--format", "jsonl"], at);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows[0]["error"].as_str().unwrap().contains("have 5 numbers, those of the task 3"), "{lines}");
    assert!(rows[2]["error"].as_str().unwrap().contains("not finite"), "{lines}");
    assert_eq!((&rows[1]["label"], &rows[3]["label"]), (&"0".into(), &"1".into()));
    let both = run(&["adapt", "x.npy", "--model", "omniglot-conv4s"], at);
    assert!(text(&both.stderr).contains("leave --model"), "{}", text(&both.stderr));
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(args: &[&str], at: &Path) -> Server {
        let args = [&["serve", "--port", "0", "--state", "state"], args].concat();
        let mut child = siskin(&args, at).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|l| l.contains("http://"))).unwrap();
        let address = line.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        Server { child, address }
    }

    fn ask(&self, method: &str, path: &str, extra: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n{extra}\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = text(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn json(&self, method: &str, path: &str, extra: &str, body: &[u8]) -> (u16, Value) {
        let (status, body) = self.ask(method, path, extra, body);
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two labelled drawings of each of two classes as a form.
fn form() -> Vec<u8> {
    let mut body = String::new();
    for (class, kind) in [("cross", 0), ("ring", 1)] {
        for shift in 0..2 {
            write!(
                body,
                "--XX\r\nContent-Disposition: form-data; name=\"{class}\"; filename=\"{shift}.pgm\"\r\n\r\n{}\r\n",
                drawing(kind, shift)
            )
            .unwrap();
        }
    }
    (body + "--XX--\r\n").into_bytes()
}

const FORM: &str = "Content-Type: multipart/form-data; boundary=XX\r\n";
const IMAGE: &str = "Content-Type: image/x-portable-graymap\r\n";

#[test]
fn a_server_makes_tasks_answers_and_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let server = Server::start(&[], at);
    assert_eq!(server.json("GET", "/health", "", b"").1["status"], "ok");
    let (status, page) = server.ask("GET", "/", "", b"");
    assert!(status == 200 && page.contains("<canvas") && !page.contains("src=\"http"));
    assert_eq!(server.json("GET", "/v1/models", "", b"").1["models"][0]["name"], "omniglot-conv4s");

    let (status, task) = server.json("POST", "/v1/tasks?name=shapes", FORM, &form());
    assert_eq!((status, &task["classes"][1]["examples"]), (201, &2.into()), "{task}");
    let predict = format!("/v1/tasks/{}/predict", task["id"].as_str().unwrap());
    let query = drawing(1, -2);
    let (status, first) = server.ask("POST", &format!("{predict}?explain=1"), IMAGE, query.as_bytes());
    assert_eq!(status, 200, "{first}");
    let answer: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(answer["predictions"][0]["label"], "ring");
    assert_eq!(answer["predictions"][0]["nearest"][0]["class"], "ring");

    // Every path of the description is there, and what it says of methods holds.
    let api = server.json("GET", "/openapi.json", "", b"").1;
    for (path, methods) in api["paths"].as_object().unwrap() {
        let path = path.replace("{id}", task["id"].as_str().unwrap());
        for method in methods.as_object().unwrap().keys().filter(|m| *m != "parameters" && *m != "delete") {
            let (status, body) = server.ask(&method.to_uppercase(), &path, "", b"");
            assert!(status != 404 && status != 405 && status < 500, "{method} {path}: {status} {body}");
        }
    }
    for (method, path, extra, body, expected) in [
        ("GET", "/nowhere", "", &b""[..], 404),
        ("GET", "/v1/tasks/0123456789abcdef", "", b"", 404),
        ("POST", predict.as_str(), "Content-Type: text/plain\r\n", b"x", 415),
        ("POST", predict.as_str(), "Content-Type: application/json\r\n", b"{", 400),
        ("POST", predict.as_str(), "Content-Type: application/json\r\n", b"{\"images\": [], \"x\": 1}", 400),
        ("POST", &format!("{predict}?level=2"), IMAGE, query.as_bytes(), 422),
        ("PUT", "/v1/tasks", "", b"", 405),
        ("POST", "/v1/tasks?model=other", FORM, &form(), 404),
        ("POST", "/v1/tasks", "Origin: https://evil.example\r\n", b"", 403),
    ] {
        let (status, body) = server.json(method, path, extra, body);
        assert_eq!(status, expected, "{method} {path}: {body}");
        assert!(body["error"].is_string(), "{method} {path}: {body}");
    }
    let metrics = server.ask("GET", "/metrics", "", b"").1;
    assert!(
        metrics.contains("siskin_predictions_total 1") && metrics.contains("status=\"415\"} 1"),
        "{metrics}"
    );

    // Killed without warning (drop is kill -9), the task is there again and answers with the same bytes.
    drop(server);
    let server = Server::start(&[], at);
    assert_eq!(server.ask("POST", &format!("{predict}?explain=1"), IMAGE, query.as_bytes()), (200, first));
    assert_eq!(server.json("GET", "/v1/tasks", "", b"").1["tasks"][0]["name"], "shapes");
    let path = predict.trim_end_matches("/predict");
    assert_eq!(server.ask("DELETE", path, "", b"").0, 204);
    assert_eq!(server.ask("DELETE", path, "", b"").0, 404);
    assert_eq!(std::fs::read_dir(at.join("state")).unwrap().count(), 0);
}

#[test]
fn limits_and_the_token_hold() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("token"), "secret\n").unwrap();
    let server = Server::start(
        &["--token-file", "token", "--max-body", "1", "--max-tasks", "1", "--max-megapixels", "1"],
        at,
    );
    assert_eq!(server.ask("GET", "/v1/tasks", "", b"").0, 401);
    assert_eq!(server.ask("GET", "/metrics", "", b"").0, 401);
    assert_eq!(server.ask("GET", "/health", "", b"").0, 200);
    let token = "Authorization: Bearer secret\r\n";
    assert_eq!(server.ask("GET", "/v1/tasks", token, b"").0, 200);
    let with = |extra: &str| format!("{token}{extra}");
    let (status, body) = server.json("POST", "/v1/tasks", &with(FORM), &form());
    assert_eq!(status, 201, "{body}");
    let (status, body) = server.json("POST", "/v1/tasks", &with(FORM), &form());
    assert_eq!(status, 409, "{body}");
    let predict = format!(
        "/v1/tasks/{}/predict",
        server.json("GET", "/v1/tasks", token, b"").1["tasks"][0]["id"].as_str().unwrap()
    );
    let (status, body) = server.json("POST", &predict, &with(IMAGE), b"P2 5000 5000 255 0");
    assert_eq!(status, 200);
    assert!(body["predictions"][0]["error"].as_str().unwrap().contains("at most 1000000 pixels"), "{body}");
    // The server answers before the body is sent, so only its head is.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head =
        format!("POST {predict} HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 2000000\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.contains("413"), "{answer}");
}
