//! Memory is counted for the whole process, so this test has one of its own.
#![cfg(target_os = "linux")]

use siskin_fuzz::{Length, campaign};

/// A reader that takes memory for one input of many is found, and so is the input.
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
