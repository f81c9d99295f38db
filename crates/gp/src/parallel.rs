//! Work side by side, for callers that run in a pool of threads.

use std::ops::Range;

use rayon::prelude::*;

/// Points from which a factorisation is worth a thread of its own.
pub(crate) const MANY_POINTS: usize = 32;

/// `f` of consecutive ranges that cover `0..n`, in order, each of at least `least` numbers.
///
/// They run on the threads of the rayon pool that the caller runs in. Outside a pool there is one range and no other thread:
/// nobody gets threads unasked, and a process that was forked need not have them. What `f` gives for a number must not depend
/// on the range it lies in.
pub(crate) fn over_ranges<T: Send>(n: usize, least: usize, f: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let threads = rayon::current_thread_index().map_or(1, |_| rayon::current_num_threads());
    // Some more parts than threads, so that a slow one holds up little.
    let parts = if threads == 1 { 1 } else { (n / least.max(1)).clamp(1, 4 * threads) };
    let range = |i: usize| i * n / parts..(i + 1) * n / parts;
    if parts == 1 { vec![f(0..n)] } else { (0..parts).into_par_iter().map(|i| f(range(i))).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_everything_in_order_and_are_one_outside_a_pool() {
        assert_eq!(over_ranges(100, 1, |r| r.len()), [100]);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        for (n, least, parts) in [(0, 1, 1), (5, 1, 5), (5, 5, 1), (7, 4, 1), (85, 8, 8), (1000, 1, 8)] {
            let ranges = pool.install(|| over_ranges(n, least, |r| r));
            assert_eq!(ranges.len(), parts, "{n} {least}");
            assert!(ranges.iter().all(|r| r.len() >= least || parts == 1), "{ranges:?}");
            assert_eq!(ranges.into_iter().flatten().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
        }
    }
}
