//! How likely is it by chance?

/// `P(X >= k)` for X binomial with `n` tries of probability `p`.
pub(crate) fn at_least(k: usize, n: usize, p: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    let (p, q) = (p.clamp(1e-12, 1.0 - 1e-12), 1.0 - p.clamp(1e-12, 1.0 - 1e-12));
    // Terms by their logarithms: q^n may be too small for a number.
    let mut log_term = n as f64 * q.ln();
    let mut below = 0.0;
    for i in 0..k.min(n + 1) {
        below += log_term.exp();
        log_term += ((n - i) as f64 / (i + 1) as f64 * p / q).ln();
    }
    (1.0 - below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_by_hand() {
        // scipy.stats.binom.sf(k - 1, n, p)
        let cases = [
            (0, 5, 0.3, 1.0),
            (1, 10, 0.1, 0.651_321_559_9),
            (3, 10, 0.1, 0.070_190_826_4),
            (5, 5, 0.5, 0.031_25),
        ];
        for (k, n, p, want) in cases {
            assert!((at_least(k, n, p) - want).abs() < 1e-9, "{k} {n} {p}: {}", at_least(k, n, p));
        }
        assert!(at_least(2_000, 2_000, 0.1) < 1e-12 && at_least(150, 2_000, 0.1) > 0.999);
    }
}
