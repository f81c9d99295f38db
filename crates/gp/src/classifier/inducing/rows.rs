//! The labelled points as the inducing points see them, and what they say of weights: matrix products of blocks of points, in 32-bit floats
//! with sums in 64.

use super::basis::Basis;
use super::covariance::Covariance;
use crate::inference::go_on;
use crate::parallel::over_ranges;
use crate::quadrature::lumped::{Integrals, PointLikelihood};
use crate::{Error, Result};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef, Par};
use std::sync::atomic::AtomicBool;

/// Points of a block.
pub(super) const BLOCK: usize = 1024;

/// Points of one block.
struct Block {
    /// Whitened features, [B, M].
    phi: Mat<f32>,
    /// Their squares beyond the leading ones, [B, M - R].
    squares: Mat<f32>,
    rest: Vec<f64>,
    drawn: Vec<Vec<usize>>,
    weight: Vec<f64>,
}

/// What is known of each point: its class, or the classes of its label set, each drawn once from the likelihood.
#[derive(Clone, Copy)]
pub(in super::super) enum Drawn<'a> {
    One(&'a [usize]),
    Sets(&'a [Vec<usize>]),
}

impl Drawn<'_> {
    pub(super) fn points(&self) -> usize {
        match self {
            Drawn::One(y) => y.len(),
            Drawn::Sets(sets) => sets.len(),
        }
    }

    fn of(&self, points: std::ops::Range<usize>) -> Vec<Vec<usize>> {
        match self {
            Drawn::One(y) => y[points].iter().map(|&y| vec![y]).collect(),
            Drawn::Sets(sets) => sets[points].to_vec(),
        }
    }
}

/// Labelled points, and the prior of their latent functions in units of x = f / tau.
pub(super) struct Rows<'a> {
    blocks: Vec<Block>,
    /// What a whitened feature is multiplied by, for each class: root of the output scale over the temperature.
    pub(super) unit: Vec<f64>,
    /// The prior mean.
    mean: f64,
    leading: usize,
    integrals: Integrals,
    features: usize,
    pub(super) points: usize,
    cancelled: &'a AtomicBool,
}

/// The likelihood term of the bound at some weights, and its slopes.
pub(super) struct Likelihood {
    pub(super) value: f64,
    /// In the weights, [M, C].
    pub(super) slope: Mat<f64>,
    /// In the variances of x, [B, C] of each block.
    by_variance: Vec<Mat<f64>>,
}

/// Labelled points `x` [N, D] with what is known of them and weights (1 if there are none).
#[derive(Clone, Copy)]
pub(in super::super) struct Labelled<'a> {
    pub(in super::super) x: MatRef<'a, f64>,
    pub(in super::super) drawn: Drawn<'a>,
    pub(in super::super) weights: Option<&'a [f64]>,
}

impl<'a> Rows<'a> {
    /// `unit`: see [`Rows::unit`]; `mean` in units of x.
    pub(super) fn new(
        basis: &Basis,
        points: Labelled<'_>,
        (unit, mean): (Vec<f64>, f64),
        (leading, integrals): (usize, Integrals),
        cancelled: &'a AtomicBool,
    ) -> Result<Self> {
        let (n, features) = (points.drawn.points(), basis.len());
        let leading = leading.min(features);
        let block = |b: usize| -> Result<Block> {
            go_on(cancelled)?;
            let (first, count) = (b * BLOCK, BLOCK.min(n - b * BLOCK));
            let at = basis.at(points.x.subrows(first, count))?;
            let phi = Mat::from_fn(count, features, |i, j| at.phi[(i, j)] as f32);
            let squares = Mat::from_fn(count, features - leading, |i, j| phi[(i, leading + j)].powi(2));
            let drawn = points.drawn.of(first..first + count);
            let weight =
                points.weights.map_or_else(|| vec![1.0; count], |w| w[first..first + count].to_vec());
            Ok(Block { phi, squares, rest: at.rest, drawn, weight })
        };
        let blocks = over_ranges(n.div_ceil(BLOCK), 1, |range| range.map(block).collect::<Vec<_>>());
        let blocks = blocks.into_iter().flatten().collect::<Result<Vec<_>>>()?;
        Ok(Rows { blocks, unit, mean, leading, integrals, features, points: n, cancelled })
    }

    pub(super) fn classes(&self) -> usize {
        self.unit.len()
    }

    /// Number of leading features, and of the others.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.leading, self.features - self.leading)
    }

    /// The variances of x at all points, [B, C] of each block.
    pub(super) fn variances(&self, covariances: &[Covariance]) -> Result<Vec<Mat<f64>>> {
        let narrow = Narrow::new(covariances);
        let of_block = |b: usize| -> Result<Mat<f64>> {
            go_on(self.cancelled)?;
            let block = &self.blocks[b];
            let mut v = narrow.variances(block.phi.as_ref(), block.squares.as_ref(), &block.rest);
            for (c, unit) in self.unit.iter().enumerate() {
                v.col_as_slice_mut(c).iter_mut().for_each(|v| *v *= unit * unit);
            }
            Ok(v)
        };
        let found = over_ranges(self.blocks.len(), 1, |range| range.map(of_block).collect::<Vec<_>>());
        found.into_iter().flatten().collect()
    }

    /// The likelihood term at weights `m` [M, C] and variances `v`.
    pub(super) fn likelihood(&self, m: &Mat<f64>, v: &[Mat<f64>]) -> Result<Likelihood> {
        let (classes, m32) = (self.classes(), narrow(m));
        let of_block = |b: usize| -> Result<(f64, Mat<f32>, Mat<f64>)> {
            go_on(self.cancelled)?;
            let (block, v) = (&self.blocks[b], &v[b]);
            let count = block.drawn.len();
            let mut along = Mat::<f32>::zeros(count, classes);
            matmul(along.as_mut(), Accum::Replace, block.phi.as_ref(), m32.as_ref(), 1.0, Par::Seq);
            let mut rule = PointLikelihood::new(self.integrals);
            let zeros = || vec![0.0; classes];
            let (mut mu, mut var, mut dmu, mut dv) = (zeros(), zeros(), zeros(), zeros());
            let (mut value, mut by_variance) = (0.0, Mat::zeros(count, classes));
            for i in 0..count {
                for c in 0..classes {
                    mu[c] = self.mean + self.unit[c] * f64::from(along[(i, c)]);
                    var[c] = v[(i, c)];
                }
                let one = rule.eval((&mu, &var), &block.drawn[i], (&mut dmu, &mut dv))?;
                value += block.weight[i] * one;
                for c in 0..classes {
                    along[(i, c)] = (block.weight[i] * self.unit[c] * dmu[c]) as f32;
                    by_variance[(i, c)] = block.weight[i] * dv[c];
                }
            }
            let mut slope = Mat::<f32>::zeros(self.features, classes);
            matmul(slope.as_mut(), Accum::Replace, block.phi.transpose(), along.as_ref(), 1.0, Par::Seq);
            Ok((value, slope, by_variance))
        };
        let found = over_ranges(self.blocks.len(), 1, |range| range.map(of_block).collect::<Vec<_>>());
        let (mut value, mut slope, mut by_variance) = (0.0, Mat::zeros(self.features, classes), Vec::new());
        for part in found.into_iter().flatten() {
            let (one, by_weights, by_v) = part?;
            value += one;
            add(&mut slope, &by_weights);
            by_variance.push(by_v);
        }
        Ok(Likelihood { value, slope, by_variance })
    }

    /// What the sites `w = -2 d/dv` say of the covariance of each class: G among the leading features, its diagonal among the others.
    /// Sites of negative precision count as none: the covariance stays one, and the bound a bound.
    pub(super) fn sites(&self, at: &Likelihood) -> Result<Vec<(Mat<f64>, Vec<f64>)>> {
        let class = |c: usize| -> Result<(Mat<f64>, Vec<f64>)> {
            go_on(self.cancelled)?;
            let (r, others) = self.sizes();
            let (mut full, mut diagonal) = (Mat::<f64>::zeros(r, r), vec![0.0; others]);
            let unit2 = self.unit[c] * self.unit[c];
            let mut half = Mat::<f32>::zeros(r, r);
            for (block, by_v) in self.blocks.iter().zip(&at.by_variance) {
                let w: Vec<f64> =
                    by_v.col_as_slice(c).iter().map(|dv| (-2.0 * unit2 * dv).max(0.0)).collect();
                let root: Vec<f32> = w.iter().map(|w| w.sqrt() as f32).collect();
                let mut scaled = Mat::<f32>::zeros(w.len(), r);
                for j in 0..r {
                    let from = block.phi.col_as_slice(j).iter().zip(&root);
                    scaled.col_as_slice_mut(j).iter_mut().zip(from).for_each(|(s, (p, w))| *s = p * w);
                }
                triangular::matmul(
                    half.as_mut(),
                    BlockStructure::TriangularLower,
                    Accum::Replace,
                    scaled.transpose(),
                    BlockStructure::Rectangular,
                    scaled.as_ref(),
                    BlockStructure::Rectangular,
                    1.0,
                    Par::Seq,
                );
                add(&mut full, &half);
                for (j, d) in diagonal.iter_mut().enumerate() {
                    let squares = block.squares.col_as_slice(j).iter().zip(&w);
                    *d += squares.map(|(s, w)| f64::from(*s) * w).sum::<f64>();
                }
            }
            crate::linalg::mirror(&mut full);
            Ok((full, diagonal))
        };
        let found = over_ranges(self.classes(), 1, |range| range.map(class).collect::<Vec<_>>());
        found.into_iter().flatten().collect()
    }
}

/// Covariances ready for products in 32-bit floats.
#[derive(Debug, Clone)]
pub(in super::super) struct Narrow {
    /// J' of each class, [R, R].
    pub(in super::super) factors: Vec<Mat<f32>>,
    /// Variances of the features that are not leading, [M - R, C].
    pub(in super::super) others: Mat<f32>,
}

impl Narrow {
    pub(super) fn new(covariances: &[Covariance]) -> Self {
        let factors = covariances.iter().map(|s| narrow(&s.factor.transpose().to_owned())).collect();
        let others: Vec<Vec<f64>> = covariances.iter().map(Covariance::variances).collect();
        let rows = others.first().map_or(0, Vec::len);
        Narrow { factors, others: Mat::from_fn(rows, others.len(), |j, c| others[c][j] as f32) }
    }

    /// Number of leading features.
    pub(super) fn leading(&self) -> usize {
        self.factors.first().map_or(0, Mat::nrows)
    }

    /// An error unless they are of this many features and classes.
    pub(super) fn check(&self, features: usize, classes: usize) -> Result<()> {
        let leading = self.leading();
        let square = self.factors.iter().all(|f| f.nrows() == leading && f.ncols() == leading);
        for (what, expected, got) in [
            ("covariances of the weights", classes, self.factors.len()),
            ("features of the covariances", features, leading + self.others.nrows()),
            ("classes of the variances", classes, self.others.ncols()),
            ("sides of a covariance that differ", 0, usize::from(!square)),
        ] {
            if expected != got {
                return Err(Error::Shape { what, expected, got });
            }
        }
        Ok(())
    }

    /// `rest + phi' S phi` of B points for each class, before the output scale, [B, C]. `squares` are those of the features that are not
    /// leading.
    pub(super) fn variances(&self, phi: MatRef<'_, f32>, squares: MatRef<'_, f32>, rest: &[f64]) -> Mat<f64> {
        let (count, classes) = (phi.nrows(), self.factors.len());
        let mut beyond = Mat::<f32>::zeros(count, classes);
        matmul(beyond.as_mut(), Accum::Replace, squares, self.others.as_ref(), 1.0, Par::Seq);
        let mut v = Mat::from_fn(count, classes, |i, c| rest[i] + f64::from(beyond[(i, c)]));
        for (c, factor) in self.factors.iter().enumerate() {
            let r = factor.nrows();
            let mut along = Mat::<f32>::zeros(count, r);
            triangular::matmul(
                along.as_mut(),
                BlockStructure::Rectangular,
                Accum::Replace,
                phi.subcols(0, r),
                BlockStructure::Rectangular,
                factor.as_ref(),
                BlockStructure::TriangularUpper,
                1.0,
                Par::Seq,
            );
            let v = v.col_as_slice_mut(c);
            for j in 0..r {
                v.iter_mut().zip(along.col_as_slice(j)).for_each(|(v, a)| *v += f64::from(a * a));
            }
        }
        v
    }
}

/// In 32-bit floats.
pub(super) fn narrow(m: &Mat<f64>) -> Mat<f32> {
    Mat::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)] as f32)
}

fn add(sum: &mut Mat<f64>, part: &Mat<f32>) {
    for j in 0..sum.ncols() {
        sum.col_as_slice_mut(j).iter_mut().zip(part.col_as_slice(j)).for_each(|(s, p)| *s += f64::from(*p));
    }
}
