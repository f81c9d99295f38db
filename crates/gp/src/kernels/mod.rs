//! Kernels on feature vectors: values, and what a cotangent of the values says about features and parameters.
//!
//! The kernel of class c is `scale_c * k(x / lengths, x' / lengths)`, where `k` is a [`Form`] with its shape parameters. Scale, shapes
//! and lengths are shared by all classes or one for each class; lengths, one for each input dimension, are 1 unless asked for.
//! Every positive parameter is stored as a raw real number r and used as softplus(r) = log(1 + e^r).
//!
//! **To add a kernel**: write its file beside the others (copy `rbf.rs`) and name the file in `forms!` below. Configs, files and
//! Python then know it by its name, and the tests of this folder check its slopes. CONTRIBUTING.md says where else the name stands, and how
//! these files are formatted: `cargo fmt` does not see what a macro names.

mod adjoint;
mod features;
mod form;
mod gram;
mod parameter;
mod stored;
#[cfg(test)]
mod tests;

pub use adjoint::KernelGradient;
pub use features::KernelFeatures;
pub use form::{AnyForm, Beside, Form, Statistic};
pub use gram::Gram;
pub use parameter::{inverse_softplus, softplus, softplus_slope};

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The forms that one file is about: most files have one with one name, some a family of names.
struct Family {
    /// Names that are shown.
    names: fn() -> Vec<String>,
    /// The form with a name.
    named: fn(&str) -> Option<AnyForm>,
}

/// The forms, by their files: the one table of names. Behind a form with several names stands `by name`: its file has `NAMES`, those that
/// are shown, and `named`.
macro_rules! forms {
    ($($file:ident::$form:ident $(by $name:ident)?),* $(,)?) => {
        $(mod $file; pub use $file::$form;)*

        static FORMS: &[Family] = &[$(forms!(@ $file $form $($name)?)),*];
    };
    (@ $file:ident $form:ident) => {
        Family {
            names: || vec![$form.name()],
            named: |name| ($form.name() == name).then(|| $form.into()),
        }
    };
    (@ $file:ident $form:ident name) => {
        Family { names: || $file::NAMES.iter().map(|&name| name.to_owned()).collect(), named: $file::named }
    };
}

forms! {
    arc_cosine::ArcCosine,
    combined::Combined by name,
    constant::Constant,
    cosine::Cosine,
    linear::Linear,
    rbf::Rbf,
    matern52::Matern52 by name,
    polynomial::Polynomial by name,
    rational_quadratic::RationalQuadratic,
    two_scale::TwoScale,
}

/// A kernel with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "stored::Stored", into = "stored::Stored")]
pub struct Kernel {
    /// The form.
    pub form: AnyForm,
    /// Divide each feature vector by its length first (the cosine kernel always does).
    pub normalise: bool,
    /// Before softplus: the shapes of the form, one set if shared by all classes, else a set for each class, one after another.
    pub raw_shape: Vec<f64>,
    /// Before softplus: a length for each input dimension, none (all are 1), D, or D for each class, one class after another.
    pub raw_lengths: Vec<f64>,
    /// Before softplus: the output scale, one entry if shared by all classes, else one for each class.
    pub raw_scale: Vec<f64>,
}

impl Kernel {
    /// A kernel with every raw parameter 0, that is softplus(0) = log 2, shared by all classes, features as they come.
    pub fn new(form: impl Into<AnyForm>) -> Self {
        let form = form.into();
        let raw_shape = vec![0.0; form.shapes().len()];
        Kernel { form, normalise: false, raw_shape, raw_lengths: Vec::new(), raw_scale: vec![0.0] }
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

    /// The same kernel with shapes for each of `classes` classes, all starting where the first stand.
    pub fn shape_per_class(self, classes: usize) -> Self {
        let first = &self.raw_shape[..self.form.shapes().len()];
        Kernel { raw_shape: first.repeat(classes), ..self }
    }

    /// The same kernel with a length, starting at 1, for each of `inputs` input dimensions (automatic relevance determination).
    pub fn length_per_input(self, inputs: usize) -> Self {
        // softplus(log(e - 1)) = 1
        Kernel { raw_lengths: vec![1f64.exp_m1().ln(); inputs], ..self }
    }

    /// The same kernel with this output scale (after softplus) for all classes.
    pub fn with_scale(self, scale: f64) -> Result<Self> {
        Ok(Kernel { raw_scale: vec![inverse_softplus("output scale", scale)?], ..self })
    }

    /// The same kernel with these shapes (after softplus), such as `&[lengthscale]`, for all classes.
    pub fn with_shapes(self, shapes: &[f64]) -> Result<Self> {
        let (expected, got) = (self.form.shapes().len(), shapes.len());
        if expected != got {
            return Err(Error::Shape { what: "shapes of the kernel", expected, got });
        }
        let raw = shapes.iter().map(|&shape| inverse_softplus("kernel shape", shape));
        Ok(Kernel { raw_shape: raw.collect::<Result<_>>()?, ..self })
    }

    /// The shapes as used, in the order of [`Kernel::raw_shape`].
    pub fn shapes(&self) -> Vec<f64> {
        self.raw_shape.iter().map(|&raw| softplus(raw)).collect()
    }

    /// The output scale of `class`; NaN if it has none, which [`Kernel::check`] would name.
    pub fn scale(&self, class: usize) -> f64 {
        let place = if self.raw_scale.len() == 1 { 0 } else { class };
        self.raw_scale.get(place).map_or(f64::NAN, |&raw| softplus(raw))
    }

    /// Parameters finite; scales, shapes and lengths shared or for each of `classes` classes.
    pub fn check(&self, classes: usize) -> Result<()> {
        let shapes = self.form.shapes().len();
        for (what, raw, of_one) in [
            ("output scales (1 if shared, else one per class)", &self.raw_scale, 1),
            ("kernel shapes (those of the form if shared, else as many per class)", &self.raw_shape, shapes),
        ] {
            if raw.len() != of_one && raw.len() != of_one * classes {
                return Err(Error::Shape { what, expected: of_one * classes, got: raw.len() });
            }
        }
        if self.form.on_unit_vectors() && !self.raw_lengths.is_empty() {
            let what = "lengths of the inputs of a kernel on unit vectors";
            return Err(Error::Shape { what, expected: 0, got: self.raw_lengths.len() });
        }
        for (what, raw) in [
            ("raw kernel shape", &self.raw_shape),
            ("raw length of an input", &self.raw_lengths),
            ("raw output scale", &self.raw_scale),
        ] {
            if let Some(col) = raw.iter().position(|raw| !raw.is_finite()) {
                return Err(Error::NotFinite { what, row: 0, col, value: raw[col] });
            }
        }
        Ok(())
    }
}
