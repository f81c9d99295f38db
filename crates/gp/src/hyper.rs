//! What a task does not bring along: kernel, prior mean and temperature.

use crate::kernels::{Kernel, KernelGradient};
use crate::{Error, Result};

/// Kernel, one prior mean for all classes, and temperature.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hyper {
    /// The kernel with its raw parameters.
    pub kernel: Kernel,
    /// The prior mean a of every latent function.
    pub mean: f64,
    /// The temperature. To learn it, step in log tau with [`HyperGradient::log_tau`].
    pub tau: f64,
}

/// Kernel, prior mean of each class, and temperature: the prior of the latent functions of a task of C classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// The kernel with its raw parameters.
    pub kernel: Kernel,
    /// The prior mean of each class, `[C]`.
    pub means: Vec<f64>,
    /// The temperature.
    pub tau: f64,
}

/// The gradient of an objective in the hyperparameters.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperGradient {
    /// In the raw parameters of the kernel.
    pub kernel: KernelGradient,
    /// In a prior mean shared by all classes.
    pub mean: f64,
    /// In the prior mean of each class, `[C]`.
    pub means: Vec<f64>,
    /// In log tau.
    pub log_tau: f64,
}

impl Hyper {
    /// The prior of a task of this many classes.
    pub fn prior(&self, classes: usize) -> Prior {
        Prior { kernel: self.kernel.clone(), means: vec![self.mean; classes], tau: self.tau }
    }
}

impl Prior {
    pub(crate) fn classes(&self) -> usize {
        self.means.len()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.kernel.check(self.classes())?;
        match self.means.iter().position(|mean| !mean.is_finite()) {
            Some(col) => Err(Error::NotFinite { what: "prior mean", row: 0, col, value: self.means[col] }),
            None => Ok(()),
        }
    }
}
