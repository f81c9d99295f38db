//! `siskin train` and friends as a person meets them: mistakes, Ctrl-C, kill -9, and going on.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn siskin(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_siskin"));
    command.args(args).current_dir(folder).env("SISKIN_CACHE", folder.join("cache"));
    command
}

fn run(args: &[&str], folder: &Path) -> Output {
    siskin(args, folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SMALL: &str = "
[episode]
way = 2
query = 2
[train]
episodes = 400
validate_every = 0
save_every = 1
";

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("typo.toml"), "[train]\nepisods = 3\n").unwrap();
    std::fs::write(at.join("where.toml"), "[data]\ntrain = \"no/such/folder\"\n").unwrap();
    for (args, says) in [
        (&["train", "typo.toml"][..], "did you mean `episodes`"),
        (&["train", "where.toml"][..], "no/such/folder"),
        (&["train", "absent.toml"][..], "absent.toml"),
        (&["train"][..], "CONFIG"),
        (&["test", "nowhere"][..], "holds no run"),
        (&["train", "typo.toml", "--set", "seed"][..], "no `=`"),
    ] {
        let output = run(args, at);
        assert!(!output.status.success(), "{args:?} should fail");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
    assert!(!at.join("runs").exists(), "a refused run leaves no folder");
}

#[test]
fn fifty_kills_never_lose_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL).unwrap();
    let mut args = vec!["train", "small.toml", "--out", "run"];
    let mut reached = 0;
    for kill in 0..50u64 {
        let mut child = siskin(&args, at).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Different moments of start-up, step and save each time; the first run gets time for its first save.
        let wait = if reached == 0 { 1500 } else { 150 + 13 * kill };
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = at.join("run/last.safetensors");
        if !last.exists() {
            std::fs::remove_dir_all(at.join("run")).ok();
            continue;
        }
        let (position, _) = siskin_train::checkpoint::load(&last).unwrap();
        assert!(position.episode >= reached, "kill {kill}: went back from {reached} to {}", position.episode);
        reached = position.episode;
        args = vec!["train", "--resume", "run"];
    }
    assert!(reached > 0, "no run ever got as far as a checkpoint");
}
