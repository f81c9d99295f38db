//! The most memory that this process has held, where the system counts it (Linux).

use std::fs;

/// Kilobytes held before an input is read.
pub(crate) struct Memory(Option<u64>);

impl Memory {
    /// Begins to count anew.
    pub(crate) fn begin() -> Memory {
        // 5: the most so far becomes what is held now.
        let begun = fs::write("/proc/self/clear_refs", "5");
        Memory(begun.ok().and_then(|()| most()))
    }

    /// Megabytes that were held beyond what was held at the beginning; 0 where the system does not count.
    pub(crate) fn megabytes(&self) -> u64 {
        self.0.zip(most()).map_or(0, |(before, after)| after.saturating_sub(before) >> 10)
    }
}

fn most() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_for_a_moment_is_counted() {
        let memory = Memory::begin();
        std::hint::black_box(vec![1u8; 100 << 20]);
        assert!((90..200).contains(&memory.megabytes()), "{}", memory.megabytes());
    }
}
