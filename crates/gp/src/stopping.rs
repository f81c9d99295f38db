//! When to stop labelling: whether more labels would change little, by how much the labels that are there still helped.
//!
//! The labelled points are predicted by four fifths of the others and by half of them, each part fitted anew. What the step from half
//! to four fifths gained, in units of a doubling, is about what the last doubling gained; the next one gains less, as a rule.

use crate::{Error, Result};
use faer::Mat;

/// Parts that are left out in turn: a fifth, a half.
const PARTS: [usize; 2] = [5, 2];
/// More labels change little where doubling them would lower the log-loss by less than this, in nats per point.
pub const LITTLE: f64 = 0.05;
/// Of a one-sided 95 % interval.
const DEVIATIONS: f64 = 1.645;
/// The smallest probability that counts: one point must not say all.
const SMALLEST: f64 = 1e-4;

/// What left-out points say of more labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stopping {
    /// The log-loss of points that four fifths of the others predict, in nats.
    pub log_loss: f64,
    /// The same for half of the others.
    pub log_loss_of_half: f64,
    /// What a doubling of the labels gained, in nats per point.
    pub gain: f64,
    /// The upper end of its one-sided 95 % interval.
    pub at_most: f64,
    /// Whether that is little: less than [`LITTLE`].
    pub enough: bool,
}

impl Stopping {
    /// As a person would say it.
    pub fn sentence(&self) -> String {
        let loss = format!(
            "the last doubling of the labels lowered the log-loss of left-out examples by about {:.2}, at most {:.2}",
            self.gain, self.at_most
        );
        match self.enough {
            true => format!("More labels would change little: {loss}."),
            false => format!("More labels would help: {loss}."),
        }
    }
}

/// `predict(known, held)` fits to the points `known` and gives the class probabilities of the points `held`, [held, C]. `None` where a class
/// has fewer than two points: nothing could predict the one.
pub fn stopping(
    y: &[usize],
    classes: usize,
    predict: impl Fn(&[usize], &[usize]) -> Result<Mat<f64>>,
) -> Result<Option<Stopping>> {
    let mut members = vec![0usize; classes];
    let rank: Vec<usize> = y
        .iter()
        .map(|&c| {
            members[c] += 1;
            members[c] - 1
        })
        .collect();
    if members.iter().any(|&count| count < 2) {
        return Ok(None);
    }
    let losses = |parts: usize| -> Result<Vec<f64>> {
        let mut losses = vec![0.0; y.len()];
        for part in 0..parts {
            let (held, known): (Vec<usize>, Vec<usize>) =
                (0..y.len()).partition(|&i| rank[i] % parts == part);
            if held.is_empty() {
                continue;
            }
            let probs = predict(&known, &held)?;
            for (row, &i) in held.iter().enumerate() {
                losses[i] = -probs[(row, y[i])].max(SMALLEST).ln();
            }
        }
        Ok(losses)
    };
    let (most, half) = (losses(PARTS[0])?, losses(PARTS[1])?);
    let n = y.len() as f64;
    // From one half to four fifths is so much of a doubling.
    let doubling = (2.0 * (1.0 - 1.0 / PARTS[0] as f64)).log2();
    let gains: Vec<f64> = half.iter().zip(&most).map(|(half, most)| (half - most) / doubling).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let gain = mean(&gains);
    let variance = gains.iter().map(|g| (g - gain).powi(2)).sum::<f64>() / (n - 1.0);
    let at_most = gain + DEVIATIONS * (variance / n).sqrt();
    if !at_most.is_finite() {
        return Err(Error::NotFinite { what: "gain of more labels", row: 0, col: 0, value: at_most });
    }
    let (log_loss, log_loss_of_half) = (mean(&most), mean(&half));
    Ok(Some(Stopping { log_loss, log_loss_of_half, gain, at_most, enough: at_most < LITTLE }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_falls_is_not_enough_and_a_flat_one_is() {
        let y: Vec<usize> = (0..60).map(|i| i % 3).collect();
        // The probability of the own class depends on how many are known.
        let by = |p: fn(usize) -> f64| {
            let predict = |known: &[usize], held: &[usize]| {
                assert_eq!(known.len() + held.len(), 60);
                assert!(held.iter().all(|i| !known.contains(i)));
                let own = p(known.len());
                Ok(Mat::from_fn(held.len(), 3, |r, c| if y[held[r]] == c { own } else { 0.5 * (1.0 - own) }))
            };
            stopping(&y, 3, predict).unwrap().unwrap()
        };
        let flat = by(|_| 0.9);
        assert!(
            flat.enough
                && flat.gain.abs() < 1e-12
                && flat.sentence().starts_with("More labels would change little")
        );
        let steep = by(|known| known as f64 / 60.0);
        // -log 0.5 and -log 0.8, 0.678 of a doubling apart.
        let want = (0.8f64 / 0.5).ln() / (1.6f64).log2();
        assert!(!steep.enough && (steep.gain - want).abs() < 1e-9, "{} {want}", steep.gain);
        assert!(stopping(&[0, 0, 1], 2, |_, _| Ok(Mat::zeros(0, 2))).unwrap().is_none());
    }
}
