//! `siskin sweep` as a person meets it, on the embedded glyphs: a grid at one and at two runs a time, killed and given again,
//! failing, and as a job for a scheduler.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{run, siskin, text};

fn read(at: &Path, file: &str) -> String {
    std::fs::read_to_string(at.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

const CONFIG: &str = "
[episode]
way = 2
query = 2
[train]
episodes = 4
validate_every = 0
save_every = 1
[test]
groups = 1
episodes = 4
query = 3
";

/// Two temperatures, two seeds.
fn grid(at: &Path, episodes: u64) {
    std::fs::write(at.join("c.toml"), CONFIG).unwrap();
    let table = format!(
        "config = \"c.toml\"\n[set]\ntrain.episodes = {episodes}\n[[grid]]\ncdkt.tau = [0.5, 1.0]\nseed = [0, 1]\n"
    );
    std::fs::write(at.join("t.toml"), table).unwrap();
}

/// The names of the runs in the order of the table.
fn names(at: &Path, out: &str) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_str(&read(at, &format!("{out}/sweep.json"))).unwrap();
    list.as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_grid_is_run_once_and_its_table_does_not_depend_on_how() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at, 4);
    let one = run(&["sweep", "t.toml", "--out", "one"], at);
    assert!(one.status.success(), "{}{}", text(&one.stdout), text(&one.stderr));
    let two = run(&["sweep", "t.toml", "--out", "two", "--parallel", "2", "--cpus", "1"], at);
    assert!(two.status.success(), "{}{}", text(&two.stdout), text(&two.stderr));
    for table in ["table.csv", "table.md", "runs.csv"] {
        assert_eq!(read(at, &format!("one/{table}")), read(at, &format!("two/{table}")));
    }
    let table = read(at, "one/table.csv");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 3, "one line a temperature: {table}");
    assert_eq!(
        (&lines[0][..4], lines[1][1], lines[2][2]),
        (&["cdkt.tau", "runs", "finished", "accuracy"][..], "2", "2")
    );
    assert_eq!(*lines[1].last().unwrap(), "seeds");
    // The mean over the seeds is that of `siskin test` on the run folders.
    let all = names(at, "one");
    let accuracies = all[..2].iter().map(|name| {
        let tested = run(&["test", &format!("one/{name}/run"), "--json"], at);
        let report: serde_json::Value = serde_json::from_slice(&tested.stdout).unwrap();
        report["over_episodes"]["mean"].as_f64().unwrap()
    });
    let mean = accuracies.sum::<f64>() / 2.0;
    assert_eq!(lines[1][3].parse::<f64>().unwrap(), mean);

    let again = run(&["sweep", "t.toml", "--out", "one"], at);
    assert!(text(&again.stdout).contains("4 runs in one, 4 of them finished"), "{}", text(&again.stdout));
    let status = text(&run(&["sweep", "status", "one"], at).stdout);
    assert!(status.contains("4 of 4 finished, 0 failed, begun again 0 times"), "{status}");
    // Another table in the same folder: what is there is kept.
    std::fs::write(at.join("t.toml"), read(at, "t.toml").replace("[0, 1]", "[0, 1, 2]")).unwrap();
    let longer = run(&["sweep", "t.toml", "--out", "one"], at);
    assert!(text(&longer.stdout).contains("6 runs in one, 4 of them finished"), "{}", text(&longer.stdout));
}

/// Waits until `file` has text in it, and reads it.
fn wait_for(file: &Path) -> String {
    let begun = Instant::now();
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if !text.is_empty() => return text,
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{} is not there", file.display());
    }
}

#[test]
fn killed_runs_go_on_and_the_table_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at, 60);
    let calm = run(&["sweep", "t.toml", "--out", "calm"], at);
    assert!(calm.status.success(), "{}", text(&calm.stderr));
    let name = &names(at, "calm")[0];
    // The first worker is killed in the middle, then the whole sweep is told to stop.
    let mut sweep = siskin(&["sweep", "t.toml", "--out", "hard"], at);
    let mut child =
        sweep.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for(&at.join(format!("hard/{name}/run/metrics.jsonl")));
    let worker = wait_for(&at.join(format!("hard/{name}/.siskin-lock")));
    assert!(Command::new("kill").args(["-9", worker.trim()]).status().unwrap().success());
    let log = at.join(format!("hard/{name}/attempts.jsonl"));
    while std::fs::read_to_string(&log).unwrap_or_default().lines().count() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "the sweep ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let status = text(&run(&["sweep", "status", "hard"], at).stdout);
    assert!(status.contains("begun 2 times") && !status.contains("at work"), "{status}");
    let rest = run(&["sweep", "t.toml", "--out", "hard", "--parallel", "2"], at);
    assert!(rest.status.success(), "{}{}", text(&rest.stdout), text(&rest.stderr));
    assert_eq!(read(at, "hard/runs.csv"), read(at, "calm/runs.csv"));
    for file in ["last.safetensors", "metrics.jsonl"] {
        let of = |out: &str| std::fs::read(at.join(format!("{out}/{name}/run/{file}"))).unwrap();
        assert_eq!(of("hard"), of("calm"), "{file}");
    }
}

#[test]
fn what_fails_is_listed_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("c.toml"), CONFIG).unwrap();
    let table = "config = \"c.toml\"\n[[grid]]\nseed = 0\ndata.train = [\"glyphs\", \"no/such/folder\"]\n";
    std::fs::write(at.join("t.toml"), table).unwrap();
    let done = run(&["sweep", "t.toml", "--out", "out"], at);
    assert_eq!(done.status.code(), Some(1));
    let stderr = text(&done.stderr);
    assert!(
        stderr.contains("1 of 2 runs are not in the table") && stderr.contains("no/such/folder"),
        "{stderr}"
    );
    let status = text(&run(&["sweep", "status", "out"], at).stdout);
    assert!(status.contains("1 of 2 finished, 1 failed") && status.contains("failed: "), "{status}");
    assert!(read(at, "out/table.md").contains("not run"), "{}", read(at, "out/table.md"));
    for (args, says) in [
        (&["sweep", "t.toml", "--pass=--time=1"][..], "has no effect with this engine"),
        (&["sweep", "t.toml", "--engine", "hyperqueue", "--parallel", "2"][..], "CPUs of the workers"),
        (&["sweep", "status", "nowhere"][..], "holds no sweep"),
        (&["sweep", "run", "out", "cdkt-0"][..], "unknown run `cdkt-0`"),
        (&["sweep"][..], "TABLE"),
    ] {
        let output = run(args, at);
        assert!(!output.status.success(), "{args:?} should fail");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn when_a_run_cannot_be_begun_the_others_stop_before_the_sweep_ends() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at, 4000);
    run(&["sweep", "t.toml", "--out", "out", "--engine", "slurm", "--dry-run"], at);
    // Its log cannot be written.
    std::fs::create_dir(at.join(format!("out/{}/log.txt", names(at, "out")[1]))).unwrap();
    let done = run(&["sweep", "t.toml", "--out", "out", "--parallel", "3"], at);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("cannot write"), "{}", text(&done.stderr));
    let status = text(&run(&["sweep", "status", "out"], at).stdout);
    assert!(!status.contains("at work") && !status.contains("begins"), "{status}");
    assert!(status.contains("0 of 4 finished"), "{status}");
}

#[test]
fn jobs_for_schedulers_are_written_without_submitting_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    grid(at, 4);
    let args = [
        "sweep",
        "t.toml",
        "--out",
        "my runs",
        "--engine",
        "slurm",
        "--parallel",
        "3",
        "--cpus",
        "2",
        "--dry-run",
    ];
    let job = |args: &[&str]| {
        let stdout = text(&run(args, at).stdout);
        let path = stdout
            .split("Written: ")
            .nth(1)
            .and_then(|rest| rest.split(". Submit").next())
            .unwrap()
            .to_string();
        (stdout, std::fs::read_to_string(path).unwrap())
    };
    let (stdout, script) = job(&[&args[..], &["--pass=--partition=long"]].concat());
    for line in ["--array=0-3%3", "--requeue", "--signal=B:USR1@120", "--cpus-per-task=2", "--partition=long"]
    {
        assert!(script.contains(&format!("#SBATCH {line}")), "{line}: {script}");
    }
    // A path with a space is one word of the command that is shown.
    assert!(stdout.contains(". Submit it by: sbatch '") && stdout.trim().ends_with(".sbatch'"), "{stdout}");
    // The script is one for a shell, and its first task is the first run.
    let shell = Command::new("sh").arg("-c").arg(&script).env("SLURM_ARRAY_TASK_ID", "0").output().unwrap();
    assert!(shell.status.success(), "{}", text(&shell.stderr));
    let status = text(&run(&["sweep", "status", "my runs"], at).stdout);
    assert!(
        status.lines().next().unwrap().contains("finished") && status.contains("1 of 4 finished"),
        "{status}"
    );
    let (_, program) = job(&["sweep", "t.toml", "--out", "my runs", "--engine", "hyperqueue", "--dry-run"]);
    assert!(
        !program.contains(&names(at, "my runs")[0]) && program.contains(&names(at, "my runs")[1]),
        "what is finished is left out"
    );
}
