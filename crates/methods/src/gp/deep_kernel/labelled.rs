//! From labelled features to the matrices of a Gaussian process, and from a gradient in those back to features and kernel.

use super::{matrix, row_major};
use crate::Features;
use crate::error::Result;
use faer::Mat;
use siskin_gp::kernels::{Kernel, KernelGradient};
use siskin_gp::{Gradient, Query, QueryGradient, Task};

/// Labelled features under a kernel with a prior mean for each class.
#[derive(Clone, Copy)]
pub(crate) struct Labelled<'a> {
    pub kernel: &'a Kernel,
    pub features: &'a Features,
    pub labels: &'a [usize],
    /// The prior mean of each class, [C].
    pub means: &'a [f64],
    pub tau: f64,
}

/// An objective and its gradient.
pub(crate) struct LabelledGradient {
    pub value: f64,
    /// Row by row as the features.
    pub features: Vec<f64>,
    pub kernel: KernelGradient,
    /// Of the prior mean of each class, [C].
    pub means: Vec<f64>,
    /// Of log tau.
    pub log_tau: f64,
}

impl Labelled<'_> {
    /// The task of all rows.
    pub fn task(&self) -> Result<Task> {
        let own = self.kernel.features(matrix(self.features))?;
        let k = self.kernel.within(&own)?.of_classes(self.means.len());
        Ok(Task::new(k, self.labels.to_vec(), self.prior(self.labels.len()), self.tau)?)
    }

    /// Queries of the task of all rows.
    pub fn query(&self, query: &Features) -> Result<Query> {
        let (s, q) = (self.kernel.features(matrix(self.features))?, self.kernel.features(matrix(query))?);
        let ks = self.kernel.between(&s, &q)?.of_classes(self.means.len());
        let kss = self.kernel.own(&q)?.own_of_classes(self.means.len());
        Ok(Query { ks, kss, astar: self.prior(query.rows) })
    }

    fn prior(&self, rows: usize) -> Mat<f64> {
        Mat::from_fn(rows, self.means.len(), |_, c| self.means[c])
    }

    /// An objective of all rows, taken back through the kernel.
    pub fn over_all_rows(
        &self,
        evaluate: impl FnOnce(&Task) -> siskin_gp::Result<Gradient>,
    ) -> Result<LabelledGradient> {
        let own = self.kernel.features(matrix(self.features))?;
        let gram = self.kernel.within(&own)?;
        let gradient = evaluate(&self.task()?)?;
        let (mut zbar, mut kernel) =
            (Mat::zeros(own.dim(), own.points()), KernelGradient::zeros(self.kernel));
        gram.pull(&gradient.dk, &mut zbar, &mut kernel);
        let means = (0..self.means.len()).map(|c| gradient.da.col_as_slice(c).iter().sum()).collect();
        Ok(LabelledGradient {
            value: gradient.value,
            features: row_major(&own.pull_back(&zbar)),
            kernel,
            means,
            log_tau: self.tau * gradient.dtau,
        })
    }

    /// An objective of the rows `query` given the labels of the rows `support`, taken back through the kernel.
    pub fn given_support(
        &self,
        support: &[usize],
        query: &[usize],
        evaluate: impl FnOnce(&Task, &Query, &[usize]) -> siskin_gp::Result<QueryGradient>,
    ) -> Result<LabelledGradient> {
        let of = |rows: &[usize]| {
            (crate::select(self.features, rows), rows.iter().map(|&r| self.labels[r]).collect::<Vec<_>>())
        };
        let ((s, labels), (q, truth)) = (of(support), of(query));
        let part = Labelled { features: &s, labels: &labels, ..*self };
        let gradient = evaluate(&part.task()?, &part.query(&q)?, &truth)?;

        let (kernel, classes) = (self.kernel, self.means.len());
        let mut in_kernel = KernelGradient::zeros(kernel);
        let (zs, zq) = (kernel.features(matrix(&s))?, kernel.features(matrix(&q))?);
        let (mut sbar, mut qbar) = (Mat::zeros(zs.dim(), zs.points()), Mat::zeros(zq.dim(), zq.points()));
        kernel.within(&zs)?.pull(&gradient.dk, &mut sbar, &mut in_kernel);
        kernel.between(&zs, &zq)?.pull_between(&gradient.dks, &mut sbar, &mut qbar, &mut in_kernel);
        let own: Vec<Mat<f64>> =
            (0..classes).map(|c| Mat::from_fn(query.len(), 1, |i, _| gradient.dkss[(i, c)])).collect();
        kernel.own(&zq)?.pull(&own, &mut qbar, &mut in_kernel);

        let dim = self.features.dim;
        let mut features = vec![0.0; self.features.values.len()];
        for (rows, bar) in
            [(support, row_major(&zs.pull_back(&sbar))), (query, row_major(&zq.pull_back(&qbar)))]
        {
            for (i, &row) in rows.iter().enumerate() {
                features[row * dim..(row + 1) * dim].copy_from_slice(&bar[i * dim..(i + 1) * dim]);
            }
        }
        let sum = |m: &Mat<f64>, c: usize| m.col_as_slice(c).iter().sum::<f64>();
        let means = (0..classes).map(|c| sum(&gradient.da, c) + sum(&gradient.dastar, c)).collect();
        let log_tau = self.tau * gradient.dtau;
        Ok(LabelledGradient { value: gradient.value, features, kernel: in_kernel, means, log_tau })
    }
}
