//! Heads whose posterior is sampled: LS-Gibbs and OVE differ in the likelihood alone.
//!
//! The kernel is `exp(r) cos` with one r for all classes, the prior mean 0, the temperature 1.

use super::{GpHead, matrix, row_major};
use crate::error::Result;
use crate::settings::Check;
use crate::shared::state::State;
use crate::{EpisodeRows, Error, Features, Prediction, Purpose, TaskRows};
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use siskin_gp::inference::{Chains, GibbsSampler, Inference, SampledLikelihood};
use siskin_gp::kernels::{Cosine, Kernel, softplus_slope};
use siskin_gp::objective::Objective;
use siskin_gp::posterior::Posterior;
use siskin_gp::{Hyper, Query, Resolution, Support};
use siskin_nn::HeadLoss;
use siskin_random::stream;

/// What training maximises, by Gibbs sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampledObjective {
    /// The marginal likelihood of all labels (ML): its gradient by Fisher's identity.
    Marginal,
    /// The predictive likelihood of the queries given the support (PL).
    Predictive,
}

/// How samples of the posterior become class probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampledProbabilities {
    /// The softmax of the mean log-likelihood score, as the published code has it.
    Published,
    /// The mean over the samples of the likelihood's own probabilities.
    Expected,
}

/// What can be chosen about a sampled head.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sampling {
    pub likelihood: SampledLikelihood,
    pub objective: SampledObjective,
    pub probabilities: SampledProbabilities,
    pub chains: usize,
    pub sweeps: usize,
    pub test_sweeps: usize,
    pub initial_output_scale: f64,
    /// See [`GibbsSampler::released`].
    pub as_released: bool,
    /// Whether models are chosen with the sweeps of training.
    pub select_as_trained: bool,
}

impl Sampling {
    /// What the settings of the method `name` must keep to.
    pub(crate) fn check(&self, name: &'static str) -> Result<()> {
        Check { method: name }
            .at_least_one(&[
                ("chains", self.chains),
                ("sweeps", self.sweeps),
                ("test_sweeps", self.test_sweeps),
            ])?
            .positive(&[("initial_output_scale", self.initial_output_scale)])
            .map(|_| ())
    }
}

/// A Gaussian process whose latent functions are sampled.
#[derive(Clone)]
pub struct SampledHead {
    sampling: Sampling,
    hyper: Hyper,
    seed: u64,
    /// Training episodes so far: the index of the next one's random numbers.
    episodes: u64,
}

impl SampledHead {
    pub(crate) fn new(sampling: Sampling, seed: u64) -> Result<SampledHead> {
        let kernel = Kernel::new(Cosine).with_scale(sampling.initial_output_scale)?;
        let hyper = Hyper { kernel, mean: 0.0, tau: 1.0 };
        Ok(SampledHead { sampling, hyper, seed, episodes: 0 })
    }

    /// The chains of purpose `name` number `index`: never the random numbers of another purpose or number.
    fn sampler(&self, name: &str, index: u64, sweeps: usize) -> GibbsSampler {
        let seed = stream(self.seed, name, index).next_u64();
        let chains = Chains { chains: self.sampling.chains, sweeps, seed };
        GibbsSampler { likelihood: self.sampling.likelihood, chains, released: self.sampling.as_released }
    }

    fn probabilities(&self, sampled: &Posterior, query: &Query, way: usize) -> Result<Vec<f64>> {
        let mut p = row_major(&match self.sampling.probabilities {
            SampledProbabilities::Published => sampled.published_probs(query)?,
            SampledProbabilities::Expected => sampled.probs(query, Resolution::Standard)?,
        });
        // The integrals are right to 1e-7 each; their sum is made 1 to rounding.
        for row in p.chunks_exact_mut(way) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= sum);
        }
        Ok(p)
    }
}

impl GpHead for SampledHead {
    /// The logarithm of the output scale.
    fn learned(&self) -> Vec<f64> {
        vec![self.hyper.kernel.scale(0).ln()]
    }

    fn put_learned(&mut self, x: &[f64]) {
        // A scale that softplus cannot reach (0 or infinity) shows as a loss that is not finite at the next step.
        let scale = x[0].exp();
        self.hyper.kernel.raw_scale[0] = if scale > 30.0 { scale } else { scale.exp_m1().ln() };
    }

    fn named(&self) -> Vec<(String, f64)> {
        vec![("output_scale".into(), self.hyper.kernel.scale(0))]
    }

    /// Minus the objective per point.
    fn loss(&mut self, features: &Features, episode: &EpisodeRows<'_>) -> Result<HeadLoss> {
        let (way, index, sweeps) = (episode.way, self.episodes, self.sampling.sweeps);
        self.episodes += 1;
        let sampler = self.sampler("training", index, sweeps);
        let (objective, points) = match self.sampling.objective {
            SampledObjective::Marginal => (Objective::SampledMarginal(sampler), features.rows),
            SampledObjective::Predictive => {
                let support = episode.support.to_vec();
                (Objective::SampledPredictive { sampler, support }, episode.query.len())
            }
        };
        let labelled = Support::new(matrix(features), episode.labels, self.hyper.prior(way))?;
        let answer = objective.value_and_gradient(&labelled)?;
        let scale = -1.0 / points as f64;
        let dfeatures = row_major(&answer.features).iter().map(|d| scale * d).collect();
        let kernel = &self.hyper.kernel;
        // From the raw number of softplus to the logarithm of the output scale.
        let log_slope = kernel.scale(0) / softplus_slope(kernel.raw_scale[0]);
        let dhyper = vec![scale * answer.hyper.kernel.raw_scale[0] * log_slope];
        Ok(HeadLoss { loss: scale * answer.value, dfeatures, dhyper, accuracy: None })
    }

    fn skip(&mut self, episodes: u64) {
        self.episodes += episodes;
    }

    fn take_over(&mut self, _: &[f64]) -> Result<()> {
        self.episodes += 1;
        Ok(())
    }

    /// The random numbers belong to the support: the same episode is always answered in the same way.
    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let &TaskRows { labels, way, .. } = task;
        let (support, query) = (task.support.features()?, task.query.features()?);
        let sweeps = match task.purpose {
            Purpose::Selection if self.sampling.select_as_trained => self.sampling.sweeps,
            _ => self.sampling.test_sweeps,
        };
        let sampler = self.sampler("prediction", fingerprint(support, labels), sweeps);
        let support = Support::new(matrix(support), labels, self.hyper.prior(way))?;
        let sampled = Inference::Gibbs(sampler).posterior(&support.task()?)?;
        let query = support.query(matrix(query))?;
        Ok(Prediction { probabilities: self.probabilities(&sampled, &query, way)?, way, latent: None })
    }

    fn save(&self, state: &mut State) {
        state.push_training("gibbs.episodes", &[self.episodes as f64]);
    }

    fn load(&mut self, state: &State) -> Result<()> {
        let &[episodes] = state.f64s("gibbs.episodes")? else {
            return Err(Error::State("`gibbs.episodes` is not one number".into()));
        };
        self.episodes = episodes as u64;
        Ok(())
    }
}

/// The 64-bit FNV-1a hash of all values and labels.
fn fingerprint(support: &Features, labels: &[usize]) -> u64 {
    let words = support.values.iter().map(|v| v.to_bits()).chain(labels.iter().map(|&l| l as u64));
    words.flat_map(u64::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Images, Rows, select};

    const LIKELIHOODS: [SampledLikelihood; 2] =
        [SampledLikelihood::LogisticSoftmax, SampledLikelihood::OneVsEach];

    fn head(likelihood: SampledLikelihood, objective: SampledObjective, chains: usize) -> SampledHead {
        let sampling = Sampling {
            likelihood,
            objective,
            probabilities: SampledProbabilities::Published,
            chains,
            sweeps: 1,
            test_sweeps: 20,
            initial_output_scale: 1.0,
            as_released: false,
            select_as_trained: false,
        };
        SampledHead::new(sampling, 7).unwrap()
    }

    /// Two clusters of four points; rows 0 and 4 are the support.
    fn clusters() -> (Features, Vec<usize>) {
        let row = |i: usize| {
            let (near, wobble) = (if i < 4 { 1.0 } else { 0.2 }, 0.1 * (i as f64 * 2.3).sin());
            [near, 1.2 - near, 0.3 + wobble]
        };
        let features = Features { values: (0..8).flat_map(row).collect(), rows: 8, dim: 3 };
        (features, vec![0, 0, 0, 0, 1, 1, 1, 1])
    }

    fn episode(labels: &[usize]) -> EpisodeRows<'_> {
        let images = Images::new(&[], [0, 1, 1, 1]).unwrap();
        EpisodeRows { images, labels, support: &[0, 4], query: &[1, 2, 3, 5, 6, 7], way: 2 }
    }

    #[test]
    fn a_scale_comes_back_from_its_logarithm_and_the_gradient_is_in_it() {
        let mut head = head(SampledLikelihood::OneVsEach, SampledObjective::Marginal, 3);
        assert!(head.learned()[0].abs() < 1e-14);
        for x in [-3.0, 0.0, 1.5, 4.0] {
            head.put_learned(&[x]);
            assert!((head.learned()[0] - x).abs() < 1e-13, "{x}: {}", head.learned()[0]);
        }
        let (features, labels) = clusters();
        let mut raw_at = |x: f64| {
            head.put_learned(&[x]);
            head.hyper.kernel.raw_scale[0]
        };
        let slope = (raw_at(0.4 + 1e-5) - raw_at(0.4 - 1e-5)) / 2e-5;
        head.put_learned(&[0.4]);
        let objective = Objective::SampledMarginal(head.sampler("training", 0, 1));
        let labelled = Support::new(matrix(&features), &labels, head.hyper.prior(2)).unwrap();
        let answer = objective.value_and_gradient(&labelled).unwrap();
        let wanted = -answer.hyper.kernel.raw_scale[0] / 8.0 * slope;
        let got = head.loss(&features, &episode(&labels)).unwrap().dhyper[0];
        assert!((got - wanted).abs() < 1e-8 * wanted.abs(), "{got} {wanted}");
    }

    /// The samples are constants for the gradient, so it is exact in the mean over chains only: many chains, the same random
    /// numbers before and after, and a step long enough to show.
    #[test]
    fn a_step_down_the_gradient_lowers_the_loss_at_the_same_random_numbers() {
        let (features, labels) = clusters();
        for likelihood in LIKELIHOODS {
            let start = head(likelihood, SampledObjective::Predictive, 400);
            let at = |features: &Features| start.clone().loss(features, &episode(&labels)).unwrap();
            let loss = at(&features);
            let norm: f64 = loss.dfeatures.iter().map(|d| d * d).sum();
            let h = 0.05 / norm.sqrt();
            let mut moved = features.clone();
            moved.values.iter_mut().zip(&loss.dfeatures).for_each(|(x, d)| *x -= h * d);
            assert!(at(&moved).loss < loss.loss, "{likelihood:?}: {} {}", at(&moved).loss, loss.loss);
        }
    }

    #[test]
    fn both_objectives_have_finite_losses_and_gradients() {
        let (features, labels) = clusters();
        for likelihood in LIKELIHOODS {
            for objective in [SampledObjective::Marginal, SampledObjective::Predictive] {
                let mut head = head(likelihood, objective, 20);
                let loss = head.loss(&features, &episode(&labels)).unwrap();
                assert!(loss.loss.is_finite() && loss.dfeatures.iter().all(|d| d.is_finite()));
            }
        }
    }

    #[test]
    fn every_training_episode_has_random_numbers_of_its_own_that_a_state_brings_back() {
        let (features, labels) = clusters();
        let mut first = head(SampledLikelihood::LogisticSoftmax, SampledObjective::Marginal, 5);
        let losses: Vec<f64> =
            (0..3).map(|_| first.loss(&features, &episode(&labels)).unwrap().loss).collect();
        assert!(losses[0] != losses[1] && losses[1] != losses[2]);
        let mut again = head(SampledLikelihood::LogisticSoftmax, SampledObjective::Marginal, 5);
        again.loss(&features, &episode(&labels)).unwrap();
        let mut state = State::default();
        again.save(&mut state);
        let mut resumed = head(SampledLikelihood::LogisticSoftmax, SampledObjective::Marginal, 5);
        resumed.load(&state).unwrap();
        for loss in &losses[1..] {
            assert_eq!(resumed.loss(&features, &episode(&labels)).unwrap().loss, *loss);
        }
    }

    #[test]
    fn models_are_chosen_with_the_sweeps_of_training_where_the_settings_say_so() {
        let (features, _) = clusters();
        let rows = |rows: &[usize]| Rows::Features(select(&features, rows));
        let (support, query) = (rows(&[0, 4]), rows(&[1, 5]));
        for likelihood in LIKELIHOODS {
            let answer = |test_sweeps: usize, select_as_trained: bool, purpose: Purpose| {
                let mut head = head(likelihood, SampledObjective::Marginal, 5);
                (head.sampling.test_sweeps, head.sampling.select_as_trained) =
                    (test_sweeps, select_as_trained);
                let task =
                    TaskRows { support: &support, labels: &[0, 1], way: 2, query: &query, index: 0, purpose };
                head.predict(&task).unwrap().probabilities
            };
            // Training has one sweep.
            let (one, many) = (answer(1, false, Purpose::Test), answer(20, false, Purpose::Test));
            assert_ne!(one, many);
            assert_eq!(answer(20, true, Purpose::Selection), one);
            assert_eq!(answer(20, true, Purpose::Test), many);
            assert_eq!(answer(20, false, Purpose::Selection), many);
        }
    }

    #[test]
    fn the_same_support_is_answered_in_the_same_way_and_another_by_other_numbers() {
        let (features, labels) = clusters();
        let (support, query) = (select(&features, &[0, 4]), select(&features, &[1, 5]));
        for likelihood in LIKELIHOODS {
            let head = head(likelihood, SampledObjective::Marginal, 20);
            let query = Rows::Features(query.clone());
            let answer = |support: &Features| {
                let support = &Rows::Features(support.clone());
                head.predict(&TaskRows {
                    support,
                    labels: &[0, 1],
                    way: 2,
                    query: &query,
                    index: 0,
                    purpose: Purpose::Test,
                })
                .unwrap()
            };
            assert_eq!(answer(&support), answer(&support));
            let p = answer(&support).probabilities;
            assert!(p[0] > 0.5 && p[3] > 0.5 && (p[0] + p[1] - 1.0).abs() < 1e-12, "{p:?}");
        }
        let other = select(&features, &[1, 4]);
        assert_ne!(fingerprint(&support, &labels[..2]), fingerprint(&other, &labels[..2]));
        assert_ne!(fingerprint(&support, &[0, 1]), fingerprint(&support, &[1, 0]));
    }
}
