//! The integrals of many classes of which few matter: the others count by their mean.
//!
//! Where `Z = sum_c sigma(x_c)` has a class whose `sigma(x_c)` is small beside Z whatever x_c is, `E log Z` and `E [sigma(x_k) / Z]` hardly
//! change if `sigma(x_c)` is put to its mean: to second order by `Var sigma(x_c) / (2 Z^2)`. The means of all such classes are one
//! class without variance; the integrals then cost as much as the classes that matter.

use super::{
    Resolution, Rule, log_sigmoid::trapezoid, log_z::LogZ, probabilities::Predictive, tilted::Tilted,
};
use crate::Result;
use crate::special::sigmoid;

/// A class is put to its mean where `E sigma^2 <= SHARE z^2`, z the sum at the means.
const SHARE: f64 = 1e-5;
/// And where `sigma(x) = e^x - e^2x` to within this part of e^x in the mean.
const NEARLY_EXPONENTIAL: f64 = 0.05;
/// No more than this may be put together: it must be a sigmoid itself.
const MOST: f64 = 0.9;

/// Working memory; keep one for each thread.
#[derive(Debug, Default)]
pub(crate) struct Lumped {
    /// The classes that matter.
    active: Vec<usize>,
    /// `E sigma` of each other class, and its derivatives in mean and variance; 0 for those that matter.
    small: Vec<[f64; 3]>,
    mu: Vec<f64>,
    v: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Lumped {
    /// Splits the classes; the sum of the small ones, if there are any that may be put together.
    fn split(&mut self, mu: &[f64], v: &[f64]) -> Option<f64> {
        let least = SHARE * mu.iter().map(|&m| sigmoid(m)).sum::<f64>().powi(2);
        self.active.clear();
        self.small.clear();
        let mut rest = 0.0;
        for (c, (&m, &v)) in mu.iter().zip(v).enumerate() {
            // E e^x and E e^2x.
            let (one, two) = ((m + 0.5 * v).exp(), (2.0 * m + 2.0 * v).exp());
            if two <= least && two <= NEARLY_EXPONENTIAL * one {
                rest += one - two;
                self.small.push([one - two, one - 2.0 * two, 0.5 * one - 2.0 * two]);
            } else {
                self.active.push(c);
                self.small.push([0.0; 3]);
            }
        }
        // To gain from it there must be two classes fewer at least.
        if self.active.len() + 2 > mu.len() || !(rest > 0.0 && rest < MOST) {
            return None;
        }
        let gather = |from: &[f64], into: &mut Vec<f64>, last: f64| {
            into.clear();
            into.extend(self.active.iter().map(|&c| from[c]));
            into.push(last);
        };
        gather(mu, &mut self.mu, rest.ln() - (-rest).ln_1p());
        gather(v, &mut self.v, 0.0);
        for out in [&mut self.first, &mut self.second] {
            out.clear();
            out.resize(self.mu.len(), 0.0);
        }
        Some(rest)
    }

    /// [`LogZ::eval`].
    pub(crate) fn log_z(
        &mut self,
        rule: &mut LogZ,
        (mu, v): (&[f64], &[f64]),
        (dmu, dv): (&mut [f64], &mut [f64]),
    ) -> Result<f64> {
        let Some(rest) = self.split(mu, v) else { return rule.eval(mu, v, dmu, dv) };
        let value = rule.eval(&self.mu, &self.v, &mut self.first, &mut self.second)?;
        // The derivative in the sum of the small ones: d sigma(x) = sigma (1 - sigma) dx.
        let by_rest = self.first[self.active.len()] / (rest * (1.0 - rest));
        for (c, [_, by_mu, by_v]) in self.small.iter().enumerate() {
            (dmu[c], dv[c]) = (by_rest * by_mu, by_rest * by_v);
        }
        for (i, &c) in self.active.iter().enumerate() {
            (dmu[c], dv[c]) = (self.first[i], self.second[i]);
        }
        Ok(value)
    }

    /// [`Predictive::probs`].
    pub(crate) fn probs(
        &mut self,
        rule: &mut Predictive,
        (mu, v): (&[f64], &[f64]),
        p: &mut [f64],
    ) -> Result<()> {
        let Some(rest) = self.split(mu, v) else { return rule.probs(mu, v, p) };
        rule.probs(&self.mu, &self.v, &mut self.first)?;
        let of_rest = self.first[self.active.len()] / rest;
        for (p, [mean, ..]) in p.iter_mut().zip(&self.small) {
            *p = of_rest * mean;
        }
        for (i, &c) in self.active.iter().enumerate() {
            p[c] = self.first[i];
        }
        Ok(())
    }
}

/// How `E log p(y | x)` of a point is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrals {
    /// By quadrature; classes that hardly matter count by their mean.
    Quadrature,
    /// By the bound [`Tilted`]: for latent values so far below 0 that `sigma(x) = e^x`.
    Tilted,
}

/// `E log p(y | x)` of one point; holds the working memory, so keep one for each thread.
pub(crate) struct PointLikelihood {
    by: Integrals,
    rule: Rule,
    log_z: LogZ,
    lumped: Lumped,
    tilted: Tilted,
}

impl PointLikelihood {
    pub(crate) fn new(by: Integrals) -> Self {
        let (rule, log_z) = (Resolution::Fast.bound_rule(), LogZ::new(Resolution::Fast));
        PointLikelihood { by, rule, log_z, lumped: Lumped::default(), tilted: Tilted::default() }
    }

    /// `sum_(y in drawn) ( E log sigma(x_y) - E log Z )` for independent x_c ~ N(`mu[c]`, `v[c]`); its derivatives are written to `dmu`
    /// and `dv`. `drawn` is one class, or each class of a label set once.
    pub(crate) fn eval(
        &mut self,
        at: (&[f64], &[f64]),
        drawn: &[usize],
        (dmu, dv): (&mut [f64], &mut [f64]),
    ) -> Result<f64> {
        let ((mu, v), draws) = (at, drawn.len() as f64);
        let e_log_z = match self.by {
            Integrals::Quadrature => self.lumped.log_z(&mut self.log_z, at, (&mut *dmu, &mut *dv))?,
            Integrals::Tilted => self.tilted.eval(at, (&mut *dmu, &mut *dv)),
        };
        dmu.iter_mut().chain(dv.iter_mut()).for_each(|slope| *slope *= -draws);
        let mut value = -draws * e_log_z;
        for &y in drawn {
            if self.by == Integrals::Tilted {
                dmu[y] += 1.0;
                value += mu[y];
                continue;
            }
            let e_log_sigma = trapezoid(mu[y], v[y], &self.rule);
            dmu[y] += e_log_sigma.dmu;
            dv[y] += e_log_sigma.dv;
            value += e_log_sigma.value;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The integrals over all classes.
    fn whole(mu: &[f64], v: &[f64]) -> (f64, Vec<f64>, Vec<f64>, Vec<f64>) {
        let zeros = || vec![0.0; mu.len()];
        let (mut dmu, mut dv, mut p) = (zeros(), zeros(), zeros());
        let value = LogZ::new(Resolution::Standard).eval(mu, v, &mut dmu, &mut dv).unwrap();
        Predictive::new(Resolution::Standard).probs(mu, v, &mut p).unwrap();
        (value, dmu, dv, p)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        /// As models of many classes have them: a prior mean far below 0, some classes above it, variances to 6.
        #[test]
        fn lumped_integrals_are_those_of_all_classes(
            raw in proptest::collection::vec((0.0..1.0f64, 0.0..1.0f64), 3..60), level in -16.0..-5.0f64, wide in 0.1..6.0f64,
        ) {
            let mu: Vec<f64> = raw.iter().map(|(u, _)| level + 12.0 * u.powi(4) - 2.0).collect();
            let v: Vec<f64> = raw.iter().map(|(_, t)| wide * t).collect();
            let (value, dmu, dv, p) = whole(&mu, &v);
            let zeros = || vec![0.0; mu.len()];
            let (mut gmu, mut gv, mut gp, mut lumped) = (zeros(), zeros(), zeros(), Lumped::default());
            let rule = (&mut LogZ::new(Resolution::Standard), &mut Predictive::new(Resolution::Standard));
            let got = lumped.log_z(rule.0, (&mu, &v), (&mut gmu, &mut gv)).unwrap();
            lumped.probs(rule.1, (&mu, &v), &mut gp).unwrap();
            prop_assert!((got - value).abs() < 1e-3, "{got} {value}");
            for c in 0..mu.len() {
                prop_assert!((gmu[c] - dmu[c]).abs() < 1e-3, "{} {}", gmu[c], dmu[c]);
                prop_assert!((gv[c] - dv[c]).abs() < 1e-3, "{} {}", gv[c], dv[c]);
                prop_assert!((gp[c] - p[c]).abs() < 1e-3, "{} {}", gp[c], p[c]);
            }
            prop_assert!((gp.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn most_of_a_hundred_classes_are_lumped() {
        let mu: Vec<f64> = (0..100).map(|c| if c < 3 { -4.0 + f64::from(c) } else { -14.0 }).collect();
        let mut lumped = Lumped::default();
        let rest = lumped.split(&mu, &[1.0; 100]).unwrap();
        assert_eq!(lumped.active, [0, 1, 2]);
        assert!((rest - 97.0 * (-13.5f64).exp()).abs() < 1e-3 * rest);
        // Where nothing can be put together, it is the plain rule.
        assert!(lumped.split(&[-1.0, 0.0, 1.0], &[1.0; 3]).is_none());
    }
}
