//! Measures of calibration: accuracy, NLL, Brier, ECE, MCE, scaling, conformal sets.
