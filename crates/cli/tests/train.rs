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

#[test]
fn a_diverged_run_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL).unwrap();
    let output = run(&["train", "small.toml", "--out", "run", "--set", "train.learning_rate=1e30"], at);
    let says = text(&output.stderr);
    assert!(!output.status.success() && says.contains("siskin train --replay"), "{says}");
    let output = run(&["train", "--replay", "run"], at);
    let says = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(says.matches("the gradient is not finite").count(), 3, "{says}");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_reported_and_the_old_checkpoint_stays() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let small = SMALL.replace("episodes = 400", "episodes = 3");
    std::fs::write(at.join("small.toml"), &small).unwrap();
    let output = run(&["train", "small.toml", "--out", "run"], at);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let last = at.join("run/last.safetensors");
    let before = std::fs::read(&last).unwrap();
    let config = at.join("run/config.toml");
    let longer = std::fs::read_to_string(&config).unwrap().replace("episodes = 3", "episodes = 9");
    std::fs::write(&config, longer).unwrap();
    // No file may grow beyond half a checkpoint: writing one fails in its middle, as on a full disk.
    let limit =
        format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" train --resume run", before.len() / 1024 / 2);
    let output = Command::new("sh")
        .args(["-c", &limit, env!("CARGO_BIN_EXE_siskin")])
        .current_dir(at)
        .env("SISKIN_CACHE", at.join("cache"))
        .output()
        .unwrap();
    let says = text(&output.stderr);
    assert!(!output.status.success() && says.contains("cannot write run/last.safetensors"), "{says}");
    assert!(std::fs::read(&last).unwrap() == before, "the old checkpoint was touched");
    assert!(!at.join("run/last.safetensors.writing").exists(), "half a file stayed");
    let output = run(&["train", "--resume", "run"], at);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL).unwrap();
    // A file in the place of a folder stops every user; permissions do not stop root.
    std::fs::write(at.join("taken"), "").unwrap();
    let output = run(&["train", "small.toml", "--out", "taken/run"], at);
    assert!(
        !output.status.success() && text(&output.stderr).contains("taken/run"),
        "{}",
        text(&output.stderr)
    );
    let locked = at.join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(locked.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write to read-only folders");
        return;
    }
    let output = run(&["train", "small.toml", "--out", "locked/run"], at);
    assert!(
        !output.status.success() && text(&output.stderr).contains("locked/run"),
        "{}",
        text(&output.stderr)
    );
}

/// Resident memory of a process in KiB.
#[cfg(target_os = "linux")]
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(target_os = "linux")]
#[test]
fn memory_stays_flat_over_five_thousand_episodes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let long =
        SMALL.replace("episodes = 400", "episodes = 5000").replace("save_every = 1", "save_every = 100");
    std::fs::write(at.join("long.toml"), long).unwrap();
    let mut child =
        siskin(&["train", "long.toml", "--out", "run"], at).stdout(Stdio::null()).spawn().unwrap();
    let mut seen: Vec<(u64, u64)> = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let done = siskin_train::checkpoint::load(&at.join("run/last.safetensors")).map(|c| c.0.episode);
        if let (Ok(done), Some(memory)) = (done, resident(child.id())) {
            seen.push((done, memory));
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(status.success());
    let early = seen.iter().find(|(done, _)| *done >= 500).expect("the run was watched").1;
    let late = seen.iter().rev().find(|(_, memory)| *memory > 0).expect("the run was watched");
    assert!(late.0 >= 4000, "the run was last seen at episode {}", late.0);
    assert!(late.1 < early + early / 10, "{early} KiB after 500 episodes, {} KiB after {}", late.1, late.0);
}
