//! Sets of classes instead of one class.

use crate::Result;
use crate::posterior::Latent;
use crate::quadrature::Resolution;

/// The probability below which a class is left out of a set: the k-th smallest left-out probability of the true class among the N
/// training points, `k = floor((N + 1) (1 - level))`; 0 for `k = 0`.
pub(super) fn threshold(cavities: &Latent, y: &[usize], level: f64) -> Result<f64> {
    let probs = cavities.probs(Resolution::Standard)?;
    let mut own: Vec<f64> = y.iter().enumerate().map(|(i, &c)| probs[(i, c)]).collect();
    own.sort_by(f64::total_cmp);
    Ok(smallest(&own, level))
}

/// The k-th of ascending values.
fn smallest(ascending: &[f64], level: f64) -> f64 {
    let k = ((ascending.len() + 1) as f64 * (1.0 - level) + 1e-9).floor() as usize;
    k.checked_sub(1).and_then(|k| ascending.get(k).copied()).unwrap_or(0.0)
}

/// The classes with at least this probability, and the most probable one; ascending.
pub(super) fn by_threshold(p: &[f64], least: f64) -> Vec<usize> {
    let best = (1..p.len()).fold(0, |best, c| if p[c] > p[best] { c } else { best });
    (0..p.len()).filter(|&c| p[c] >= least || c == best).collect()
}

/// The fewest most probable classes whose probabilities sum to `level`; ascending.
pub(super) fn by_sum(p: &[f64], level: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut sum = 0.0;
    let needed = order.iter().position(|&c| {
        sum += p[c];
        sum >= level
    });
    order.truncate(needed.map_or(p.len(), |needed| needed + 1));
    order.sort_unstable();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_and_sets() {
        let own: Vec<f64> = (1..=19).map(|i| f64::from(i) / 20.0).collect();
        // (19 + 1) 0.1 = 2: the second smallest.
        assert_eq!(smallest(&own, 0.9), 0.1);
        assert_eq!(smallest(&own, 0.99), 0.0);
        assert_eq!(by_threshold(&[0.3, 0.6, 0.1], 0.2), [0, 1]);
        assert_eq!(by_threshold(&[0.3, 0.6, 0.1], 0.9), [1]);
        assert_eq!(by_sum(&[0.3, 0.6, 0.1], 0.85), [0, 1]);
        assert_eq!(by_sum(&[0.3, 0.6, 0.1], 0.5), [1]);
    }
}
