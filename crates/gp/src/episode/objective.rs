//! The objective of one episode and its gradient in the features and hyperparameters.

use faer::{Mat, MatRef};

use super::chain::{Evaluated, Rows, from_support_to_rest, over_all_rows};
use super::{Hyper, HyperGradient};
use crate::inference::exact::LabelRegression;
use crate::inference::gibbs::Sampler;
use crate::inference::mean_field::{Start, Stop, Updates};
use crate::inference::natural::NaturalOptions;
use crate::objective::released::{Carry, Draw, released};
use crate::objective::{bound, direct, natural_bound, predictive};
use crate::quadrature::Precision;
use crate::query::Labelled;
use crate::{Result, Task};

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
        precision: Precision,
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
        /// Of the class probabilities; [`Precision::Fine`] keeps log p of rare labels right.
        precision: Precision,
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
    /// `marginal_likelihood` in [`crate::inference::gibbs`]. For logistic-softmax the value itself is not a log-likelihood.
    SampledMarginal(Sampler),
    /// sum log softmax(score) of the labels of all other rows, given those of the rows `support`, under a sampler's
    /// prediction (PL).
    SampledPredictive {
        /// Likelihood and chains.
        sampler: Sampler,
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
    /// False if an inference asked to converge did not: the value stands, the gradient is approximate.
    pub converged: bool,
    /// The state [`Objective::Released`] hands to the next episode.
    pub carry: Option<Carry>,
}

/// The objective of the episode with features `x` [N, D] and labels `y` `[N]` in `0..classes`, and its gradient.
pub fn value_and_gradient(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    objective: &Objective,
) -> Result<EpisodeGradient> {
    let features = &hyper.features(x, y, classes)?;
    let rows = Rows { features, y, classes, hyper };
    let start = &Start::Prior;
    let whole = |evaluate: &dyn Fn(&Task) -> Result<Evaluated>| over_all_rows(&rows, evaluate);
    match objective {
        &Objective::Elbo { order, kind, steps } => {
            whole(&|task| Ok(bound(task, kind, order, start, Stop::Steps(steps))?.into()))
        }
        &Objective::Collapsed(stop) => {
            whole(&|task| Ok(bound(task, Updates::Collapsed, Updates::Collapsed, start, stop)?.into()))
        }
        &Objective::Direct { steps, precision } => {
            whole(&|task| Ok(direct(task, Stop::Steps(steps), precision)?.into()))
        }
        &Objective::Natural(options) => whole(&|task| {
            let (gradient, fit) = natural_bound(task, options)?;
            Ok(Evaluated { gradient, converged: fit.converged || options.tolerance == 0.0, carry: None })
        }),
        Objective::Released { carry, draw, steps } => whole(&|task| {
            let (gradient, carry) = released(task, carry, draw, *steps)?;
            Ok(Evaluated { gradient, converged: true, carry: Some(carry) })
        }),
        &Objective::Predictive { order, stop, ref support, precision } => {
            from_support_to_rest(&rows, support, |task, query, y| {
                predictive(task, Labelled { query, y }, order, start, stop, precision)
            })
        }
        Objective::SampledMarginal(sampler) => whole(&|task| Ok(sampler.run(task)?.log_marginal().into())),
        Objective::SampledPredictive { sampler, support } => {
            from_support_to_rest(&rows, support, |task, query, y| sampler.run(task)?.log_predictive(query, y))
        }
        &Objective::LabelRegression { noise } => {
            whole(&|task| Ok(LabelRegression::new(task, noise)?.log_likelihood().into()))
        }
    }
}
