//! What the server does for honest requests, and within which limits.

use crate::drawings::drawing;
use crate::server::{FORM, IMAGE, Server, form};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

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
    let (status, first) =
        server.ask("POST", &format!("{predict}?explain=1&abstain=0"), IMAGE, query.as_bytes());
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
    assert_eq!(
        server.ask("POST", &format!("{predict}?explain=1&abstain=0"), IMAGE, query.as_bytes()),
        (200, first)
    );
    assert_eq!(server.json("GET", "/v1/tasks", "", b"").1["tasks"][0]["name"], "shapes");
    let path = predict.trim_end_matches("/predict");
    assert_eq!(server.ask("DELETE", path, "", b"").0, 204);
    assert_eq!(server.ask("DELETE", path, "", b"").0, 404);
    let files = std::fs::read_dir(at.join("state")).unwrap().map(|f| f.unwrap().path());
    assert_eq!(files.filter(|path| path.extension().is_some_and(|e| e == "task")).count(), 0);
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

#[test]
fn examples_and_classes_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let server = Server::start(&[], at);
    let (status, task) = server.json("POST", "/v1/tasks?name=shapes", FORM, &form());
    assert_eq!(status, 201, "{task}");
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    let examples = format!("{path}/examples");
    // A third class, of two images.
    let image = |shift: i32| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(drawing(2, shift))
    };
    let more =
        serde_json::json!({"classes": [{"name": "times", "images": [image(0), image(1)]}]}).to_string();
    const JSON: &str = "Content-Type: application/json\r\n";
    let (status, grown) = server.json("POST", &examples, JSON, more.as_bytes());
    assert_eq!(
        (status, &grown["classes"][2]["examples"], &grown["id"]),
        (200, &2.into(), &task["id"]),
        "{grown}"
    );
    // The same again: images without a name are new ones, files of the same name take the place of the old.
    let (_, grown) = server.json("POST", &examples, JSON, more.as_bytes());
    assert_eq!(grown["classes"][2]["examples"], 4, "{grown}");
    let (_, same) = server.json("POST", &examples, FORM, &form());
    assert_eq!(
        (&same["classes"][0]["examples"], &same["classes"][1]["examples"]),
        (&2.into(), &2.into()),
        "{same}"
    );
    let query = drawing(2, -2);
    let ask = |server: &Server| {
        server.json("POST", &format!("{path}/predict?abstain=0"), IMAGE, query.as_bytes()).1
    };
    assert_eq!(ask(&server)["predictions"][0]["label"], "times");

    let listed = server.json("GET", &examples, "", b"").1;
    let times: Vec<&Value> =
        listed["examples"].as_array().unwrap().iter().filter(|e| e["class"] == "times").collect();
    assert_eq!(
        times.iter().map(|e| e["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["times 1", "times 2", "times 3", "times 4"]
    );
    let (status, fewer) = server.json("DELETE", &format!("{examples}/{}", times[0]["index"]), "", b"");
    assert_eq!((status, &fewer["classes"][2]["examples"]), (200, &3.into()), "{fewer}");
    assert_eq!(server.ask("DELETE", &format!("{examples}/99"), "", b"").0, 422);
    assert_eq!(server.ask("DELETE", &format!("{examples}/x"), "", b"").0, 400);

    // Killed and started again, the task is the changed one.
    drop(server);
    let server = Server::start(&[], at);
    assert_eq!(server.json("GET", &path, "", b"").1["classes"], fewer["classes"]);
    let (status, fewer) = server.json("DELETE", &format!("{path}/classes/times"), "", b"");
    assert_eq!((status, fewer["classes"].as_array().unwrap().len()), (200, 2), "{fewer}");
    assert_ne!(ask(&server)["predictions"][0]["label"], "times");
    let (status, refused) = server.json("DELETE", &format!("{path}/classes/ring"), "", b"");
    assert!(
        status == 422 && refused["error"].as_str().unwrap().contains("at least two classes"),
        "{refused}"
    );
    assert_eq!(server.ask("DELETE", &format!("{path}/classes/nobody"), "", b"").0, 422);
}
