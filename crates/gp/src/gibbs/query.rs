//! The points a sampler predicts at, and the gradient with respect to them.

use crate::task::check_matrix;
use crate::{Error, Result, Task};
use faer::{Mat, Scale};

/// Kernel values and prior mean at Q query points, in the units of f.
#[derive(Debug, Clone)]
pub struct Query {
    /// Cross-kernels of each class, C of [N, Q].
    pub ks: Vec<Mat<f64>>,
    /// Prior variances, [Q, C].
    pub kss: Mat<f64>,
    /// Prior mean, [Q, C].
    pub astar: Mat<f64>,
}

/// A loss on queries and its gradient in the units of f.
#[derive(Debug, Clone)]
pub struct QueryGradient {
    /// The loss.
    pub value: f64,
    /// With respect to the kernel matrix of each class on the support, symmetric [N, N].
    pub dk: Vec<Mat<f64>>,
    /// With respect to the cross-kernels, C of [N, Q].
    pub dks: Vec<Mat<f64>>,
    /// With respect to the prior variances of the queries, [Q, C].
    pub dkss: Mat<f64>,
    /// With respect to the prior mean on the support, [N, C].
    pub da: Mat<f64>,
    /// With respect to the prior mean of the queries, [Q, C].
    pub dastar: Mat<f64>,
}

impl Query {
    pub(super) fn points(&self) -> usize {
        self.kss.nrows()
    }

    /// Checked against the task and divided by tau^2 and tau: the query in units of x.
    pub(super) fn standardise(&self, task: &Task) -> Result<Query> {
        let (n, c, q) = (task.points(), task.classes(), self.points());
        if self.ks.len() != c {
            return Err(Error::Shape { what: "classes of ks", expected: c, got: self.ks.len() });
        }
        for ks in &self.ks {
            check_matrix("ks", ks, n, q)?;
        }
        check_matrix("kss", &self.kss, q, c)?;
        check_matrix("astar", &self.astar, q, c)?;
        let tau = task.tau();
        let square = Scale(1.0 / (tau * tau));
        Ok(Query {
            ks: self.ks.iter().map(|k| k * square).collect(),
            kss: &self.kss * square,
            astar: &self.astar * Scale(1.0 / tau),
        })
    }
}

impl QueryGradient {
    pub(super) fn zeros(n: usize, q: usize, c: usize) -> Self {
        Self {
            value: 0.0,
            dk: vec![Mat::zeros(n, n); c],
            dks: vec![Mat::zeros(n, q); c],
            dkss: Mat::zeros(q, c),
            da: Mat::zeros(n, c),
            dastar: Mat::zeros(q, c),
        }
    }

    /// From units of x back to those of f.
    pub(super) fn in_units_of_f(self, tau: f64) -> Self {
        let square = Scale(1.0 / (tau * tau));
        Self {
            value: self.value,
            dk: self.dk.into_iter().map(|k| k * square).collect(),
            dks: self.dks.into_iter().map(|k| k * square).collect(),
            dkss: self.dkss * square,
            da: self.da * Scale(1.0 / tau),
            dastar: self.dastar * Scale(1.0 / tau),
        }
    }
}
