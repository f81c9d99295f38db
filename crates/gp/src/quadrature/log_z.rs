//! E log Z for Z = sum_c sigma(x_c), with derivatives.
//!
//! log Z = log S + int_R ( exp(-e^s) - exp(-e^s Z / S) ) ds for any S > 0, and the expectation of the second term
//! is a product over classes of one-dimensional expectations.

use super::{Resolution, Rule, check_marginals, check_output, grid::Grid, nodes::Want, outer::Outer};
use crate::Result;

/// Computes E log Z and its derivatives; holds the working memory, so keep one for each thread.
pub struct LogZ {
    rule: Rule,
    grid: Grid,
    outer: Outer,
    /// The class factors at the current s.
    factors: Vec<[f64; 3]>,
}

impl LogZ {
    /// A rule of the given resolution.
    pub fn new(resolution: Resolution) -> Self {
        Self::of(resolution.bound_rule())
    }

    pub(super) fn of(rule: Rule) -> Self {
        LogZ { rule, grid: Grid::default(), outer: Outer::new(&rule), factors: Vec::new() }
    }

    /// E log Z for independent x_c ~ N(`mu[c]`, `v[c]`); its derivatives are written to `dmu` and `dv`.
    ///
    /// E log Z = log S + int_R ( exp(-e^s) - prod_c B_c(s) ) ds, B_c(s) = E exp(-e^s sigma(x_c) / S),
    /// d/dmu_c = int E[r e^{-q}] prod_{j != c} B_j ds, d/dv_c = 1/2 int E[r (1 - 2 sigma - r) e^{-q}] prod_{j != c} B_j ds
    /// with q = e^s sigma / S and r = q (1 - sigma). The derivative in v is by Stein's identity: it holds at v = 0 too.
    pub fn eval(&mut self, mu: &[f64], v: &[f64], dmu: &mut [f64], dv: &mut [f64]) -> Result<f64> {
        check_marginals(mu, v)?;
        check_output("output of derivatives in the means", mu.len(), dmu.len())?;
        check_output("output of derivatives in the variances", mu.len(), dv.len())?;
        Ok(pulp::Arch::new().dispatch(Integrate { rule: self, mu, v, dmu, dv }))
    }

    #[inline(always)]
    fn integrate(&mut self, mu: &[f64], v: &[f64], level: usize, dmu: &mut [f64], dv: &mut [f64]) -> f64 {
        let LogZ { rule, grid, outer, factors } = self;
        grid.fill(mu, v, rule, level);
        dmu.fill(0.0);
        dv.fill(0.0);
        let (mut integral, log_tiny) = (0.0, rule.log_tiny());
        for k in 0.. {
            let step = outer.step(level, k);
            let at = grid.at(k, &step, log_tiny);
            let row = grid.row(k);
            factors.clear();
            let mut product = 1.0;
            for i in 0..mu.len() {
                let m = grid.class(i).moments::<{ Want::FACTOR }>(&at, row);
                product *= m.m00;
                // B = E e^{-q}, E[ r e^{-q} ], E[ r (1 - 2 sigma - r) e^{-q} ] with r = q t, 1 - 2 sigma = 2 t - 1.
                factors.push([m.m00, m.m11, 2.0 * m.m21 - m.m11 - m.m22]);
            }
            integral += step.weight * (step.gumbel - product);
            if step.falling && product < rule.tol {
                break;
            }
            for (&c, [b, first, second]) in grid.order.iter().zip(&*factors) {
                let others = step.weight * product / b;
                dmu[c] += others * first;
                dv[c] += 0.5 * others * second;
            }
        }
        grid.log_s + integral
    }
}

/// [`LogZ::integrate`] compiled for the instructions of the machine. (A closure would be called, not inlined, and so be
/// compiled for the smallest set.)
struct Integrate<'a> {
    rule: &'a mut LogZ,
    mu: &'a [f64],
    v: &'a [f64],
    dmu: &'a mut [f64],
    dv: &'a mut [f64],
}

impl pulp::WithSimd for Integrate<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
        self.rule.integrate(self.mu, self.v, Outer::level(self.v), self.dmu, self.dv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, special::log_sigmoid};
    use proptest::prelude::*;

    fn e_log_z(mu: &[f64], v: &[f64], resolution: Resolution) -> (f64, Vec<f64>, Vec<f64>) {
        let (mut dmu, mut dv) = (vec![0.0; mu.len()], vec![0.0; mu.len()]);
        let value = LogZ::new(resolution).eval(mu, v, &mut dmu, &mut dv).unwrap();
        (value, dmu, dv)
    }

    fn log_z(x: &[f64]) -> f64 {
        let l: Vec<f64> = x.iter().map(|&x| log_sigmoid(x)).collect();
        let max = l.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        max + l.iter().map(|l| (l - max).exp()).sum::<f64>().ln()
    }

    /// The slow twin: a tensor product of fine trapezoidal rules for two classes.
    fn tensor(mu: &[f64; 2], v: &[f64; 2]) -> f64 {
        let h = 0.02;
        let nodes: Vec<f64> = (-450..=450).map(|i| f64::from(i) * h).collect();
        let weight = |z: f64| (-0.5 * z * z).exp() * h / (2.0 * std::f64::consts::PI).sqrt();
        let mut total = 0.0;
        for &z0 in &nodes {
            let mut row = 0.0;
            for &z1 in &nodes {
                row += weight(z1) * log_z(&[mu[0] + v[0].sqrt() * z0, mu[1] + v[1].sqrt() * z1]);
            }
            total += weight(z0) * row;
        }
        total
    }

    #[test]
    fn agrees_with_a_tensor_rule() {
        for (mu, v) in [([0.3, -1.0], [1.0, 2.0]), ([-30.0, -22.0], [20.0, 40.0]), ([5.0, -5.0], [0.0, 9.0])]
        {
            let (value, ..) = e_log_z(&mu, &v, Resolution::Golden);
            assert!((value - tensor(&mu, &v)).abs() < 1e-12, "{mu:?} {v:?}");
        }
    }

    #[test]
    fn zero_variance_is_log_z_itself() {
        for mu in [vec![1.0, -2.0, 0.5], vec![-150.0, -151.0], vec![40.0; 6]] {
            let (value, dmu, dv) = e_log_z(&mu, &vec![0.0; mu.len()], Resolution::Golden);
            assert!((value - log_z(&mu)).abs() < 1e-12);
            // d log Z / dx_c = p_c (1 - sigma_c); half the second derivative is the derivative in v.
            for c in 0..mu.len() {
                let first = |t: f64| {
                    let mut x = mu.clone();
                    x[c] += t;
                    (log_sigmoid(x[c]) - log_z(&x) + log_sigmoid(-x[c])).exp()
                };
                assert!((dmu[c] - first(0.0)).abs() < 1e-12);
                let second = (first(1e-5) - first(-1e-5)) / 2e-5;
                assert!((dv[c] - 0.5 * second).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn grids_wider_than_the_range_of_f64() {
        // sd = 2000: exp(x) spans e^{+-17000}.
        let (value, dmu, _) = e_log_z(&[-10.0, 5.0], &[4e6, 1e6], Resolution::Standard);
        // The slow twin: a dense rule in z, 16 in x, far above the width of the bends of log Z but far below its range.
        let h = 8e-3;
        let weight = |z: f64| (-0.5 * z * z).exp() * h / (2.0 * std::f64::consts::PI).sqrt();
        let (mut total, mut slope) = (0.0, 0.0);
        for i in -900..=900 {
            for j in -900..=900 {
                let (zi, zj) = (f64::from(i) * h, f64::from(j) * h);
                let (x0, x1) = (-10.0 + 2000.0 * zi, 5.0 + 1000.0 * zj);
                if x0 > -40.0 && x1 > -40.0 || (x0 - x1).abs() < 40.0 {
                    let w = weight(zi) * weight(zj);
                    total += w * log_z(&[x0, x1]);
                    slope += w * (log_sigmoid(x0) - log_z(&[x0, x1]) + log_sigmoid(-x0)).exp();
                } else {
                    let w = weight(zi) * weight(zj);
                    total += w * x0.max(x1).min(0.0);
                    slope += if x0 > x1 && x0 < 0.0 { w } else { 0.0 };
                }
            }
        }
        assert!((value - total).abs() < 2e-3 * total.abs(), "{value} {total}");
        assert!((dmu[0] - slope).abs() < 2e-3, "{} {slope}", dmu[0]);
    }

    #[test]
    fn growing_steps_change_nothing() {
        for (mu, v) in [
            (vec![3.0, -20.0, 11.0], vec![300.0, 900.0, 2e3]),
            (vec![-500.0, -480.0], vec![1.5e4, 2.2e4]),
            (vec![-40.0; 5], vec![257.0, 1e3, 300.0, 5e4, 400.0]),
        ] {
            let (value, dmu, dv) = e_log_z(&mu, &v, Resolution::Golden);
            assert!(Outer::level(&v) >= 4);
            let (mut dmu0, mut dv0) = (dmu.clone(), dv.clone());
            let value0 = LogZ::new(Resolution::Golden).integrate(&mu, &v, 0, &mut dmu0, &mut dv0);
            assert!((value - value0).abs() < 1e-12 * (1.0 + value.abs()), "{value} {value0}");
            for c in 0..mu.len() {
                assert!((dmu[c] - dmu0[c]).abs() < 1e-12 && (dv[c] - dv0[c]).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn bad_input_is_named() {
        let mut out = [0.0; 2];
        let mut eval =
            |mu: [f64; 2], v: [f64; 2]| LogZ::new(Resolution::Fast).eval(&mu, &v, &mut out.clone(), &mut out);
        assert!(matches!(eval([f64::NAN, 0.0], [1.0, 1.0]), Err(Error::NotFinite { col: 0, .. })));
        assert!(matches!(eval([0.0, 0.0], [1.0, -1.0]), Err(Error::OutOfRange { value: -1.0, .. })));
        assert!(matches!(eval([0.0, 0.0], [1.0, f64::NAN]), Err(Error::OutOfRange { .. })));
        let mut short = [0.0];
        let error = LogZ::new(Resolution::Fast).eval(&[0.0; 2], &[1.0; 2], &mut out, &mut short).unwrap_err();
        assert!(matches!(error, Error::Shape { expected: 2, got: 1, .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn derivatives_match_differences_and_classes_permute(
            points in prop::collection::vec((-30.0..30.0f64, -9.0..5.0f64), 2..8), turn in 0usize..8,
        ) {
            let (mu, v): (Vec<f64>, Vec<f64>) = points.iter().map(|&(m, log_v)| (m, log_v.exp())).unzip();
            let (_, dmu, dv) = e_log_z(&mu, &v, Resolution::Golden);
            for c in 0..mu.len() {
                let at = |dm: f64, dv: f64| {
                    let (mut m, mut s) = (mu.clone(), v.clone());
                    m[c] += dm;
                    s[c] += dv;
                    e_log_z(&m, &s, Resolution::Golden).0
                };
                let h = 1e-4;
                let by_mu = (at(h, 0.0) - at(-h, 0.0)) / (2.0 * h);
                prop_assert!((dmu[c] - by_mu).abs() < 1e-8);
                let h = 1e-4 * v[c].max(1e-2);
                let by_v = (at(0.0, h) - at(0.0, if v[c] > h { -h } else { 0.0 })) / (h + if v[c] > h { h } else { 0.0 });
                let tolerance = if v[c] > h { 1e-7 } else { 1e-6 };
                prop_assert!((dv[c] - by_v).abs() < tolerance);
            }
            let turned = |x: &[f64]| { let mut x = x.to_vec(); x.rotate_left(turn % mu.len()); x };
            let (value, ..) = e_log_z(&mu, &v, Resolution::Fast);
            let (value2, dmu2, dv2) = e_log_z(&turned(&mu), &turned(&v), Resolution::Fast);
            let (_, dmu, dv) = e_log_z(&mu, &v, Resolution::Fast);
            prop_assert_eq!((value2, dmu2, dv2), (value, turned(&dmu), turned(&dv)));
        }
    }
}
