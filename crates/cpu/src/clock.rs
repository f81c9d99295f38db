//! Wall time and CPU time together: on a busy machine only the second says what a computation costs.

use std::time::Instant;

/// Seconds of wall time and of CPU time (all threads; `None` where the system does not tell).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    /// By the clock on the wall.
    pub wall: f64,
    /// Time on a CPU, summed over all threads of the process.
    pub cpu: Option<f64>,
}

impl Seconds {
    /// CPU time if known, else wall time.
    pub fn busy(&self) -> f64 {
        self.cpu.unwrap_or(self.wall)
    }
}

/// Runs `work` and says what it took.
pub fn time<T>(work: impl FnOnce() -> T) -> (T, Seconds) {
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let result = work();
    let wall = start.elapsed().as_secs_f64();
    let cpu = cpu.zip(cpu_seconds()).map(|(before, after)| after - before);
    (result, Seconds { wall, cpu })
}

/// Linux: the first number of each thread's `schedstat` is its time on a CPU in nanoseconds.
fn cpu_seconds() -> Option<f64> {
    // A running thread's number is brought up to date when it gives way.
    std::thread::yield_now();
    let mut total = 0.0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        total += text.split_whitespace().next()?.parse::<f64>().ok()?;
    }
    Some(total * 1e-9)
}
