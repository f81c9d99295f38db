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

/// A reader that takes memory for one input of many is found, and so is the input.
#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_takes_much_memory_fails() {
    fn greedy(bytes: &[u8]) {
        if bytes == b"seed" {
            std::hint::black_box(vec![1u8; 300 << 20]);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let seeds = || vec![b"other".to_vec(), b"seed".to_vec()];
    let target = siskin_fuzz::Target { name: "greedy", run: greedy, seeds, memory: 200 };
    let last = folder.path().join("last");
    assert!(campaign(&target, Length::Clock(0.0), 0, &last) == 1);
    assert_eq!(std::fs::read(folder.path().join("last.greedy-failed-1")).unwrap(), b"seed");
}
