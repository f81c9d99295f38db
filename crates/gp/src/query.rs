//! The points of a task that are predicted, and the gradient of a loss on them.

use crate::linalg::{dot, inner, sum_any_order};
use crate::task::{Gradient, check_matrix};
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

/// Queries with their labels.
#[derive(Debug, Clone, Copy)]
pub struct Labelled<'a> {
    /// The queries.
    pub query: &'a Query,
    /// Their labels, `[Q]`.
    pub y: &'a [usize],
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
    /// With respect to the temperature, at fixed kernels and prior means.
    pub dtau: f64,
    /// How far the inference on the support was from rest, as in [`Gradient`].
    pub residual: Option<f64>,
}

impl Query {
    pub(crate) fn points(&self) -> usize {
        self.kss.nrows()
    }

    /// An error unless the query is one of a task of `n` points and `c` classes, all of it numbers.
    pub(crate) fn check(&self, n: usize, c: usize) -> Result<()> {
        let q = self.points();
        if self.ks.len() != c {
            return Err(Error::Shape { what: "classes of ks", expected: c, got: self.ks.len() });
        }
        for ks in &self.ks {
            check_matrix("ks", ks, n, q)?;
        }
        check_matrix("kss", &self.kss, q, c)?;
        check_matrix("astar", &self.astar, q, c)
    }

    /// Checked against the task and divided by tau^2 and tau: the query in units of x.
    pub(crate) fn standardise(&self, task: &Task) -> Result<Query> {
        self.check(task.points(), task.classes())?;
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
    pub(crate) fn zeros(n: usize, q: usize, c: usize) -> Self {
        Self {
            value: 0.0,
            dk: vec![Mat::zeros(n, n); c],
            dks: vec![Mat::zeros(n, q); c],
            dkss: Mat::zeros(q, c),
            da: Mat::zeros(n, c),
            dastar: Mat::zeros(q, c),
            dtau: 0.0,
            residual: None,
        }
    }

    /// That of `factor` times the loss.
    pub(crate) fn times(self, factor: f64) -> Self {
        let scale = Scale(factor);
        Self {
            value: factor * self.value,
            dk: self.dk.into_iter().map(|k| k * scale).collect(),
            dks: self.dks.into_iter().map(|k| k * scale).collect(),
            dkss: self.dkss * scale,
            da: self.da * scale,
            dastar: self.dastar * scale,
            dtau: factor * self.dtau,
            residual: self.residual,
        }
    }

    /// From units of x back to those of f; `query` in units of x.
    pub(crate) fn in_units_of_f(self, task: &Task, query: &Query) -> Self {
        let support = task.gradient(self.value, self.dk, self.da);
        Self::new(support, self.dks, self.dkss, self.dastar, query, task.tau())
    }

    /// The gradient on the support in units of f joined with the cotangents of the query in units of x:
    /// `dK* = K*bar/tau^2`, `dk** = k**bar/tau^2`, `da* = a*bar/tau`, and `-(2 <K*bar, K*> + 2 <k**bar, k**> + <a*bar, a*>)/tau`
    /// more in `dtau`.
    pub(crate) fn new(
        support: Gradient,
        ks: Vec<Mat<f64>>,
        kss: Mat<f64>,
        astar: Mat<f64>,
        query: &Query,
        tau: f64,
    ) -> Self {
        let square = Scale(1.0 / (tau * tau));
        let mut terms: Vec<f64> = (0..ks.len())
            .map(|c| {
                let own = dot(kss.col_as_slice(c), query.kss.col_as_slice(c));
                let mean = dot(astar.col_as_slice(c), query.astar.col_as_slice(c));
                -(2.0 * (inner(&ks[c], &query.ks[c]) + own) + mean) / tau
            })
            .collect();
        Self {
            value: support.value,
            dk: support.dk,
            dks: ks.into_iter().map(|k| k * square).collect(),
            dkss: kss * square,
            da: support.da,
            dastar: astar * Scale(1.0 / tau),
            dtau: support.dtau + sum_any_order(&mut terms),
            residual: support.residual,
        }
    }
}
