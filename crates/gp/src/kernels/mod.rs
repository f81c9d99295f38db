//! Kernels on feature vectors: values, and what a cotangent of the values says about features and parameters.
//!
//! The kernel of class c is `scale_c * base(x, x')`. `base` is computed once for all classes; the scale is shared or one per class.
//! Every positive parameter is stored as a raw real number r and used as softplus(r) = log(1 + e^r).

mod adjoint;
mod features;
mod forward;
mod parameter;

pub use adjoint::KernelGradient;
pub use features::Features;
pub use forward::Base;
pub use parameter::{inverse_softplus, softplus, softplus_slope};

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The largest power of a polynomial kernel.
const MAX_POWER: u32 = 1000;

/// The form of a kernel, before its output scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelKind {
    /// <x, x'> / (|x| |x'|). No shape parameter.
    Cosine,
    /// variance <x, x'>.
    Linear,
    /// exp(-d^2 / (2 l^2)), d = |x - x'|, lengthscale l.
    Rbf,
    /// (1 + sqrt5 d/l + 5 d^2 / (3 l^2)) exp(-sqrt5 d/l), lengthscale l.
    Matern52,
    /// (<x, x'> + offset)^power.
    Polynomial {
        /// The power, from 1 to 1000.
        power: u32,
    },
}

/// A kernel with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// The form.
    pub kind: KernelKind,
    /// Divide each feature vector by its length first (the cosine kernel always does).
    pub normalise: bool,
    /// Before softplus: the variance, lengthscale or offset. The cosine kernel ignores it.
    pub raw_shape: f64,
    /// Before softplus: the output scale, one entry if shared by all classes, else one for each class.
    pub raw_scale: Vec<f64>,
}

impl Kernel {
    /// A kernel with every raw parameter 0, that is softplus(0) = log 2, one output scale for all classes, features as they come.
    pub fn new(kind: KernelKind) -> Self {
        Kernel { kind, normalise: false, raw_shape: 0.0, raw_scale: vec![0.0] }
    }

    /// The same kernel on feature vectors of length 1.
    pub fn normalised(self) -> Self {
        Kernel { normalise: true, ..self }
    }

    /// The same kernel with an output scale for each of `classes` classes, all starting where the first stands.
    pub fn scale_per_class(self, classes: usize) -> Self {
        let start = self.raw_scale.first().copied().unwrap_or(0.0);
        Kernel { raw_scale: vec![start; classes], ..self }
    }

    /// The same kernel with this output scale (after softplus) for all classes.
    pub fn with_scale(self, scale: f64) -> Result<Self> {
        Ok(Kernel { raw_scale: vec![inverse_softplus("output scale", scale)?], ..self })
    }

    /// The same kernel with this variance, lengthscale or offset (after softplus).
    pub fn with_shape(self, shape: f64) -> Result<Self> {
        Ok(Kernel { raw_shape: inverse_softplus("kernel shape", shape)?, ..self })
    }

    /// Whether the kernel has a shape parameter besides its output scale.
    pub fn has_shape(&self) -> bool {
        self.kind != KernelKind::Cosine
    }

    /// The variance, lengthscale or offset.
    pub fn shape(&self) -> f64 {
        softplus(self.raw_shape)
    }

    /// The output scale of `class`; NaN if it has none, which [`Kernel::check`] would name.
    pub fn scale(&self, class: usize) -> f64 {
        let place = if self.raw_scale.len() == 1 { 0 } else { class };
        self.raw_scale.get(place).map_or(f64::NAN, |&raw| softplus(raw))
    }

    /// Parameters finite, a scale shared or one for each of `classes` classes, a power from 1 to 1000.
    pub fn check(&self, classes: usize) -> Result<()> {
        let scales = self.raw_scale.len();
        if scales != 1 && scales != classes {
            return Err(Error::Shape {
                what: "output scales (1 if shared, else one per class)",
                expected: classes,
                got: scales,
            });
        }
        if let KernelKind::Polynomial { power } = self.kind
            && !(1..=MAX_POWER).contains(&power)
        {
            return Err(Error::OutOfRange { what: "power", value: power.into(), must: "between 1 and 1000" });
        }
        if !self.raw_shape.is_finite() {
            return Err(Error::NotFinite { what: "raw kernel shape", row: 0, col: 0, value: self.raw_shape });
        }
        match self.raw_scale.iter().position(|r| !r.is_finite()) {
            Some(col) => {
                Err(Error::NotFinite { what: "raw output scale", row: 0, col, value: self.raw_scale[col] })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_kernel_is_named() {
        let kernel = Kernel::new(KernelKind::Polynomial { power: u32::MAX });
        assert!(matches!(kernel.check(2), Err(Error::OutOfRange { what: "power", .. })));
        assert!(matches!(
            Kernel { raw_scale: Vec::new(), ..kernel.clone() }.check(2),
            Err(Error::Shape { expected: 2, got: 0, .. })
        ));
        // Unchecked they give no wrong number.
        let x = kernel.features(faer::mat![[2.0]].as_ref()).unwrap();
        assert!(kernel.within(&x).value[(0, 0)] > 1e300);
        let none = Kernel { raw_scale: Vec::new(), ..Kernel::new(KernelKind::Rbf) };
        assert!(none.scaled(&none.within(&x), 2)[1][(0, 0)].is_nan());
        assert!(Kernel::new(KernelKind::Rbf).scale_per_class(3).scale(3).is_nan());
    }
}
