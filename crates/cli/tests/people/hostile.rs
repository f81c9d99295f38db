//! What must not bring the program down: small files that claim many pixels, and requests that nobody knows.
#![cfg(unix)]

use crate::drawings::drawing;
use crate::server::{FORM, IMAGE, Server, form};
use crate::support::{bounded, text};
use std::fmt::Write as _;
use std::path::Path;

/// 35 bytes of 65535 x 168 pixels: one pixel is drawn, the others are transparent.
const GIF: &[u8] = b"GIF89a\xff\xff\xa8\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00\x3b";
/// Megabytes that the server gets, and the commands half of it. Without bounds each of these attacks needs more.
const MEMORY: u32 = 2_000;

/// A PNG of 25 kilobytes with 148000 x 168 pixels, just below the bound for one image.
fn png() -> Vec<u8> {
    let (width, height) = (148_000, 168);
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let pixels = vec![200; 3 * (width * height) as usize];
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    out
}

/// A form with these images, each of a class of its own or all as queries.
fn many(images: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for (i, image) in images.iter().enumerate() {
        let mut head = String::new();
        write!(head, "--XX\r\nContent-Disposition: form-data; name=\"{}\"; filename=\"{i}\"\r\n\r\n", i % 2)
            .unwrap();
        body.extend([head.as_bytes(), image, b"\r\n"].concat());
    }
    body.extend(b"--XX--\r\n");
    body
}

#[test]
fn small_files_with_many_pixels_do_not_bring_the_server_down() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // Memory is what is asked about: a busy machine may take its time.
    let serve = ["serve", "--port", "0", "--state", "state", "--work-timeout", "600"];
    let server = Server::of(bounded(MEMORY, &serve, at));
    let (status, task) = server.json("POST", "/v1/tasks", FORM, &form());
    assert_eq!(status, 201, "{task}");
    let predict = format!("/v1/tasks/{}/predict", task["id"].as_str().unwrap());
    // Five hundred together are refused by their headers, before one of them is decoded.
    for path in ["/v1/tasks", predict.as_str()] {
        let (status, body) = server.json("POST", path, FORM, &many(&[GIF; 500]));
        assert_eq!(status, 413, "{body}");
        assert!(body["error"].as_str().unwrap().contains("5504 megapixels together, at most 250"), "{body}");
    }
    // As many as are taken, from several sides at once: they are decoded one after the other.
    let png = png();
    let (gifs, pngs) = (many(&[GIF; 22]), many(&[png.as_slice(); 10]));
    std::thread::scope(|scope| {
        for body in [&gifs, &pngs, &pngs, &gifs] {
            let (server, predict) = (&server, &predict);
            scope.spawn(move || {
                let (status, answer) = server.json("POST", predict, FORM, body);
                assert_eq!(status, 200, "{answer}");
                let rows = answer["predictions"].as_array().unwrap();
                assert!(rows.iter().all(|row| row["none_of_these"].is_boolean()), "{answer}");
            });
        }
    });
    let (status, answer) = server.json("POST", "/v1/tasks", FORM, &pngs);
    assert_eq!(status, 201, "{answer}");
    let (status, answer) =
        server.json("POST", &format!("{predict}?abstain=0"), IMAGE, drawing(1, -2).as_bytes());
    assert_eq!((status, &answer["predictions"][0]["label"]), (200, &"ring".into()), "{answer}");
}

/// Parts that are larger than their image: a frame of 16300 x 16300 on a screen of 10 x 10, a key frame on a canvas of 4 x 4, a tag of
/// 60 million values.
fn overhanging() -> Vec<Vec<u8>> {
    let gif =
        b"GIF89a\x0a\0\x0a\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\xac\x3f\xac\x3f\0\x02\x02\x44\x01\0\x3b"
            .to_vec();
    let chunk = |kind: &[u8], content: &[u8]| [kind, &(content.len() as u32).to_le_bytes(), content].concat();
    let frame = [&b"\x10\xc0\x03\x9d\x01\x2a\xff\x3f\xff\x3f"[..], &[0; 10_000]].concat();
    let chunks =
        [b"WEBP".to_vec(), chunk(b"VP8X", &[0, 0, 0, 0, 3, 0, 0, 3, 0, 0]), chunk(b"VP8 ", &frame)].concat();
    let mut tiff = b"II*\0\x08\0\0\0\x09\0".to_vec();
    let values = 60_000_000;
    for (tag, kind, count, value) in [
        (256u16, 4u16, 1u32, 4u32),
        (257, 4, 1, 4),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, values, 8),
        (277, 3, 1, 1),
        (278, 4, 1, 4),
        (279, 4, values, 8),
    ] {
        tiff.extend(tag.to_le_bytes());
        tiff.extend(kind.to_le_bytes());
        tiff.extend(count.to_le_bytes());
        tiff.extend(value.to_le_bytes());
    }
    tiff.extend([0; 100]);
    vec![gif, chunk(b"RIFF", &chunks), tiff]
}

#[test]
fn parts_larger_than_their_image_do_not_bring_the_server_down() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--port", "0", "--state", "state", "--work-timeout", "600"];
    let server = Server::of(bounded(MEMORY, &serve, folder.path()));
    let (status, task) = server.json("POST", "/v1/tasks", FORM, &form());
    assert_eq!(status, 201, "{task}");
    let predict = format!("/v1/tasks/{}/predict", task["id"].as_str().unwrap());
    for image in overhanging() {
        let body = many(&[image.as_slice(); 3]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (server, predict, body) = (&server, &predict, &body);
                scope.spawn(move || {
                    let (status, answer) = server.json("POST", predict, FORM, body);
                    assert!(status == 200 || status == 413, "{status}: {answer}");
                    let refused =
                        |rows: &Vec<serde_json::Value>| rows.iter().all(|row| row["error"].is_string());
                    assert!(
                        answer["predictions"].as_array().is_some_and(refused) || status == 413,
                        "{answer}"
                    );
                });
            }
        });
    }
    assert_eq!(server.ask("GET", "/health", "", b"").0, 200);
}

#[test]
fn a_folder_of_such_files_is_adapted_to_and_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let png = png();
    for (class, image) in [("gif", GIF), ("png", &png[..])] {
        std::fs::create_dir_all(at.join("wide").join(class)).unwrap();
        for i in 0..10 {
            std::fs::write(at.join(format!("wide/{class}/{i}.{class}")), image).unwrap();
        }
    }
    for args in [&["adapt", "wide"][..], &["predict", "wide.task", "wide", "--format", "jsonl"][..]] {
        let output = bounded(MEMORY / 2, args, at).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        assert!(!text(&output.stdout).contains("error"), "{}", text(&output.stdout));
    }
}

/// Kilobytes of memory that a process holds.
#[cfg(target_os = "linux")]
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn methods_that_nobody_knows_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "secret\n").unwrap();
    let server = Server::start(&["--token-file", "token"], folder.path());
    let ask = |method: &str, path: &str, extra: &str| server.ask(method, path, extra, b"");
    #[cfg(target_os = "linux")]
    let before = resident(&server);
    for i in 0..300 {
        let method = format!("M{i}{}", "X".repeat(20_000));
        let (status, body) = ask(&method, "/v1/tasks", "");
        assert_eq!(status, 501, "{body}");
        assert!(body.contains("error"), "{body}");
    }
    #[cfg(target_os = "linux")]
    assert!(resident(&server) < before + 20_000, "{before} kB before, {} kB after", resident(&server));
    let long = "y".repeat(5_000);
    assert_eq!(ask("GET", &format!("/health?{long}"), "").0, 414);
    assert_eq!(ask("GET", "/health", &format!("X: {}\r\n", "y".repeat(40_000))).0, 431);
    assert_eq!(ask("GET", "/health", &"X: y\r\n".repeat(100)).0, 431);
    // Without the token nothing is told, not even which paths there are, and nothing is counted by its path.
    assert_eq!(
        (ask("GET", "/metrics", "").0, ask("GET", "/nowhere", "").0, ask("PUT", "/v1/tasks", "").0),
        (401, 401, 401)
    );
    let token = "Authorization: Bearer secret\r\n";
    let metrics = ask("GET", "/metrics", token).1;
    assert!(metrics.contains("siskin_refused_total 305"), "{metrics}");
    assert!(
        !metrics.contains("XXX") && !metrics.contains("status=\"401\"") && metrics.len() < 5_000,
        "{metrics}"
    );
    assert_eq!(ask("GET", "/nowhere", token).0, 404);
    let metrics = ask("GET", "/metrics", token).1;
    assert!(metrics.contains("route=\"GET other\",status=\"404\"} 1"), "{metrics}");
}

/// Bodies that unfold in memory, and small questions with long answers, are refused before anything is done.
#[test]
fn what_would_unfold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&[], folder.path());
    let images = format!("{{\"images\":[{}\"\"]}}", "\"\",".repeat(300_000));
    let mut body = String::new();
    for i in 0..200 {
        let name = "n".repeat(190);
        let head = format!(
            "--XX\r\nContent-Disposition: form-data; name=\"{name}{}\"; filename=\"{name}{i}\"",
            i % 2
        );
        write!(body, "{head}\r\n\r\nP2 2 1 255 0 {i}\r\n").unwrap();
    }
    let (status, task) = server.json("POST", "/v1/tasks", FORM, (body + "--XX--\r\n").as_bytes());
    assert_eq!(status, 201, "{task}");
    let predict = format!("/v1/tasks/{}/predict", task["id"].as_str().unwrap());
    let (status, answer) =
        server.json("POST", &predict, "Content-Type: application/json\r\n", images.as_bytes());
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("200000 names"), "{answer}");
    let queries = many(&[b"P2 1 1 255 7".as_slice(); 400]);
    let (status, answer) = server.json("POST", &format!("{predict}?explain=200"), FORM, &queries);
    assert!(status == 413 && answer["error"].as_str().unwrap().contains("the answer would have"), "{answer}");
    let (status, answer) = server.json("POST", &format!("{predict}?explain=2"), FORM, &queries);
    assert_eq!((status, answer["predictions"].as_array().map(Vec::len)), (200, Some(400)));
}

#[test]
fn an_image_beyond_the_bound_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let at: &Path = folder.path();
    std::fs::create_dir_all(at.join("x/a")).unwrap();
    std::fs::create_dir_all(at.join("x/b")).unwrap();
    std::fs::write(at.join("x/a/1.pgm"), drawing(0, 0)).unwrap();
    // A header that claims 68 megapixels, and nothing behind it.
    std::fs::write(at.join("x/b/1.pgm"), "P2 170000 400 255 7").unwrap();
    let output = bounded(MEMORY, &["adapt", "x"], at).output().unwrap();
    let says = text(&output.stderr);
    assert!(!output.status.success() && says.contains("170000 x 400 pixels; at most 67108864"), "{says}");
}

/// What somebody else may have put where the program writes: it is neither waited for nor written through.
#[test]
fn pipes_and_links_in_our_places_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["x/a", "x/b", "out", "piped", "linked"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    for (class, turn) in [("a", 0), ("b", 1)] {
        for i in 0..3 {
            std::fs::write(at(&format!("x/{class}/{i}.pgm")), drawing(turn, i)).unwrap();
        }
    }
    for name in ["out/.1-1.siskin-writing", "piped/.1-1.siskin-writing"] {
        assert!(std::process::Command::new("mkfifo").arg(at(name)).status().unwrap().success());
    }
    let output = bounded(MEMORY, &["adapt", "x", "--out", "out/x.task"], folder.path()).output().unwrap();
    assert!(output.status.success() && at("out/x.task").exists(), "{}", text(&output.stderr));
    let server = Server::of(bounded(MEMORY, &["serve", "--port", "0", "--state", "piped"], folder.path()));
    assert_eq!(server.ask("GET", "/health", "", b"").0, 200);
    std::fs::write(at("victim"), "precious words").unwrap();
    std::os::unix::fs::symlink(at("victim"), at("linked/.siskin-lock")).unwrap();
    let output =
        bounded(MEMORY, &["serve", "--port", "0", "--state", "linked"], folder.path()).output().unwrap();
    let says = text(&output.stderr);
    assert!(!output.status.success() && says.contains(".siskin-lock: it is a link"), "{says}");
    assert_eq!(std::fs::read_to_string(at("victim")).unwrap(), "precious words");
    // A name with a line end makes no line of its own.
    std::os::unix::fs::symlink("nobody", at("x/a/\nerror: forged line.png")).unwrap();
    let output = bounded(MEMORY, &["adapt", "x", "--out", "y.task"], folder.path()).output().unwrap();
    let says = text(&output.stderr) + &text(&output.stdout);
    assert!(says.contains("forged") && !says.lines().any(|line| line.starts_with("error: forged")), "{says}");
}
