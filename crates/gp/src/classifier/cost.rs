//! What a fit costs, known before it starts.

use super::Likelihood;
use crate::{Error, Result};

/// Bytes a fit may need.
const MOST_BYTES: f64 = 2e9;

/// Refuses a fit that would need too much memory, by the matrices that it holds at its peak.
pub(super) fn check_cost(points: usize, classes: usize, likelihood: Likelihood) -> Result<()> {
    let (n, c) = (points as f64, classes as f64);
    let numbers = match likelihood {
        // About twelve matrices of points x points per class.
        Likelihood::LogisticSoftmax | Likelihood::Softmax | Likelihood::Gaussian => 12.0 * c * n * n,
        // About ten matrices of differences x differences, C - 1 differences per point.
        Likelihood::OneVsEach => 10.0 * (n * (c - 1.0)).powi(2),
    };
    let bytes = 8.0 * numbers;
    match bytes <= MOST_BYTES {
        true => Ok(()),
        false => Err(Error::TooLarge { points, classes, gigabytes: bytes / 1e9, most: MOST_BYTES / 1e9 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_fits_pass_and_large_ones_are_refused_with_their_size() {
        let check = |points, classes| check_cost(points, classes, Likelihood::LogisticSoftmax);
        assert!(check(1_000, 10).is_ok() && check(150, 150).is_ok());
        let error = check(600, 300).unwrap_err().to_string();
        assert!(error.contains("600 points of 300 classes would need about 10.4 GB"), "{error}");
        // Differences between classes are many more numbers than classes.
        let error = check_cost(1_000, 10, Likelihood::OneVsEach).unwrap_err().to_string();
        assert!(error.contains("would need about 6.5 GB"), "{error}");
        assert!(check_cost(300, 5, Likelihood::OneVsEach).is_ok());
        assert!(check(2_000, 4).is_ok() && check(2_300, 4).is_err());
    }
}
