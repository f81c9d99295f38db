//! One classification task, checked once, and the change of units that removes the temperature.

use faer::Mat;

use crate::linalg::{inner, sum_any_order};
use crate::{Error, Result};

/// A checked task in the units of the latent functions f: kernel matrices, labels, prior mean, temperature.
#[derive(Debug, Clone)]
pub struct Task {
    k: Vec<Mat<f64>>,
    y: Vec<usize>,
    a: Mat<f64>,
    tau: f64,
    weights: Option<Vec<f64>>,
}

impl Task {
    /// A task of N >= 1 points in C >= 2 classes.
    ///
    /// `k`: C symmetric positive semi-definite matrices [N, N]; `y`: N labels in `0..C`; `a`: prior mean [N, C];
    /// `tau > 0`. Symmetry must hold to 1e-8 of the largest entry; the lower half is then taken for both.
    pub fn new(k: Vec<Mat<f64>>, y: Vec<usize>, a: Mat<f64>, tau: f64) -> Result<Self> {
        let (n, c) = (y.len(), k.len());
        if n == 0 {
            return Err(Error::Empty { what: "y", needed: 1 });
        }
        if c < 2 {
            return Err(Error::OutOfRange { what: "number of classes", value: c as f64, must: "at least 2" });
        }
        if !(tau > 0.0 && tau.is_finite()) {
            return Err(Error::OutOfRange { what: "tau", value: tau, must: "> 0 and finite" });
        }
        check_matrix("a", &a, n, c)?;
        if let Some((row, &label)) = y.iter().enumerate().find(|&(_, &label)| label >= c) {
            return Err(Error::Label { row, label, classes: c });
        }
        let mut k = k;
        for kc in &mut k {
            check_matrix("k", kc, n, n)?;
            symmetrise(kc)?;
        }
        Ok(Self { k, y, a, tau, weights: None })
    }

    /// The same task where each point counts so often: for natural gradients, the only inference that reads it.
    pub(crate) fn weighted(self, weights: Option<Vec<f64>>) -> Self {
        Task { weights, ..self }
    }

    /// Number of points N.
    pub fn points(&self) -> usize {
        self.y.len()
    }

    /// Number of classes C.
    pub fn classes(&self) -> usize {
        self.k.len()
    }

    /// Kernel matrix of each class, [N, N].
    pub fn k(&self) -> &[Mat<f64>] {
        &self.k
    }

    /// Labels, `[N]`.
    pub fn y(&self) -> &[usize] {
        &self.y
    }

    /// Prior mean, [N, C].
    pub(crate) fn a(&self) -> &Mat<f64> {
        &self.a
    }

    /// Temperature.
    pub fn tau(&self) -> f64 {
        self.tau
    }

    /// An error unless the task has this many points and classes.
    pub(crate) fn check_size(&self, points: usize, classes: usize) -> Result<()> {
        for (what, expected, got) in
            [("points of the task", points, self.points()), ("classes of the task", classes, self.classes())]
        {
            if expected != got {
                return Err(Error::Shape { what, expected, got });
            }
        }
        Ok(())
    }

    /// The same task in the units of x = f / tau: `K/tau^2`, `a/tau`, temperature 1. Bounds and probabilities are the same.
    pub fn standardise(&self) -> Standard<'_> {
        let scale = 1.0 / (self.tau * self.tau);
        let k = self.k.iter().map(|k| k * faer::Scale(scale)).collect();
        let a = &self.a * faer::Scale(1.0 / self.tau);
        Standard { k, y: &self.y, a, weights: self.weights.as_deref() }
    }

    /// The gradient in the units of the task from the cotangents of its standardised form:
    /// `dK = Kbar/tau^2`, `da = abar/tau`, `dtau = -(2 <dK, K> + <da, a>)/tau`.
    pub(crate) fn gradient(&self, value: f64, kbar: Vec<Mat<f64>>, abar: Mat<f64>) -> Gradient {
        let scale = 1.0 / (self.tau * self.tau);
        let dk: Vec<Mat<f64>> = kbar.into_iter().map(|k| k * faer::Scale(scale)).collect();
        let da = abar * faer::Scale(1.0 / self.tau);
        let mut terms: Vec<f64> = (0..self.classes())
            .map(|c| {
                let through_k = 2.0 * inner(&dk[c], &self.k[c]);
                let through_a = crate::linalg::dot(da.col_as_slice(c), self.a.col_as_slice(c));
                -(through_k + through_a) / self.tau
            })
            .collect();
        Gradient { value, dk, da, dtau: sum_any_order(&mut terms), residual: None }
    }
}

/// A task in units of x = f / tau: what all the mathematics works on. Built by [`Task::standardise`].
#[derive(Debug, Clone)]
pub struct Standard<'t> {
    /// `K/tau^2` of each class, [N, N].
    pub(crate) k: Vec<Mat<f64>>,
    /// Labels, [N].
    pub(crate) y: &'t [usize],
    /// `a/tau`, [N, C].
    pub(crate) a: Mat<f64>,
    /// How often each point counts; once if there are none. Natural gradients read it.
    pub(crate) weights: Option<&'t [f64]>,
}

impl Standard<'_> {
    /// Number of points N.
    pub fn points(&self) -> usize {
        self.y.len()
    }

    /// Number of classes C.
    pub fn classes(&self) -> usize {
        self.k.len()
    }
}

/// An objective and its gradient in the units of the task.
#[derive(Debug, Clone)]
pub struct Gradient {
    /// The objective.
    pub value: f64,
    /// `dL/dK` of each class, symmetric: `dL = sum_ij dk_ij dK_ij` for symmetric `dK`.
    pub dk: Vec<Mat<f64>>,
    /// `dL/da`, [N, C].
    pub da: Mat<f64>,
    /// `dL/dtau` at fixed K and a.
    pub dtau: f64,
    /// How far the inference was from rest: what its last step moved, relative to the largest value. None where it has no
    /// steps.
    pub residual: Option<f64>,
}

impl Gradient {
    /// That of `factor` times the objective.
    pub(crate) fn times(self, factor: f64) -> Self {
        let scale = faer::Scale(factor);
        Self {
            value: factor * self.value,
            dk: self.dk.into_iter().map(|k| k * scale).collect(),
            da: self.da * scale,
            dtau: factor * self.dtau,
            residual: self.residual,
        }
    }
}

/// Shape and finiteness of an array.
pub(crate) fn check_matrix(what: &'static str, m: &Mat<f64>, rows: usize, cols: usize) -> Result<()> {
    for (size, expected, got) in [("rows", rows, m.nrows()), ("columns", cols, m.ncols())] {
        if expected != got {
            return Err(Error::ShapeOf { what, side: size, expected, got });
        }
    }
    for j in 0..cols {
        for i in 0..rows {
            let value = m[(i, j)];
            if !value.is_finite() {
                return Err(Error::NotFinite { what, row: i, col: j, value });
            }
        }
    }
    Ok(())
}

/// Length and finiteness of a vector.
pub(crate) fn check_vector(what: &'static str, x: &[f64], expected: usize) -> Result<()> {
    if x.len() != expected {
        return Err(Error::Shape { what, expected, got: x.len() });
    }
    match x.iter().position(|x| !x.is_finite()) {
        Some(row) => Err(Error::NotFinite { what, row, col: 0, value: x[row] }),
        None => Ok(()),
    }
}

/// Refuses what is not symmetric to rounding, then makes it exactly so.
fn symmetrise(k: &mut Mat<f64>) -> Result<()> {
    let largest = k.norm_max();
    for j in 0..k.ncols() {
        if k[(j, j)] < 0.0 {
            return Err(Error::OutOfRange { what: "diagonal of k", value: k[(j, j)], must: ">= 0" });
        }
        for i in j + 1..k.nrows() {
            let gap = (k[(i, j)] - k[(j, i)]).abs();
            if gap > 1e-8 * largest {
                return Err(Error::NotSymmetric { what: "k", row: i, col: j, gap });
            }
            k[(j, i)] = k[(i, j)];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: usize) -> Mat<f64> {
        Mat::from_fn(n, n, |i, j| f64::from(i == j))
    }

    #[test]
    fn each_wrong_fact_is_named() {
        let good = || (vec![identity(3), identity(3)], vec![0, 1, 0], Mat::<f64>::zeros(3, 2));
        let (k, y, a) = good();
        assert!(Task::new(k, y, a, 0.5).is_ok());
        for tau in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let (k, y, a) = good();
            assert!(matches!(Task::new(k, y, a, tau), Err(Error::OutOfRange { what: "tau", .. })));
        }
        let (k, _, a) = good();
        let error = Task::new(k, vec![0, 7, 1], a, 1.0).unwrap_err();
        assert_eq!(error, Error::Label { row: 1, label: 7, classes: 2 });
        let (k, _, a) = good();
        assert!(matches!(Task::new(k, vec![], a, 1.0), Err(Error::Empty { what: "y", .. })));
        let (_, y, a) = good();
        assert!(matches!(Task::new(vec![identity(3)], y, a, 1.0), Err(Error::OutOfRange { .. })));
        let (mut k, y, a) = good();
        k[1][(2, 0)] = f64::NAN;
        assert!(matches!(Task::new(k, y, a, 1.0), Err(Error::NotFinite { what: "k", row: 2, col: 0, .. })));
        let (mut k, y, a) = good();
        k[0][(2, 1)] = 0.5;
        assert!(matches!(Task::new(k, y, a, 1.0), Err(Error::NotSymmetric { row: 2, col: 1, .. })));
        let (mut k, y, a) = good();
        k[0][(1, 1)] = -1.0;
        assert!(matches!(Task::new(k, y, a, 1.0), Err(Error::OutOfRange { what: "diagonal of k", .. })));
        let (k, y, _) = good();
        let error = Task::new(k, y, Mat::zeros(3, 3), 1.0).unwrap_err();
        assert_eq!(error, Error::ShapeOf { what: "a", side: "columns", expected: 2, got: 3 });
        let (_, y, a) = good();
        assert!(matches!(
            Task::new(vec![identity(3), identity(2)], y, a, 1.0),
            Err(Error::ShapeOf { what: "k", side: "rows", expected: 3, got: 2 })
        ));
    }

    #[test]
    fn units_go_there_and_back() {
        let k = vec![identity(2) * faer::Scale(3.0), identity(2)];
        let a = Mat::from_fn(2, 2, |i, j| i as f64 - 2.0 * j as f64);
        let task = Task::new(k, vec![0, 1], a, 0.5).unwrap();
        let x = task.standardise();
        assert_eq!((x.k[0][(0, 0)], x.a[(1, 0)]), (12.0, 2.0));
        // L = tr K'_0 + 3 a'_00 + a'_10 in x-units
        let kbar = vec![identity(2), Mat::zeros(2, 2)];
        let abar = Mat::from_fn(2, 2, |i, j| [[3.0, 0.0], [1.0, 0.0]][i][j]);
        let gradient = task.gradient(1.0, kbar, abar);
        assert_eq!((gradient.dk[0][(0, 0)], gradient.da[(0, 0)]), (4.0, 6.0));
        // L(tau) = 6/tau^2 + 1/tau
        assert!((gradient.dtau - (-12.0 / 0.125 - 1.0 / 0.25)).abs() < 1e-12);
    }
}
