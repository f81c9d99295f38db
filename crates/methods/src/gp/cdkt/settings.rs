//! What can be chosen about CDKT, as it stands under `[cdkt]` in a config file.

use super::scalars::Parametrisation;
use crate::error::Result;
use crate::gp::cdkt::Cdkt;
use crate::gp::deep_kernel::Slots;
use crate::settings::{Check, Settings};
use crate::{Method, Setup};
use serde::{Deserialize, Serialize};
use siskin_gp::kernels::{AnyForm, Cosine};

/// How the posterior of a task is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InferenceName {
    /// Eq. (12a) to (12f) in the order the paper lists them.
    Paper,
    /// Mean field with gamma and alpha solved together.
    Joint,
    /// Mean field with the Gamma variable integrated out.
    Collapsed,
    /// Natural-gradient ascent on the direct bound: close to the exact posterior.
    Natural,
    /// At test alone: start, sweeps and query mean of the paper's released code.
    Released,
}

/// What training maximises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveName {
    /// The evidence lower bound of the mean-field family (the paper's ML).
    Elbo,
    /// The direct bound: the expected log-likelihood without augmentation.
    Direct,
    /// The predictive likelihood of the queries given the support (the paper's PL).
    Predictive,
    /// What the paper's released code optimises as ML. Not a bound.
    Released,
    /// What the paper's released code optimises as PL: its support rows, its Monte Carlo loss.
    ReleasedPredictive,
}

/// `[cdkt]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CdktSettings {
    /// The kernel on the (unit-length) features, by its name in [`siskin_gp::kernels`].
    pub kernel: AnyForm,
    /// One output scale, or one per class.
    pub output_scale: Slots,
    /// One set of kernel shapes (a lengthscale, say), or one per class, as the released code has it.
    pub kernel_shape: Slots,
    /// The output scale at the start of training.
    pub initial_output_scale: f64,
    /// The variance, length or offset of the kernel at the start of training; unset means ln 2.
    pub initial_kernel_shape: Option<f64>,
    /// In which numbers output scale, kernel shape, prior mean and tau are learned.
    pub scalars: Parametrisation,
    /// Inference in training.
    pub inference: InferenceName,
    /// The objective of training.
    pub objective: ObjectiveName,
    /// Inference steps in training (T).
    pub steps: usize,
    /// Temperature tau of the likelihood; where it is learned, its start.
    pub tau: f64,
    /// Whether tau is learned.
    pub learn_tau: bool,
    /// Prior mean a in training.
    pub prior_mean: f64,
    /// Whether the prior mean is learned.
    pub learn_prior_mean: bool,
    /// Inference at test.
    pub test_inference: InferenceName,
    /// Inference steps at test.
    pub test_steps: usize,
    /// Prior mean at test; unset means the mean of training.
    pub test_prior_mean: Option<f64>,
    /// Whether models are chosen with the prior mean of training, as the released code does, and not with that of the test.
    pub select_as_trained: bool,
    /// Samples of the Monte Carlo loss of `released-predictive`.
    pub samples: usize,
}

impl Default for CdktSettings {
    fn default() -> Self {
        CdktSettings {
            kernel: Cosine.into(),
            output_scale: Slots::Shared,
            kernel_shape: Slots::Shared,
            initial_output_scale: std::f64::consts::LN_2,
            initial_kernel_shape: None,
            scalars: Parametrisation::Softplus,
            inference: InferenceName::Natural,
            objective: ObjectiveName::Direct,
            steps: 8,
            tau: 0.2,
            learn_tau: false,
            prior_mean: 0.0,
            learn_prior_mean: false,
            test_inference: InferenceName::Natural,
            test_steps: 30,
            test_prior_mean: None,
            select_as_trained: false,
            samples: 1000,
        }
    }
}

impl Settings for CdktSettings {
    const NAME: &'static str = "cdkt";
    const ABOUT: &'static str =
        "deep-kernel Gaussian process with the logistic-softmax likelihood and a temperature";
    const PAPER: &'static str = "Section 4, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        Check { method: Self::NAME }
            .at_least_one(&[
                ("steps", self.steps),
                ("test_steps", self.test_steps),
                ("samples", self.samples),
            ])?
            .positive(&[
                ("tau", self.tau),
                ("initial_output_scale", self.initial_output_scale),
                ("initial_kernel_shape", self.initial_kernel_shape.unwrap_or(1.0)),
            ])
            .map(|_| ())
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(Cdkt::new(self, setup)?))
    }
}
