//! The episode of a golden file under the cosine kernel, for tests at fixed auxiliary variables: from the features to the
//! kernel matrices, and from a gradient in those back to the features.

use super::{matrix, row_major};
use crate::shared::golden::{Golden, assert_close};
use faer::Mat;
use siskin_gp::kernels::{Cosine, Kernel, KernelFeatures, KernelGradient};
use siskin_gp::{Gradient, Query, QueryGradient, Task};

pub(crate) struct CosineEpisode {
    kernel: Kernel,
    table: crate::Features,
    features: KernelFeatures,
    labels: Vec<usize>,
    support: Vec<usize>,
    query: Vec<usize>,
    way: usize,
}

impl CosineEpisode {
    pub(crate) fn new(golden: &Golden) -> CosineEpisode {
        let kernel = Kernel::new(Cosine).with_scale(golden.f64("scale")).unwrap();
        let table = golden.table("features", golden.f64("dim") as usize);
        CosineEpisode {
            features: kernel.features(matrix(&table)).unwrap(),
            table,
            kernel,
            labels: golden.usizes("labels"),
            support: golden.usizes("support"),
            query: golden.usizes("query"),
            way: golden.f64("way") as usize,
        }
    }

    fn select(&self, rows: &[usize]) -> KernelFeatures {
        self.kernel.features(matrix(&crate::select(&self.table, rows))).unwrap()
    }

    fn task(&self, rows: &[usize]) -> Task {
        let k = self.kernel.within(&self.select(rows)).unwrap().of_classes(self.way);
        let labels = rows.iter().map(|&row| self.labels[row]).collect();
        Task::new(k, labels, Mat::zeros(rows.len(), self.way), 1.0).unwrap()
    }

    /// All rows with their labels.
    pub(crate) fn all(&self) -> Task {
        self.task(&(0..self.labels.len()).collect::<Vec<_>>())
    }

    /// The support with its labels, the queries, and their labels.
    pub(crate) fn parts(&self) -> (Task, Query, Vec<usize>) {
        let (s, q) = (self.select(&self.support), self.select(&self.query));
        let query = Query {
            ks: self.kernel.between(&s, &q).unwrap().of_classes(self.way),
            kss: self.kernel.own(&q).unwrap().own_of_classes(self.way),
            astar: Mat::zeros(q.points(), self.way),
        };
        (self.task(&self.support), query, self.query.iter().map(|&row| self.labels[row]).collect())
    }

    /// The gradient of an objective of all rows, row by row.
    fn back_from_all(&self, gradient: &Gradient) -> Vec<f64> {
        let (kernel, features) = (&self.kernel, &self.features);
        let mut zbar = Mat::zeros(features.dim(), features.points());
        kernel.within(features).unwrap().pull(&gradient.dk, &mut zbar, &mut KernelGradient::zeros(kernel));
        row_major(&features.pull_back(&zbar))
    }

    /// The gradient of an objective of the queries given the support, row by row of the episode.
    fn back_from_parts(&self, gradient: &QueryGradient) -> Vec<f64> {
        let (kernel, mut hyper) = (&self.kernel, KernelGradient::zeros(&self.kernel));
        let (s, q) = (self.select(&self.support), self.select(&self.query));
        let (mut sbar, mut qbar) = (Mat::zeros(s.dim(), s.points()), Mat::zeros(q.dim(), q.points()));
        kernel.within(&s).unwrap().pull(&gradient.dk, &mut sbar, &mut hyper);
        let between = kernel.between(&s, &q).unwrap();
        between.pull_between(&gradient.dks, &mut sbar, &mut qbar, &mut hyper);
        let own = |c: usize| Mat::from_fn(q.points(), 1, |i, _| gradient.dkss[(i, c)]);
        let own_bar: Vec<Mat<f64>> = (0..self.way).map(own).collect();
        kernel.own(&q).unwrap().pull(&own_bar, &mut qbar, &mut hyper);
        let mut zbar = Mat::zeros(s.dim(), self.labels.len());
        for (rows, bar) in [(&self.support, &sbar), (&self.query, &qbar)] {
            for (i, &row) in rows.iter().enumerate() {
                zbar.col_mut(row).copy_from(bar.col(i));
            }
        }
        row_major(&self.features.pull_back(&zbar))
    }

    /// Compares what a sampler finds at fixed auxiliary variables: losses, gradients, probabilities [Q, way].
    pub(crate) fn compare(
        &self,
        golden: &Golden,
        marginal: &Gradient,
        predictive: &QueryGradient,
        p: &Mat<f64>,
    ) {
        for (name, found) in [
            ("marginal", vec![marginal.value]),
            ("dmarginal", self.back_from_all(marginal)),
            ("predictive", vec![predictive.value]),
            ("dpredictive", self.back_from_parts(predictive)),
            ("probabilities", row_major(p)),
        ] {
            assert_close(name, &found, &golden.f64s(name), 1e-8);
        }
    }
}
