//! The way of a gradient from kernel matrices back to features and hyperparameters.

use faer::Mat;

use super::{EpisodeGradient, Hyper, HyperGradient};
use crate::kernels::{Features, KernelGradient};
use crate::linalg::sum_any_order;
use crate::objective::released::Carry;
use crate::{Error, Gradient, Query, QueryGradient, Result, Task};

/// An objective in terms of the kernel matrices.
pub(super) struct Evaluated {
    pub(super) gradient: Gradient,
    pub(super) converged: bool,
    pub(super) carry: Option<Carry>,
}

impl From<Gradient> for Evaluated {
    fn from(gradient: Gradient) -> Self {
        Evaluated { gradient, converged: true, carry: None }
    }
}

/// The rows of an episode: features, labels and what they do not bring along.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) features: &'a Features,
    pub(super) y: &'a [usize],
    pub(super) classes: usize,
    pub(super) hyper: &'a Hyper,
}

/// An objective of all rows together: through the kernel there, and its gradient back.
pub(super) fn over_all_rows(
    &Rows { features, y, classes, hyper }: &Rows<'_>,
    evaluate: &dyn Fn(&Task) -> Result<Evaluated>,
) -> Result<EpisodeGradient> {
    let kernel = &hyper.kernel;
    let gram = kernel.within(features)?;
    let task = hyper.task(gram.of_classes(classes), y, classes)?;
    let Evaluated { gradient, converged, carry } = evaluate(&task)?;

    let mut in_kernel = KernelGradient::zeros(kernel);
    let mut zbar = Mat::zeros(features.dim(), features.points());
    gram.pull(&gradient.dk, &mut zbar, &mut in_kernel);
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

/// An objective of the rows that are not in `support` given those that are, which are rows of one set of features.
pub(super) fn from_support_to_rest(
    &Rows { features, y, classes, hyper }: &Rows<'_>,
    support: &[usize],
    evaluate: impl Fn(&Task, &Query, &[usize]) -> Result<QueryGradient>,
) -> Result<EpisodeGradient> {
    let queries = rest(support, y.len())?;
    let labels = |rows: &[usize]| rows.iter().map(|&i| y[i]).collect::<Vec<_>>();
    let kernel = &hyper.kernel;
    let (s, q) = (features.select(support), features.select(&queries));
    let (within, between, own) = (kernel.within(&s)?, kernel.between(&s, &q)?, kernel.own(&q)?);
    let task = hyper.task(within.of_classes(classes), &labels(support), classes)?;
    let query = hyper.query(&between, &own, classes);
    let gradient = evaluate(&task, &query, &labels(&queries))?;

    let mut in_kernel = KernelGradient::zeros(kernel);
    let (mut sbar, mut qbar) = (Mat::zeros(s.dim(), s.points()), Mat::zeros(q.dim(), q.points()));
    within.pull(&gradient.dk, &mut sbar, &mut in_kernel);
    between.pull_between(&gradient.dks, &mut sbar, &mut qbar, &mut in_kernel);
    let own_bar: Vec<Mat<f64>> =
        (0..classes).map(|c| Mat::from_fn(queries.len(), 1, |i, _| gradient.dkss[(i, c)])).collect();
    own.pull(&own_bar, &mut qbar, &mut in_kernel);

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
