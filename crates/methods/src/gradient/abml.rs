//! ABML, amortised Bayesian meta-learning (Ravi & Beatson 2019): a Gaussian over all weights, adapted to a task by
//! gradient steps on its mean and log-variance.
//!
//! lambda = (mu, rho), q = N(mu, exp rho) for every trained weight. The meta-learned lambda_0 is the prior of every
//! task and the start of its steps on the N_s points of the support:
//!
//! F(lambda) = mean over samples and points of NLL(mu + exp(rho / 2) eps) + kl_weight KL(q || q_0) / N_s
//!
//! lambda_{k+1} = lambda_k - rate grad F(lambda_k)
//!
//! The meta-loss is the same for all N points of support and query at lambda_K with new samples, and
//! hyper_prior_weight / N times -log p(lambda_0), where mu_0 ~ N(0, 1) and exp(-rho_0) ~ Gamma(1, 0.01).
//!
//! The bound has `kl_weight = 1`. It does not train here: the KL divergence of one step of MAML's length counts some
//! 900 nats where the 85 points of a task have 137, and the meta-gradient only shortens the steps. So the default is
//! much smaller, as in public re-implementations. The KL's part of an inner step is a contraction only while
//! rate kl_weight / (N_s variance) is below 2. The hyper-prior counts once for all tasks, so its share in one task is
//! about 1 / tasks.
//!
//! The gradient goes through the steps, their samples and the prior in their KL (`order = "second"`), or takes the
//! steps' gradients as constants (`order = "first"`). The authors' code is not public; what the publication leaves open
//! (samples, rates, first variances) is chosen here. Batch-norms use the statistics of their batch, as in MAML.
//! Probabilities are the mean over samples of the adapted weights.

use crate::error::Result;
use crate::gradient::gaussian_weights::{
    Sample, add_curvature, add_hyper_prior, add_kl_gradient, add_kl_prior_gradient, add_kl_second, draw, kl,
};
use crate::gradient::inner::{MetaGradient, Part, check_precision, descend, finite, pull_back};
use crate::gradient::maml::{TaskGradient, classifier};
use crate::settings::{Check, Settings};
use crate::shared::scores::Scores;
use crate::shared::state::State;
use crate::{
    EpisodeRows, Images, Method, Pixels, Place, Prediction, Rates, Rows, Setup, Share, StepReport, TaskRows,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use siskin_nn::{Linear, Network, SentPart, StepPart};

/// `[abml]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AbmlSettings {
    /// First or second order.
    pub order: MetaGradient,
    /// Gradient steps on the support in training.
    pub inner_steps: usize,
    /// Their rate.
    pub inner_learning_rate: f64,
    /// Samples of the weights in each inner step and in the meta-loss.
    pub samples: usize,
    /// The weight of the KL divergence beside the sum of the points' log-likelihoods; 1 is the bound.
    pub kl_weight: f64,
    /// The weight of the hyper-prior beside it, in one task.
    pub hyper_prior_weight: f64,
    /// The standard deviation of every weight at the start of training.
    pub initial_deviation: f64,
    /// Gradient steps on the support at test.
    pub test_steps: usize,
    /// Samples of the adapted weights at test.
    pub test_samples: usize,
}

impl Default for AbmlSettings {
    fn default() -> Self {
        AbmlSettings {
            order: MetaGradient::Second,
            inner_steps: 5,
            inner_learning_rate: 0.01,
            samples: 5,
            kl_weight: 0.001,
            hyper_prior_weight: 1e-7,
            initial_deviation: 0.02,
            test_steps: 5,
            test_samples: 10,
        }
    }
}

impl Settings for AbmlSettings {
    const NAME: &'static str = "abml";
    const ABOUT: &'static str =
        "a Gaussian over all weights, adapted by gradient steps (Ravi and Beatson 2019)";
    const PAPER: &'static str = "Section 5, Table 1";

    fn check(&self) -> Result<()> {
        Check { method: Self::NAME }
            .at_least_one(&[
                ("inner_steps", self.inner_steps),
                ("samples", self.samples),
                ("test_samples", self.test_samples),
            ])?
            .positive(&[
                ("inner_learning_rate", self.inner_learning_rate),
                ("kl_weight", self.kl_weight),
                ("hyper_prior_weight", self.hyper_prior_weight),
                ("initial_deviation", self.initial_deviation),
            ])
            .map(|_| ())
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(Abml::new(self, setup)?))
    }
}

/// The method: means and log-variances of the weights of a backbone and a linear head.
pub struct Abml {
    mean: Network<Linear>,
    log_variance: Network<Linear>,
    /// Number of trained weights.
    parameters: usize,
    config: AbmlSettings,
    setup: Setup,
}

impl Abml {
    /// A fresh model.
    pub fn new(config: &AbmlSettings, setup: Setup) -> Result<Abml> {
        check_precision(config.order, &setup, "abml.order")?;
        let mean = classifier(&setup)?;
        let parameters = mean.parameters().len();
        let rho = (2.0 * config.initial_deviation.ln()) as f32;
        let log_variance = mean.with_parameters(&vec![rho; parameters])?;
        Ok(Abml { mean, log_variance, parameters, config: config.clone(), setup })
    }

    /// lambda_0: all means, then all log-variances.
    fn start(&self) -> Vec<f32> {
        [self.mean.parameters(), self.log_variance.parameters()].concat()
    }

    /// The random numbers of task `index`.
    fn noise(&self, name: &'static str, index: u64) -> impl Fn(usize, usize) -> Vec<f32> {
        let (seed, len) = (self.setup.seed, self.parameters);
        move |place, s| draw(seed, name, index, [place, s], len)
    }

    /// The steps on a task's support.
    fn adapt(&self, steps: usize, support: &Part, noise: &Noise<'_>) -> Result<Adapted> {
        let start = self.start();
        let weight = per_point(self.config.kl_weight, support.labels.len());
        let mut slopes = Vec::with_capacity(steps);
        let positions = descend(start.clone(), steps, self.config.inner_learning_rate, |k, lambda| {
            let mut gradient = vec![0.0; lambda.len()];
            self.likelihood(lambda, support, &|s| noise(k + 1, s), 1.0, &mut gradient)?;
            slopes.push(gradient[self.parameters..].to_vec());
            add_kl_gradient(lambda, &start, weight, &mut gradient);
            Ok(gradient)
        })?;
        Ok(Adapted { positions, slopes })
    }

    /// `share` times the mean NLL of `part` over samples, whose gradient in lambda it adds to `gradient`;
    /// and the mean probabilities, `[images, way]`.
    fn likelihood(
        &self,
        lambda: &[f32],
        part: &Part,
        eps: &dyn Fn(usize) -> Vec<f32>,
        share: f64,
        gradient: &mut [f32],
    ) -> Result<(f64, Vec<f64>)> {
        let samples = self.config.samples;
        let (mut loss, mut mean) = (0.0, vec![0.0; part.labels.len() * self.setup.way]);
        for s in 0..samples {
            let sample = Sample::new(lambda, eps(s));
            let one = self.mean.loss_gradient_at(&sample.weights, part.images()?, &part.labels)?;
            loss += share * one.loss / samples as f64;
            sample.add_gradient(&one.gradient, (share / samples as f64) as f32, gradient);
            add_softmax(&mut mean, one.scores, self.setup.way, samples);
        }
        Ok((loss, mean))
    }

    /// The Hessian at `lambda` of the mean NLL of the support over samples, times `v`.
    fn hessian_vector(
        &self,
        lambda: &[f32],
        slope: &[f32],
        support: &Part,
        eps: &dyn Fn(usize) -> Vec<f32>,
        v: &[f32],
    ) -> Result<Vec<f32>> {
        let share = 1.0 / self.config.samples as f32;
        let mut product = vec![0.0; lambda.len()];
        for s in 0..self.config.samples {
            let sample = Sample::new(lambda, eps(s));
            let curved = self.mean.hessian_vector_at(
                &sample.weights,
                support.images()?,
                &support.labels,
                &sample.along(v),
            )?;
            sample.add_gradient(&curved, share, &mut product);
        }
        add_curvature(slope, v, &mut product);
        Ok(product)
    }

    /// The meta-loss of one task and its gradient in lambda_0.
    fn task_gradient(&self, support: &Part, query: &Part, noise: &Noise<'_>) -> Result<TaskGradient> {
        let AbmlSettings { inner_steps, inner_learning_rate: rate, kl_weight, hyper_prior_weight, .. } =
            self.config;
        let Adapted { positions, slopes } = self.adapt(inner_steps, support, noise)?;
        let (start, last) = (&positions[0], &positions[inner_steps]);
        let (n_support, points) = (support.labels.len(), support.labels.len() + query.labels.len());
        let share = |part: &Part| part.labels.len() as f64 / points as f64;
        let (outer, mut v) = (|s| noise(0, s), vec![0.0; start.len()]);
        let (on_support, _) = self.likelihood(last, support, &outer, share(support), &mut v)?;
        let (on_query, p) = self.likelihood(last, query, &outer, share(query), &mut v)?;
        let (weight, hyper_weight) = (per_point(kl_weight, points), per_point(hyper_prior_weight, points));
        add_kl_gradient(last, start, weight, &mut v);
        let mut dstart = vec![0.0; start.len()];
        add_kl_prior_gradient(last, start, weight, &mut dstart);
        let hyper_prior = add_hyper_prior(start, hyper_weight, &mut dstart);
        let loss = on_support
            + on_query
            + f64::from(weight) * kl(last, start)
            + f64::from(hyper_weight) * hyper_prior;
        if self.config.order == MetaGradient::Second {
            let inner_weight = per_point(kl_weight, n_support);
            let mut by_prior = vec![0.0; start.len()];
            v = pull_back(&positions, rate, v, |k, lambda, v| {
                let mut product =
                    self.hessian_vector(lambda, &slopes[k], support, &|s| noise(k + 1, s), v)?;
                add_kl_second(lambda, start, v, inner_weight, &mut product, &mut by_prior);
                Ok(product)
            })?;
            dstart.iter_mut().zip(by_prior).for_each(|(d, p)| *d -= rate as f32 * p);
        }
        dstart.iter_mut().zip(v).for_each(|(d, v)| *d += v);
        let accuracy = Scores { values: p, way: self.setup.way }.accuracy(&query.labels);
        Ok(TaskGradient { loss, accuracy, gradient: dstart })
    }
}

/// What the steps on a task's support leave.
struct Adapted {
    /// lambda_0, ..., lambda_K.
    positions: Vec<Vec<f32>>,
    /// The gradient of the likelihood in rho at each step.
    slopes: Vec<Vec<f32>>,
}

/// A weight beside a sum over points, beside their mean.
fn per_point(weight: f64, points: usize) -> f32 {
    (weight / points as f64) as f32
}

/// Adds a share of the softmax of scores to `mean`.
fn add_softmax(mean: &mut [f64], scores: Vec<f64>, way: usize, samples: usize) {
    let p = Scores { values: scores, way }.softmax();
    mean.iter_mut().zip(p).for_each(|(mean, p)| *mean += p / samples as f64);
}

/// eps of a task: `noise(0, s)` is sample s after the inner steps, `noise(k + 1, s)` that of inner step k.
type Noise<'a> = dyn Fn(usize, usize) -> Vec<f32> + 'a;

impl Method for Abml {
    fn shares(&self, episodes: &[EpisodeRows<'_>], place: Place) -> Result<Vec<Share>> {
        let first = self.mean.steps() * place.count as u64 + place.first as u64;
        let share = |(e, episode): (usize, &EpisodeRows<'_>)| {
            let (support, query) = (Part::of(episode, episode.support), Part::of(episode, episode.query));
            let noise = self.noise("abml train", first + e as u64);
            let mut task = self.task_gradient(&support, &query, &noise)?;
            let rho = task.gradient.split_off(task.gradient.len() / 2);
            let part = |gradient| StepPart::Sent(SentPart { gradient, statistics: Vec::new() });
            let mut share = Share::of_network(task.loss, Some(task.accuracy), part(task.gradient));
            share.parts.push(part(rho));
            Ok(share)
        };
        episodes.par_iter().enumerate().map(share).collect()
    }

    fn take(&mut self, shares: Vec<Share>, rates: Rates) -> Result<StepReport> {
        let (mut report, count) = (StepReport::start(), shares.len());
        let (mut mu, mut rho) = (Vec::new(), Vec::new());
        for share in shares {
            report.add(share.loss, share.accuracy, count);
            let mut parts = share.parts.into_iter();
            mu.extend(parts.next());
            rho.extend(parts.next());
        }
        let (mean, log_variance) = (self.mean.step_of(mu)?, self.log_variance.step_of(rho)?);
        if log_variance.non_finite() > 0 {
            return Ok(report);
        }
        let report = report.take(&mut self.mean, mean, rates.network);
        if report.taken {
            // Weight decay is for weights, not for their uncertainty.
            self.log_variance.apply(log_variance, rates.network.learning_rate);
        }
        Ok(report)
    }

    fn embed(&self, images: Images<'_>) -> Result<Rows> {
        Ok(Rows::Pixels(Pixels::of(images, self.setup.architecture.channels())))
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let (support, query) = Part::of_task(task, &self.setup)?;
        let noise = self.noise("abml test", task.index);
        let last = &self.adapt(self.config.test_steps, &support, &noise)?.positions[self.config.test_steps];
        let mut mean = vec![0.0; task.query.count() * task.way];
        for s in 0..self.config.test_samples {
            let sample = Sample::new(last, noise(0, s));
            let scores = self.mean.scores_at(&sample.weights, query.images()?)?;
            add_softmax(&mut mean, scores, task.way, self.config.test_samples);
        }
        let probabilities = finite(mean, "abml.inner_learning_rate")?;
        Ok(Prediction { probabilities, way: task.way, latent: None })
    }

    /// `mean_log_variance`: over all weights. `extra_memory_mib`: the log-variances with their two Adam moments, and what
    /// one task in work holds: means and log-variances at every inner step with the gradient of the latter, a sample with
    /// its spread and gradient, the gradients at both ends and, in second order, a product with a Hessian and its
    /// direction, and the part of the prior.
    fn scalars(&self) -> Vec<(String, f64)> {
        let rho = self.log_variance.parameters();
        let mean = rho.iter().map(|&r| f64::from(r)).sum::<f64>() / rho.len() as f64;
        let copies = 3
            + (3 * self.config.inner_steps + 2)
            + 3
            + match self.config.order {
                MetaGradient::First => 4,
                MetaGradient::Second => 9,
            };
        let mib = (copies * rho.len() * size_of::<f32>()) as f64 / (1024.0 * 1024.0);
        vec![("mean_log_variance".into(), mean), ("extra_memory_mib".into(), mib)]
    }

    fn state(&self) -> State {
        let mut state = State::default();
        state.push_network_as("network", self.mean.state());
        state.push_network_as("log_variance", self.log_variance.state());
        state
    }

    fn load_state(&mut self, state: &State) -> Result<()> {
        let mut mean = self.mean.clone();
        mean.load_state(state.network_as("network")?)?;
        self.log_variance.load_state(state.network_as("log_variance")?)?;
        self.mean = mean;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradient::maml::tests::{golden_task, wide};
    use crate::shared::golden::{Golden, assert_close};

    #[test]
    fn loss_and_gradient_of_both_orders_are_those_of_pytorch() {
        let golden = Golden::parse(include_str!("../../tests/golden/abml.json"));
        let (mean, setup, support, query) = golden_task(&golden, "mu");
        let rho: Vec<f32> = golden.f64s("rho").iter().map(|&x| x as f32).collect();
        let (parameters, samples) = (rho.len(), golden.f64("samples") as usize);
        let numbers: Vec<f32> = golden.f64s("noise").iter().map(|&x| x as f32).collect();
        let noise = |place: usize, s: usize| {
            let at = (place * samples + s) * parameters;
            numbers[at..at + parameters].to_vec()
        };
        for (order, name, other) in
            [(MetaGradient::Second, "second", "first"), (MetaGradient::First, "first", "second")]
        {
            let config = AbmlSettings {
                order,
                inner_steps: golden.f64("steps") as usize,
                inner_learning_rate: golden.f64("rate"),
                samples,
                kl_weight: golden.f64("kl_weight"),
                hyper_prior_weight: golden.f64("hyper_prior_weight"),
                ..AbmlSettings::default()
            };
            let log_variance = mean.with_parameters(&rho).unwrap();
            let method = Abml { mean: mean.clone(), log_variance, parameters, config, setup };
            let task = method.task_gradient(&support, &query, &noise).unwrap();
            let loss = golden.f64("loss");
            assert!((task.loss - loss).abs() < 1e-5 * loss, "{} {loss}", task.loss);
            // Means and log-variances apart: the gradients of the means are larger.
            let (found, wanted, wrong) = (wide(&task.gradient), golden.f64s(name), golden.f64s(other));
            for range in [0..parameters, parameters..2 * parameters] {
                assert_close(name, &found[range.clone()], &wanted[range.clone()], 2e-4);
                let largest = wanted[range.clone()].iter().fold(0.0f64, |m, x| m.max(x.abs()));
                let apart = range.fold(0.0f64, |m, i| m.max((found[i] - wrong[i]).abs()));
                assert!(apart > 0.01 * largest, "{name}: {apart} of {largest}");
            }
        }
    }
}
