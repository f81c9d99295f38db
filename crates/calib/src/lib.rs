//! Measures of calibration: accuracy, NLL, Brier, ECE, MCE, scaling, conformal sets.
//!
//! ```
//! use siskin_calib::{Predictions, Reliability, accuracy, brier, nll};
//!
//! // Four predictions over three classes, row-major, and what came true.
//! let probs = vec![
//!     0.7, 0.2, 0.1, //
//!     0.1, 0.1, 0.8, //
//!     0.3, 0.6, 0.1, //
//!     0.5, 0.3, 0.2,
//! ];
//! let predictions = Predictions::new(probs, vec![0, 2, 1, 1], 3)?;
//! let reliability = Reliability::new(&predictions, 15)?;
//! println!("accuracy {:.2}, NLL {:.3}", accuracy(&predictions), nll(&predictions));
//! println!("Brier {:.3}, ECE {:.3}", brier(&predictions), reliability.ece());
//! assert_eq!(accuracy(&predictions), 0.75);
//! # Ok::<(), siskin_calib::Error>(())
//! ```

mod accuracy;
mod error;
mod predictions;
mod reliability;
mod scores;

pub use accuracy::{MeanSpread, accuracy, mean_interval95, mean_std};
pub use error::Error;
pub use predictions::{Predictions, Probabilities, SUM_TOLERANCE, top};
pub use reliability::{Bin, PAPER_BINS, Reliability, ece, mce};
pub use scores::{brier, nll};
