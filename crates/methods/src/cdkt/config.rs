//! What can be chosen about CDKT, as it stands under `[cdkt]` in a config file.

use crate::deep_kernel::OutputScale;
use serde::{Deserialize, Serialize};

/// The kernel on the (unit-length) features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelName {
    /// `s <z, z'>`: the paper's choice.
    Cosine,
    /// `s v <z, z'>`.
    Linear,
    /// `s exp(-d^2 / 2 l^2)`.
    Rbf,
    /// Matérn with nu = 5/2.
    Matern,
    /// `s (<z, z'> + o)`.
    Poly1,
    /// `s (<z, z'> + o)^2`.
    Poly2,
}

/// How the posterior of a task is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inference {
    /// Eq. (12a) to (12f) in the order the paper lists them.
    Paper,
    /// Mean field with gamma and alpha solved together.
    Joint,
    /// Mean field with the Gamma variable integrated out.
    Collapsed,
    /// Natural-gradient ascent on the direct bound: close to the exact posterior.
    Natural,
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
    /// What the paper's published code optimises. Not a bound.
    Released,
}

/// `[cdkt]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CdktConfig {
    /// The kernel.
    pub kernel: KernelName,
    /// One output scale, or one per class.
    pub output_scale: OutputScale,
    /// The output scale at the start of training.
    pub initial_output_scale: f64,
    /// Inference in training.
    pub inference: Inference,
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
    pub test_inference: Inference,
    /// Inference steps at test.
    pub test_steps: usize,
    /// Prior mean at test; unset means the mean of training.
    pub test_prior_mean: Option<f64>,
}

impl Default for CdktConfig {
    fn default() -> Self {
        CdktConfig {
            kernel: KernelName::Cosine,
            output_scale: OutputScale::Shared,
            initial_output_scale: std::f64::consts::LN_2,
            inference: Inference::Natural,
            objective: ObjectiveName::Direct,
            steps: 8,
            tau: 0.2,
            learn_tau: false,
            prior_mean: 0.0,
            learn_prior_mean: false,
            test_inference: Inference::Natural,
            test_steps: 30,
            test_prior_mean: None,
        }
    }
}
