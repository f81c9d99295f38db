//! A short run of every target, so that every run of the tests covers them.

use siskin_fuzz::{Length, TARGETS, campaign};

#[test]
fn every_reader_survives_damaged_input() {
    let folder = tempfile::tempdir().unwrap();
    for target in TARGETS {
        assert!(!(target.seeds)().is_empty(), "{} has no whole input to begin with", target.name);
        let failed = campaign(target, Length::Clock(1.0), 0, &folder.path().join("last"));
        assert_eq!(failed, 0, "{}", target.name);
    }
}
