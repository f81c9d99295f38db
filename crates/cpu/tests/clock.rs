//! CPU time is that of work, not of waiting. Alone in its process: the time of other tests would be counted too.

use siskin_cpu::{Isa, multiply_adds, time};
use std::time::Duration;

#[test]
fn work_takes_time_on_a_cpu_and_sleep_does_not() {
    let work = || multiply_adds(Isa::detect(), 20_000_000);
    let (_, worked) = time(work);
    assert!(worked.wall > 0.0 && worked.busy() > 0.0);
    let (_, slept) = time(|| std::thread::sleep(Duration::from_millis(200)));
    assert!(slept.wall >= 0.2 && slept.cpu.is_none_or(|cpu| (0.0..0.1).contains(&cpu)), "{slept:?}");
    // A thread that has worked before, and ends meanwhile, takes nothing away; one that works and ends is counted.
    let (begun, ends) = std::sync::mpsc::channel();
    let before = std::thread::spawn(move || {
        let (_, worked) = time(|| multiply_adds(Isa::detect(), 200_000_000));
        begun.send(worked).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    });
    let thread = ends.recv().unwrap();
    let (_, joined) = time(|| before.join().unwrap());
    assert!(joined.cpu.is_none_or(|cpu| cpu >= 0.0), "{joined:?}");
    let (_, spawned) = time(|| std::thread::spawn(move || multiply_adds(Isa::detect(), 200_000_000)).join());
    assert!(spawned.busy() > 0.2 * thread.busy(), "{spawned:?}, in a thread that lives {thread:?}");
}
