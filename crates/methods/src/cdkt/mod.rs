//! CDKT: a deep-kernel Gaussian process with the logistic-softmax likelihood, meta-trained by a bound or by the
//! predictive likelihood (Section 4 of the paper, Algorithm 1).

mod carried;
mod config;
mod head;
mod scalars;

pub use crate::deep_kernel::OutputScale;
pub use config::{CdktConfig, Inference, KernelName, ObjectiveName};
pub use head::CdktHead;

use crate::deep_kernel::DeepKernel;
use crate::error::Result;
use crate::{Latent, Setup};

/// The method: a network for the features, a Gaussian process with the logistic-softmax likelihood on them.
pub type Cdkt = DeepKernel<CdktHead>;

impl Cdkt {
    /// A fresh model.
    pub fn new(config: &CdktConfig, setup: Setup) -> Result<Cdkt> {
        Cdkt::with_head(CdktHead::new(config, setup.way, setup.seed)?, setup)
    }
}

impl Latent {
    /// Class probabilities `[queries, way]` of the logistic-softmax with another temperature.
    pub fn probabilities(&self, way: usize, tau: f64) -> Result<Vec<f64>> {
        head::probabilities(self, way, tau)
    }
}
