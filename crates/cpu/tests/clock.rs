//! CPU time is that of work, not of waiting. Alone in its process: threads that end take their time with them.

use std::time::Duration;

#[test]
fn work_takes_time_on_a_cpu_and_sleep_does_not() {
    let (_, worked) = siskin_cpu::time(|| siskin_cpu::multiply_adds(siskin_cpu::Isa::detect(), 20_000_000));
    assert!(worked.wall > 0.0 && worked.busy() > 0.0);
    let (_, slept) = siskin_cpu::time(|| std::thread::sleep(Duration::from_millis(200)));
    assert!(slept.wall >= 0.2 && slept.cpu.is_none_or(|cpu| (0.0..0.1).contains(&cpu)), "{slept:?}");
}
