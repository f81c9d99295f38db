//! Class probabilities under Gaussian latent values, with derivatives.
//!
//! 1/Z = int e^{-lambda Z} dlambda makes p_k = E[ sigma(x_k) / Z ] an integral over lambda = e^s / S of products of
//! one-dimensional expectations.

use super::{
    Resolution, Rule, check_marginals, check_output,
    grid::Grid,
    nodes::{Moments, Want, is_capped},
    outer::Outer,
};
use crate::{Error, Result};

/// The error of a probability where a class has more nodes than are kept (6e-3 is the largest seen at a variance of 1e10).
const CAPPED_ERROR: f64 = 1e-2;

/// Computes class probabilities and their derivatives; holds the working memory, so keep one for each thread.
pub struct Predictive {
    resolution: Resolution,
    rule: Rule,
    grid: Grid,
    outer: Outer,
    /// Denser, for derivatives: each power of q they bring multiplies the error of the outer rule by 2 pi / ht.
    slope_outer: Outer,
    /// Its tables belong to the denser steps.
    slope_grid: Grid,
    values: Vec<[f64; 2]>,
    factors: Vec<[f64; 2]>,
}

/// Derivatives of one probability at one point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slope {
    /// In the means, `[C]`.
    pub dm: Vec<f64>,
    /// In the variances, `[C]`.
    pub ds2: Vec<f64>,
}

impl Predictive {
    /// A rule of the given resolution.
    pub fn new(resolution: Resolution) -> Self {
        let rule = resolution.predictive_rule();
        let (values, factors) = (Vec::new(), Vec::new());
        let slope_outer = Outer::new(&Rule { ht: 0.75 * rule.ht, ..rule });
        Predictive {
            resolution,
            rule,
            grid: Grid::default(),
            outer: Outer::new(&rule),
            slope_outer,
            slope_grid: Grid::default(),
            values,
            factors,
        }
    }

    /// Eq. (15a). p_k = E[ sigma(x_k) / sum_c sigma(x_c) ] for independent x_c ~ N(`m[c]`, `s2[c]`), written to `p`.
    ///
    /// p_k = int_R D_k(s) prod_{c != k} B_c(s) ds, B_c = E e^{-q}, D_c = E[q e^{-q}], q = e^s sigma(x_c) / S.
    /// The sum over k is 1 up to the error of the rule.
    pub fn probs(&mut self, m: &[f64], s2: &[f64], p: &mut [f64]) -> Result<()> {
        check_marginals(m, s2)?;
        check_output("output of probabilities", m.len(), p.len())?;
        pulp::Arch::new().dispatch(Integrate { rule: self, m, s2, p });
        Ok(())
    }

    /// The probability of class `k` alone, and its derivatives in every mean and variance, written to `slope`: for a loss on
    /// log p of a label, which should take [`Resolution::Learning`].
    ///
    /// The derivative in a variance is half the second derivative in the mean under the expectation, so it holds at s2 = 0.
    pub fn prob_and_slope(&mut self, m: &[f64], s2: &[f64], k: usize, slope: &mut Slope) -> Result<f64> {
        check_marginals(m, s2)?;
        if k >= m.len() {
            return Err(Error::Label { row: 0, label: k, classes: m.len() });
        }
        Ok(pulp::Arch::new().dispatch(IntegrateLabel { rule: self, m, s2, k, slope }))
    }

    /// The error of a probability at these variances: the stated one of its precision, unless the nodes lie too wide.
    pub(crate) fn error(&self, s2: &[f64]) -> f64 {
        let rule = self.rule.at_level(Outer::level(s2));
        if s2.iter().any(|&v| is_capped(v, &rule)) {
            CAPPED_ERROR
        } else {
            self.resolution.probability_error()
        }
    }

    #[inline(always)]
    fn integrate(&mut self, m: &[f64], s2: &[f64], p: &mut [f64]) {
        let Predictive { rule, grid, outer, values, .. } = self;
        let level = Outer::level(s2);
        grid.fill(m, s2, rule, level);
        p.fill(0.0);
        let log_tiny = rule.log_tiny();
        for k in 0.. {
            let step = outer.step(level, k);
            let at = grid.at(k, &step, log_tiny);
            let row = grid.row(k);
            values.clear();
            let mut product = 1.0;
            for i in 0..m.len() {
                let m = grid.class(i).moments::<{ Want::VALUE }>(&at, row);
                product *= m.m00;
                values.push([m.m00, m.m01]);
            }
            if step.falling && product < rule.tol {
                break;
            }
            for (&c, [b, d]) in grid.order.iter().zip(&*values) {
                p[c] += step.weight * product * (d / b);
            }
        }
    }

    /// Of the other classes only B and its derivatives are needed, of the label's class those of D beside it.
    #[inline(always)]
    fn integrate_label(&mut self, m: &[f64], s2: &[f64], label: usize, slope: &mut Slope) -> f64 {
        let Predictive { rule, slope_grid: grid, slope_outer: outer, factors, .. } = self;
        let level = Outer::level(s2);
        grid.fill(m, s2, rule, level);
        let log_tiny = rule.log_tiny();
        for side in [&mut slope.dm, &mut slope.ds2] {
            side.clear();
            side.resize(m.len(), 0.0);
        }
        let (mut p, mut dm, mut ds2) = (0.0, 0.0, 0.0);
        for k in 0.. {
            let step = outer.step(level, k);
            let at = grid.at(k, &step, log_tiny);
            let row = grid.row(k);
            factors.clear();
            let (mut product, mut own) = (1.0, [0.0; 3]);
            for i in 0..m.len() {
                let (b, [first, second]) = if grid.order[i] == label {
                    let [b, d, _, d1, _, d2] =
                        derivatives(&grid.class(i).moments::<{ Want::SLOPE }>(&at, row));
                    own = [d / b, d1 / b, d2 / b];
                    (b, [0.0; 2])
                } else {
                    let m = grid.class(i).moments::<{ Want::FACTOR }>(&at, row);
                    (m.m00, [-m.m11, m.m22 - (2.0 * m.m21 - m.m11)])
                };
                product *= b;
                factors.push([first / b, second / b]);
            }
            if step.falling && product < 1e-3 * rule.tol {
                break;
            }
            let weight = step.weight * product;
            let share = weight * own[0];
            p += share;
            dm += weight * own[1];
            ds2 += weight * own[2];
            for (&c, [first, second]) in grid.order.iter().zip(&*factors) {
                slope.dm[c] += share * first;
                slope.ds2[c] += 0.5 * share * second;
            }
        }
        (slope.dm[label], slope.ds2[label]) = (dm, 0.5 * ds2);
        p
    }
}

/// B, D and their first and second derivatives in the mean, in the order B, D, B', D', B'', D'': with t = 1 - sigma, dq/dm = q t
/// and dt/dm = -t sigma.
#[inline(always)]
fn derivatives(m: &Moments) -> [f64; 6] {
    let second = 2.0 * m.m21 - m.m11;
    let third = 2.0 * m.m22 - m.m12;
    let (b2, d2) = (m.m22 - second, second - third - 2.0 * m.m22 + m.m23);
    [m.m00, m.m01, -m.m11, m.m11 - m.m12, b2, d2]
}

/// The integral of one label compiled for the instructions of the machine.
struct IntegrateLabel<'a> {
    rule: &'a mut Predictive,
    m: &'a [f64],
    s2: &'a [f64],
    k: usize,
    slope: &'a mut Slope,
}

impl pulp::WithSimd for IntegrateLabel<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
        self.rule.integrate_label(self.m, self.s2, self.k, self.slope)
    }
}

/// The integrals compiled for the instructions of the machine.
struct Integrate<'a> {
    rule: &'a mut Predictive,
    m: &'a [f64],
    s2: &'a [f64],
    p: &'a mut [f64],
}

impl pulp::WithSimd for Integrate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.rule.integrate(self.m, self.s2, self.p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihoods::logistic_softmax;
    use proptest::prelude::*;

    fn probs(m: &[f64], s2: &[f64], resolution: Resolution) -> Vec<f64> {
        let mut p = vec![0.0; m.len()];
        Predictive::new(resolution).probs(m, s2, &mut p).unwrap();
        p
    }

    /// The slow twin: a tensor product of fine trapezoidal rules for three classes.
    fn tensor(m: &[f64; 3], s2: &[f64; 3]) -> Vec<f64> {
        let h = 0.15;
        let nodes: Vec<f64> = (-54..=54).map(|i| f64::from(i) * h).collect();
        let weight = |z: f64| (-0.5 * z * z).exp() * h / (2.0 * std::f64::consts::PI).sqrt();
        let s: Vec<f64> = s2.iter().map(|s2| s2.sqrt()).collect();
        // Sums of sums: a million terms added one by one would lose three digits.
        let mut total = vec![0.0; 3];
        for &z0 in &nodes {
            let mut plane = [0.0; 3];
            for &z1 in &nodes {
                let mut row = [0.0; 3];
                for &z2 in &nodes {
                    let x = [m[0] + s[0] * z0, m[1] + s[1] * z1, m[2] + s[2] * z2];
                    let p = logistic_softmax::probs(&x, 1.0).unwrap();
                    (0..3).for_each(|k| row[k] += weight(z2) * p[k]);
                }
                (0..3).for_each(|k| plane[k] += weight(z1) * row[k]);
            }
            (0..3).for_each(|k| total[k] += weight(z0) * plane[k]);
        }
        total
    }

    #[test]
    fn agrees_with_a_tensor_rule() {
        let (m, s2) = ([0.4, -1.5, -6.0], [1.5, 0.0, 4.0]);
        let want = tensor(&m, &s2);
        for (resolution, tolerance) in [
            (Resolution::Fast, 1e-6),
            (Resolution::Standard, 7e-8),
            (Resolution::Fine, 1e-11),
            (Resolution::Golden, 1e-13),
        ] {
            for (got, want) in probs(&m, &s2, resolution).iter().zip(&want) {
                assert!((got - want).abs() < tolerance, "{resolution:?}: {got} {want}");
            }
        }
    }

    #[test]
    fn zero_variance_is_the_likelihood() {
        for m in [[0.0, 0.0, 0.0], [-30.0, -30.0, -31.0], [-400.0, 3.0, 500.0]] {
            let want = logistic_softmax::probs(&m, 1.0).unwrap();
            for (got, want) in probs(&m, &[0.0; 3], Resolution::Golden).iter().zip(&want) {
                assert!((got - want).abs() < 1e-13);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn derivatives_match_differences_and_classes_permute(
            points in prop::collection::vec((-30.0..10.0f64, -9.0..4.0f64), 2..7), turn in 0usize..7,
        ) {
            let (m, s2): (Vec<f64>, Vec<f64>) = points.iter().map(|&(m, log_v)| (m, log_v.exp())).unzip();
            let classes = m.len();
            let p = probs(&m, &s2, Resolution::Golden);
            let slopes: Vec<Slope> = (0..classes)
                .map(|k| {
                    let mut slope = Slope::default();
                    let of_label = Predictive::new(Resolution::Golden).prob_and_slope(&m, &s2, k, &mut slope).unwrap();
                    assert!((of_label - p[k]).abs() < 1e-13, "{of_label} {}", p[k]);
                    slope
                })
                .collect();
            prop_assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for c in 0..classes {
                let at = |dm: f64, ds: f64| {
                    let (mut m, mut s2) = (m.clone(), s2.clone());
                    m[c] += dm;
                    s2[c] += ds;
                    probs(&m, &s2, Resolution::Golden)
                };
                let h = 1e-4;
                let (up, down) = (at(h, 0.0), at(-h, 0.0));
                let g = 1e-3 * s2[c];
                let (wide, narrow) = (at(0.0, g), at(0.0, -g));
                for k in 0..classes {
                    prop_assert!((slopes[k].dm[c] - (up[k] - down[k]) / (2.0 * h)).abs() < 1e-8);
                    let by_s2 = (wide[k] - narrow[k]) / (2.0 * g);
                    prop_assert!((slopes[k].ds2[c] - by_s2).abs() < 1e-7 + 1e-14 / g);
                }
            }
            let turned = |x: &[f64]| { let mut x = x.to_vec(); x.rotate_left(turn % classes); x };
            let want = turned(&probs(&m, &s2, Resolution::Standard));
            prop_assert_eq!(probs(&turned(&m), &turned(&s2), Resolution::Standard), want);
        }
    }
}
