//! What a person asks of a long run: how long it will take, and how far it is.

mod support;

use std::process::Stdio;
use support::{ok, siskin};

const CONFIG: &str = "
[episode]
way = 2
query = 2
[train]
episodes = 30
validate_every = 10
validate_episodes = 2
save_every = 5
";

/// The seconds of `1 h 2 min`, `3 min 4 s` or `5 s`.
fn seconds(text: &str) -> u64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .chunks(2)
        .map(|pair| {
            pair[0].parse::<u64>().unwrap()
                * match pair[1] {
                    "h" => 3600,
                    "min" => 60,
                    _ => 1,
                }
        })
        .sum()
}

#[test]
fn a_plan_grows_with_the_episodes_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("c.toml"), CONFIG).unwrap();
    let time = |episodes: &str| {
        let text = ok(
            &["--threads", "1", "train", "c.toml", "--plan", "--set", &format!("train.episodes={episodes}")],
            at,
        );
        assert!(
            text.contains(&format!("In all {episodes} episodes: about ")) && text.contains("Memory: about "),
            "{text}"
        );
        seconds(text.split("CPU time ").nth(2).unwrap().split(';').next().unwrap())
    };
    let (short, long) = (time("2000"), time("60000"));
    assert!(long > 5 * short, "{short} {long}");
    assert!(!at.join("runs").exists());
}

#[test]
fn a_fit_of_scalars_that_cannot_be_is_refused_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let phases = "[[phase]]\ntrain = { episodes = 4 }\n[[phase]]\nkind = \"fit-scalars\"\n";
    std::fs::write(at.join("c.toml"), format!("{CONFIG}{phases}")).unwrap();
    let train = ["train", "c.toml", "--method", "proto-net"];
    for more in [&[][..], &["--plan"][..]] {
        let refused = siskin(&[&train[..], more].concat(), at).output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && told.contains("phase 2 is of kind fit-scalars, but proto-net"),
            "{told}"
        );
    }
    assert!(!at.join("runs").exists());
    ok(&["train", "c.toml", "--out", "run", "--set", "train.validate_every=0"], at);
}

#[test]
fn a_run_is_watched_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("c.toml"), CONFIG).unwrap();
    let refused = siskin(&["watch", "nowhere"], at).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("holds no run"));
    let mut training = siskin(&["train", "c.toml", "--out", "run"], at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !at.join("run/config.toml").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let lines = ok(&["watch", "run", "--every", "0.05"], at);
    assert!(training.wait().unwrap().success());
    let last = lines.lines().last().unwrap();
    assert!(last.starts_with("30 of 30 episodes, loss ") && last.ends_with(", trained"), "{lines}");
    assert!(last.contains("validation ") && last.contains(" at 30,"), "{lines}");
    assert_eq!(ok(&["watch", "run", "--once"], at).lines().count(), 1);
}

#[test]
fn a_run_that_nobody_works_on_is_called_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("c.toml"), CONFIG).unwrap();
    let mut training = siskin(&["train", "c.toml", "--out", "run", "--set", "train.episodes=20000"], at);
    let mut training = training.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !at.join("run/last.safetensors").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let works = ok(&["watch", "run", "--once"], at);
    training.kill().unwrap();
    training.wait().unwrap();
    let stopped = ok(&["watch", "run", "--once"], at);
    assert!(works.trim().ends_with(" ago") && stopped.trim().ends_with(" ago, stopped"), "{works}{stopped}");
}

#[test]
fn a_run_that_diverged_before_its_first_save_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let wild =
        "[episode]\nway = 2\nquery = 2\n[train]\nepisodes = 50\nlearning_rate = 1e30\nvalidate_every = 0\n";
    std::fs::write(at.join("c.toml"), wild).unwrap();
    assert!(!siskin(&["train", "c.toml", "--out", "run"], at).output().unwrap().status.success());
    assert!(!at.join("run/last.safetensors").exists());
    let once = ok(&["watch", "run", "--once"], at);
    assert!(once.contains(" of 50 episodes") && once.trim().ends_with(", diverged"), "{once}");
    let watched = siskin(&["watch", "run", "--every", "0.05"], at).output().unwrap();
    let told = String::from_utf8_lossy(&watched.stderr).into_owned();
    assert!(watched.status.code() == Some(1) && told.contains("siskin train --replay run"), "{told}");
}
