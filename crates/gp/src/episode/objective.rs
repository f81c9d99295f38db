//! The objective of one episode and its gradient in the features and hyperparameters.

use faer::{Mat, MatRef};

use super::{Hyper, HyperGradient};
use crate::inference::{NaturalOptions, Order, Start, Stop};
use crate::kernels::{Features, KernelGradient};
use crate::linalg::sum_any_order;
use crate::objective::released::{Carry, Draw, released};
use crate::objective::{
    Bound, bound, bound_at_fixed_point, direct, natural_bound, predictive, predictive_at_fixed_point,
};
use crate::quadrature::Precision;
use crate::{Error, Gradient, Query, Result, Task};

/// What to maximise.
#[derive(Debug, Clone)]
pub enum Objective {
    /// A bound of the mean-field family after a number of sweeps, differentiated through them.
    Elbo {
        /// Order of the updates.
        order: Order,
        /// Which bound.
        kind: Bound,
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
        order: Order,
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

/// The objective of the episode with features `x` [N, D] and labels `y` [N] in `0..classes`, and its gradient.
pub fn value_and_gradient(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    objective: &Objective,
) -> Result<EpisodeGradient> {
    let features = hyper.features(x, y, classes)?;
    let start = &Start::Prior;
    let whole =
        |evaluate: &dyn Fn(&Task) -> Result<Evaluated>| over_all_rows(&features, y, classes, hyper, evaluate);
    match objective {
        &Objective::Elbo { order, kind, steps } => {
            whole(&|task| Ok(bound(task, kind, order, start, steps)?.into()))
        }
        &Objective::Collapsed(stop) => whole(&|task| {
            let (kind, order) = (Bound::Collapsed, Order::Collapsed);
            let gradient = match stop {
                Stop::Steps(steps) => bound(task, kind, order, start, steps)?,
                Stop::Tolerance { tol, max_steps } => {
                    bound_at_fixed_point(task, kind, order, start, tol, max_steps)?
                }
            };
            Ok(gradient.into())
        }),
        &Objective::Direct { steps, precision } => whole(&|task| Ok(direct(task, steps, precision)?.into())),
        &Objective::Natural(options) => whole(&|task| {
            let (gradient, fit) = natural_bound(task, options)?;
            Ok(Evaluated { gradient, converged: fit.converged || options.tolerance == 0.0, carry: None })
        }),
        Objective::Released { carry, draw, steps } => whole(&|task| {
            let (gradient, carry) = released(task, carry, draw, *steps)?;
            Ok(Evaluated { gradient, converged: true, carry: Some(carry) })
        }),
        Objective::Predictive { order, stop, support, precision } => {
            from_support_to_rest(&features, y, classes, hyper, (*order, *stop, *precision), support)
        }
    }
}

/// An objective in terms of the kernel matrices.
struct Evaluated {
    gradient: Gradient,
    converged: bool,
    carry: Option<Carry>,
}

impl From<Gradient> for Evaluated {
    fn from(gradient: Gradient) -> Self {
        Evaluated { gradient, converged: true, carry: None }
    }
}

/// An objective of all rows together: through the kernel there, and its gradient back.
fn over_all_rows(
    features: &Features,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    evaluate: &dyn Fn(&Task) -> Result<Evaluated>,
) -> Result<EpisodeGradient> {
    let kernel = &hyper.kernel;
    let base = kernel.within(features);
    let task = hyper.task(kernel.scaled(&base, classes), y, classes)?;
    let Evaluated { gradient, converged, carry } = evaluate(&task)?;

    let mut in_kernel = KernelGradient::zeros(kernel);
    let bar = kernel.pull_scale(&base, &gradient.dk, &mut in_kernel);
    let mut zbar = Mat::zeros(features.dim(), features.points());
    kernel.pull_within(features, &base, &bar, &mut zbar, &mut in_kernel);
    let mean = sum_any_order(&mut entries(&gradient.da).collect::<Vec<_>>());
    let hyper = HyperGradient { kernel: in_kernel, mean, log_tau: hyper.tau * gradient.dtau };
    Ok(EpisodeGradient {
        value: gradient.value,
        features: features.pull_back(&zbar),
        hyper,
        converged,
        carry,
    })
}

/// [`Objective::Predictive`]: support and queries are rows of one set of features.
fn from_support_to_rest(
    features: &Features,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    (order, stop, precision): (Order, Stop, Precision),
    support: &[usize],
) -> Result<EpisodeGradient> {
    let queries = rest(support, y.len())?;
    let labels = |rows: &[usize]| rows.iter().map(|&i| y[i]).collect::<Vec<_>>();
    let (kernel, start) = (&hyper.kernel, &Start::Prior);
    let (s, q) = (features.select(support), features.select(&queries));
    let (within, between, own) = (kernel.within(&s), kernel.between(&s, &q)?, kernel.diag(&q));
    let task = hyper.task(kernel.scaled(&within, classes), &labels(support), classes)?;
    let query = Query {
        ks: kernel.scaled(&between, classes),
        kss: Mat::from_fn(queries.len(), classes, |i, c| kernel.scale(c) * own.value[(i, 0)]),
        astar: Mat::from_fn(queries.len(), classes, |_, _| hyper.mean),
    };
    let y_query = labels(&queries);
    let gradient = match stop {
        Stop::Steps(steps) => predictive(&task, &query, &y_query, order, start, steps, precision)?,
        Stop::Tolerance { tol, max_steps } => {
            predictive_at_fixed_point(&task, &query, &y_query, order, start, tol, max_steps, precision)?
        }
    };

    let mut in_kernel = KernelGradient::zeros(kernel);
    let (mut sbar, mut qbar) = (Mat::zeros(s.dim(), s.points()), Mat::zeros(q.dim(), q.points()));
    let bar = kernel.pull_scale(&within, &gradient.dk, &mut in_kernel);
    kernel.pull_within(&s, &within, &bar, &mut sbar, &mut in_kernel);
    let bar = kernel.pull_scale(&between, &gradient.dks, &mut in_kernel);
    kernel.pull_between(&s, &q, &between, &bar, &mut sbar, &mut qbar, &mut in_kernel);
    let own_bar: Vec<Mat<f64>> =
        (0..classes).map(|c| Mat::from_fn(queries.len(), 1, |i, _| gradient.dkss[(i, c)])).collect();
    let bar = kernel.pull_scale(&own, &own_bar, &mut in_kernel);
    kernel.pull_diag(&q, &own, &bar, &mut qbar, &mut in_kernel);

    let mut zbar = Mat::zeros(features.dim(), features.points());
    for (rows, bar) in [(support, &sbar), (&queries, &qbar)] {
        for (i, &row) in rows.iter().enumerate() {
            zbar.col_as_slice_mut(row).copy_from_slice(bar.col_as_slice(i));
        }
    }
    let mean = sum_any_order(&mut entries(&gradient.da).chain(entries(&gradient.dastar)).collect::<Vec<_>>());
    let log_tau = hyper.tau * gradient.dtau;
    let hyper = HyperGradient { kernel: in_kernel, mean, log_tau };
    let (value, features) = (gradient.value, features.pull_back(&zbar));
    Ok(EpisodeGradient { value, features, hyper, converged: true, carry: None })
}

/// The rows below `n` that are not in `support`; each support row must exist and be named once.
fn rest(support: &[usize], n: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; n];
    for &row in support {
        if row >= n || seen[row] {
            let must = "a row of the features, named once";
            return Err(Error::OutOfRange { what: "support row", value: row as f64, must });
        }
        seen[row] = true;
    }
    let queries: Vec<usize> = (0..n).filter(|&i| !seen[i]).collect();
    if support.is_empty() || queries.is_empty() {
        return Err(Error::Empty { what: if support.is_empty() { "support" } else { "queries" }, needed: 1 });
    }
    Ok(queries)
}

fn entries(m: &Mat<f64>) -> impl Iterator<Item = f64> + '_ {
    (0..m.ncols()).flat_map(|c| m.col_as_slice(c).iter().copied())
}
