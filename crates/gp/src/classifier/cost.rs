//! What a fit costs, told before it is paid.

use crate::{Error, Result};

/// Bytes a fit may need.
const MOST_BYTES: f64 = 4e9;

/// Refuses a fit that would need too much memory: about twenty matrices of points x points per class at its peak.
pub(super) fn check_cost(points: usize, classes: usize) -> Result<()> {
    let bytes = 20.0 * 8.0 * classes as f64 * (points as f64).powi(2);
    match bytes <= MOST_BYTES {
        true => Ok(()),
        false => Err(Error::TooLarge { points, classes, gigabytes: bytes / 1e9, most: MOST_BYTES / 1e9 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_fits_pass_and_large_ones_are_told_their_price() {
        assert!(
            check_cost(2_000, 4).is_ok() && check_cost(1_000, 10).is_ok() && check_cost(150, 150).is_ok()
        );
        let error = check_cost(600, 300).unwrap_err().to_string();
        assert!(error.contains("600 points of 300 classes would need about 17.3 GB"), "{error}");
    }
}
