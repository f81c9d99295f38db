//! How far can the probabilities of a classifier be trusted? Measures, and what to do about the answer.
//!
//! The crate stands alone: plain vectors in, numbers out, any classifier.
//!
//! ```
//! use siskin_calib::{Conformal, Predictions, Reliability, SetRule, Temperature, accuracy, nll};
//!
//! // Forty predictions over three classes, row-major, and what came true: right in 28 of 40.
//! let probs = [0.9, 0.05, 0.05].repeat(40);
//! let labels: Vec<usize> = (0..40).map(|i| if i < 28 { 0 } else { 1 + i % 2 }).collect();
//! let validation = Predictions::new(probs, labels, 3)?;
//! println!("accuracy {:.2}, NLL {:.3}", accuracy(&validation), nll(&validation));
//! println!("ECE {:.3}", Reliability::new(&validation, 15)?.ece()); // 0.9 said, 0.7 true: 0.200
//!
//! let temperature = Temperature::fit_predictions(&validation)?; // 1.876: less sure
//! let calibrated = validation.sharpened(temperature.value)?;
//! assert!(Reliability::new(&calibrated, 15)?.ece() < 1e-6);
//!
//! let conformal = Conformal::fit(&calibrated, SetRule::Lac, 0.1)?; // 90 % of sets hold the truth
//! assert_eq!(conformal.set(&[0.7, 0.15, 0.15]), [0, 1, 2]);
//! # Ok::<(), siskin_calib::Error>(())
//! ```
//!
//! | question | answer |
//! | --- | --- |
//! | How often right, over episodes or batches? | [`accuracy`], [`mean_interval95`], [`mean_std`] |
//! | How good are the probabilities as a whole? | [`nll`], [`brier`] |
//! | Does 80 % mean 80 %? | [`Reliability`] ([`ece`], [`mce`]), [`adaptive_ece`], [`classwise_ece`] |
//! | Can it be corrected? | [`Temperature`]; [`tune_released`] for the paper's published figures |
//! | Which classes are possible? | [`Conformal`] |
//! | What if the unsure are left unanswered? | [`RiskCoverage`] |
//! | Is it none of these classes? | [`entropy`], [`latent_variance`], [`auroc`] |

mod accuracy;
mod adaptive;
mod classwise;
mod conformal;
mod error;
mod measures;
mod out_of_set;
mod predictions;
mod released;
mod reliability;
mod scores;
mod selective;
mod temperature;

pub use accuracy::{MeanSpread, accuracy, mean_interval95, mean_std};
pub use adaptive::{adaptive_bins, adaptive_ece};
pub use classwise::{classwise_bins, classwise_ece};
pub use conformal::{Conformal, SetQuality, SetRule};
pub use error::Error;
pub use measures::Measures;
pub use out_of_set::{auroc, entropy, latent_variance};
pub use predictions::{Predictions, Probabilities, SUM_TOLERANCE, top};
pub use released::{ReleasedChoice, TwoTemperatures, released_grid, tune_released};
pub use reliability::{Bin, PAPER_BINS, Reliability, ece, mce};
pub use scores::{brier, nll};
pub use selective::{CoveragePoint, RiskCoverage};
pub use temperature::{COLDEST, HOTTEST, Optimum, Temperature};
