//! Labelled points as the kernel sees them: from features to the [`Task`] that inference starts from, and to the [`Query`] that its
//! posterior answers.

use faer::{Mat, MatRef};

use crate::hyper::Prior;
use crate::kernels::{Gram, KernelFeatures};
use crate::{Error, Query, Result, Task};

/// Labelled points with the prior of their latent functions.
#[derive(Debug, Clone)]
pub struct Support {
    prior: Prior,
    features: KernelFeatures,
    labels: Vec<usize>,
    weights: Option<Vec<f64>>,
}

impl Support {
    /// The points with features `x` [N, D] and labels `y` `[N]`, each below the number of classes of the prior.
    pub fn new(x: MatRef<'_, f64>, y: &[usize], prior: Prior) -> Result<Self> {
        prior.check()?;
        if y.len() != x.nrows() {
            return Err(Error::Shape { what: "labels", expected: x.nrows(), got: y.len() });
        }
        let features = prior.kernel.features(x)?;
        Ok(Support { prior, features, labels: y.to_vec(), weights: None })
    }

    /// The same points, each counting so often: for natural gradients, the only inference that reads it.
    pub(crate) fn weighted(self, weights: Option<&[f64]>) -> Self {
        Support { weights: weights.map(<[f64]>::to_vec), ..self }
    }

    /// What inference starts from: the kernel among the points, their labels, prior mean and temperature.
    pub fn task(&self) -> Result<Task> {
        self.task_of(&self.prior.kernel.within(&self.features)?)
    }

    /// New points with features `x` [M, D] as the kernel sees them from these.
    pub fn query(&self, x: MatRef<'_, f64>) -> Result<Query> {
        let kernel = &self.prior.kernel;
        let queries = kernel.features(x)?;
        let between = kernel.between(&self.features, &queries)?;
        Ok(self.query_of(&between, &kernel.own(&queries)?))
    }

    /// [`Kernel::correlation`](crate::kernels::Kernel::correlation) between the N labelled points and M new ones with features
    /// `x` [M, D], [N, M].
    pub fn similarity(&self, x: MatRef<'_, f64>) -> Result<Mat<f64>> {
        let kernel = &self.prior.kernel;
        kernel.correlation(&self.features, &kernel.features(x)?)
    }

    /// Kernel, prior means and temperature.
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    pub(crate) fn features(&self) -> &KernelFeatures {
        &self.features
    }

    pub(crate) fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// Some of the points.
    pub(crate) fn select(&self, rows: &[usize]) -> Support {
        Support {
            prior: self.prior.clone(),
            features: self.features.select(rows),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            weights: self.weights.as_ref().map(|weights| rows.iter().map(|&row| weights[row]).collect()),
        }
    }

    /// The task with the kernel `within` its points.
    pub(crate) fn task_of(&self, within: &Gram<'_>) -> Result<Task> {
        let k = within.of_classes(self.prior.classes());
        let task = Task::new(k, self.labels.clone(), self.means(self.labels.len()), self.prior.tau)?;
        Ok(task.weighted(self.weights.clone()))
    }

    /// Queries from the kernel `between` support and queries and their `own` values.
    pub(crate) fn query_of(&self, between: &Gram<'_>, own: &Gram<'_>) -> Query {
        let classes = self.prior.classes();
        let kss = own.own_of_classes(classes);
        let astar = self.means(kss.nrows());
        Query { ks: between.of_classes(classes), kss, astar }
    }

    fn means(&self, points: usize) -> Mat<f64> {
        Mat::from_fn(points, self.prior.classes(), |_, c| self.prior.means[c])
    }
}
