//! What a method gives notice of while it learns, so that nobody trains for hours on something that is dead.

use std::fmt;

/// Something is wrong with the model after the latest step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The kernel matrix is near the identity: to the kernel no two images are alike.
    KernelIsIdentity,
    /// The kernel matrix is near constant: to the kernel all images are the same.
    KernelIsConstant,
    /// A learned scalar stands at its bound.
    AtBound(&'static str),
    /// Inference in training ends far from rest.
    FarFromRest,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::KernelIsIdentity => f.write_str(
                "the kernel is dead: its matrix is the identity, so no image says anything of another, and little or no \
                 gradient is left. A lower train.kernel_learning_rate or other starting values help",
            ),
            Notice::KernelIsConstant => f.write_str(
                "the kernel is dead: its matrix is constant, so it tells no images apart, and little or no gradient is left. \
                 A lower train.kernel_learning_rate or other starting values help",
            ),
            Notice::AtBound(name) => write!(
                f,
                "the scalar {name} stands at its bound. A lower train.kernel_learning_rate or another starting value helps"
            ),
            Notice::FarFromRest => f.write_str(
                "inference in training does not converge: its last step still moves by more than a tenth of the largest value \
                 (`residual` in metrics.jsonl). More cdkt.steps help",
            ),
        }
    }
}

/// Below this mean correlation of different images the kernel matrix is as good as the identity.
const NO_CORRELATION: f64 = 1e-3;
/// Above one minus this it is as good as constant.
const NO_DIFFERENCE: f64 = 1e-4;

/// Above this residual an inference is far from rest.
const FAR_FROM_REST: f64 = 0.1;

/// Judges an inference by its residual.
pub(crate) fn of_residual(residual: f64) -> Option<Notice> {
    // A residual that is no number is far from rest too.
    (residual > FAR_FROM_REST || residual.is_nan()).then_some(Notice::FarFromRest)
}

/// Judges a kernel by the mean absolute prior correlation of different images of an episode.
pub(crate) fn of_correlation(mean: f64) -> Option<Notice> {
    if mean < NO_CORRELATION {
        Some(Notice::KernelIsIdentity)
    } else if mean > 1.0 - NO_DIFFERENCE {
        Some(Notice::KernelIsConstant)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_noticed_and_the_middle_is_not() {
        assert_eq!(of_correlation(1e-9), Some(Notice::KernelIsIdentity));
        assert_eq!(of_correlation(1.0), Some(Notice::KernelIsConstant));
        assert_eq!(of_correlation(0.01), None);
        assert_eq!(of_correlation(0.999), None);
        assert_eq!(of_residual(0.01), None);
        assert_eq!(of_residual(0.2), Some(Notice::FarFromRest));
        assert_eq!(of_residual(f64::NAN), Some(Notice::FarFromRest));
    }
}
