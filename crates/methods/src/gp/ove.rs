//! OVE PG GP with the cosine kernel (Snell and Zemel 2021): the one-vs-each likelihood `prod_{c != y} sigma(f_y - f_c)`, its
//! posterior by Gibbs sampling with one Pólya-Gamma variable for each difference.
//!
//! The published code hands the variance of a difference to a routine that takes a standard deviation; here the expectations
//! `E log sigma(f_y - f_c)` are taken with the right one.

use crate::error::Result;
pub use crate::gp::deep_kernel::SampledObjective;
use crate::gp::deep_kernel::{DeepKernel, SampledHead, SampledProbabilities, Sampling};
use crate::settings::Settings;
use crate::{Method, Setup};
use serde::{Deserialize, Serialize};
use siskin_gp::inference::SampledLikelihood;

/// `[ove]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OveSettings {
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
    /// The variance of a difference as its standard deviation, by 20 points, as the released code has it.
    pub as_released: bool,
    /// Whether models are chosen with the sweeps of training, as the released code does, and not with those of the test.
    pub select_as_trained: bool,
}

impl Default for OveSettings {
    fn default() -> Self {
        OveSettings {
            objective: SampledObjective::Marginal,
            chains: 20,
            sweeps: 1,
            test_sweeps: 50,
            initial_output_scale: 1.0,
            as_released: false,
            select_as_trained: false,
        }
    }
}

impl Settings for OveSettings {
    const NAME: &'static str = "ove";
    const ABOUT: &'static str = "one-vs-each Gaussian process by Gibbs sampling (Snell and Zemel 2021)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        self.sampling().check(Self::NAME)
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(DeepKernel::with_head(SampledHead::new(self.sampling(), setup.seed)?, setup)?))
    }
}

impl OveSettings {
    fn sampling(&self) -> Sampling {
        Sampling {
            likelihood: SampledLikelihood::OneVsEach,
            objective: self.objective,
            // One-vs-each is no distribution over the classes: its score is all there is.
            probabilities: SampledProbabilities::Published,
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
    use siskin_gp::equations::OneVsEachGibbs;

    #[test]
    fn losses_probabilities_and_gradients_at_fixed_omega_are_those_of_pytorch() {
        let golden = Golden::parse(include_str!("../../tests/golden/ove.json"));
        let episode = CosineEpisode::new(&golden);
        let given = |task: &Task, omega: &str| OneVsEachGibbs::given_omega(task, golden.f64s(omega)).unwrap();
        let marginal = given(&episode.all(), "omega").marginal_likelihood();
        let (task, query, labels) = episode.parts();
        let gibbs = given(&task, "support_omega");
        let predictive = gibbs.predictive_likelihood(&query, &labels).unwrap();
        let probabilities = gibbs.published_probabilities(&query).unwrap();
        episode.compare(&golden, &marginal, &predictive, &probabilities);
    }
}
