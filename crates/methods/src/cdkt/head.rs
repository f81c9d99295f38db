//! The Gaussian-process head: loss and gradients of an episode's features, and predictions from support features.

use super::carried::Carried;
use super::config::{CdktConfig, Inference as InferenceName, KernelName, ObjectiveName, OutputScale};
use super::scalars::Learned;
use crate::episode::select;
use crate::error::{Error, Result};
use crate::{Episode, Features, Latent, Prediction, Task};
use faer::{Mat, MatRef};
use siskin_gp::episode::{Hyper, Inference, Objective, adapt, value_and_gradient};
use siskin_gp::inference::{NaturalOptions, Order, Stop};
use siskin_gp::kernels::{Kernel, KernelKind};
use siskin_gp::objective::Bound;
use siskin_gp::objective::released::Carry;
use siskin_gp::quadrature::Precision;
use siskin_nn::HeadLoss;

/// How CDKT treats features; the learned numbers live in [`Hyper`].
pub struct Head {
    config: CdktConfig,
    learned: Learned,
    way: usize,
    seed: u64,
}

impl Head {
    /// Checks that inference and objective go together.
    pub fn new(config: &CdktConfig, way: usize, seed: u64) -> Result<Head> {
        let learned = Learned { mean: config.learn_prior_mean, tau: config.learn_tau };
        let head = Head { config: config.clone(), learned, way, seed };
        head.objective(&[], way, way, &Carried::default())?;
        Ok(head)
    }
}

impl Head {
    /// The numbers training starts from.
    pub fn initial_hyper(&self) -> Result<Hyper> {
        let kind = match self.config.kernel {
            KernelName::Cosine => KernelKind::Cosine,
            KernelName::Linear => KernelKind::Linear,
            KernelName::Rbf => KernelKind::Rbf,
            KernelName::Matern => KernelKind::Matern52,
            KernelName::Poly1 => KernelKind::Polynomial { power: 1 },
            KernelName::Poly2 => KernelKind::Polynomial { power: 2 },
        };
        let kernel = Kernel::new(kind).normalised().with_scale(self.config.initial_output_scale)?;
        let kernel = match self.config.output_scale {
            OutputScale::Shared => kernel,
            OutputScale::PerClass => kernel.scale_per_class(self.way),
        };
        Ok(Hyper { kernel, mean: self.config.prior_mean, tau: self.config.tau })
    }

    /// The learned numbers as one vector.
    pub fn learned(&self, hyper: &Hyper) -> Vec<f64> {
        self.learned.pack(hyper)
    }

    /// Puts learned numbers back.
    pub fn put_learned(&self, hyper: &mut Hyper, x: &[f64]) {
        self.learned.unpack(hyper, x);
    }

    /// The learned numbers by name.
    pub fn named_scalars(&self, hyper: &Hyper) -> Vec<(String, f64)> {
        self.learned.named(hyper)
    }

    /// Minus the objective of one episode per point, its gradients, how often the support predicts a query rightly, and
    /// what the episode hands on.
    pub fn loss(
        &self,
        features: &Features,
        episode: &Episode<'_>,
        hyper: &Hyper,
        carried: &Carried,
    ) -> Result<HeadLoss<(f64, Option<Carry>)>> {
        let objective = self.objective(episode.support, features.rows, episode.way, carried)?;
        let answer = value_and_gradient(matrix(features), episode.labels, episode.way, hyper, &objective)?;
        let points = match self.config.objective {
            ObjectiveName::Predictive => episode.query.len(),
            _ => features.rows,
        } as f64;
        let dfeatures = (0..features.rows)
            .flat_map(|i| (0..features.dim).map(move |j| (i, j)))
            .map(|at| -answer.features[at] / points)
            .collect();
        let dhyper = self.learned.pack_gradient(hyper, &answer.hyper).iter().map(|g| -g / points).collect();
        let extra = (self.accuracy(features, episode, hyper)?, answer.carry);
        Ok(HeadLoss { loss: -answer.value / points, dfeatures, dhyper, extra })
    }

    /// The objective of an episode, or why inference and objective do not go together.
    fn objective(
        &self,
        support: &[usize],
        points: usize,
        way: usize,
        carried: &Carried,
    ) -> Result<Objective> {
        use {InferenceName as I, ObjectiveName as O};
        let steps = self.config.steps;
        let elbo = |order, kind| Ok(Objective::Elbo { order, kind, steps });
        match (self.config.objective, self.config.inference) {
            (O::Elbo, I::Paper) => elbo(Order::Paper, Bound::Profiled),
            (O::Elbo, I::Joint) => elbo(Order::Joint, Bound::Profiled),
            (O::Elbo, I::Collapsed) => Ok(Objective::Collapsed(Stop::Steps(steps))),
            (O::Direct, I::Collapsed) => Ok(Objective::Direct { steps, precision: Precision::Standard }),
            (O::Direct, I::Natural) => Ok(Objective::Natural(NaturalOptions {
                max_steps: steps,
                tolerance: 0.0,
                precision: Precision::Fast,
            })),
            (O::Predictive, I::Paper | I::Joint | I::Collapsed) => Ok(Objective::Predictive {
                order: order(self.config.inference),
                stop: Stop::Steps(steps),
                support: support.to_vec(),
                precision: Precision::Fine,
            }),
            (O::Released, I::Paper) => {
                let (carry, draw) = carried.next(self.seed, points, way);
                Ok(Objective::Released { carry, draw, steps })
            }
            (objective, inference) => Err(Error::Settings(format!(
                "cdkt.objective = {objective:?} does not go with cdkt.inference = {inference:?}. These do: elbo with \
                 paper, joint or collapsed; direct with collapsed or natural; predictive with paper, joint or collapsed; \
                 released with paper."
            ))),
        }
    }

    /// How often the support alone names the right class of a query: the latent means decide, no integral is needed.
    fn accuracy(&self, features: &Features, episode: &Episode<'_>, hyper: &Hyper) -> Result<f64> {
        let labels: Vec<usize> = episode.support.iter().map(|&r| episode.labels[r]).collect();
        let support = select(features, episode.support);
        let inference = inference(self.config.test_inference, self.config.test_steps);
        let latent = adapt(matrix(&support), &labels, episode.way, hyper, &inference)?
            .latent(matrix(&select(features, episode.query)))?;
        let right = episode.query.iter().enumerate().filter(|(q, row)| {
            let scores: Vec<f64> = (0..episode.way).map(|c| latent.mean[(*q, c)]).collect();
            let best = (0..episode.way).fold(0, |best, c| if scores[c] > scores[best] { c } else { best });
            best == episode.labels[**row]
        });
        Ok(right.count() as f64 / episode.query.len() as f64)
    }

    /// Class probabilities of query features, given support features and labels.
    pub fn predict(&self, task: &Task<'_>, hyper: &Hyper) -> Result<Prediction> {
        let &Task { support, labels, way, query, .. } = task;
        if self.config.output_scale == OutputScale::PerClass && way != self.way {
            let why = format!(
                "this model has one output scale for each of {} classes; train with cdkt.output_scale = \"shared\" \
                 to use it with any number of classes",
                self.way
            );
            return Err(Error::Way { way, why });
        }
        let hyper = Hyper { mean: self.config.test_prior_mean.unwrap_or(hyper.mean), ..hyper.clone() };
        let inference = inference(self.config.test_inference, self.config.test_steps);
        let latent = adapt(matrix(support), labels, way, &hyper, &inference)?.latent(matrix(query))?;
        let rows = |m: &Mat<f64>| (0..query.rows).flat_map(|q| (0..way).map(move |c| m[(q, c)])).collect();
        let probabilities = rows(&latent.probs(Precision::Standard)?);
        let latent = Latent { mean: rows(&latent.mean), variance: rows(&latent.var), tau: hyper.tau };
        Ok(Prediction { probabilities, way, latent: Some(latent) })
    }
}

/// Features as the Gaussian process takes them, [rows, dim].
fn matrix(features: &Features) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(&features.values, features.rows, features.dim)
}

/// The inference of test time.
fn inference(name: InferenceName, steps: usize) -> Inference {
    match name {
        InferenceName::Natural => {
            Inference::Natural(NaturalOptions { max_steps: steps, ..NaturalOptions::default() })
        }
        _ => Inference::MeanField { order: order(name), stop: Stop::Steps(steps) },
    }
}

/// The order of mean-field sweeps. (Natural steps have none; theirs would be the collapsed one.)
fn order(name: InferenceName) -> Order {
    match name {
        InferenceName::Paper => Order::Paper,
        InferenceName::Joint => Order::Joint,
        InferenceName::Collapsed | InferenceName::Natural => Order::Collapsed,
    }
}

/// Probabilities of latent Gaussians with the temperature `tau`.
pub fn probabilities(latent: &Latent, way: usize, tau: f64) -> Result<Vec<f64>> {
    let rows = latent.mean.len() / way;
    let table = |values: &[f64]| Mat::from_fn(rows, way, |q, c| values[q * way + c]);
    let latent = siskin_gp::predict::Latent { mean: table(&latent.mean), var: table(&latent.variance), tau };
    let p = latent.probs(Precision::Fast)?;
    Ok((0..rows).flat_map(|q| (0..way).map(move |c| (q, c))).map(|at| p[at]).collect())
}
