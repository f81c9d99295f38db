//! CDKT: a deep-kernel Gaussian process with the logistic-softmax likelihood, meta-trained by a bound or by the
//! predictive likelihood (Section 4 of the paper, Algorithm 1).

mod carried;
mod head;
pub(crate) mod released;
mod scalars;
mod settings;

pub use crate::gp::deep_kernel::Slots;
pub use head::CdktHead;
pub use scalars::Parametrisation;
pub use settings::{CdktSettings, InferenceName, ObjectiveName};

use crate::error::Result;
use crate::gp::deep_kernel::DeepKernel;
use crate::{EpisodeRows, Features, LatentGaussians, Setup};
use siskin_gp::Support;
use siskin_gp::objective::Objective;

/// The method: a network for the features, a Gaussian process with the logistic-softmax likelihood on them.
pub type Cdkt = DeepKernel<CdktHead>;

impl Cdkt {
    /// A fresh model.
    pub fn new(config: &CdktSettings, setup: Setup) -> Result<Cdkt> {
        Cdkt::with_head(CdktHead::new(config, setup.way, setup.seed)?, setup)
    }

    /// What the Gaussian process makes of the features of an episode: its objective and its points, for programs that time their parts.
    /// An error for the released predictive likelihood, which has another form.
    pub fn objective_and_points(
        &self,
        features: &Features,
        episode: &EpisodeRows<'_>,
    ) -> Result<(Objective, Support)> {
        self.head().parts(features, episode)
    }
}

impl LatentGaussians {
    /// Class probabilities `[queries, way]` of the logistic-softmax with another temperature.
    pub fn probabilities(&self, way: usize, tau: f64) -> Result<Vec<f64>> {
        head::probabilities(self, way, tau)
    }
}
