//! `siskin bench` as a person and as a script meet it.

use std::process::{Command, Output};

fn siskin(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_siskin")).args(args).output().unwrap()
}

#[test]
fn times_are_given_as_a_table_and_as_json() {
    let case = ["bench", "--threads", "1", "--side", "28", "--shot", "1", "--repeats", "1"];
    let table = siskin(&case);
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(table.status.success(), "{}", String::from_utf8_lossy(&table.stderr));
    for part in ["1 thread(s)", "training", "test", "network", "Gaussian process", "images/s", "of peak"] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    assert!(text.contains("quadrature") && text.contains("8 steps"), "{text}");
    let shape =
        ["--way", "7", "--query", "2", "--objective", "predictive", "--inference", "joint", "--steps", "3"];
    let other = siskin(&[&case[..], &shape].concat());
    let text = String::from_utf8(other.stdout).unwrap();
    assert!(text.contains("7-way 1-shot, training") && text.contains("3 steps"), "{text}");
    let json = siskin(&[&case[..], &["--json", "--precision", "bf16-emulated"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&report["threads"], &report["precision"]), (&1.into(), &"bf16-emulated".into()));
    assert_eq!(report["cases"].as_array().unwrap().len(), 1);
    for part in ["train", "test"] {
        let part = &report["cases"][0][part];
        let wall = |name: &str| part[name]["wall"].as_f64().unwrap();
        assert!(
            wall("backbone") > 0.0 && wall("gp") > 0.0 && wall("whole") > wall("gp").min(wall("backbone"))
        );
    }
}

/// A device that this build does not have is refused by every command that takes a network, before any work.
#[cfg(not(feature = "cuda"))]
#[test]
fn every_command_with_a_network_takes_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir_all(at.join("images/a")).unwrap();
    std::fs::create_dir_all(at.join("images/b")).unwrap();
    for (name, ink) in [("images/a/1.pgm", "0 "), ("images/b/1.pgm", "90 ")] {
        let picture = format!("P2\n20 20\n255\n{}{}", "255 ".repeat(200), ink.repeat(200));
        std::fs::write(at.join(name), picture).unwrap();
    }
    std::fs::write(at.join("c.toml"), "[train]\nepisodes = 2\n").unwrap();
    std::fs::write(at.join("t.toml"), "config = \"c.toml\"\n[[grid]]\nseed = [0]\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_siskin"));
        command.args(args).current_dir(at).env("SISKIN_CACHE", at.join("cache")).output().unwrap()
    };
    assert!(run(&["adapt", "images", "--out", "t.task"]).status.success());
    for args in [
        "train c.toml",
        "train c.toml --plan",
        "test omniglot-conv4s --data glyphs",
        "calibrate omniglot-conv4s --data glyphs",
        "compare c.toml --methods cdkt",
        "compare --run omniglot-conv4s --data glyphs",
        "reproduce table4 --only cub-1shot-tau1 --set data.train=glyphs --no-timing",
        "sweep t.toml",
        "quickstart",
        "bench",
        "export omniglot-conv4s --data glyphs --out m.safetensors",
        "embed omniglot-conv4s images --out v.npy",
        "adapt images",
        "adapt images --model omniglot-conv4s",
        "adapt --to t.task --add images",
        "predict t.task images",
        "trust omniglot-conv4s --data glyphs",
        "serve --port 0 --state state",
    ] {
        let words: Vec<&str> = args.split(' ').chain(["--device", "cuda"]).collect();
        let output = run(&words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains("cargo build --release --features cuda"),
            "{args}: {text}"
        );
    }
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    for (args, says) in [
        (&["bench", "--side", "4"][..], "4 is not in 16..=512"),
        (&["bench", "--objective", "predictiv"][..], "did you mean `predictive`"),
        (&["bench", "--objective", "elbo", "--inference", "natural"][..], "does not go with"),
        (&["bench", "--precision", "fp16"][..], "did you mean `bf16`"),
        (&["bench", "--device", "tpu"][..], "cpu, cuda, wgpu or metal"),
        #[cfg(not(feature = "cuda"))]
        (&["bench", "--device", "cuda"][..], "cargo build --release --features cuda"),
        (&["bench", "--device", "cuda", "--precision", "bf16"][..], "choose precision f32"),
        (&["train", "--resume", "nowhere", "--precision", "bf16"][..], "cannot be changed"),
    ] {
        let output = siskin(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(says), "{args:?}: {text}");
        let stdout = text.matches(says).count();
        assert_eq!(stdout, 1, "said {stdout} times: {text}");
    }
}
