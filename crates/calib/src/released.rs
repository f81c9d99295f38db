//! The two-temperature protocol of the paper's released code, kept to reproduce its calibration table.
//!
//! It departs from the paper's text, which follows single-temperature scaling by NLL
//! ([`crate::Temperature`]): two temperatures, a grid, chosen by validation ECE once and by validation MCE
//! once, so that the two published figures may belong to different temperatures. Prefer `Temperature`.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::predictions::{Predictions, log_ratios};
use crate::reliability::Reliability;

/// A pair of temperatures and what it gave on the validation set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TwoTemperatures {
    /// In the place of tau inside the likelihood.
    pub t1: f64,
    /// Sharpens the averaged probabilities: `softmax(log p / t2)`, by [`Predictions::sharpened`].
    pub t2: f64,
    /// Validation ECE.
    pub ece: f64,
    /// Validation MCE.
    pub mce: f64,
}

/// The two pairs the protocol chooses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReleasedChoice {
    /// The pair of least validation ECE.
    pub by_ece: TwoTemperatures,
    /// The pair of least validation MCE.
    pub by_mce: TwoTemperatures,
}

/// The released grid: 0.20, 0.21, ..., 0.59.
pub fn released_grid() -> Vec<f64> {
    (20..60).map(|hundredths| f64::from(hundredths) / 100.0).collect()
}

/// Tries every pair `(t1, t2)` of `grid` × `grid` and keeps the least ECE and the least MCE.
///
/// `probs_at(t1)` gives the validation predictions with t1 in the place of tau: for the logistic-softmax,
/// `mean_s sigma(f_sk / t1) / sum_c sigma(f_sc / t1)` over latent samples f, or its quadrature. It is called
/// once for each t1, in order. The first pair in grid order (t1 outer) wins a tie.
pub fn tune_released<E: From<Error>>(
    grid: &[f64],
    n_bins: usize,
    mut probs_at: impl FnMut(f64) -> Result<Predictions, E>,
) -> Result<ReleasedChoice, E> {
    check_grid(grid)?;
    let mut choice: Option<ReleasedChoice> = None;
    for &t1 in grid {
        let predictions = probs_at(t1)?;
        let (_, correct) = predictions.confidences();
        let ratios: Vec<Vec<f64>> = predictions.probabilities().rows().map(log_ratios).collect();
        for &t2 in grid {
            // The largest entry of softmax(log p / t2) is all that ECE and MCE need; its place stays.
            let confidence = |r: &Vec<f64>| 1.0 / r.iter().map(|r_c| (r_c / t2).exp()).sum::<f64>();
            let confidences: Vec<f64> = ratios.iter().map(confidence).collect();
            let r = Reliability::of_confidences(&confidences, &correct, n_bins)?;
            let tried = TwoTemperatures { t1, t2, ece: r.ece(), mce: r.mce() };
            let best = choice.get_or_insert(ReleasedChoice { by_ece: tried, by_mce: tried });
            if tried.ece < best.by_ece.ece {
                best.by_ece = tried;
            }
            if tried.mce < best.by_mce.mce {
                best.by_mce = tried;
            }
        }
    }
    choice.ok_or_else(|| Error::Empty { what: "temperature grid" }.into())
}

fn check_grid(grid: &[f64]) -> Result<(), Error> {
    match grid.iter().find(|t| !(**t > 0.0 && t.is_finite())) {
        None => Ok(()),
        Some(&value) => Err(Error::Parameter { name: "temperature", value, range: "positive and finite" }),
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::{ece, mce};

    /// Mean logistic-softmax probabilities of latent samples `f`: [N][S][C] at temperature t1.
    fn logistic_softmax(f: &[Vec<Vec<f64>>], labels: &[usize], t1: f64) -> Predictions {
        let sigma = |x: f64| 1.0 / (1.0 + (-x / t1).exp());
        let mut probs = Vec::new();
        for samples in f {
            let mut p = vec![0.0; samples[0].len()];
            for sample in samples {
                let sum: f64 = sample.iter().map(|&x| sigma(x)).sum();
                for (p_c, &x) in p.iter_mut().zip(sample) {
                    *p_c += sigma(x) / sum / samples.len() as f64;
                }
            }
            probs.extend(p);
        }
        Predictions::new(probs, labels.to_vec(), f[0][0].len()).unwrap()
    }

    #[test]
    fn the_grid_is_the_released_one() {
        let grid = released_grid();
        assert_eq!((grid.len(), grid[0], grid[1], grid[39]), (40, 0.2, 0.21, 0.59));
    }

    #[test]
    fn the_choice_is_the_least_of_a_plain_double_loop() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let labels: Vec<usize> = (0..60).map(|_| rng.random_range(0..3)).collect();
        let latent = |y: usize, rng: &mut ChaCha8Rng| -> Vec<Vec<f64>> {
            let centre: Vec<f64> =
                (0..3).map(|c| f64::from(u8::from(c == y)) + rng.random::<f64>()).collect();
            (0..20).map(|_| centre.iter().map(|m| m - 1.0 + rng.random::<f64>()).collect()).collect()
        };
        let f: Vec<_> = labels.iter().map(|&y| latent(y, &mut rng)).collect();
        let grid = [0.2, 0.3, 0.45, 0.59];

        let choice =
            tune_released(&grid, 15, |t1| Ok::<_, Error>(logistic_softmax(&f, &labels, t1))).unwrap();

        let mut all = Vec::new();
        for t1 in grid {
            for t2 in grid {
                let sharp = logistic_softmax(&f, &labels, t1).sharpened(t2).unwrap();
                all.push((t1, t2, ece(&sharp, 15).unwrap(), mce(&sharp, 15).unwrap()));
            }
        }
        let least_ece = all.iter().min_by(|a, b| a.2.total_cmp(&b.2)).unwrap();
        let least_mce = all.iter().min_by(|a, b| a.3.total_cmp(&b.3)).unwrap();
        assert_eq!(
            (choice.by_ece.t1, choice.by_ece.t2, choice.by_ece.ece),
            (least_ece.0, least_ece.1, least_ece.2)
        );
        assert_eq!(
            (choice.by_mce.t1, choice.by_mce.t2, choice.by_mce.mce),
            (least_mce.0, least_mce.1, least_mce.3)
        );
    }

    #[test]
    fn bad_grids_and_failing_callers_are_reported() {
        let never = |_| -> Result<Predictions, Error> { panic!("must not be called") };
        assert_eq!(tune_released(&[], 15, never), Err(Error::Empty { what: "temperature grid" }));
        assert!(matches!(tune_released(&[0.2, 0.0], 15, never), Err(Error::Parameter { .. })));
        let failing = |_| -> Result<Predictions, Error> { Err(Error::ZeroBins) };
        assert_eq!(tune_released(&[0.2], 15, failing), Err(Error::ZeroBins));
    }
}
