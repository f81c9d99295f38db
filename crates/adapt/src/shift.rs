//! How far the examples of a task lie from a model's training images, in the space of its features.
//!
//! What is compared is the mean of the classes' means with the mean of training images, in deviations of these (Hotelling's statistic), times
//! the number of classes, because a mean of few classes scatters more. The space has many more dimensions than a card should keep the
//! covariance of, so all this happens along fixed random directions. No label of a training image is used, and no query.

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};
use rand::Rng;
use siskin_methods::{Features, row_major};
use siskin_model::{Card, FeatureFacts};
use siskin_random::stream;

/// Directions: few enough for a small card and to know their covariance well from some hundred images.
const DIRECTIONS: usize = 32;
/// Weight of an even spread in the covariance.
const EVEN: f64 = 0.1;
/// Variance below which images are all alike.
const NO_SPREAD: f64 = 1e-9;
/// The share of validation tasks that lie beyond the limit, before there is room.
const BEYOND: f64 = 0.02;
/// How many times farther than those a task may lie: validation classes are few, and vary less than what people bring.
const ROOM: f64 = 1.5;

/// Features with length 1 along the directions, [N, R].
fn projected(features: &Features) -> Mat<f64> {
    let signs: Vec<Vec<f64>> = (0..DIRECTIONS)
        .map(|r| {
            let mut rng = stream(0, "directions of features", r as u64);
            (0..features.dim).map(|_| if rng.next_u64() & 1 == 0 { 1.0 } else { -1.0 }).collect()
        })
        .collect();
    let row = |i: usize| &features.values[i * features.dim..(i + 1) * features.dim];
    let lengths: Vec<f64> =
        (0..features.rows).map(|i| row(i).iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-12)).collect();
    Mat::from_fn(features.rows, DIRECTIONS, |i, r| {
        row(i).iter().zip(&signs[r]).map(|(v, sign)| v * sign).sum::<f64>() / lengths[i]
    })
}

/// What a card keeps of features of training images; `None` of too few to tell, or of images that are all alike.
pub fn feature_facts(features: &Features) -> Option<FeatureFacts> {
    if features.rows < 4 * DIRECTIONS {
        return None;
    }
    let (x, count) = (projected(features), features.rows as f64);
    let mean: Vec<f64> = (0..DIRECTIONS).map(|r| x.col(r).iter().sum::<f64>() / count).collect();
    let centred = Mat::from_fn(x.nrows(), DIRECTIONS, |i, r| x[(i, r)] - mean[r]);
    let spread = centred.transpose() * &centred;
    let even = (0..DIRECTIONS).map(|r| spread[(r, r)]).sum::<f64>() / DIRECTIONS as f64;
    let covariance = Mat::from_fn(DIRECTIONS, DIRECTIONS, |r, s| {
        let diagonal = if r == s { EVEN * even } else { 0.0 };
        ((1.0 - EVEN) * spread[(r, s)] + diagonal) / (count - 1.0)
    });
    if even < NO_SPREAD * count {
        return None;
    }
    let inverse = covariance.llt(Side::Lower).ok()?.inverse();
    Some(FeatureFacts { mean, precision: row_major(&inverse) })
}

/// How far labelled examples lie from training images; `None` where the card is of another number of directions.
pub(crate) fn shift(facts: &FeatureFacts, features: &Features, labels: &[usize]) -> Option<f64> {
    let whole = facts.mean.len() == DIRECTIONS && facts.precision.len() == DIRECTIONS * DIRECTIONS;
    let classes = labels.iter().max().map_or(0, |most| most + 1);
    if !whole || classes == 0 {
        return None;
    }
    let x = projected(features);
    let counts: Vec<f64> =
        (0..classes).map(|c| labels.iter().filter(|&&l| l == c).count().max(1) as f64).collect();
    let off = |r: usize| {
        let sum: f64 = labels.iter().enumerate().map(|(i, &c)| x[(i, r)] / counts[c]).sum();
        sum / classes as f64 - facts.mean[r]
    };
    let off: Vec<f64> = (0..DIRECTIONS).map(off).collect();
    let rows = facts.precision.chunks_exact(DIRECTIONS).zip(&off);
    let square: f64 = rows.map(|(row, o)| o * row.iter().zip(&off).map(|(p, o)| p * o).sum::<f64>()).sum();
    Some(classes as f64 * square / DIRECTIONS as f64)
}

/// The limit of the shift: that which few validation tasks exceed, and room.
pub(crate) fn most_shift(shifts: &[f64]) -> Option<f64> {
    let mut sorted = shifts.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = ((sorted.len() as f64) * (1.0 - BEYOND)).ceil() as usize;
    sorted.get(place.checked_sub(1)?).map(|shift| ROOM * shift)
}

/// Whether the examples of a task lie beyond what `card` has seen of validation tasks.
pub(crate) fn unlike(card: &Card, features: &Features, labels: &[usize]) -> bool {
    let classes = labels.iter().max().map_or(1, |most| most + 1);
    let shape = card.nearest(classes, labels.len() as f64 / classes as f64);
    let most = shape.and_then(|shape| shape.most_shift);
    let found = card.features.as_ref().and_then(|facts| shift(facts, features, labels));
    found.zip(most).is_some_and(|(found, most)| found > most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors around a centre.
    fn around(centre: f64, rows: usize, seed: u64) -> Features {
        let mut rng = stream(seed, "test", 0);
        let mut noise = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let dim = 40;
        let values =
            (0..rows * dim).map(|i| 1.0 + noise() + if i % dim < 8 { centre } else { 0.0 }).collect();
        Features { values, rows, dim }
    }

    #[test]
    fn examples_from_elsewhere_are_noticed() {
        let facts = feature_facts(&around(0.0, 600, 1)).unwrap();
        let labels: Vec<usize> = (0..10).map(|i| i / 2).collect();
        let of = |centre: f64, seed: u64| shift(&facts, &around(centre, 10, seed), &labels).unwrap();
        let own: Vec<f64> = (10..110).map(|seed| of(0.0, seed)).collect();
        let most = most_shift(&own).unwrap();
        assert_eq!(own.iter().filter(|shift| ROOM * **shift > most).count(), 2);
        let mean = own.iter().sum::<f64>() / 100.0;
        // The mean of ten independent points, five of them counted, has half the variance of five.
        assert!((0.35..0.65).contains(&mean), "{mean}");
        assert!((200..220).all(|seed| of(1.0, seed) > most));
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(feature_facts(&around(0.0, 4 * DIRECTIONS - 1, 1)), None);
        assert!(feature_facts(&Features { values: vec![1.0; 4000], rows: 400, dim: 10 }).is_none());
        let short = FeatureFacts { mean: vec![0.0; 3], precision: vec![0.0; 9] };
        assert_eq!(shift(&short, &around(0.0, 4, 1), &[0, 0, 1, 1]), None);
        assert_eq!((most_shift(&[]), most_shift(&[3.0])), (None, Some(3.0 * ROOM)));
    }
}
