//! What inference makes of a task, and its answers to queries.

use faer::Mat;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use std::ops::Range;

use crate::gaussian::{Digits, SignedBlock, Sites};
use crate::inference::exact::{LabelRegression, largest_target_probabilities};
use crate::inference::gibbs::Samples;
use crate::inference::laplace::{Laplace, softmax_probabilities};
use crate::inference::one_vs_each::OveMeanField;
use crate::likelihoods::{logistic_softmax, softmax};
use crate::linalg::{product, sum_any_order};
use crate::objective::envelope;
use crate::parallel::over_ranges;
use crate::quadrature::{Resolution, lumped::Lumped, probabilities::Predictive};
use crate::task::check_matrix;
use crate::{Error, Gradient, Query, Result, Task};

/// The posterior of a task: made by [`crate::inference::Inference::posterior`], asked by [`Posterior::latent`] and [`Posterior::probs`].
#[derive(Debug, Clone)]
pub struct Posterior {
    by: Approximation,
    /// The bound or the estimate of log p(Y) that inference reached; NaN for samples, which have none.
    pub bound: f64,
    /// Sweeps or steps taken.
    pub steps: usize,
    /// Whether inference met its tolerance; true if it was given a number of steps instead.
    pub converged: bool,
}

/// What each inference leaves behind.
#[derive(Debug, Clone)]
pub(crate) enum Approximation {
    Blocks(Blocks),
    Samples(Samples),
    Laplace(Box<Laplace>),
    OneVsEach(Box<OveMeanField>),
    Exact(LabelRegression),
}

impl Posterior {
    pub(crate) fn new(by: Approximation, bound: f64, steps: usize, converged: bool) -> Self {
        Posterior { by, bound, steps, converged }
    }

    /// The posterior of a task with these sites and the `bound` they reached: without inference.
    pub fn from_sites(task: &Task, sites: &Sites, bound: f64) -> Result<Self> {
        Self::from_sites_to(Digits::All, task, sites, bound)
    }

    /// [`Posterior::from_sites`] with as many digits as asked.
    pub(crate) fn from_sites_to(digits: Digits, task: &Task, sites: &Sites, bound: f64) -> Result<Self> {
        Ok(Self::new(Approximation::Blocks(Blocks::from_sites(task, sites, digits)?), bound, 0, true))
    }

    /// The bound or estimate of log p(Y) of the task this posterior was made of, with its gradient: of Gaussian blocks by the envelope rule, so
    /// exact where inference has come to rest.
    pub(crate) fn evidence(&self, task: &Task) -> Result<Gradient> {
        match &self.by {
            Approximation::Blocks(blocks) => Ok(envelope(task, &blocks.blocks, self.bound)),
            Approximation::Samples(samples) => Ok(samples.log_marginal()),
            Approximation::Laplace(laplace) => laplace.gradient(task),
            Approximation::OneVsEach(mean_field) => mean_field.gradient(task),
            Approximation::Exact(regression) => Ok(regression.log_likelihood()),
        }
    }

    /// The slope of the evidence in the noise of the exact regression; 0 for the others, which have no noise.
    pub(crate) fn slope_in_noise(&self) -> f64 {
        match &self.by {
            Approximation::Exact(regression) => regression.slope_in_noise(),
            _ => 0.0,
        }
    }

    /// Latent values at the queries; of samples, mean and variance of the mixture of the chains.
    pub fn latent(&self, query: &Query) -> Result<Latent> {
        match &self.by {
            Approximation::Blocks(blocks) => blocks.latent(query),
            Approximation::Samples(samples) => samples.latent(query),
            Approximation::Laplace(laplace) => laplace.latent(query),
            Approximation::OneVsEach(mean_field) => mean_field.latent(query),
            Approximation::Exact(regression) => regression.latent(query),
        }
    }

    /// Class probabilities at the queries, [Q, C]; each row sums to 1. `resolution` is that of the integrals of logistic-softmax.
    pub fn probs(&self, query: &Query, resolution: Resolution) -> Result<Mat<f64>> {
        match &self.by {
            Approximation::Samples(samples) => samples.probs(query, resolution),
            _ => self.probs_of(&self.latent(query)?, resolution),
        }
    }

    /// [`Posterior::latent`] and [`Posterior::probs`] for the price of one.
    pub(crate) fn answer(&self, query: &Query, resolution: Resolution) -> Result<(Latent, Mat<f64>)> {
        let latent = self.latent(query)?;
        let probs = match &self.by {
            Approximation::Samples(samples) => samples.probs(query, resolution)?,
            _ => self.probs_of(&latent, resolution)?,
        };
        Ok((latent, probs))
    }

    fn probs_of(&self, latent: &Latent, resolution: Resolution) -> Result<Mat<f64>> {
        match &self.by {
            Approximation::Blocks(_) | Approximation::Samples(_) => latent.probs(resolution),
            Approximation::Laplace(_) => softmax_probabilities(latent),
            Approximation::OneVsEach(mean_field) => mean_field.published_probabilities(latent),
            Approximation::Exact(regression) => Ok(largest_target_probabilities(latent, regression.noise())),
        }
    }

    /// The probabilities of the published systems where they are others than [`Posterior::probs`]: of samples the `softmax` of the
    /// chains' mean score, of the exact regression that of the means.
    pub fn published_probs(&self, query: &Query) -> Result<Mat<f64>> {
        match &self.by {
            Approximation::Samples(samples) => samples.published_probs(query),
            Approximation::Exact(regression) => Ok(softmax::rows(&regression.latent(query)?.mean)),
            _ => self.probs(query, Resolution::Standard),
        }
    }

    /// What [`Posterior::from_sites`] needs; an error for a posterior that is no Gaussian with sites.
    pub fn sites(&self) -> Result<Sites> {
        let none = Error::Empty { what: "sites of the posterior", needed: 1 };
        Ok(self.blocks().ok_or(none)?.sites())
    }

    /// q(F) as one Gaussian block with sites for each class, if it is one.
    pub(crate) fn blocks(&self) -> Option<&Blocks> {
        match &self.by {
            Approximation::Blocks(blocks) => Some(blocks),
            _ => None,
        }
    }
}

/// q(F) on the labelled points: one Gaussian block with sites for each class, in units of x = f/tau, and the temperature that leads
/// back to f.
#[derive(Debug, Clone)]
pub struct Blocks {
    blocks: Vec<SignedBlock>,
    tau: f64,
    /// The sites they were built from, where they were.
    sites: Option<Sites>,
}

/// Gaussian latent values of every class at some points, in units of f.
#[derive(Debug, Clone)]
pub struct Latent {
    /// Means, [M, C].
    pub mean: Mat<f64>,
    /// Variances, [M, C].
    pub var: Mat<f64>,
    /// Covariances of the classes at each point, M of [C, C]; none where the classes are independent.
    pub cov: Vec<Mat<f64>>,
    /// Temperature of the likelihood.
    pub tau: f64,
}

impl Blocks {
    /// From the block of each class (built with K/tau^2 and a/tau) and the temperature.
    pub fn new(blocks: impl IntoIterator<Item = impl Into<SignedBlock>>, tau: f64) -> Result<Self> {
        crate::likelihoods::check_tau(tau)?;
        let blocks: Vec<SignedBlock> = blocks.into_iter().map(Into::into).collect();
        if blocks.len() < 2 {
            return Err(Error::Empty { what: "classes", needed: 2 });
        }
        for block in &blocks {
            check_size("points of a block", blocks[0].g.len(), block.g.len())?;
        }
        Ok(Blocks { blocks, tau, sites: None })
    }

    /// Blocks that were built from these sites.
    pub(crate) fn with_sites(sites: Sites, blocks: Vec<SignedBlock>, tau: f64) -> Result<Self> {
        Ok(Blocks { sites: Some(sites), ..Blocks::new(blocks, tau)? })
    }

    /// q(F) with these sites: one factorisation for each class.
    pub(crate) fn from_sites(task: &Task, sites: &Sites, digits: Digits) -> Result<Self> {
        check_matrix("b of the sites", &sites.b, task.points(), task.classes())?;
        check_matrix("w of the sites", &sites.w, task.points(), task.classes())?;
        let x = task.standardise();
        let block = |c: usize| {
            let (w, b) = (sites.w.col_as_slice(c), sites.b.col_as_slice(c));
            SignedBlock::to(digits, &x.k[c], w, b, x.a.col_as_slice(c))
        };
        let blocks = (0..task.classes()).map(block).collect::<Result<Vec<_>>>()?;
        Self::with_sites(sites.clone(), blocks, task.tau())
    }

    /// Number of classes C.
    pub fn classes(&self) -> usize {
        self.blocks.len()
    }

    /// Temperature.
    pub fn tau(&self) -> f64 {
        self.tau
    }

    /// The sites: those that were given, else `w` of each block, and `b = g + w mu`.
    pub(crate) fn sites(&self) -> Sites {
        if let Some(sites) = &self.sites {
            return sites.clone();
        }
        let table = |f: &dyn Fn(&SignedBlock, usize) -> f64| {
            Mat::from_fn(self.blocks[0].w.len(), self.classes(), |i, c| f(&self.blocks[c], i))
        };
        Sites { b: table(&|x, i| x.g[i] + x.w[i] * x.mu[i]), w: table(&|x, i| x.w[i]) }
    }

    /// The block of each class.
    pub(crate) fn of_classes(&self) -> &[SignedBlock] {
        &self.blocks
    }

    /// Eq. (15), with the prior mean: `mu_* = a_* + k_*' K^{-1} (mu - a)`, `sigma_*^2 = k_** - k_*' (K + W^{-1})^{-1} k_*`.
    ///
    /// The paper's Eq. (15) has `k_*' K^{-1} mu`: with a prior mean other than 0 that returns to 0 and not to the prior mean
    /// far from the data. The test `far_from_data_the_prior_returns` shows the difference.
    pub fn latent(&self, query: &Query) -> Result<Latent> {
        let (classes, queries) = (self.classes(), query.points());
        query.check(self.blocks[0].g.len(), classes)?;
        let (mut mean, mut var) = (Mat::zeros(queries, classes), Mat::zeros(queries, classes));
        let tau2 = self.tau * self.tau;
        for (c, block) in self.blocks.iter().enumerate() {
            // g belongs to x: k_*'/tau^2 g is the shift of x, and tau times that the shift of f.
            let g = Mat::from_fn(block.g.len(), 1, |i, _| block.g[i] / self.tau);
            let shift = product(query.ks[c].transpose(), g.as_ref());
            let standard = &query.ks[c] * faer::Scale(1.0 / tau2);
            let drop = block.variance_drop(&standard);
            for q in 0..queries {
                mean[(q, c)] = query.astar[(q, c)] + shift[(q, 0)];
                var[(q, c)] = (query.kss[(q, c)] - tau2 * drop[q]).max(0.0);
            }
        }
        Ok(Latent::independent(mean, var, self.tau))
    }
}

impl Latent {
    /// Classes that are independent given the labels.
    pub fn independent(mean: Mat<f64>, var: Mat<f64>, tau: f64) -> Self {
        Latent { mean, var, cov: Vec::new(), tau }
    }

    /// Classes with covariances, M of [C, C].
    pub(crate) fn correlated(mean: Mat<f64>, cov: Vec<Mat<f64>>, tau: f64) -> Self {
        let var = Mat::from_fn(mean.nrows(), mean.ncols(), |i, c| cov[i][(c, c)].max(0.0));
        Latent { mean, var, cov, tau }
    }

    /// Mean and variance of an even mixture, from those of its parts in units of x: `E m` and `E (v + m^2) - (E m)^2`.
    pub(crate) fn mixture(parts: impl ExactSizeIterator<Item = (Mat<f64>, Mat<f64>)>, tau: f64) -> Self {
        let share = 1.0 / parts.len() as f64;
        let parts: Vec<_> = parts.collect();
        let (rows, cols) = parts.first().map_or((0, 0), |(mean, _)| (mean.nrows(), mean.ncols()));
        let mean = |i, c| parts.iter().map(|(m, _)| share * m[(i, c)]).sum::<f64>();
        let mean = Mat::from_fn(rows, cols, mean);
        let spread = |m: f64, v: f64, i: usize, c: usize| v + (m - mean[(i, c)]).powi(2);
        let var = |i, c| parts.iter().map(|(m, v)| share * spread(m[(i, c)], v[(i, c)], i, c)).sum::<f64>();
        let var = Mat::from_fn(rows, cols, var);
        Latent::independent(&mean * faer::Scale(tau), var * faer::Scale(tau * tau), tau)
    }

    /// The same means with deviations this many times as large, for [`Latent::probs`].
    pub(crate) fn narrowed(self, spread: f64) -> Self {
        let (square, cov) = (faer::Scale(spread * spread), self.cov.into_iter());
        Latent { var: self.var * square, cov: cov.map(|cov| cov * square).collect(), ..self }
    }

    /// Number of points M.
    pub fn points(&self) -> usize {
        self.mean.nrows()
    }

    /// Number of classes C.
    pub fn classes(&self) -> usize {
        self.mean.ncols()
    }

    /// Eq. (15a), by quadrature: class probabilities [M, C], each row scaled to sum to 1. Before that it does so up to the
    /// error of the rule; a sum ten times as far from 1 is an error.
    pub fn probs(&self, resolution: Resolution) -> Result<Mat<f64>> {
        let mut rule = Predictive::new(resolution);
        self.rows(|m, s2, p| {
            rule.probs(m, s2, p)?;
            normalise(p, 10.0 * rule.error(s2))
        })
    }

    /// [`Latent::probs`] of many points and classes: classes that hardly matter at a point count by their mean ([`Lumped`]), and points are
    /// shared among threads.
    pub(crate) fn probs_of_many(&self, resolution: Resolution) -> Result<Mat<f64>> {
        let (points, classes) = (self.points(), self.classes());
        let part = |range: Range<usize>| -> Result<Vec<f64>> {
            let (mut rule, mut lumped) = (Predictive::new(resolution), Lumped::default());
            let zeros = || vec![0.0; classes];
            let (mut m, mut s2, mut p, mut out) = (zeros(), zeros(), zeros(), Vec::new());
            for i in range {
                for c in 0..classes {
                    m[c] = self.mean[(i, c)] / self.tau;
                    s2[c] = self.var[(i, c)] / (self.tau * self.tau);
                }
                lumped.probs(&mut rule, (&m, &s2), &mut p).map_err(|error| error.in_row(i))?;
                normalise(&mut p, 10.0 * rule.error(&s2)).map_err(|error| error.in_row(i))?;
                out.extend_from_slice(&p);
            }
            Ok(out)
        };
        let mut probs = Mat::zeros(points, classes);
        let mut row = 0;
        for part in over_ranges(points, 64, part) {
            for p in part?.chunks_exact(classes) {
                (0..classes).for_each(|c| probs[(row, c)] = p[c]);
                row += 1;
            }
        }
        Ok(probs)
    }

    /// Eq. (15a) as the paper computes it: the mean of the likelihood over `samples` draws of f, [M, C]. For comparison; the
    /// error falls as one over the square root of `samples`.
    pub fn probs_monte_carlo(&self, samples: usize, rng: &mut impl Rng) -> Result<Mat<f64>> {
        if samples == 0 {
            return Err(Error::Empty { what: "Monte Carlo samples", needed: 1 });
        }
        let mut x = vec![0.0; self.classes()];
        self.rows(|m, s2, p| {
            p.fill(0.0);
            for _ in 0..samples {
                for c in 0..x.len() {
                    let z: f64 = StandardNormal.sample(rng);
                    x[c] = m[c] + s2[c].sqrt() * z;
                }
                for (p, draw) in p.iter_mut().zip(logistic_softmax::probs(&x, 1.0)?) {
                    *p += draw / samples as f64;
                }
            }
            Ok(())
        })
    }

    /// Applies `one` to the standardised means and variances of each point.
    fn rows(&self, mut one: impl FnMut(&[f64], &[f64], &mut [f64]) -> Result<()>) -> Result<Mat<f64>> {
        let (points, classes) = (self.points(), self.classes());
        check_size("rows of the variances", points, self.var.nrows())?;
        check_size("columns of the variances", classes, self.var.ncols())?;
        let mut probs = Mat::zeros(points, classes);
        let mut p = vec![0.0; classes];
        for i in 0..points {
            let m: Vec<f64> = (0..classes).map(|c| self.mean[(i, c)] / self.tau).collect();
            let s2: Vec<f64> = (0..classes).map(|c| self.var[(i, c)] / (self.tau * self.tau)).collect();
            one(&m, &s2, &mut p).map_err(|error| error.in_row(i))?;
            for c in 0..classes {
                probs[(i, c)] = p[c];
            }
        }
        Ok(probs)
    }
}

/// The entropy -sum_k p_k log p_k of each row of `probs` [M, C], in nats.
pub fn entropy(probs: &Mat<f64>) -> Vec<f64> {
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    (0..probs.nrows())
        .map(|i| sum_any_order(&mut (0..probs.ncols()).map(|k| term(probs[(i, k)])).collect::<Vec<_>>()))
        .collect()
}

/// Scales probabilities to sum to 1, which they must do to `tol` before.
fn normalise(p: &mut [f64], tol: f64) -> Result<()> {
    let sum = sum_any_order(&mut p.to_vec());
    let near = (sum - 1.0).abs() <= tol;
    if !near {
        return Err(Error::NotNormalised { row: 0, sum, tol });
    }
    p.iter_mut().for_each(|p| *p /= sum);
    Ok(())
}

fn check_size(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if expected == got { Ok(()) } else { Err(Error::Shape { what, expected, got }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn posterior(a: f64, tau: f64) -> Blocks {
        let k = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 0.3 }) * faer::Scale(1.0 / (tau * tau));
        let blocks =
            [[0.5, -0.4], [-0.5, 0.6]].map(|b| SignedBlock::new(&k, &[0.2, 0.1], &b, &[a / tau; 2]).unwrap());
        Blocks::new(blocks, tau).unwrap()
    }

    fn ones(rows: usize, cols: usize, value: f64) -> Mat<f64> {
        Mat::from_fn(rows, cols, |_, _| value)
    }

    fn query(ks: &[Mat<f64>], kss: &Mat<f64>, astar: &Mat<f64>) -> Query {
        Query { ks: ks.to_vec(), kss: kss.clone(), astar: astar.clone() }
    }

    #[test]
    fn a_mixture_has_the_moments_of_its_draws() {
        let part = |m: f64, v: f64| (ones(1, 1, m), ones(1, 1, v));
        let got = Latent::mixture([part(1.0, 0.5), part(3.0, 1.5)].into_iter(), 2.0);
        // E m = 2, E v = 1, the variance of the means 1; f = 2 x.
        assert_eq!((got.mean[(0, 0)], got.var[(0, 0)]), (4.0, 8.0));
    }

    #[test]
    fn far_from_data_the_prior_returns() {
        for a in [0.0, -5.0] {
            let nothing = vec![Mat::zeros(2, 1), Mat::zeros(2, 1)];
            let latent =
                posterior(a, 0.2).latent(&query(&nothing, &ones(1, 2, 0.7), &ones(1, 2, a))).unwrap();
            assert_eq!((latent.mean[(0, 0)], latent.var[(0, 1)]), (a, 0.7));
        }
    }

    #[test]
    fn at_a_labelled_point_it_is_the_posterior() {
        let tau = 0.5;
        let p = posterior(-1.0, tau);
        let k = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 0.3 });
        let latent = p.latent(&query(&[k.clone(), k], &ones(2, 2, 1.0), &ones(2, 2, -1.0))).unwrap();
        for c in 0..2 {
            for i in 0..2 {
                assert!((latent.mean[(i, c)] - tau * p.of_classes()[c].mu[i]).abs() < 1e-14);
                assert!((latent.var[(i, c)] - tau * tau * p.of_classes()[c].v[i]).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn quadrature_and_monte_carlo_agree() {
        let mean = Mat::from_fn(2, 3, |i, c| i as f64 - c as f64);
        let latent = Latent::independent(mean, Mat::from_fn(2, 3, |_, c| 0.5 + c as f64), 0.4);
        let exact = latent.probs(Resolution::Fine).unwrap();
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let sampled = latent.probs_monte_carlo(40_000, &mut rng).unwrap();
        // A probability has a standard deviation of at most 1/2 between draws: 5 standard errors.
        assert!((&exact - &sampled).norm_max() < 5.0 * 0.5 / 200.0);
        for i in 0..2 {
            assert!(((0..3).map(|c| exact[(i, c)]).sum::<f64>() - 1.0).abs() < 1e-15);
        }
        assert!(matches!(latent.probs_monte_carlo(0, &mut rng), Err(Error::Empty { .. })));
    }

    #[test]
    fn what_is_no_number_is_named_with_its_row() {
        let p = posterior(0.0, 1.0);
        let k = vec![ones(2, 2, 0.3); 2];
        let nan = |row: usize, col: usize| {
            let mut m = ones(2, 2, 1.0);
            m[(row, col)] = f64::NAN;
            m
        };
        let error = p.latent(&query(&k, &nan(1, 0), &ones(2, 2, 0.0))).unwrap_err();
        assert!(matches!(error, Error::NotFinite { what: "kss", row: 1, col: 0, .. }));
        let error = p.latent(&query(&k, &ones(2, 2, 1.0), &nan(0, 1))).unwrap_err();
        assert!(matches!(error, Error::NotFinite { what: "astar", row: 0, col: 1, .. }));
        let error =
            p.latent(&query(&[nan(1, 1), k[0].clone()], &ones(2, 2, 1.0), &ones(2, 2, 0.0))).unwrap_err();
        assert!(matches!(error, Error::NotFinite { what: "ks", row: 1, col: 1, .. }));
        let latent = Latent::independent(nan(1, 0), ones(2, 2, 1.0), 1.0);
        let error = latent.probs(Resolution::Fast).unwrap_err();
        assert!(matches!(error, Error::NotFinite { row: 1, col: 0, .. }), "{error}");
        let latent = Latent::independent(ones(2, 2, 0.0), ones(1, 2, 1.0), 1.0);
        assert!(matches!(latent.probs(Resolution::Fast), Err(Error::Shape { expected: 2, got: 1, .. })));
    }

    /// Means to 60 and beyond, variances to 1e10.
    #[test]
    fn rows_sum_to_one_within_the_error_of_the_rule() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(8);
        for resolution in [Resolution::Fast, Resolution::Standard, Resolution::Fine, Resolution::Golden] {
            let mut rule = Predictive::new(resolution);
            for i in 0..100 {
                let classes = rng.random_range(2..21);
                let (level, spread) = (rng.random_range(-60.0..10.0), rng.random_range(0.0..6.0f64).exp());
                let size = 10f64.powf(rng.random_range(-6.0..if i < 90 { 7.0 } else { 10.0 }));
                let m: Vec<f64> =
                    (0..classes).map(|_| level + spread * rng.random_range(-1.0..1.0)).collect();
                let s2: Vec<f64> = (0..classes).map(|_| size * rng.random_range(0.0..1.0)).collect();
                let mut p = vec![0.0; classes];
                rule.probs(&m, &s2, &mut p).unwrap();
                let off = (sum_any_order(&mut p) - 1.0).abs();
                assert!(off < 3.0 * rule.error(&s2), "{resolution:?}: {off:e}, variances to {size:e}");
            }
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for mut p in [vec![0.0, 0.0], vec![f64::NAN, 1.0], vec![0.5, 0.4], vec![f64::INFINITY, 0.0]] {
            let error = normalise(&mut p, 1e-5).unwrap_err().in_row(3);
            assert!(matches!(error, Error::NotNormalised { row: 3, .. }));
        }
        let mut p = vec![0.75, 0.250001];
        normalise(&mut p, 1e-5).unwrap();
        assert_eq!(p[0] + p[1], 1.0);
    }

    #[test]
    fn entropy_runs_from_none_to_log_c() {
        let p = Mat::from_fn(2, 4, |i, c| if i == 0 { 0.25 } else { f64::from(c == 2) });
        let h = entropy(&p);
        assert!((h[0] - 4f64.ln()).abs() < 1e-15);
        assert_eq!(h[1], 0.0);
    }
}
