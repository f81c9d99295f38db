//! Other people's networks: added, tried, embedded with, adapted, asked and served. The networks are small and made here.

use crate::server::Server;
use crate::support::{ok, run, text};
use siskin_adapt::foreign::tiny;
use std::path::Path;

/// `photos/<class>/<n>.ppm`: colours and stripes, and one more of each as `new/<class>.ppm`.
pub(crate) fn photos(at: &Path) {
    for (class, colour) in [("grass", [60, 160, 40]), ("sky", [90, 140, 230]), ("sand", [220, 190, 120])] {
        let photo = |n: i32| {
            let pixel = |i: i32| {
                let wave = (i * (n + 3) / 7 % 30) - 15;
                colour.map(|c: i32| (c + wave).clamp(0, 255) as u8)
            };
            [b"P6 24 20 255\n".to_vec(), (0..480).flat_map(pixel).collect()].concat()
        };
        std::fs::create_dir_all(at.join("photos").join(class)).unwrap();
        (0..4).for_each(|n| std::fs::write(at.join(format!("photos/{class}/{n}.ppm")), photo(n)).unwrap());
        std::fs::create_dir_all(at.join("new")).unwrap();
        std::fs::write(at.join(format!("new/{class}.ppm")), photo(9)).unwrap();
    }
}

pub(crate) fn refused(args: &[&str], at: &Path) -> String {
    let output = run(args, at);
    assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
    let stdout = text(&output.stderr);
    assert!(stdout.starts_with("error: ") && stdout.trim_end().lines().count() == 1, "{args:?}: {stdout}");
    stdout
}

#[test]
fn a_network_is_added_and_everything_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    std::fs::write(at.join("tiny.onnx"), tiny::network(Some(16))).unwrap();
    assert!(refused(&["adapt", "photos", "--model", "tiny.onnx"], at).contains("siskin model add"));
    let stdout = ok(&["model", "add", "tiny.onnx", "--name", "tiny", "--preset", "siglip"], at);
    assert!(
        stdout.contains("`x` [N, 3, 16, 16]: squashed") && stdout.contains("`features`: 8 numbers"),
        "{stdout}"
    );
    // What was given is not needed any more.
    std::fs::remove_file(at.join("tiny.onnx")).unwrap();
    assert!(
        ok(&["model", "list"], at).contains("tiny  0.0 MB, images of 16 pixels, 8 features of `features`")
    );
    assert!(ok(&["model", "show", "tiny"], at).contains("(v / 255 - [0.5, 0.5, 0.5])"));
    let tried = ok(&["model", "try", "tiny", "photos", "--presets"], at);
    assert!(
        tried.contains("12 of 12 nearest images lie in the same folder") && tried.contains("dinov2"),
        "{tried}"
    );

    let told = refused(&["embed", "tiny", "photos", "--out", "v.safetensors", "--device", "wgpu"], at);
    assert!(told.contains("computed by the CPU alone: leave --device wgpu out"), "{told}");
    ok(&["embed", "tiny", "photos", "--out", "v.safetensors", "--unit"], at);
    let again = ok(&["--threads", "1", "embed", "tiny", "photos", "--out", "w.safetensors", "--unit"], at);
    assert!(again.contains("12 vectors of 8 numbers (12 from the cache), 3 folders"), "{again}");
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert_eq!(bytes("v.safetensors"), bytes("w.safetensors"));

    ok(&["adapt", "photos", "--model", "tiny"], at);
    let page = std::fs::read_to_string(at.join("photos.report.html")).unwrap();
    assert!(page.contains("siskin serve --model tiny"));
    let answers = ok(&["predict", "photos.task", "new", "--format", "jsonl"], at);
    for line in answers.lines() {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        let path = answer["path"].as_str().unwrap();
        assert_eq!(path, format!("new/{}.ppm", answer["label"].as_str().unwrap()), "{line}");
    }
    assert_eq!(answers.lines().count(), 3);
    assert_eq!(ok(&["--threads", "1", "predict", "photos.task", "new", "--format", "jsonl"], at), answers);

    // Other images say where classes end; no probability changes.
    let beside = ok(&["adapt", "--others", "photos", "--to", "photos.task"], at);
    assert!(beside.contains("12 other images of the same kind stand beside them."), "{beside}");
    assert_eq!(ok(&["predict", "photos.task", "new", "--format", "jsonl"], at), answers);
    ok(&["adapt", "--remove", "sky", "--to", "photos.task"], at);
    let few = refused(&["adapt", "--others", "new", "--to", "photos.task"], at);
    assert!(few.contains("3 other images were given; at least 10"), "{few}");
    let carded = ["adapt", "photos", "--model", "mini-imagenet-conv4", "--others", "photos"];
    assert!(refused(&carded, at).contains("of no use to this model"));

    let server = Server::start(&["--model", "tiny"], at);
    assert_eq!(server.json("GET", "/v1/models", "", b"").1["models"][0]["name"], "tiny");
    drop(server);
    ok(&["model", "remove", "tiny"], at);
    let gone = text(&run(&["predict", "photos.task", "new"], at).stderr);
    assert!(gone.contains("error: ") && gone.contains("Name it with --model"), "{gone}");
}

#[test]
fn files_that_are_no_networks_get_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let good_bytes = tiny::network(Some(16));
    // A file of 200 bytes that asks for 4 TB.
    let huge = tiny::file(
        &[
            tiny::node("ConstantOfShape", &["shape"], "ones", &[]),
            tiny::node("Add", &["x", "ones"], "y", &[]),
        ],
        &[tiny::wholes("shape", &[1, 1_000_000, 1_000, 1_000])],
        &[tiny::value("x", &[None, Some(3), Some(16), Some(16)])],
        &[tiny::value("y", &[None, None])],
    );
    let cases = [
        ("cut", good_bytes[..good_bytes.len() / 2].to_vec(), "cannot be used"),
        ("text", b"no network".to_vec(), "no ONNX network"),
        ("huge", huge, "cannot be used"),
    ];
    for (name, bytes, why) in cases {
        let file = format!("{name}.onnx");
        std::fs::write(at.join(&file), bytes).unwrap();
        let stdout = refused(&["model", "add", &file, "--name", name], at);
        assert!(stdout.contains(why) && stdout.contains(&file), "{stdout}");
    }
    assert!(refused(&["model", "add", "none.onnx", "--name", "n"], at).contains("none.onnx"));
    assert!(ok(&["model", "list"], at).contains("none yet"));
    std::fs::write(at.join("good.onnx"), good_bytes).unwrap();
    assert!(refused(&["model", "add", "good.onnx", "--name", "../up"], at).contains("a name has"));
    // The name is looked at before the file is.
    assert!(refused(&["model", "add", "none.onnx", "--name", "../up"], at).contains("a name has"));
    let bytes = ["model", "add", "good.onnx", "--name", "n", "--mean", "127,127,127"];
    assert!(refused(&bytes, at).contains("divide mean and standard deviation by 255"));
    for command in [&["try", "mini-imagenet-conv4", "."][..], &["show", "mini-imagenet-conv4"]] {
        assert!(refused(&[&["model"], command].concat(), at).contains("inside the program"));
    }
    assert!(
        refused(&["model", "add", "good.onnx", "--name", "n", "--mean", "1,2"], at).contains("three numbers")
    );
    for command in [&["try", "nobody", "."][..], &["show", "nobody"], &["remove", "nobody"]] {
        assert!(refused(&[&["model"], command].concat(), at).contains("no model of this name"));
    }
}

/// A head is trained on an added network, tested, exported and used; the network must stay the one it was trained on.
#[test]
fn a_head_is_trained_on_a_frozen_network() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    photos(at);
    // 14 classes of one colour each.
    let classes: Vec<String> = (0..14).map(|c| format!("c{c:02}")).collect();
    for (c, class) in classes.iter().enumerate() {
        std::fs::create_dir_all(at.join("many").join(class)).unwrap();
        for n in 0..8usize {
            let pixel =
                |i: usize| [17 * c, 255 - 18 * c, (40 * c + (i * (n + 3) / 7 % 30)) % 256].map(|v| v as u8);
            let bytes = [b"P6 24 20 255\n".to_vec(), (0..480).flat_map(pixel).collect()].concat();
            std::fs::write(at.join(format!("many/{class}/{n}.ppm")), bytes).unwrap();
        }
    }
    let splits = serde_json::json!({"train": classes[..4], "val": classes[4..11], "test": classes[11..]});
    std::fs::write(at.join("many/splits.json"), splits.to_string()).unwrap();
    std::fs::write(at.join("tiny.onnx"), tiny::network(Some(16))).unwrap();
    ok(&["model", "add", "tiny.onnx", "--name", "tiny", "--preset", "siglip"], at);
    let config = "[data]\ntrain = \"many\"\n[backbone]\nnetwork = \"tiny\"\nrank = 2\n[episode]\nway = 2\nshot = 2\nquery = 2\n\
        [train]\nvalidate_episodes = 4\n[test]\nway = 2\nshot = 2\nquery = 2\ngroups = 1\nepisodes = 5\n\
        [cdkt]\nkernel = \"rbf\"\nscalars = \"log\"\nobjective = \"predictive\"\ninference = \"joint\"\ntest_inference = \"joint\"\n\
        prior_mean = -4.0\nlearn_prior_mean = true\n\
        [[phase]]\nname = \"layer\"\ntrain = { episodes = 6, validate_every = 3 }\n\
        [[phase]]\nname = \"scalars\"\nkind = \"fit-scalars\"\nfit = { episodes = 6 }\n";
    std::fs::write(at.join("head.toml"), config).unwrap();
    ok(&["train", "head.toml", "--out", "run"], at);
    let again = ["--threads", "1", "train", "head.toml", "--out", "again"];
    ok(&again, at);
    let best = |run: &str| std::fs::read(at.join(run).join("best.safetensors")).unwrap();
    assert_eq!(best("run"), best("again"), "vectors from the cache, on one thread: the same bytes");

    let by_run = ok(&["test", "run"], at);
    assert!(by_run.contains("2-way 2-shot") && by_run.contains("5 episodes"), "{by_run}");
    assert!(ok(&["calibrate", "run"], at).contains("tuned (T = "));
    let few = [
        "--set",
        "test.groups=1",
        "--set",
        "test.episodes=3",
        "--set",
        "test.way=2",
        "--set",
        "test.query=2",
    ];
    let untrained = ok(&[&["test", "tiny", "--data", "many"][..], &few].concat(), at);
    assert!(untrained.contains("model after 0 training episodes"), "{untrained}");

    // An added network, a head on it and a network of our own are asked the same episodes.
    let compared = ["compare", "--run", "tiny", "--run", "run", "--run", "omniglot-conv4s", "--data", "many"];
    let compared = ok(&[&compared[..], &few, &["--out", "compared"]].concat(), at);
    assert!(compared.contains("omniglot-conv4s") && compared.contains("difference to tiny"), "{compared}");

    ok(&["export", "run", "--out", "head.safetensors"], at);
    let by_file = ok(
        &[
            "test",
            "head.safetensors",
            "--data",
            "many",
            "--set",
            "test.groups=1",
            "--set",
            "test.episodes=5",
            "--set",
            "test.shot=2",
            "--set",
            "test.query=2",
        ],
        at,
    );
    assert_eq!(by_file.lines().nth(1), by_run.lines().nth(1), "{by_file}");
    ok(&["adapt", "photos", "--model", "head.safetensors"], at);
    assert_eq!(ok(&["predict", "photos.task", "new", "--format", "jsonl"], at).lines().count(), 3);

    let refused_key = |key: &str| refused(&["train", "head.toml", "--set", key, "--out", "no"], at);
    assert!(refused_key("backbone.rank=0").contains("nothing to move"));
    assert!(refused_key("data.augment=true").contains("data.augment has no effect beside backbone.network"));
    assert!(refused_key("backbone.network=other").contains("no model of this name"));
    ok(&["model", "remove", "tiny"], at);
    assert!(
        refused(&["adapt", "photos", "--model", "head.safetensors"], at).contains("stands on this network")
    );
}
