//! The one-vs-each likelihood (Titsias 2016): `L(y = i | f) = prod_{c != i} sigma(f_i - f_c)`.
//!
//! It depends on f through the differences `psi = A f` alone, one for each point and each class but the point's own,
//! and in psi every factor is logistic: one Pólya-Gamma variable PG(1, .) each makes it Gaussian.
//! It is a composite likelihood: its values over the labels sum to at most 1.

mod differences;
mod mean_field;
mod score;

pub use differences::Differences;
pub use mean_field::OveMeanField;
pub(crate) use score::{difference, scores};
