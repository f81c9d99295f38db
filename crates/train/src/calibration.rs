//! How far confidence and accuracy agree, before and after tuning on validation episodes.

use crate::error::Result;
use crate::evaluate::{AnsweredEpisode, pooled, pooled_latent};
use serde::{Deserialize, Serialize};
use siskin_calib::{
    Measures, PAPER_BINS, Predictions, ReleasedChoice, Temperature, released_grid, tune_released,
};
use siskin_methods::LatentGaussians;

/// The protocol of the paper's published code: two temperatures from a grid, chosen by ECE and by MCE apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleasedCalibration {
    /// The pairs chosen on validation.
    pub chosen: ReleasedChoice,
    /// Test measures with the pair of least validation ECE.
    pub by_ece: Measures,
    /// Test measures with the pair of least validation MCE.
    pub by_mce: Measures,
}

/// What `siskin calibrate` finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Measures of the validation episodes, as they are: by these a choice between models is made.
    pub validation: Measures,
    /// Test measures of the probabilities as they are.
    pub raw: Measures,
    /// The temperature fitted by NLL on validation.
    pub temperature: Temperature,
    /// Test measures with that temperature.
    pub tuned: Measures,
    /// The published code's protocol, for methods with latent Gaussians.
    pub released: Option<ReleasedCalibration>,
}

/// Test predictions before and after tuning, for a reliability diagram.
pub struct Calibrated {
    /// The measures.
    pub measures: Calibration,
    /// Test predictions as they are.
    pub raw: Predictions,
    /// Test predictions with the tuned temperature.
    pub tuned: Predictions,
}

/// Calibrates on `validation` and measures on `test`.
pub fn calibrate(
    validation: &[AnsweredEpisode],
    test: &[AnsweredEpisode],
    with_released: bool,
) -> Result<Calibrated> {
    let (on, raw) = (pooled(validation)?, pooled(test)?);
    let temperature = Temperature::fit_predictions(&on)?;
    let tuned = raw.sharpened(temperature.value)?;
    let released = match (with_released, pooled_latent(validation), pooled_latent(test)) {
        (true, Some(validation), Some(test)) => {
            Some(released(&validation, on.labels(), &test, raw.labels(), on.classes())?)
        }
        _ => None,
    };
    let (validation, tuned_measures) = (Measures::of(&on)?, Measures::of(&tuned)?);
    let measures =
        Calibration { validation, raw: Measures::of(&raw)?, temperature, tuned: tuned_measures, released };
    Ok(Calibrated { measures, raw, tuned })
}

fn released(
    validation: &LatentGaussians,
    validation_labels: &[usize],
    test: &LatentGaussians,
    test_labels: &[usize],
    way: usize,
) -> Result<ReleasedCalibration> {
    let at = |latent: &LatentGaussians, labels: &[usize], t1: f64| -> Result<Predictions> {
        Ok(Predictions::new(latent.probabilities(way, t1)?, labels.to_vec(), way)?)
    };
    let chosen = tune_released(&released_grid(), PAPER_BINS, |t1| at(validation, validation_labels, t1))?;
    let measure = |t1: f64, t2: f64| -> Result<Measures> {
        Ok(Measures::of(&at(test, test_labels, t1)?.sharpened(t2)?)?)
    };
    let by_ece = measure(chosen.by_ece.t1, chosen.by_ece.t2)?;
    let by_mce = measure(chosen.by_mce.t1, chosen.by_mce.t2)?;
    Ok(ReleasedCalibration { chosen, by_ece, by_mce })
}
