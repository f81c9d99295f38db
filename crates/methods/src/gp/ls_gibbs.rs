//! LS (Gibbs) with the cosine kernel (Galy-Fajou et al. 2020, as meta-trained by Snell and Zemel 2021): the logistic-softmax
//! likelihood with temperature 1, its posterior by Gibbs sampling.
//!
//! The chains are blocked, {lambda, M, Omega} then X, which reaches the posterior in fewer sweeps than the published order of
//! four blocks. Predictive expectations are integrals, not averages over 1000 samples.

use crate::error::Result;
use crate::gp::deep_kernel::{DeepKernel, SampledHead, Sampling};
pub use crate::gp::deep_kernel::{SampledObjective, SampledProbabilities};
use crate::settings::Settings;
use crate::{Method, Setup};
use serde::{Deserialize, Serialize};
use siskin_gp::inference::SampledLikelihood;

/// `[ls-gibbs]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LsGibbsSettings {
    /// ML or PL.
    pub objective: SampledObjective,
    /// Independent chains of an episode.
    pub chains: usize,
    /// Sweeps of a chain in training.
    pub sweeps: usize,
    /// Sweeps of a chain at test.
    pub test_sweeps: usize,
    /// The output scale at the start of training.
    pub initial_output_scale: f64,
    /// The released order of blocks, from lambda = 1: at the one sweep of training it has half the Poisson counts of the blocked
    /// sampler, and another gradient.
    pub as_released: bool,
    /// Whether models are chosen with the sweeps of training, as the released code does, and not with those of the test.
    pub select_as_trained: bool,
    /// Class probabilities: published, `exp E log sigma` normalised, or expected, `E p(y | f)`.
    pub probabilities: SampledProbabilities,
}

impl Default for LsGibbsSettings {
    fn default() -> Self {
        LsGibbsSettings {
            objective: SampledObjective::Marginal,
            chains: 20,
            sweeps: 1,
            test_sweeps: 50,
            initial_output_scale: 1.0,
            as_released: false,
            select_as_trained: false,
            probabilities: SampledProbabilities::Published,
        }
    }
}

impl Settings for LsGibbsSettings {
    const NAME: &'static str = "ls-gibbs";
    const ABOUT: &'static str =
        "logistic-softmax Gaussian process by Gibbs sampling (Galy-Fajou et al. 2020, Snell and Zemel 2021)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        self.sampling().check(Self::NAME)
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(DeepKernel::with_head(SampledHead::new(self.sampling(), setup.seed)?, setup)?))
    }
}

impl LsGibbsSettings {
    fn sampling(&self) -> Sampling {
        Sampling {
            likelihood: SampledLikelihood::LogisticSoftmax,
            objective: self.objective,
            probabilities: self.probabilities,
            chains: self.chains,
            sweeps: self.sweeps,
            test_sweeps: self.test_sweeps,
            initial_output_scale: self.initial_output_scale,
            as_released: self.as_released,
            select_as_trained: self.select_as_trained,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::gp::deep_kernel::golden::CosineEpisode;
    use crate::shared::golden::Golden;
    use siskin_gp::Task;
    use siskin_gp::equations::LogisticSoftmaxGibbs;

    /// Sites of each class, [N] each.
    fn sites(golden: &Golden, name: &str) -> Vec<Vec<f64>> {
        let way = golden.f64("way") as usize;
        let all = golden.f64s(name);
        all.chunks_exact(all.len() / way).map(<[f64]>::to_vec).collect()
    }

    #[test]
    fn losses_probabilities_and_gradients_at_fixed_sites_are_those_of_pytorch() {
        let golden = Golden::parse(include_str!("../../tests/golden/ls_gibbs.json"));
        let episode = CosineEpisode::new(&golden);
        let given = |task: &Task, b: &str, w: &str| {
            LogisticSoftmaxGibbs::given_sites(task, sites(&golden, b), sites(&golden, w)).unwrap()
        };
        let marginal = given(&episode.all(), "b", "w").marginal_likelihood();
        let (task, query, labels) = episode.parts();
        let gibbs = given(&task, "support_b", "support_w");
        let predictive = gibbs.predictive_likelihood(&query, &labels).unwrap();
        let probabilities = gibbs.published_probabilities(&query).unwrap();
        episode.compare(&golden, &marginal, &predictive, &probabilities);
    }
}
