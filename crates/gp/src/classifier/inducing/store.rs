//! Inducing points within a file: of the classifier of one label and of that of label sets.

use super::super::file::{Array, Reader, floats, narrow_floats};
use super::{Inducing, Narrow};
use crate::{Hyper, Result};

impl Inducing {
    /// What [`Inducing::read`] needs beside the hyperparameters.
    pub(in super::super) fn arrays(&self) -> Vec<Array> {
        vec![
            floats("inducing.z", &self.z),
            narrow_floats("inducing.mean", &[&self.mean]),
            narrow_floats("inducing.factors", &self.narrow.factors.iter().collect::<Vec<_>>()),
            narrow_floats("inducing.variances", &[&self.narrow.others]),
        ]
    }

    /// Inducing points of `width` inputs with weights for `classes` classes. Everything is checked.
    pub(in super::super) fn read(
        file: &Reader<'_>,
        hyper: &Hyper,
        classes: usize,
        width: usize,
    ) -> Result<Inducing> {
        hyper.kernel.check(classes)?;
        let z = file.matrix("inducing.z")?;
        let z = file.sized("inducing.z", z.nrows(), width)?;
        let narrow =
            Narrow { factors: file.narrow("inducing.factors")?, others: file.one("inducing.variances")? };
        Inducing::from_parts(z, hyper.prior(classes), file.one("inducing.mean")?, narrow)
    }
}
