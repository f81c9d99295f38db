//! How many inducing points, and what a fit by them costs.

use crate::{Error, Result};

/// Inducing points where nobody asks for another number.
const POINTS: usize = 1024;
/// Inducing points at least: fewer would be no classifier of so many rows.
const LEAST: usize = 64;
/// Bytes that the whitened features of all rows may take.
const FEATURES: f64 = 1e9;
/// Bytes a fit may take.
const MOST_BYTES: f64 = 4e9;
/// Multiplications that one step of the covariances may take, over all rows and classes.
const WORK: f64 = 3e11;
/// Numbers in the covariances of all classes.
const COVARIANCES: f64 = 2.5e7;

/// Inducing points, and how many of the leading features have a full covariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Sizes {
    pub(in super::super) points: usize,
    pub(in super::super) leading: usize,
}

impl Sizes {
    /// For N rows of D numbers in C classes; `asked`: a number of inducing points somebody wants.
    pub(in super::super) fn new(
        wished: Option<usize>,
        rows: usize,
        width: usize,
        classes: usize,
    ) -> Result<Sizes> {
        let (n, c, d) = (rows as f64, classes as f64, width as f64);
        let room = (FEATURES / (4.0 * n)) as usize;
        let points = wished.unwrap_or_else(|| POINTS.min(2 * rows / 3).min(room).max(LEAST.max(classes)));
        let points = points.clamp(1, rows);
        let leading = (WORK / (n * c)).sqrt().min((COVARIANCES / c).sqrt());
        let leading = (leading as usize).clamp(LEAST.min(points), points);
        let (m, r) = (points as f64, leading as f64);
        // Features with their squares, rows three times (the caller's, those given and those standardised), variances and slopes of every
        // class; matrices of the inducing points; covariances before and after a step, with their factors.
        let bytes =
            n * (4.0 * (2.0 * m - r) + 24.0 * d + 40.0 * c) + 40.0 * m * m + c * (36.0 * r * r + 150.0 * m);
        match bytes <= MOST_BYTES {
            true => Ok(Sizes { points, leading }),
            false => {
                Err(Error::TooLarge { points: rows, classes, gigabytes: bytes / 1e9, most: MOST_BYTES / 1e9 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_work_and_memory_within_bounds() {
        let of = |rows, width, classes| Sizes::new(None, rows, width, classes).unwrap();
        assert_eq!(of(1_600, 64, 10), Sizes { points: 1024, leading: 1024 });
        assert_eq!(of(100_000, 384, 10), Sizes { points: 1024, leading: 547 });
        assert_eq!(of(100_000, 384, 100), Sizes { points: 1024, leading: 173 });
        assert_eq!(of(1_000_000, 20, 3).points, 250);
        assert_eq!(Sizes::new(Some(50), 2_000, 8, 3).unwrap(), Sizes { points: 50, leading: 50 });
        let error = Sizes::new(None, 20_000_000, 10, 3).unwrap_err().to_string();
        assert!(error.contains("20000000 points of 3 classes would need about"), "{error}");
    }
}
