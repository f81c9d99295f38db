//! Sets of classes instead of one class.

use super::learn::HeldOut;
use crate::Result;
use crate::left_out::{LeaveOneOut, leave_one_out_of};
use faer::Mat;

/// The probability below which a class is left out of a set: the k-th smallest left-out probability of the true class among the N
/// training points, `k = floor((N + 1) (1 - level))`; 0 for `k = 0`.
pub(super) fn threshold(left_out: &HeldOut, level: f64) -> f64 {
    let mut own: Vec<f64> = left_out.own.iter().map(|&(_, p)| p).collect();
    own.sort_by(f64::total_cmp);
    smallest(&own, level)
}

/// The same for each class, among its own points.
pub(super) fn thresholds_of_classes(left_out: &HeldOut, level: f64, classes: usize) -> Vec<f64> {
    let mut own = vec![Vec::new(); classes];
    left_out.own.iter().for_each(|&(c, p)| own[c].push(p));
    own.iter_mut().for_each(|own| own.sort_by(f64::total_cmp));
    own.iter().map(|own| smallest(own, level)).collect()
}

/// How the training points come off by the probabilities of their cavities.
pub(super) fn left_out(probs: &Mat<f64>, y: &[usize]) -> Result<HeldOut> {
    let LeaveOneOut { log_loss, accuracy } = leave_one_out_of(probs, y)?;
    let own = y.iter().enumerate().map(|(i, &c)| (c, probs[(i, c)])).collect();
    Ok(HeldOut { own, log_loss, accuracy })
}

/// The k-th of ascending values.
fn smallest(ascending: &[f64], level: f64) -> f64 {
    let k = ((ascending.len() + 1) as f64 * (1.0 - level) + 1e-9).floor() as usize;
    k.checked_sub(1).and_then(|k| ascending.get(k).copied()).unwrap_or(0.0)
}

/// The classes with at least their least probability, and as many of the most probable ones as sum to `level`; ascending.
pub(super) fn of(p: &[f64], level: f64, least: Option<&[f64]>) -> Vec<usize> {
    let mut set = by_sum(p, level);
    if let Some(least) = least {
        set.extend((0..p.len()).filter(|&c| p[c] >= least[c]));
        set.sort_unstable();
        set.dedup();
    }
    set
}

/// The fewest most probable classes whose probabilities sum to `level`; ascending.
fn by_sum(p: &[f64], level: f64) -> Vec<usize> {
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
        // Of class 0 nineteen points, of class 1 three: too few for a level of 0.9.
        let pairs = own.iter().map(|&p| (0, p)).chain([(1, 0.5), (1, 0.6), (1, 0.7)]).collect();
        let held = HeldOut { own: pairs, log_loss: 0.0, accuracy: 0.0 };
        assert_eq!(thresholds_of_classes(&held, 0.9, 2), [0.1, 0.0]);
        assert_eq!(thresholds_of_classes(&held, 0.5, 2), [0.5, 0.6]);
        assert_eq!(of(&[0.3, 0.6, 0.1], 0.5, Some(&[0.2; 3])), [0, 1]);
        assert_eq!(of(&[0.3, 0.6, 0.1], 0.5, Some(&[0.9; 3])), [1]);
        assert_eq!(of(&[0.3, 0.6, 0.1], 0.5, Some(&[0.5, 0.5, 0.05])), [1, 2]);
        // Unsure of everything: the set is no surer, whatever the threshold.
        assert_eq!(of(&[0.34, 0.33, 0.33], 0.9, Some(&[0.9; 3])), [0, 1, 2]);
        assert_eq!(of(&[0.3, 0.6, 0.1], 0.85, None), [0, 1]);
        assert_eq!(by_sum(&[0.3, 0.6, 0.1], 0.85), [0, 1]);
        assert_eq!(by_sum(&[0.3, 0.6, 0.1], 0.5), [1]);
    }
}
