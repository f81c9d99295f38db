//! The way of a gradient from kernel matrices back to features and hyperparameters.

use faer::Mat;

use super::episode::EpisodeGradient;
use crate::hyper::HyperGradient;
use crate::kernels::KernelGradient;
use crate::linalg::sum_any_order;
use crate::support::Support;
use crate::{Error, Gradient, Query, QueryGradient, Result, Task};

impl Support {
    /// An objective of the task of all points, with its gradient taken back through the kernel.
    pub fn through_kernel(
        &self,
        evaluate: impl FnOnce(&Task) -> Result<Gradient>,
    ) -> Result<EpisodeGradient> {
        let (kernel, features) = (&self.prior().kernel, self.features());
        let gram = kernel.within(features)?;
        let gradient = evaluate(&self.task_of(&gram)?)?;

        let mut in_kernel = KernelGradient::zeros(kernel);
        let mut zbar = Mat::zeros(features.dim(), features.points());
        gram.pull(&gradient.dk, &mut zbar, &mut in_kernel);
        let hyper = self.hyper_gradient(in_kernel, &[&gradient.da], gradient.dtau);
        Ok(EpisodeGradient {
            value: gradient.value,
            features: features.pull_back(&zbar),
            hyper,
            residual: gradient.residual,
            carry: None,
        })
    }

    /// An objective of the points that are not in `support` given those that are, with its gradient taken back through the kernel.
    /// `evaluate` gets the task of the one, the query of the others and their labels.
    pub fn through_kernel_given(
        &self,
        support: &[usize],
        evaluate: impl FnOnce(&Task, &Query, &[usize]) -> Result<QueryGradient>,
    ) -> Result<EpisodeGradient> {
        let (kernel, features) = (&self.prior().kernel, self.features());
        let queries = rest(support, features.points())?;
        let (given, others) = (self.select(support), self.select(&queries));
        let (s, q) = (given.features(), others.features());
        let (within, between, own) = (kernel.within(s)?, kernel.between(s, q)?, kernel.own(q)?);
        let gradient = evaluate(&given.task_of(&within)?, &given.query_of(&between, &own), others.labels())?;

        let mut in_kernel = KernelGradient::zeros(kernel);
        let (mut sbar, mut qbar) = (Mat::zeros(s.dim(), s.points()), Mat::zeros(q.dim(), q.points()));
        within.pull(&gradient.dk, &mut sbar, &mut in_kernel);
        between.pull_between(&gradient.dks, &mut sbar, &mut qbar, &mut in_kernel);
        let own_bar: Vec<Mat<f64>> = (0..gradient.dkss.ncols())
            .map(|c| Mat::from_fn(queries.len(), 1, |i, _| gradient.dkss[(i, c)]))
            .collect();
        own.pull(&own_bar, &mut qbar, &mut in_kernel);

        let mut zbar = Mat::zeros(features.dim(), features.points());
        for (rows, bar) in [(support, &sbar), (&queries, &qbar)] {
            for (i, &row) in rows.iter().enumerate() {
                zbar.col_as_slice_mut(row).copy_from_slice(bar.col_as_slice(i));
            }
        }
        let hyper = self.hyper_gradient(in_kernel, &[&gradient.da, &gradient.dastar], gradient.dtau);
        let (value, features) = (gradient.value, features.pull_back(&zbar));
        Ok(EpisodeGradient { value, features, hyper, residual: gradient.residual, carry: None })
    }

    /// Prior means are the same at all points: their slopes are sums over the slopes `da` at the points, tables of [points, C].
    fn hyper_gradient(&self, kernel: KernelGradient, da: &[&Mat<f64>], dtau: f64) -> HyperGradient {
        let classes = self.prior().means.len();
        let of_class = |c: usize| da.iter().map(|m| m.col_as_slice(c).iter().sum::<f64>()).sum();
        let all = (0..classes).flat_map(|c| da.iter().flat_map(move |m| m.col_as_slice(c).iter().copied()));
        HyperGradient {
            kernel,
            // Summed in an order that does not depend on the names of the classes.
            mean: sum_any_order(&mut all.collect::<Vec<_>>()),
            means: (0..classes).map(of_class).collect(),
            log_tau: self.prior().tau * dtau,
        }
    }
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
