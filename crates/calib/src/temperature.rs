//! Temperature scaling: one number, fitted on a validation set by NLL.

use serde::{Deserialize, Serialize};

use crate::error::{Error, same_length};
use crate::predictions::{Predictions, check_labels, check_shape};

/// The smallest temperature tried.
pub const COLDEST: f64 = 1e-3;
/// The largest temperature tried.
pub const HOTTEST: f64 = 1e3;

/// Where the smallest NLL was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimum {
    /// Between the two edges: a true minimum.
    Interior,
    /// At [`COLDEST`]: the validation set has no mistake to warn of over-confidence.
    Coldest,
    /// At [`HOTTEST`]: the scores are no better than guessing.
    Hottest,
    /// Every temperature gives the same NLL (all rows uniform); 1 is kept.
    Flat,
}

/// A fitted temperature: `p(T) = softmax(z / T)`, for z log-probabilities or logits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// The temperature T.
    pub value: f64,
    /// NLL of the validation set at T = 1.
    pub nll_before: f64,
    /// NLL of the validation set at T.
    pub nll_after: f64,
    /// Whether T is a true minimum or an edge of the range searched.
    pub optimum: Optimum,
}

impl Temperature {
    /// Minimises `-mean_n log softmax(z_n / T)[y_n]` over T in [[`COLDEST`], [`HOTTEST`]].
    ///
    /// `logits`: `[N, C]` row-major, log-probabilities or logits; `-inf` is allowed except at the true class.
    /// The NLL is convex in `beta = 1/T`, so its derivative is bracketed and solved by guarded Newton steps.
    pub fn fit(logits: &[f64], labels: &[usize], classes: usize) -> Result<Self, Error> {
        check_shape("logits", logits.len(), classes)?;
        same_length(("logits", logits.len() / classes), ("labels", labels.len()))?;
        check_labels(labels, classes)?;
        for (row, (z, &label)) in logits.chunks_exact(classes).zip(labels).enumerate() {
            if let Some(c) = z.iter().position(|z_c| z_c.is_nan() || *z_c == f64::INFINITY) {
                return Err(Error::BadValue { what: "logits", index: row * classes + c, value: z[c] });
            }
            if z[label] == f64::NEG_INFINITY {
                return Err(Error::ImpossibleLabel { row, label });
            }
        }
        let at = |beta: f64| loss(logits, labels, classes, beta);
        let (beta, optimum) = minimise(|beta| at(beta).1);
        Ok(Self { value: 1.0 / beta, nll_before: at(1.0).0, nll_after: at(beta).0, optimum })
    }

    /// [`Temperature::fit`] on the log-probabilities of `validation`; apply it by [`Predictions::sharpened`].
    pub fn fit_predictions(validation: &Predictions) -> Result<Self, Error> {
        let log_p: Vec<f64> = validation.probabilities().as_slice().iter().map(|p| p.ln()).collect();
        Self::fit(&log_p, validation.labels(), validation.classes())
    }
}

/// The NLL at `beta = 1/T`, and its first and second derivative: means of
/// `log sum_c e^{beta z_c} - beta z_y`, `E z - z_y` and `Var z` under `softmax(beta z)`.
fn loss(logits: &[f64], labels: &[usize], classes: usize, beta: f64) -> (f64, (f64, f64)) {
    let (mut nll, mut slope, mut curvature) = (0.0, 0.0, 0.0);
    for (z, &y) in logits.chunks_exact(classes).zip(labels) {
        // Relative to the true class, whose score is finite.
        let relative = || z.iter().map(|z_c| z_c - z[y]).filter(|d| *d > f64::NEG_INFINITY);
        let largest = relative().fold(0.0, f64::max);
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for d in relative() {
            let e = (beta * (d - largest)).exp();
            sum += e;
            first += e * d;
            second += e * d * d;
        }
        let mean = first / sum;
        nll += beta * largest + sum.ln();
        slope += mean;
        curvature += (second / sum - mean * mean).max(0.0);
    }
    let n = labels.len() as f64;
    (nll / n, (slope / n, curvature / n))
}

/// The zero of a rising slope over `beta` in `[1/HOTTEST, 1/COLDEST]`; `derivatives` gives slope and curvature.
fn minimise(derivatives: impl Fn(f64) -> (f64, f64)) -> (f64, Optimum) {
    let (mut low, mut high) = (1.0 / HOTTEST, 1.0 / COLDEST);
    let (slope_low, slope_high) = (derivatives(low).0, derivatives(high).0);
    match (slope_low >= 0.0, slope_high <= 0.0) {
        (true, true) => return (1.0, Optimum::Flat),
        (true, false) => return (low, Optimum::Hottest),
        (false, true) => return (high, Optimum::Coldest),
        (false, false) => {}
    }
    let mut beta = 1.0;
    // Bisection in log beta alone would need 50 steps to the last bit; Newton needs about six.
    for _ in 0..100 {
        let (slope, curvature) = derivatives(beta);
        if slope < 0.0 {
            low = beta;
        } else {
            high = beta;
        }
        let newton = beta - slope / curvature;
        let next = if newton > low && newton < high { newton } else { (low * high).sqrt() };
        if (next - beta).abs() <= 1e-14 * beta || slope == 0.0 {
            break;
        }
        beta = next;
    }
    (beta, Optimum::Interior)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nll;

    /// Two classes, scores apart by `d`, `right` of `n` rows right: sigma(d / T) = right / n.
    fn two_class(d: f64, right: usize, n: usize) -> Temperature {
        let labels: Vec<usize> = (0..n).map(|i| usize::from(i >= right)).collect();
        Temperature::fit(&[d, 0.0].repeat(n), &labels, 2).unwrap()
    }

    #[test]
    fn the_two_class_case_has_a_closed_form() {
        for (d, right) in [(4.0, 8), (0.01, 6), (300.0, 9), (2.0, 7)] {
            let fitted = two_class(d, right, 10);
            let odds = right as f64 / (10 - right) as f64;
            let expected = d / odds.ln();
            assert!((fitted.value / expected - 1.0).abs() < 1e-12, "{fitted:?} {expected}");
            assert_eq!(fitted.optimum, Optimum::Interior);
            assert!(fitted.nll_after <= fitted.nll_before);
        }
    }

    #[test]
    fn edges_are_said() {
        assert_eq!(two_class(1.0, 10, 10).optimum, Optimum::Coldest);
        assert_eq!(two_class(1.0, 10, 10).value, COLDEST);
        assert_eq!(two_class(1.0, 3, 10).optimum, Optimum::Hottest);
        assert_eq!(two_class(0.0, 3, 10).optimum, Optimum::Flat);
        assert_eq!(two_class(0.0, 3, 10).value, 1.0);
    }

    #[test]
    fn zeros_are_allowed_but_not_for_the_truth() {
        let with_zero = Predictions::new(vec![0.9, 0.1, 0.0, 0.7, 0.2, 0.1], vec![0, 1], 3).unwrap();
        let fitted = Temperature::fit_predictions(&with_zero).unwrap();
        assert!((fitted.nll_before - nll(&with_zero)).abs() < 1e-15);
        assert!((fitted.nll_after - nll(&with_zero.sharpened(fitted.value).unwrap())).abs() < 1e-12);
        let impossible = Predictions::new(vec![1.0, 0.0], vec![1], 2).unwrap();
        assert_eq!(
            Temperature::fit_predictions(&impossible),
            Err(Error::ImpossibleLabel { row: 0, label: 1 })
        );
        assert!(matches!(Temperature::fit(&[0.0, f64::NAN], &[0], 2), Err(Error::BadValue { index: 1, .. })));
        assert!(matches!(Temperature::fit(&[0.0, 1.0], &[2], 2), Err(Error::LabelOutOfRange { .. })));
        assert!(matches!(Temperature::fit(&[0.0, 1.0], &[0, 1], 2), Err(Error::LengthMismatch { .. })));
    }

    proptest! {
        #[test]
        fn no_temperature_of_a_scan_is_better(
            rows in prop::collection::vec((prop::collection::vec(-8.0f64..8.0, 4), 0usize..4), 1..40),
        ) {
            let logits: Vec<f64> = rows.iter().flat_map(|r| r.0.clone()).collect();
            let labels: Vec<usize> = rows.iter().map(|r| r.1).collect();
            let fitted = Temperature::fit(&logits, &labels, 4).unwrap();
            for i in -60..=60 {
                let t = 10f64.powf(f64::from(i) / 20.0);
                let scanned = loss(&logits, &labels, 4, 1.0 / t).0;
                prop_assert!(fitted.nll_after <= scanned + 1e-12, "{:?} beaten at {}", fitted, t);
            }
        }
    }
}
