//! Checked inputs: probabilities, and probabilities with the labels that came true.

use crate::error::{Error, same_length};

/// How far a row may be from summing to one: room for single precision and for quadrature.
pub const SUM_TOLERANCE: f64 = 1e-5;

/// Rows of class probabilities, `[N, C]` row-major, each checked to be a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Probabilities {
    values: Vec<f64>,
    classes: usize,
}

impl Probabilities {
    /// Checks `values`: `[N, C]` row-major with N ≥ 1, C ≥ 2, entries in `[0, 1]`, rows that sum to one
    /// within [`SUM_TOLERANCE`]. The values are kept as given, not renormalised.
    pub fn new(values: Vec<f64>, classes: usize) -> Result<Self, Error> {
        check_shape("probabilities", values.len(), classes)?;
        for (row, p) in values.chunks_exact(classes).enumerate() {
            for (class, &value) in p.iter().enumerate() {
                if !(0.0..=1.0 + SUM_TOLERANCE).contains(&value) {
                    return Err(Error::NotProbability { row, class, value });
                }
            }
            let sum: f64 = p.iter().sum();
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(Error::RowSum { row, sum });
            }
        }
        Ok(Self { values, classes })
    }

    /// The number of rows N.
    #[allow(clippy::len_without_is_empty, reason = "never empty by construction")]
    pub fn len(&self) -> usize {
        self.values.len() / self.classes
    }

    /// The number of classes C.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The rows in order, each of length C.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f64> {
        self.values.chunks_exact(self.classes)
    }

    /// All values, `[N, C]` row-major.
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }

    /// Every row sharpened (`temperature` < 1) or flattened (> 1):
    /// `softmax(log p / T)`, that is `p_c^(1/T) / sum_j p_j^(1/T)`.
    pub fn sharpened(&self, temperature: f64) -> Result<Self, Error> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::Parameter {
                name: "temperature",
                value: temperature,
                range: "positive and finite",
            });
        }
        let mut values = Vec::with_capacity(self.values.len());
        for p in self.rows() {
            let start = values.len();
            values.extend(log_ratios(p).into_iter().map(|r| (r / temperature).exp()));
            let sum: f64 = values[start..].iter().sum();
            values[start..].iter_mut().for_each(|v| *v /= sum);
        }
        Ok(Self { values, classes: self.classes })
    }
}

/// Probabilities and what came true: the input of every measure of this crate.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions {
    probabilities: Probabilities,
    labels: Vec<usize>,
}

impl Predictions {
    /// Checks `probs`: `[N, C]` row-major as [`Probabilities::new`] does, and `labels`: `[N]` in `0..C`.
    pub fn new(probs: Vec<f64>, labels: Vec<usize>, classes: usize) -> Result<Self, Error> {
        Self::with_labels(Probabilities::new(probs, classes)?, labels)
    }

    /// Joins checked probabilities with their labels.
    pub fn with_labels(probabilities: Probabilities, labels: Vec<usize>) -> Result<Self, Error> {
        same_length(("probabilities", probabilities.len()), ("labels", labels.len()))?;
        check_labels(&labels, probabilities.classes())?;
        Ok(Self { probabilities, labels })
    }

    /// The probabilities alone.
    pub fn probabilities(&self) -> &Probabilities {
        &self.probabilities
    }

    /// The labels, `[N]`.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// The number of rows N.
    #[allow(clippy::len_without_is_empty, reason = "never empty by construction")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The number of classes C.
    pub fn classes(&self) -> usize {
        self.probabilities.classes()
    }

    /// Each row with its label, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[f64], usize)> {
        self.probabilities.rows().zip(self.labels.iter().copied())
    }

    /// `conf_n = max_c p_nc` and `correct_n = [argmax_c p_nc = y_n]`, the first maximum winning a tie.
    pub fn confidences(&self) -> (Vec<f64>, Vec<bool>) {
        self.iter()
            .map(|(p, y)| {
                let (class, confidence) = top(p);
                (confidence, class == y)
            })
            .unzip()
    }

    /// [`Probabilities::sharpened`], labels kept.
    pub fn sharpened(&self, temperature: f64) -> Result<Self, Error> {
        Ok(Self { probabilities: self.probabilities.sharpened(temperature)?, labels: self.labels.clone() })
    }
}

/// `(argmax_c p_c, max_c p_c)`; the first maximum wins a tie. An empty row gives `(0, -inf)`.
pub fn top(row: &[f64]) -> (usize, f64) {
    let mut best = (0, f64::NEG_INFINITY);
    for (class, &p) in row.iter().enumerate() {
        if p > best.1 {
            best = (class, p);
        }
    }
    best
}

/// `log(p_c / max_j p_j)`: relative to the largest, so that no temperature makes a whole row underflow.
pub(crate) fn log_ratios(row: &[f64]) -> Vec<f64> {
    let (_, p_max) = top(row);
    row.iter().map(|p_c| (p_c / p_max).ln()).collect()
}

/// `Ok` if `len` values are at least one row of at least two classes.
pub(crate) fn check_shape(what: &'static str, len: usize, classes: usize) -> Result<(), Error> {
    if classes < 2 {
        return Err(Error::TooFewClasses { classes });
    }
    if len == 0 {
        return Err(Error::Empty { what });
    }
    if !len.is_multiple_of(classes) {
        return Err(Error::RaggedRows { len, classes });
    }
    Ok(())
}

/// `Ok` if every label is in `0..classes`.
pub(crate) fn check_labels(labels: &[usize], classes: usize) -> Result<(), Error> {
    match labels.iter().position(|&label| label >= classes) {
        None => Ok(()),
        Some(row) => Err(Error::LabelOutOfRange { row, label: labels[row], classes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(probs: &[f64], labels: &[usize], classes: usize) -> Error {
        Predictions::new(probs.to_vec(), labels.to_vec(), classes).unwrap_err()
    }

    #[test]
    fn every_malformed_input_names_its_fact() {
        let nan = error_of(&[0.5, 0.5, f64::NAN, 1.0], &[0, 1], 2);
        assert_eq!(nan.to_string(), "row 1, class 0: NaN is not a probability");
        assert_eq!(error_of(&[-0.1, 1.1], &[0], 2), Error::NotProbability { row: 0, class: 0, value: -0.1 });
        assert_eq!(
            error_of(&[0.5, f64::INFINITY], &[0], 2),
            Error::NotProbability { row: 0, class: 1, value: f64::INFINITY }
        );
        assert_eq!(error_of(&[0.5, 0.5, 0.25, 0.25], &[0, 1], 2), Error::RowSum { row: 1, sum: 0.5 });
        assert_eq!(
            error_of(&[0.5, 0.5, 0.5, 0.5], &[0, 7], 2),
            Error::LabelOutOfRange { row: 1, label: 7, classes: 2 }
        );
        assert_eq!(error_of(&[0.5, 0.5, 0.5], &[0], 2), Error::RaggedRows { len: 3, classes: 2 });
        assert_eq!(error_of(&[], &[], 2), Error::Empty { what: "probabilities" });
        assert_eq!(error_of(&[1.0], &[0], 1), Error::TooFewClasses { classes: 1 });
        assert_eq!(error_of(&[1.0], &[0], 0), Error::TooFewClasses { classes: 0 });
        assert!(matches!(error_of(&[0.5, 0.5], &[0, 1], 2), Error::LengthMismatch { .. }));
    }

    #[test]
    fn the_first_maximum_wins() {
        assert_eq!(top(&[0.1, 0.4, 0.4, 0.1]), (1, 0.4));
    }

    #[test]
    fn sharpening_is_the_power_and_keeps_zeros() {
        let p = Probabilities::new(vec![0.6, 0.4, 0.0, 0.2, 0.3, 0.5], 3).unwrap();
        let sharp = p.sharpened(0.5).unwrap();
        let expected = [0.36 / 0.52, 0.16 / 0.52, 0.0, 0.04 / 0.38, 0.09 / 0.38, 0.25 / 0.38];
        for (got, want) in sharp.as_slice().iter().zip(expected) {
            assert!((got - want).abs() < 1e-15, "{got} {want}");
        }
        let extreme = Probabilities::new(vec![1e-300, 1.0], 2).unwrap().sharpened(1e-3).unwrap();
        assert_eq!(extreme.as_slice(), [0.0, 1.0]);
        assert!(matches!(p.sharpened(0.0), Err(Error::Parameter { .. })));
        assert!(matches!(p.sharpened(f64::NAN), Err(Error::Parameter { .. })));
    }
}
