//! The special functions of the logistic-softmax model, accurate over their whole range.

mod gamma;
mod tilt;

pub(crate) use gamma::digamma_minus_log;
pub use gamma::{digamma, gamma_entropy, ln_gamma, log_minus_digamma1p, one_minus_trigamma1p, trigamma};
pub use tilt::{Tilt, log2cosh_half, pg_mean1, pg_var1, solve_u};
pub(crate) use tilt::{log_sigmoid, sigmoid};
