//! `siskin data`, driven as a person drives it.

mod support;

use std::path::{Path, PathBuf};
use std::process::Output;
use support::run;

/// A folder to work in, with a cache of its own and a data set `birds` of four classes with four images each.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Desk { dir: tempfile::tempdir().unwrap() };
        for (c, class) in ["auk", "owl", "ruff", "tern"].iter().enumerate() {
            (0..4).for_each(|i| desk.put(&format!("birds/{class}/{i}.png"), &png((c * 4 + i) as u8)));
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn siskin(&self, args: &[&str]) -> Output {
        run(&[&["data"], args].concat(), self.dir.path())
    }

    /// Standard output of a command that must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.siskin(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard output and error of a command that must fail.
    fn fails(&self, args: &[&str]) -> String {
        let output = self.siskin(args);
        assert!(!output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

fn png(value: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 30, 20);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[value; 600]).unwrap();
    out
}

fn png_size(path: &Path) -> (u32, u32) {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let reader = png::Decoder::new(file).read_info().unwrap();
    (reader.info().width, reader.info().height)
}

#[test]
fn import_then_use_by_name() {
    let desk = Desk::new();
    let stdout = desk.ok(&["import", "birds", "--name", "my-birds"]);
    assert!(stdout.contains("my-birds: 4 classes, 16 images (one folder per class)"), "{stdout}");
    assert!(stdout.contains("It was read") && stdout.contains("--data my-birds"), "{stdout}");
    let again = desk.ok(&["import", "birds", "--name", "my-birds"]);
    assert!(again.contains("It was in the cache already"), "{again}");
    let other = desk.ok(&["import", "birds"]);
    assert!(other.contains("It was in the cache already") && other.contains("--data birds"), "{other}");
    let listed = desk.ok(&["list"]);
    assert!(
        listed.contains("glyphs") && listed.contains("my-birds") && listed.contains("CUB_200_2011.tgz"),
        "{listed}"
    );
    let json: serde_json::Value = serde_json::from_str(&desk.ok(&["list", "--json"])).unwrap();
    assert_eq!(
        (&json["imported"][0]["name"], &json["imported"][1]["name"]),
        (&"birds".into(), &"my-birds".into())
    );
    let sound = desk.ok(&["check", "--data", "my-birds"]);
    assert!(sound.contains("No problem was found."), "{sound}");
    let wrong = desk.fails(&["check", "--data", "my-brids"]);
    assert!(wrong.contains("did you mean my-birds?"), "{wrong}");
}

#[test]
fn check_names_what_is_wrong_and_fails() {
    let desk = Desk::new();
    desk.put("birds/owl/broken.jpg", b"not a picture");
    desk.put("birds/owl/empty.png", b"");
    desk.put("birds/tern/copy.png", &png(0));
    desk.put("birds/notes.txt", b"hello");
    let stdout = desk.fails(&["check", "--data", "birds"]);
    for expected in [
        "birds: 4 classes, 17 images",
        "broken.jpg: the content is no image that can be read",
        "empty.png: the file is empty",
        "the same image is in different classes: auk/0.png, tern/copy.png",
        "What to do: convert it to PNG or JPEG",
        "notes.txt",
        "birds has 3 problems",
    ] {
        assert!(stdout.contains(expected), "{expected} is missing in:\n{stdout}");
    }
    let json = desk.siskin(&["check", "--data", "birds", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json["images"].as_u64(), json["problems"].as_array().map(Vec::len)), (Some(17), Some(3)));
}

#[test]
fn bad_images_stop_an_import_or_are_skipped() {
    let desk = Desk::new();
    desk.put("birds/owl/broken.jpg", b"not a picture");
    let stdout = desk.fails(&["import", "birds"]);
    assert!(stdout.contains("broken.jpg") && stdout.contains("--on-bad-image skip"), "{stdout}");
    let stdout = desk.ok(&["import", "birds", "--on-bad-image", "skip"]);
    assert!(stdout.contains("4 classes, 16 images") && stdout.contains("1 problem"), "{stdout}");
}

#[test]
fn a_random_split_is_written_and_found_again() {
    let desk = Desk::new();
    let stdout = desk.fails(&["preview", "--data", "birds", "--out", "x.png"]);
    assert!(stdout.contains("has no split into classes") && stdout.contains("--split all"), "{stdout}");
    let command = "`siskin data split --data birds --make 2,1 --out birds/splits.json`";
    assert!(stdout.contains(command), "{stdout}");
    desk.ok(&["split", "--data", "birds", "--make", "2,1", "--out", "birds/splits.json"]);
    let stdout = desk.ok(&["split", "--data", "birds", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(json[0]["parts"], serde_json::json!([[2, 8], [1, 4], [1, 4]]));
    let stdout = desk.fails(&["split", "--data", "birds", "--make", "4,1", "--out", "x.json"]);
    assert!(stdout.contains("4 + 1 classes were asked for, but birds has 4"), "{stdout}");
    let stdout = desk.ok(&["split", "--data", "glyphs", "--cross", "birds"]);
    assert!(stdout.contains("glyphs -> birds"), "{stdout}");
}

#[test]
fn previews_and_episodes() {
    let desk = Desk::new();
    desk.ok(&["preview", "--data", "birds", "--split", "all", "--tile", "20", "--out", "sheet.png"]);
    let (width, height) = png_size(&desk.path("sheet.png"));
    assert!(width >= 10 * 20 && height >= 4 * 20, "{width} x {height}");
    let shape = ["--data", "birds", "--split", "all", "--way", "3", "--shot", "1", "--query", "2"];
    desk.ok(&[&["preview", "--episode", "0", "--out", "episode.png"], &shape[..]].concat());
    assert!(png_size(&desk.path("episode.png")).0 > 0);
    for out in ["a.jsonl", "b.jsonl"] {
        desk.ok(&[&["episodes", "--count", "5", "--seed", "3", "--out", out], &shape[..]].concat());
    }
    let list = std::fs::read_to_string(desk.path("a.jsonl")).unwrap();
    assert_eq!(list.lines().count(), 6, "a header and five episodes");
    assert_eq!(list, std::fs::read_to_string(desk.path("b.jsonl")).unwrap());
    let stdout = desk.fails(&[
        "episodes", "--data", "birds", "--split", "all", "--way", "9", "--query", "1", "--out", "x",
    ]);
    assert!(stdout.contains('4') && stdout.contains('9'), "{stdout}");
}

#[test]
fn an_original_is_explained_and_checked() {
    let desk = Desk::new();
    let stdout = desk.ok(&["import", "--as", "cub"]);
    assert!(stdout.contains("https://data.caltech.edu") && stdout.contains("i%4=1"), "{stdout}");
    let stdout = desk.fails(&["import", "birds", "--as", "cub"]);
    assert!(stdout.contains("the number of classes should be 200, but is 4"), "{stdout}");
    let stdout = desk.fails(&["import", "birds", "--as", "omnigolt"]);
    assert!(stdout.contains("Did you mean omniglot?"), "{stdout}");
}

#[test]
fn help_teaches() {
    let desk = Desk::new();
    for command in ["list", "import", "check", "split", "preview", "episodes"] {
        let stdout = desk.ok(&[command, "--help"]);
        assert!(stdout.contains("Example") && stdout.contains(&format!("siskin data {command}")), "{stdout}");
    }
}
