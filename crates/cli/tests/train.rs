//! `siskin train` and friends as a person meets them: mistakes, Ctrl-C, kill -9, and going on.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
#[cfg(unix)]
use support::after;
use support::{run, siskin, text};

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

/// Six classes of four small images, and their split.
fn drawings(folder: &Path) {
    for class in 0..6 {
        std::fs::create_dir_all(folder.join(format!("c{class}"))).unwrap();
        for number in 0..4 {
            let pixel = |i: usize| (i * (class + 2) % (11 + number) * 20) as u8;
            let file = std::fs::File::create(folder.join(format!("c{class}/{number}.png"))).unwrap();
            let mut encoder = png::Encoder::new(file, 28, 28);
            encoder.set_color(png::ColorType::Grayscale);
            let pixels: Vec<u8> = (0..28 * 28).map(pixel).collect();
            encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        }
    }
    let split = r#"{"train": ["c0", "c1"], "val": ["c2", "c3"], "test": ["c4", "c5"]}"#;
    std::fs::write(folder.join("splits.json"), split).unwrap();
}

/// Waits until `come` is true of a run that must not end before.
fn wait_until(child: &mut Child, come: impl Fn() -> bool) {
    while !come() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was killed");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Files in a folder that are being written, or were.
fn drafts(folder: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(folder) else { return 0 };
    files
        .filter(|f| f.as_ref().is_ok_and(|f| f.path().to_string_lossy().ends_with(".siskin-writing")))
        .count()
}

/// Every kill comes after a new checkpoint: half of them any time from 0 to 30 ms after it, in steps, validations and saves; half
/// of them while the next checkpoint is being written.
#[test]
fn fifty_kills_in_steps_and_saves_change_no_byte_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // The embedded glyphs take half a second to draw, at every start.
    drawings(&at.join("drawings"));
    let often = SMALL
        .replace("episodes = 400", "episodes = 250")
        .replace("validate_every = 0", "validate_every = 3\nvalidate_episodes = 2");
    std::fs::write(at.join("often.toml"), format!("{often}[data]\ntrain = \"drawings\"\n")).unwrap();
    let last = at.join("run/last.safetensors");
    let writing = || drafts(&at.join("run")) > 0;
    let saved = || std::fs::metadata(&last).and_then(|m| m.modified()).ok();
    let mut args = vec!["train", "often.toml", "--out", "run"];
    let (mut reached, mut half_written) = (0, 0);
    for kill in 0..50u64 {
        let before = saved();
        let mut child = siskin(&args, at).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(&mut child, || saved() != before);
        if kill.is_multiple_of(2) {
            std::thread::sleep(Duration::from_micros(1250 * (kill / 2)));
        } else {
            wait_until(&mut child, writing);
            std::thread::sleep(Duration::from_micros(50 * (kill / 2)));
        }
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was killed");
        child.kill().unwrap();
        child.wait().unwrap();
        half_written += usize::from(writing());
        assert!(drafts(&at.join("run")) <= 1, "the drafts of those killed before are not swept");
        let (position, _) = siskin_train::checkpoint::load(&last).unwrap();
        assert!(position.episode > reached, "kill {kill}: from {reached} to {}", position.episode);
        reached = position.episode;
        args = vec!["train", "--resume", "run"];
    }
    println!("50 kills, {half_written} of them left a half-written checkpoint; {reached} episodes done");
    for args in [&args[..], &["train", "often.toml", "--out", "whole"]] {
        let output = run(args, at);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for file in ["last.safetensors", "best.safetensors", "metrics.jsonl"] {
        let read = |folder: &str| std::fs::read(at.join(folder).join(file)).unwrap();
        assert!(read("run") == read("whole"), "{file} is not that of a run that was never killed");
    }
}

/// A small run on drawings that saves at its end alone, unless it is told to stop.
#[cfg(unix)]
fn saves_at_its_end(at: &Path) {
    drawings(&at.join("drawings"));
    let config = SMALL
        .replace("episodes = 400", "episodes = 250")
        .replace("save_every = 1", "save_every = 100000")
        .replace("validate_every = 0", "validate_every = 3\nvalidate_episodes = 2");
    std::fs::write(at.join("small.toml"), format!("{config}[data]\ntrain = \"drawings\"\n")).unwrap();
}

#[cfg(unix)]
fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// The program with all signals as they are by default, also where these tests run under `nohup`.
#[cfg(target_os = "linux")]
fn heeding_signals(args: &[&str], at: &Path) -> Command {
    let plain = siskin(args, at);
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").arg(plain.get_program()).args(plain.get_args());
    command.current_dir(at).envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

#[cfg(all(unix, not(target_os = "linux")))]
fn heeding_signals(args: &[&str], at: &Path) -> Command {
    siskin(args, at)
}

#[cfg(unix)]
#[test]
fn signals_save_and_stop_with_their_exit_code_and_change_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    saves_at_its_end(at);
    let written = |file: &str| std::fs::metadata(at.join(file)).and_then(|m| m.modified()).ok();
    let mut reached = 0;
    let mut args = vec!["train", "small.toml", "--out", "run"];
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("TERM", 143)] {
        // The metrics are opened when training begins.
        let before = written("run/metrics.jsonl");
        let mut child =
            heeding_signals(&args, at).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(&mut child, || written("run/metrics.jsonl") != before);
        std::thread::sleep(Duration::from_millis(100));
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{signal}");
        assert!(text(&output.stdout).contains("train --resume run"), "{signal}: {}", text(&output.stdout));
        let (position, _) = siskin_train::checkpoint::load(&at.join("run/last.safetensors")).unwrap();
        assert!(position.episode > reached && position.episode < 250, "{signal}: {}", position.episode);
        reached = position.episode;
        args = vec!["train", "--resume", "run"];
    }
    for args in [&args[..], &["train", "small.toml", "--out", "whole"]] {
        let output = run(args, at);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for file in ["last.safetensors", "best.safetensors", "metrics.jsonl"] {
        let read = |folder: &str| std::fs::read(at.join(folder).join(file)).unwrap();
        assert!(read("run") == read("whole"), "{file} is not that of a run that was never stopped");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_hangup_does_not_stop_a_run_under_nohup_and_tests_end_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    saves_at_its_end(at);
    let mut command = after("trap '' HUP", &["train", "small.toml", "--out", "run"], at);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(&mut child, || at.join("run/best.safetensors").exists());
    send("HUP", &child);
    assert!(child.wait().unwrap().success(), "the run went on to its end");
    let mut child = siskin(&["test", "run", "--set", "test.groups=100000"], at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The handler is there once the thread that waits for signals is.
    let listens = |child: u32| {
        let threads = std::fs::read_dir(format!("/proc/{child}/task")).unwrap();
        let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
        threads.flatten().filter_map(|thread| name(thread).ok()).any(|name| name.trim() == "signals")
    };
    let id = child.id();
    wait_until(&mut child, || listens(id));
    send("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
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
    let limit = format!("trap '' XFSZ; ulimit -f {}", before.len() / 1024 / 2);
    let output = after(&limit, &["train", "--resume", "run"], at).output().unwrap();
    let says = text(&output.stderr);
    assert!(!output.status.success() && says.contains("cannot write run/last.safetensors"), "{says}");
    assert!(std::fs::read(&last).unwrap() == before, "the old checkpoint was touched");
    assert_eq!(drafts(&at.join("run")), 0, "half a file stayed");
    let output = run(&["train", "--resume", "run"], at);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Permissions do not stop root: a folder in the place of the file stops every user.
#[test]
fn a_checkpoint_that_cannot_be_written_is_named_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL.replace("episodes = 400", "episodes = 3")).unwrap();
    let output = run(&["train", "small.toml", "--out", "run"], at);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (best, config) = (at.join("run/best.safetensors"), at.join("run/config.toml"));
    let longer = std::fs::read_to_string(&config).unwrap().replace("episodes = 3", "episodes = 9");
    std::fs::write(&config, longer).unwrap();
    std::fs::remove_file(&best).unwrap();
    std::fs::create_dir(&best).unwrap();
    let output = run(&["train", "--resume", "run"], at);
    let says = text(&output.stderr);
    assert!(!output.status.success() && says.contains("cannot write run/best.safetensors"), "{says}");
    assert_eq!(drafts(&at.join("run")), 0, "half a file stayed");
    let (position, _) = siskin_train::checkpoint::load(&at.join("run/last.safetensors")).unwrap();
    assert_eq!(position.episode, 9);
    std::fs::remove_dir(&best).unwrap();
    let output = run(&["train", "--resume", "run"], at);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(best.is_file());
}

#[test]
fn a_run_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL).unwrap();
    std::fs::write(at.join("taken"), "").unwrap();
    let output = run(&["train", "small.toml", "--out", "taken/run"], at);
    let says = text(&output.stderr);
    assert!(!output.status.success() && says.contains("taken/run"), "{says}");
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), SMALL).unwrap();
    let locked = at.join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = siskin(&["train", "small.toml", "--out", "locked/run"], at);
    if std::fs::write(locked.join("probe"), "").is_ok() {
        command = as_nobody(command, at);
    }
    let output = command.output().unwrap();
    assert!(
        !output.status.success() && text(&output.stderr).contains("locked/run"),
        "{}",
        text(&output.stderr)
    );
}

/// The command by a user whom permissions stop, for tests that root runs. The program may lie where only root can read: a copy
/// of it goes into the folder, which is opened to all.
#[cfg(unix)]
fn as_nobody(command: Command, at: &Path) -> Command {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let program = at.join("siskin");
    std::fs::copy(command.get_program(), &program).unwrap();
    for path in [at, &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut again = Command::new(program);
    again.args(command.get_args()).current_dir(at).env("SISKIN_CACHE", at.join("cache"));
    again.uid(NOBODY).gid(NOBODY);
    again
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
