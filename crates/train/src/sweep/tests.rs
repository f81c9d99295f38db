use super::*;

const TABLE: &str = "config = \"c.toml\"\n[[grid]]\nepisode.way = [2, 3]\nseed = [0, 1]\n";

fn written() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.toml"), "[train]\nepisodes = 3\n").unwrap();
    let table = folder.path().join("t.toml");
    std::fs::write(&table, TABLE).unwrap();
    (folder, table)
}

#[test]
fn names_follow_from_the_settings_alone() {
    let (folder, table) = written();
    let a = Sweep::create(&table, &folder.path().join("a"), &[]).unwrap();
    assert_eq!(a.runs.len(), 4);
    let names: std::collections::HashSet<_> = a.runs.iter().map(|run| &run.name).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    // The same settings in another order, beside others, in another folder.
    std::fs::write(&table, "config = \"c.toml\"\n[[grid]]\nseed = [1, 0, 5]\nepisode.way = [3, 2, 4]\n")
        .unwrap();
    let b = Sweep::create(&table, &folder.path().join("b"), &[]).unwrap();
    for run in &a.runs {
        let same = b.run(&run.name).unwrap();
        assert_eq!(a.config(run).unwrap(), b.config(same).unwrap());
    }
    assert_eq!(b.runs.len(), 9);
    // A key that is written out with its default value is the same run.
    std::fs::write(&table, "config = \"c.toml\"\n[[grid]]\nseed = 1\nepisode.way = 3\nepisode.shot = 1\n")
        .unwrap();
    let c = Sweep::create(&table, &folder.path().join("c"), &[]).unwrap();
    assert!(a.run(&c.runs[0].name).is_ok());
    assert_eq!(Sweep::open(&a.folder).unwrap().runs, a.runs);
    let error = Sweep::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("holds no sweep"), "{error}");
}

#[test]
fn runs_that_are_given_twice_are_one() {
    let (folder, table) = written();
    std::fs::write(&table, format!("{TABLE}[[grid]]\nseed = [1, 1]\nepisode.way = 2\n")).unwrap();
    assert_eq!(Sweep::create(&table, folder.path(), &[]).unwrap().runs.len(), 4);
}

#[test]
fn failures_and_attempts_are_kept_until_the_next_begin() {
    let (folder, table) = written();
    let sweep = Sweep::create(&table, folder.path(), &[]).unwrap();
    let run = &sweep.runs[2];
    assert_eq!(sweep.status(run).words(), "waits");
    let attempt = Attempt { by: "local".into(), host: "here".into(), began: 7 };
    sweep.begin(run, &attempt).unwrap();
    sweep.keep_failure(run, "no disk").unwrap();
    assert_eq!(sweep.status(run).words(), "failed: no disk");
    assert!(sweep.collect().unwrap_err().to_string().contains("no run is finished"));
    sweep.begin(run, &attempt).unwrap();
    let status = sweep.status(run);
    assert_eq!(status.attempts, [attempt.clone(), attempt]);
    assert_eq!(status.words(), "ended before its first save");
    let lock = sweep.lock(run).unwrap();
    assert!(lock.is_some() && sweep.lock(run).unwrap().is_none());
    assert_eq!(sweep.status(run).words(), "begins");
    assert_eq!(sweep.unfinished().count(), 4);
}
