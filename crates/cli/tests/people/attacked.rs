//! What attackers do to connections, bodies and the folder of tasks, and what honest clients notice of it.
#![cfg(unix)]

use crate::drawings::drawing;
use crate::server::{FORM, IMAGE, Server, form};
use crate::support::{siskin, text};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The answer to bytes that may be no HTTP at all.
fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A connection that is closed on us has said what it had to say.
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

/// Asks for a prediction; it must come within a second.
fn served_at_once(server: &Server, predict: &str) {
    let start = Instant::now();
    let (status, body) = server.ask("POST", predict, IMAGE, drawing(1, 0).as_bytes());
    assert_eq!(status, 200, "{body}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

fn task(server: &Server) -> String {
    let (status, task) = server.json("POST", "/v1/tasks", FORM, &form());
    assert_eq!(status, 201, "{task}");
    format!("/v1/tasks/{}/predict", task["id"].as_str().unwrap())
}

#[test]
fn readers_that_never_read_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&["--max-peer-connections", "40"], folder.path());
    let predict = task(&server);
    let ask = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
    let mut held = Vec::new();
    for _ in 0..120 {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write(ask.as_bytes());
        held.push(stream);
    }
    for _ in 0..5 {
        served_at_once(&server, &predict);
    }
}

#[test]
fn bodies_that_stand_still_take_no_room() {
    let folder = tempfile::tempdir().unwrap();
    // Room for eight bodies of 32 MB at once.
    let server = Server::start(&[], folder.path());
    let predict = task(&server);
    let head = format!("POST {predict} HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n");
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n").as_bytes()).unwrap();
        held.push(stream);
    }
    served_at_once(&server, &predict);
    // A body that needs counted room, beyond the 64 kB that are free.
    let large = [drawing(1, 0).into_bytes(), vec![b' '; 1 << 20]].concat();
    let start = Instant::now();
    assert_eq!(server.ask("POST", &predict, IMAGE, &large).0, 200);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn what_would_cost_too_much_is_refused_with_its_price() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&[], folder.path());
    let of = |classes: usize| {
        let mut body = String::new();
        for class in 0..classes {
            let head = "Content-Disposition: form-data; filename=\"x\"; name";
            write!(body, "--XX\r\n{head}=\"c{class}\"\r\n\r\nP2 2 1 255 0 {}\r\n", class % 256).unwrap();
        }
        (body + "--XX--\r\n").into_bytes()
    };
    let (status, body) = server.json("POST", "/v1/tasks", FORM, &of(500));
    let says = body["error"].as_str().unwrap_or_default();
    assert!(
        status == 422 && says.contains("would take about 675 s of one core and 20000 MB"),
        "{status} {body}"
    );
    let named = |name: &str| text(&form()).replace("\"ring\"", &format!("\"{name}\""));
    let (status, body) = server.json("POST", "/v1/tasks", FORM, named(&"n".repeat(1 << 20)).as_bytes());
    assert_eq!(status, 422, "{body}");
    let long = format!("/v1/tasks?name={}", "t".repeat(300));
    assert_eq!(server.json("POST", &long, FORM, &form()).0, 422);
}

#[test]
fn every_refusal_is_json_also_of_what_is_no_http() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&[], folder.path());
    let heads = "X: y\r\n".repeat(100);
    for (bytes, status) in [
        ("NONSENSE\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET /v1/tasks/%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_owned(), "400"),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\n{heads}\r\n"), "431"),
        ("GET /v1/tasks HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned(), "403"),
    ] {
        let answer = raw(&server, bytes.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{bytes:?}: {answer:?}"));
        assert!(head.contains(&format!(" {status} ")), "{bytes:?}: {answer}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"));
        assert!(body["error"].is_string(), "{answer}");
    }
}

#[test]
fn the_bound_on_tasks_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&["--max-tasks", "3"], folder.path());
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| server.ask("POST", "/v1/tasks", FORM, &form()).0);
        let threads: Vec<_> = (0..16).map(|_| ask()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|s| **s == 201).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|s| **s == 409).count(), 13, "{statuses:?}");
}

#[test]
fn whoever_was_connected_at_the_end_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&[], folder.path());
    let predict = task(&server);
    let (query, address) = (drawing(1, 0), server.address.clone());
    let ask = format!(
        "POST {predict} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{IMAGE}Content-Length: {}\r\n\r\n{query}",
        query.len()
    );
    // Connected before the signal, asking only after it.
    let mut streams: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert!(std::process::Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(50));
    for stream in &mut streams {
        stream.write_all(ask.as_bytes()).unwrap();
    }
    for stream in &mut streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(server.wait().success());
}

#[test]
fn the_folder_of_tasks_is_private_and_for_one_server() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // The server makes the folder, also that above it.
    drop(Server::start(&[], at));
    // What was left behind, and what only looks like a task: a pipe would be waited for for ever.
    std::fs::write(at.join("state/.1-1.siskin-writing"), b"half a task").unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(at.join("state/0000000000000001.task")).status();
    assert!(pipe.unwrap().success());
    let server = Server::start(&[], at);
    assert!(!at.join("state/.1-1.siskin-writing").exists());
    task(&server);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&at.join("state")), 0o700);
    let files = std::fs::read_dir(at.join("state")).unwrap().map(|f| f.unwrap());
    let tasks: Vec<_> = files.filter(|f| f.file_type().unwrap().is_file()).map(|f| f.path()).collect();
    let tasks: Vec<_> = tasks.iter().filter(|path| path.extension().is_some_and(|e| e == "task")).collect();
    assert_eq!((tasks.len(), mode(tasks[0])), (1, 0o600));
    let second = siskin(&["serve", "--port", "0", "--state", "state"], at).output().unwrap();
    assert!(
        !second.status.success() && text(&second.stderr).contains("another siskin"),
        "{}",
        text(&second.stderr)
    );
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let output = siskin(&["adapt", "evil\u{1b}[2J"], folder.path()).output().unwrap();
    let says = text(&output.stderr);
    assert!(
        !output.status.success() && says.contains(r"evil\u{1b}[2J") && !says.contains('\u{1b}'),
        "{says:?}"
    );
}
