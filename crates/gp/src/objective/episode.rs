//! Any objective of the labelled points of an episode, and its gradient in their features and in the hyperparameters.

use faer::Mat;

use super::released::{Carry, Draw, released};
use super::{bound, direct, natural_bound, predictive};
use crate::hyper::HyperGradient;
use crate::inference::exact::LabelRegression;
use crate::inference::gibbs::GibbsSampler;
use crate::inference::mean_field::{Start, Stop, Updates};
use crate::inference::natural::NaturalOptions;
use crate::quadrature::Resolution;
use crate::query::Labelled;
use crate::support::Support;
use crate::{Gradient, Result};

/// What to maximise.
#[derive(Debug, Clone)]
pub enum Objective {
    /// A bound of the mean-field family after a number of sweeps, differentiated through them.
    Elbo {
        /// Order of the updates.
        order: Updates,
        /// Which bound: the one these updates climb.
        kind: Updates,
        /// Sweeps, at least 1.
        steps: usize,
    },
    /// The collapsed bound after some sweeps (differentiated through them) or at their fixed point (envelope rule).
    Collapsed(Stop),
    /// The direct bound at the q(F) of some collapsed sweeps.
    Direct {
        /// Sweeps, at least 1.
        steps: usize,
        /// Of the integrals.
        resolution: Resolution,
    },
    /// The direct bound maximised over q(F) by natural-gradient steps, with the envelope gradient. A tolerance of 0 takes
    /// exactly `max_steps` steps.
    Natural(NaturalOptions),
    /// log p of the labels of all other rows given those of the rows `support`, deterministic.
    Predictive {
        /// Order of the sweeps on the support.
        order: Updates,
        /// A number of sweeps (differentiated through) or a tolerance (implicit rule).
        stop: Stop,
        /// The rows that are seen with their labels; every other row is a query.
        support: Vec<usize>,
        /// Of the class probabilities; [`Resolution::Learning`] keeps log p of rare labels right.
        resolution: Resolution,
    },
    /// What the authors' released code maximises: **not a bound**. Its warm start goes in here and comes out of
    /// [`EpisodeGradient::carry`].
    Released {
        /// Marginals of the previous episode.
        carry: Carry,
        /// The random local variables of this one.
        draw: Draw,
        /// Sweeps, at least 1.
        steps: usize,
    },
    /// What the gradient of log p(Y) is estimated from by Gibbs sampling (ML): N times minus the loss of
    /// `marginal_likelihood` in `inference::gibbs`. For logistic-softmax the value itself is not a log-likelihood.
    SampledMarginal(GibbsSampler),
    /// sum log softmax(score) of the labels of all other rows, given those of the rows `support`, under a sampler's
    /// prediction (PL).
    SampledPredictive {
        /// Likelihood and chains.
        sampler: GibbsSampler,
        /// The rows that are seen with their labels; every other row is a query.
        support: Vec<usize>,
    },
    /// log p of the labels as numbers, +1 and -1, summed over classes: one exact regression each (deep kernel transfer).
    /// The temperature plays no part.
    LabelRegression {
        /// Variance of the noise of the numbers, > 0.
        noise: f64,
    },
}

/// An objective of one episode with its gradient.
#[derive(Debug, Clone)]
pub struct EpisodeGradient {
    /// The objective; larger is better.
    pub value: f64,
    /// Its gradient in the features, [N, D].
    pub features: Mat<f64>,
    /// Its gradient in the hyperparameters.
    pub hyper: HyperGradient,
    /// How far the inference was from rest, as in [`crate::Gradient`]. The gradient of [`Objective::Natural`] is that of its
    /// rest: it is approximate by as much. Other gradients are those of the steps that were taken.
    pub residual: Option<f64>,
    /// The state [`Objective::Released`] hands to the next episode.
    pub carry: Option<Carry>,
}

impl Objective {
    /// The objective of labelled points, and its gradient.
    pub fn value_and_gradient(&self, points: &Support) -> Result<EpisodeGradient> {
        let start = &Start::Prior;
        match self {
            &Objective::Elbo { order, kind, steps } => {
                points.through_kernel(|task| bound(task, kind, order, start, Stop::Steps(steps)))
            }
            &Objective::Collapsed(stop) => {
                points.through_kernel(|task| bound(task, Updates::Collapsed, Updates::Collapsed, start, stop))
            }
            &Objective::Direct { steps, resolution } => {
                points.through_kernel(|task| direct(task, Stop::Steps(steps), resolution))
            }
            &Objective::Natural(options) => points.through_kernel(|task| {
                let (gradient, fit) = natural_bound(task, options)?;
                Ok(Gradient { residual: Some(fit.residual), ..gradient })
            }),
            Objective::Released { carry, draw, steps } => {
                let mut next = None;
                let found = points.through_kernel(|task| {
                    let (gradient, carry) = released(task, carry, draw, *steps)?;
                    next = Some(carry);
                    Ok(gradient)
                })?;
                Ok(EpisodeGradient { carry: next, ..found })
            }
            &Objective::Predictive { order, stop, ref support, resolution } => points
                .through_kernel_given(support, |task, query, y| {
                    predictive(task, Labelled { query, y }, order, start, stop, resolution)
                }),
            Objective::SampledMarginal(sampler) => {
                points.through_kernel(|task| Ok(sampler.run(task)?.log_marginal()))
            }
            Objective::SampledPredictive { sampler, support } => points
                .through_kernel_given(support, |task, query, y| sampler.run(task)?.log_predictive(query, y)),
            &Objective::LabelRegression { noise } => {
                points.through_kernel(|task| Ok(LabelRegression::new(task, noise)?.log_likelihood()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hyper::Hyper;
    use crate::inference::Inference;
    use crate::inference::gibbs::{Chains, SampledLikelihood};
    use crate::kernels::{Kernel, Rbf, softplus_slope};

    #[test]
    fn the_residual_tells_how_far_from_rest_an_inference_ended() {
        let x = Mat::from_fn(6, 2, |i, j| if i % 2 == j { 2.0 + 0.1 * i as f64 } else { -1.0 });
        let hyper = Hyper { kernel: Kernel::new(Rbf).normalised(), mean: 0.0, tau: 0.3 };
        let points = Support::new(x.as_ref(), &[0, 1, 0, 1, 0, 1], hyper.prior(2)).unwrap();
        let residual = |objective: Objective| objective.value_and_gradient(&points).unwrap().residual;
        let natural = |max_steps| {
            let resolution = Resolution::Standard;
            residual(Objective::Natural(NaturalOptions {
                max_steps,
                tolerance: 0.0,
                resolution,
                ..NaturalOptions::default()
            }))
            .unwrap()
        };
        let sweeps = |steps| residual(Objective::Collapsed(Stop::Steps(steps))).unwrap();
        for of in [&natural as &dyn Fn(usize) -> f64, &sweeps] {
            assert!(of(1) > 0.05 && of(4) < of(1) && of(200) < 1e-3, "{} {} {}", of(1), of(4), of(200));
        }
        assert_eq!(residual(Objective::LabelRegression { noise: 0.1 }), None);
    }

    /// Samples are constants for the gradient, so its check against differences is in [`crate::inference::gibbs`]; here the way from
    /// there through the kernel, at a fixed task.
    #[test]
    fn sampled_objectives_come_back_through_the_kernel() {
        let x =
            Mat::from_fn(6, 3, |i, j| ((i * 5 + j * 3) as f64).sin() + if i % 3 == j { 1.0 } else { 0.0 });
        let y = [0, 1, 2, 0, 1, 2];
        let mut kernel = Kernel::new(Rbf).normalised();
        kernel.raw_shape.fill(0.4);
        kernel.raw_scale = vec![0.1, -0.5, 0.8];
        let hyper = Hyper { kernel, mean: -0.3, tau: 0.8 };
        let chains = Chains { chains: 3, sweeps: 2, seed: 4 };
        for likelihood in [SampledLikelihood::LogisticSoftmax, SampledLikelihood::OneVsEach] {
            let sampler = GibbsSampler { likelihood, chains, released: false };
            let points = Support::new(x.as_ref(), &y, hyper.prior(3)).unwrap();
            let run = sampler.run(&points.task().unwrap()).unwrap();
            let through = |objective: &Objective| objective.value_and_gradient(&points).unwrap();
            let ml = through(&Objective::SampledMarginal(sampler));
            let direct = run.log_marginal();
            assert_eq!(ml.value, direct.value);
            // log tau moves K/tau^2 and a/tau alone: the kernel's way of saying it is scale and mean.
            let scales: f64 = (0..3)
                .map(|c| {
                    let raw = hyper.kernel.raw_scale[c];
                    let by_log = hyper.kernel.scale(c) / softplus_slope(raw);
                    ml.hyper.kernel.raw_scale[c] * by_log
                })
                .sum();
            let want = -2.0 * scales - ml.hyper.mean * hyper.mean;
            assert!((ml.hyper.log_tau - want).abs() < 1e-12 * (1.0 + want.abs()), "{likelihood:?}");
            let pl = through(&Objective::SampledPredictive { sampler, support: vec![0, 1, 2] });
            let few = Support::new(x.get(0..3, ..), &y[..3], hyper.prior(3)).unwrap();
            let sampled = Inference::Gibbs(sampler).posterior(&few.task().unwrap()).unwrap();
            let query = few.query(x.get(3.., ..)).unwrap();
            let p = sampled.published_probs(&query).unwrap();
            let want: f64 = (0..3).map(|q| p[(q, y[3 + q])].ln()).sum();
            assert!((pl.value - want).abs() < 1e-12 && pl.value < 0.0, "{} {want}", pl.value);
            assert!(pl.features.norm_max() > 0.0 && ml.features.norm_max() > 0.0);
            let bayes = sampled.probs(&query, Resolution::Standard).unwrap();
            assert!((0..3).all(|q| ((0..3).map(|c| bayes[(q, c)]).sum::<f64>() - 1.0).abs() < 1e-7));
        }
    }
}
