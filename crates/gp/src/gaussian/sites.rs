//! The sites of a Gaussian: what the likelihood has become.

use faer::Mat;

/// Precisions and linear terms of all sites, [N, C] each: with the task they belong to, enough to have the posterior again.
#[derive(Debug, Clone, PartialEq)]
pub struct Sites {
    /// Linear terms.
    pub b: Mat<f64>,
    /// Precisions.
    pub w: Mat<f64>,
}

impl Sites {
    /// No sites: q is the prior.
    pub(crate) fn none(points: usize, classes: usize) -> Sites {
        Sites { b: Mat::zeros(points, classes), w: Mat::zeros(points, classes) }
    }

    /// `self + size (to - self)`.
    pub(crate) fn towards(&self, to: &Sites, size: f64) -> Sites {
        let between = |from: &Mat<f64>, to: &Mat<f64>| {
            Mat::from_fn(from.nrows(), from.ncols(), |i, c| from[(i, c)] + size * (to[(i, c)] - from[(i, c)]))
        };
        Sites { w: between(&self.w, &to.w), b: between(&self.b, &to.b) }
    }

    /// The largest move to `to` over both kinds of sites, relative to the largest site of its kind.
    pub(crate) fn distance(&self, to: &Sites) -> f64 {
        let of = |from: &Mat<f64>, to: &Mat<f64>| {
            let size = to.norm_max().max(f64::MIN_POSITIVE);
            (to - from).norm_max() / size
        };
        of(&self.w, &to.w).max(of(&self.b, &to.b))
    }
}
