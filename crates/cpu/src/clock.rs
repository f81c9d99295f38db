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

/// Of the process: also of threads that have ended, so that it never falls.
#[cfg(unix)]
fn cpu_seconds() -> Option<f64> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(now.tv_sec as f64 + 1e-9 * now.tv_nsec as f64)
}

#[cfg(not(unix))]
fn cpu_seconds() -> Option<f64> {
    None
}
