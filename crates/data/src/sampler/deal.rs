//! Unequal shots: how many labelled images does each class get?

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma};

/// Deals `total` labelled images to the classes with weights from a symmetric Dirichlet distribution of concentration
/// `alpha`: one to each first, then one by one to a class chosen by weight. No class gets more than its `most`.
///
/// `total` lies between the number of classes and the sum of `most`; `alpha` is finite and above 0.
pub(super) fn unequal_shots(total: usize, most: &[usize], alpha: f64, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut weights = dirichlet(most.len(), alpha, rng);
    let mut shots = vec![1; most.len()];
    for _ in most.len()..total {
        for c in 0..most.len() {
            if shots[c] >= most[c] {
                weights[c] = 0.0;
            }
        }
        let sum: f64 = weights.iter().sum();
        if sum <= 0.0 {
            // Only classes whose weight came out as zero have room: they share what is left.
            weights = (0..most.len()).map(|c| f64::from(shots[c] < most[c])).collect();
            let class = choose(&weights, weights.iter().sum(), rng);
            shots[class] += 1;
        } else {
            shots[choose(&weights, sum, rng)] += 1;
        }
    }
    shots
}

/// Weights of a symmetric Dirichlet distribution, up to a common factor.
fn dirichlet(classes: usize, alpha: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    // Gamma::new refuses only a shape or scale that is not finite and positive.
    let gamma = Gamma::new(alpha, 1.0).expect("alpha was checked");
    (0..classes).map(|_| gamma.sample(rng)).collect()
}

/// A place with a weight above zero, chosen with probability `weight / sum`.
fn choose(weights: &[f64], sum: f64, rng: &mut ChaCha8Rng) -> usize {
    let mut u = rng.random::<f64>() * sum;
    let mut last = 0;
    for (c, &weight) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        last = c;
        u -= weight;
        if u < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siskin_random::stream;

    proptest! {
        #[test]
        fn all_are_dealt_within_the_bounds(
            most in prop::collection::vec(1usize..30, 1..12), part in 0.0f64..=1.0, alpha in 0.001f64..50.0, seed: u64,
        ) {
            let room: usize = most.iter().sum();
            let total = most.len() + (part * (room - most.len()) as f64) as usize;
            let shots = unequal_shots(total, &most, alpha, &mut stream(seed, "deal", 0));
            prop_assert_eq!(shots.iter().sum::<usize>(), total);
            prop_assert!(shots.iter().zip(&most).all(|(s, m)| (1..=*m).contains(s)));
        }
    }

    /// The mean of sum(p^2) over Dirichlet(alpha) in K classes is (alpha + 1) / (K alpha + 1); seen through
    /// multinomial draws of n it becomes q + (1 - q) / n.
    #[test]
    fn the_concentration_is_dirichlets() {
        let (k, n) = (5, 200);
        for alpha in [0.3, 1.0, 10.0] {
            let q = (alpha + 1.0) / (k as f64 * alpha + 1.0);
            let want = q + (1.0 - q) / n as f64;
            let draws = 4000;
            let mut sum = 0.0;
            for e in 0..draws {
                let shots = unequal_shots(n + k, &[10_000; 5], alpha, &mut stream(1, "deal", e));
                sum += shots.iter().map(|&s| ((s - 1) as f64 / n as f64).powi(2)).sum::<f64>();
            }
            let got = sum / draws as f64;
            assert!((got - want).abs() < 0.01, "alpha {alpha}: {got} instead of {want}");
        }
    }
}
