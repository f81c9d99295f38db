//! `siskin reproduce` as a person meets it, on the embedded glyphs: trained once, killed and given again, failing, from
//! elsewhere, as jobs.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{run, siskin, text};

/// `siskin reproduce` with the paper's configs made small.
fn small<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["reproduce"];
    all.extend(args);
    for set in [
        "data.train=glyphs",
        "data.image_size=28",
        "data.augment=false",
        "backbone.name=conv4s",
        "episode.way=2",
        "episode.query=2",
        "train.validate_episodes=2",
        "train.save_every=1",
        "test.groups=2",
        "test.episodes=3",
        "test.query=3",
    ] {
        all.extend(["--set", set]);
    }
    all
}

fn read(at: &Path, file: &str) -> String {
    std::fs::read_to_string(at.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The cells of a CSV line; none of these tests has commas in what it looks at.
fn line<'a>(csv: &'a str, cell: &str) -> Vec<&'a str> {
    let found = csv.lines().find(|line| line.split(',').nth(2) == Some(cell));
    found.unwrap_or_else(|| panic!("no {cell} in {csv}")).split(',').collect()
}

const TWO: [&str; 7] =
    ["table1", "--only", "cub-1shot-ml-low-tau,cub-1shot-proto-net", "--budget", "4", "--out", "out"];

#[test]
fn a_table_is_trained_once_and_says_what_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let first = run(&small(&TWO), at);
    let (stdout, stderr) = (text(&first.stdout), text(&first.stderr));
    assert!(first.status.success(), "{stdout}{stderr}");
    assert!(
        stdout.contains("Table 1 (tab:fsc), 2 runs") && stdout.contains("To train: 8 episodes, about"),
        "{stdout}"
    );
    assert!(stderr.contains("cub-1shot-proto-net: training, 0 of 4 episodes done."), "{stderr}");

    let csv = read(at, "out/budget-4/table1.csv");
    assert_eq!(csv.lines().count(), 109, "every cell of the table has a line");
    let ours = line(&csv, "cub-1shot-ml-low-tau");
    assert_eq!((ours[6], ours[7], ours[12], ours[14]), ("65.21", "0.45", "4", "finished"));
    // The figure is that of `siskin test` on the run folder.
    let tested = run(&["test", "out/budget-4/cub-1shot-ml-low-tau", "--json"], at);
    let report: serde_json::Value = serde_json::from_slice(&tested.stdout).unwrap();
    assert_eq!(ours[8].parse::<f64>().unwrap(), 100.0 * report["over_groups"]["mean"].as_f64().unwrap());
    assert_eq!(line(&csv, "mini-5shot-maml")[14], "not run");

    let markdown = read(at, "out/budget-4/table1.md");
    assert!(
        markdown.contains("paper 65.21 ± 0.45<br>4 episodes<br>`siskin reproduce table1 --only"),
        "{markdown}"
    );
    assert!(markdown.contains("not run<br>paper 46.19 ± 0.64"), "{markdown}");
    assert!(markdown.contains("data.train is \"glyphs\" (paper: \"cub\")"), "{markdown}");
    let html = read(at, "out/budget-4/table1.html");
    assert!(html.contains("2 of 108 runs are finished.") && html.contains("paper 65.21 ± 0.45\n4 episodes"));

    // Given again: nothing is trained or tested. Table 3 has one of these runs.
    let again = run(&small(&TWO), at);
    let stderr = text(&again.stderr);
    assert!(
        again.status.success() && stderr.contains("already trained") && stderr.contains("already tested"),
        "{stderr}"
    );
    assert!(!stderr.contains(": training") && !stderr.contains(": testing"), "{stderr}");
    assert_eq!(read(at, "out/budget-4/table1.csv"), csv);
    let third = run(&small(&["table3", "--only", "cub-cosine", "--budget", "4", "--out", "out"]), at);
    assert!(text(&third.stderr).contains("cub-1shot-ml-low-tau: already tested."), "{}", text(&third.stderr));
    assert_eq!(line(&read(at, "out/budget-4/table3.csv"), "cub-cosine")[8], ours[8]);
}

#[test]
fn a_killed_plan_goes_on_and_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let plan =
        |out| small(&["table1", "--only", "cub-1shot-dkt", "--budget", "150", "--no-timing", "--out", out]);
    let last = at.join("killed/budget-150/cub-1shot-dkt/last.safetensors");
    let mut child = siskin(&plan("killed"), at).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !last.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let report = run(&[&plan("killed")[..], &["--report"]].concat(), at);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let csv = read(at, "killed/budget-150/table1.csv");
    assert!(line(&csv, "cub-1shot-dkt")[14].starts_with("stopped at "), "{csv}");

    let resumed = run(&plan("killed"), at);
    let stderr = text(&resumed.stderr);
    assert!(resumed.status.success(), "{stderr}");
    assert!(stderr.contains("training, ") && !stderr.contains("training, 0 of"), "{stderr}");
    assert!(run(&plan("whole"), at).status.success());
    let bytes = |out: &str, file: &str| std::fs::read(at.join(out).join("budget-150").join(file)).unwrap();
    for file in ["cub-1shot-dkt/best.safetensors", "cub-1shot-dkt/metrics.jsonl"] {
        assert!(bytes("killed", file) == bytes("whole", file), "{file}");
    }
    let csv = |out: &str| read(at, &format!("{out}/budget-150/table1.csv"));
    assert_eq!(line(&csv("killed"), "cub-1shot-dkt")[6..14], line(&csv("whole"), "cub-1shot-dkt")[6..14]);
}

#[test]
fn a_failed_run_is_listed_with_its_reason_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // Another run is in the folder of the first one.
    let other = run(&small(&[&TWO[..], &["--set", "seed=9", "--no-timing"]].concat()), at);
    assert!(other.status.success(), "{}", text(&other.stderr));
    std::fs::remove_dir_all(at.join("out/budget-4/results")).unwrap();
    std::fs::remove_dir_all(at.join("out/budget-4/cub-1shot-proto-net")).unwrap();
    let output = run(&small(&TWO), at);
    let stderr = text(&output.stderr);
    assert!(!output.status.success(), "a failure shows in the exit code");
    assert!(stderr.contains("seed is 9, now 0") && stderr.contains("1 of 2 runs failed"), "{stderr}");
    let csv = read(at, "out/budget-4/table1.csv");
    assert!(csv.contains("failed: ") && csv.contains("seed is 9"), "{csv}");
    assert_eq!(line(&csv, "cub-1shot-proto-net")[14], "finished");
    let markdown = read(at, "out/budget-4/table1.md");
    assert!(markdown.contains("What failed:\n\n- cub-1shot-ml-low-tau: "), "{markdown}");
    assert!(read(at, "out/budget-4/table1.html").contains("What failed"));
    // Fixed, it is no failure any more.
    std::fs::remove_dir_all(at.join("out/budget-4/cub-1shot-ml-low-tau")).unwrap();
    assert!(run(&small(&TWO), at).status.success());
    assert!(!read(at, "out/budget-4/table1.md").contains("What failed"));
}

#[test]
fn a_run_from_elsewhere_takes_the_place_of_a_training_and_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let own = "[episode]\nway = 2\nquery = 2\n[train]\nepisodes = 3\nvalidate_episodes = 2\n";
    std::fs::write(at.join("own.toml"), own).unwrap();
    let trained = run(&["train", "own.toml", "--method", "dkt", "--out", "mine"], at);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let given = ["table1", "--only", "cub-1shot-dkt", "--run", "cub-1shot-dkt=mine", "--out", "out"];
    let output = run(&small(&given), at);
    let stderr = text(&output.stderr);
    assert!(output.status.success() && !stderr.contains("training"), "{stderr}");
    let csv = read(at, "out/table1.csv");
    let ours = line(&csv, "cub-1shot-dkt");
    assert_eq!((ours[12], ours[14], ours[16]), ("3", "finished", "mine"));
    assert!(
        csv.contains("--run cub-1shot-dkt=mine") && csv.contains("train.episodes is 3 (paper: 60000)"),
        "{csv}"
    );
    let again = run(&small(&["table1", "--only", "cub-1shot-dkt", "--out", "out"]), at);
    let stderr = text(&again.stderr);
    assert!(again.status.success() && stderr.contains("cub-1shot-dkt: already tested."), "{stderr}");

    // What is no finished run of these data is a failure with its reason.
    let wrong = small(&["table1", "--only", "mini-1shot-dkt", "--run", "mini-1shot-dkt=mine", "--out", "x"]);
    let wrong: Vec<&str> = wrong
        .into_iter()
        .map(|word| if word == "data.train=glyphs" { "data.train=birds" } else { word })
        .collect();
    let stderr = text(&run(&wrong, at).stderr);
    assert!(stderr.contains("it was trained on glyphs, this cell is trained on birds"), "{stderr}");
}

#[test]
fn a_plan_costs_nothing_and_its_jobs_can_be_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let plan = run(&small(&[&TWO[..], &["--plan"]].concat()), at);
    let stdout = text(&plan.stdout);
    assert!(plan.status.success() && stdout.contains("CPU hours; "), "{stdout}{}", text(&plan.stderr));
    let jobs = run(&small(&[&TWO[..], &["--jobs", "jobs.txt"]].concat()), at);
    assert!(jobs.status.success() && !at.join("out").exists(), "nothing was trained: {}", text(&jobs.stderr));
    let lines = read(at, "jobs.txt");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    #[cfg(unix)]
    {
        for job in lines.lines().chain(lines.lines().take(1)) {
            let mut shell = Command::new("sh");
            let done = shell
                .args(["-c", job])
                .current_dir(at)
                .env("SISKIN_CACHE", at.join("cache"))
                .output()
                .unwrap();
            assert!(done.status.success(), "{job}: {}", text(&done.stderr));
        }
        let csv = read(at, "out/budget-4/table1.csv");
        assert_eq!(csv.lines().filter(|line| line.contains(",finished,")).count(), 2, "{csv}");
        let none = run(&small(&[&TWO[..], &["--jobs", "jobs.txt"]].concat()), at);
        assert!(text(&none.stdout).starts_with("0 jobs"), "{}", text(&none.stdout));
    }
}

#[test]
fn wrong_names_get_the_nearest_and_configs_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (args, says) in [
        (&["reproduce", "tabel2"][..], "did you mean `table2`?"),
        (&["reproduce", "table1", "--only", "cub-1sot"][..], "did you mean `cub-1shot`?"),
        (&["reproduce", "table1", "--methods", "protonet"][..], "did you mean `proto-net`?"),
        (&["reproduce", "table1", "--run", "cub-1shot-dkk=x"][..], "did you mean `cub-1shot-dkt`?"),
        (&["reproduce", "table1", "--run", "x"][..], "write CELL=FOLDER"),
        (&["reproduce", "table1", "--set", "train.episods=3"][..], "did you mean `episodes`?"),
        (&["reproduce"][..], "TABLE"),
    ] {
        let output = run(args, at);
        assert!(!output.status.success(), "{args:?} should fail");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
    assert!(!at.join("runs").exists(), "nothing was trained");
    let written = run(&["reproduce", "--write-configs", "configs"], at);
    assert!(text(&written.stdout).starts_with("156 configs"), "{}", text(&written.stdout));
    assert!(read(at, "configs/table4-temperature/cub-1shot-tau0.75.toml").contains("tau = 0.75"));
}
