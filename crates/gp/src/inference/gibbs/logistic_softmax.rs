//! The blocked Gibbs sampler of the logistic-softmax model: {lambda, M, Omega} | X, then X | M, Omega.

use super::prior::Prior;
use super::{Chains, released, score};
use crate::gaussian::Factor;
use crate::likelihoods::softmax;
use crate::linalg::{dot, sum_any_order};
use crate::polya_gamma::PolyaGamma;
use crate::posterior::Latent;
use crate::quadrature::Resolution;
use crate::quadrature::log_sigmoid::e_log_sigmoid;
use crate::quadrature::probabilities::Predictive;
use crate::special::log_sigmoid;
use crate::{Gradient, Query, QueryGradient, Result, Standard, Task};
use faer::Mat;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, Poisson, StandardNormal};
use siskin_random::stream;

/// Above this rate a Poisson variable is drawn as a normal one (skewness 1e-6).
const NORMAL_ABOVE: f64 = 1e12;

/// The chains of one task after their last sweep.
#[derive(Debug, Clone)]
pub struct LogisticSoftmaxGibbs {
    task: Task,
    /// `K/tau^2` of each class and `a/tau`.
    k: Vec<Mat<f64>>,
    a: Mat<f64>,
    chains: Vec<Vec<Site>>,
}

/// One class of one chain: the sites of its last sweep and the Gaussian conditional they give.
#[derive(Debug, Clone)]
struct Site {
    b: Vec<f64>,
    g: Vec<f64>,
    conditional: Factor,
}

/// `b = (y - m)/2` and `w = omega` of every class, C of [N] each.
#[derive(Debug, Clone)]
pub(super) struct Auxiliaries {
    pub(super) b: Vec<Vec<f64>>,
    pub(super) w: Vec<Vec<f64>>,
}

impl LogisticSoftmaxGibbs {
    /// Runs the chains, each from a draw of the prior. A sweep draws from the conditionals of Eq. (10), with x = f/tau:
    ///
    /// `lambda_n ~ Exp(sum_c sigma(x_nc))`, `m_nc ~ Po(lambda_n sigma(-x_nc))`, `omega_nc ~ PG(m_nc + y_nc, x_nc)`, jointly given x;
    /// then `x^c ~ N(mu, Sigma)`, `Sigma = (K^{-1} + diag(omega))^{-1}`, `mu = Sigma (b + K^{-1} a)`, `b = (y - m)/2`.
    pub fn run(task: &Task, settings: &Chains) -> Result<Self> {
        Self::run_by(task, settings, false)
    }

    /// Runs the chains in the order of blocks of the released code, from `lambda = 1`: at one sweep it has other counts than
    /// [`Self::run`], and so another gradient.
    pub(crate) fn run_released(task: &Task, settings: &Chains) -> Result<Self> {
        Self::run_by(task, settings, true)
    }

    fn run_by(task: &Task, settings: &Chains, released: bool) -> Result<Self> {
        settings.check()?;
        let x = task.standardise();
        let prior = Prior::new(&x.k)?;
        let mut chains = Vec::with_capacity(settings.chains);
        for index in 0..settings.chains {
            let mut rng = stream(settings.seed, "gibbs", index as u64);
            let mut lambda = vec![1.0; x.points()];
            let mut latent = prior.draw(&x.a, &mut rng);
            let mut sites = None;
            for _ in 0..settings.sweeps {
                if let Some(sites) = &sites {
                    latent = draw_latent(&x, &prior, sites, &mut rng)?;
                }
                sites = Some(match released {
                    false => auxiliaries(x.y, &latent, &mut rng)?,
                    true => released::auxiliaries(x.y, &latent, &mut lambda, &mut rng)?,
                });
            }
            chains.extend(sites);
        }
        Self::with_chains(task, chains)
    }

    /// The chains of several calls of [`Self::given_sites`] for one task, together.
    pub fn joined(parts: Vec<Self>) -> Result<Self> {
        let mut parts = parts.into_iter();
        let mut all = parts.next().ok_or(crate::Error::Empty { what: "chains", needed: 1 })?;
        all.chains.extend(parts.flat_map(|part| part.chains));
        Ok(all)
    }

    /// One chain with given sites `b = (y - m)/2` and `w = omega`, C of `[N]` each, instead of sampled ones.
    pub fn given_sites(task: &Task, b: Vec<Vec<f64>>, w: Vec<Vec<f64>>) -> Result<Self> {
        for (what, part) in [("b", &b), ("w", &w)] {
            if part.len() != task.classes() {
                return Err(crate::Error::Shape { what, expected: task.classes(), got: part.len() });
            }
            if let Some(wrong) = part.iter().find(|of_class| of_class.len() != task.points()) {
                return Err(crate::Error::Shape { what, expected: task.points(), got: wrong.len() });
            }
        }
        if let Some(&value) = b.iter().flatten().find(|b| !b.is_finite()) {
            return Err(crate::Error::OutOfRange { what: "b", value, must: "finite" });
        }
        if let Some(&value) = w.iter().flatten().find(|w| !(**w >= 0.0 && w.is_finite())) {
            return Err(crate::Error::OutOfRange { what: "w", value, must: ">= 0 and finite" });
        }
        Self::with_chains(task, vec![Auxiliaries { b, w }])
    }

    fn with_chains(task: &Task, chains: Vec<Auxiliaries>) -> Result<Self> {
        let Standard { k, a, .. } = task.standardise();
        let site = |(c, (b, w)): (usize, (Vec<f64>, Vec<f64>))| {
            let conditional = Factor::new(&k[c], &w)?;
            let g = conditional.weights(&k[c], &b, a.col_as_slice(c));
            Ok(Site { b, g, conditional })
        };
        let chains = chains
            .into_iter()
            .map(|sites| sites.b.into_iter().zip(sites.w).enumerate().map(site).collect())
            .collect::<Result<_>>()?;
        Ok(Self { task: task.clone(), k, a, chains })
    }

    /// The loss whose gradient is the Fisher-identity estimate of `-d log p(Y) / N`:
    ///
    /// `-1/(S N) sum_chains sum_c log int N(x^c | a^c, K^c) exp(b'x - x' W x / 2) dx + C log 2`.
    ///
    /// The terms of the joint density that do not depend on K, a and tau (counts, rates, the Pólya-Gamma density) are left
    /// out, so the value itself is not a log-likelihood. The sites are constants for the gradient.
    pub fn marginal_likelihood(&self) -> Gradient {
        let (n, c) = (self.task.points(), self.task.classes());
        let scale = -1.0 / (self.chains.len() as f64 * n as f64);
        let mut kbar = vec![Mat::zeros(n, n); c];
        let mut abar = Mat::zeros(n, c);
        let mut values = Vec::with_capacity(c);
        for j in 0..c {
            let (k, a) = (&self.k[j], self.a.col_as_slice(j));
            let mut value = 0.0;
            for chain in &self.chains {
                let Site { b, g, conditional } = &chain[j];
                value += scale * conditional.log_z(k, b, a, g);
                conditional.add_slope(0.5 * scale, g, &mut kbar[j]);
                for i in 0..n {
                    abar[(i, j)] += scale * g[i];
                }
            }
            values.push(value);
        }
        let value = sum_any_order(&mut values) + c as f64 * std::f64::consts::LN_2;
        self.task.gradient(value, kbar, abar)
    }

    /// The published score of each query and class: `1/S sum_chains E log sigma(x_c)` under the chain's Gaussian
    /// prediction, [Q, C]. Its softmax is the published prediction; [`Self::probabilities`] is the Bayesian one.
    pub fn scores(&self, query: &Query) -> Result<Mat<f64>> {
        Ok(self.score_with_slopes(&query.standardise(&self.task)?, None)?.0)
    }

    /// `softmax` of [`Self::scores`], [Q, C].
    pub fn published_probabilities(&self, query: &Query) -> Result<Mat<f64>> {
        Ok(softmax::rows(&self.scores(query)?))
    }

    /// Mean and variance of the latent values in units of f, [Q, C] each: those of the mixture of the chains.
    pub fn latent(&self, query: &Query) -> Result<Latent> {
        let query = query.standardise(&self.task)?;
        let of_chain = |chain: &Vec<Site>| {
            let ChainLatent { mean, var, .. } = ChainLatent::new(chain, &query);
            (mean, var)
        };
        Ok(Latent::mixture(self.chains.iter().map(of_chain), self.task.tau()))
    }

    /// `p(y | Y) = 1/S sum_chains E p(y | x)` by deterministic quadrature, [Q, C].
    pub fn probabilities(&self, query: &Query, resolution: Resolution) -> Result<Mat<f64>> {
        let query = query.standardise(&self.task)?;
        let (q, c) = (query.points(), self.task.classes());
        let mut predictive = Predictive::new(resolution);
        let mut out = Mat::zeros(q, c);
        let mut p = vec![0.0; c];
        for chain in &self.chains {
            let latent = ChainLatent::new(chain, &query);
            for i in 0..q {
                let m: Vec<f64> = (0..c).map(|j| latent.mean[(i, j)]).collect();
                let s2: Vec<f64> = (0..c).map(|j| latent.var[(i, j)]).collect();
                predictive.probs(&m, &s2, &mut p)?;
                for j in 0..c {
                    out[(i, j)] += p[j] / self.chains.len() as f64;
                }
            }
        }
        Ok(out)
    }

    /// Cross-entropy of the queries under the published score, with its gradient through the Gaussian prediction
    /// `m = a* + k*' g`, `s2 = k** - k*' R k*`; the sites are constants.
    pub fn predictive_likelihood(&self, query: &Query, y: &[usize]) -> Result<QueryGradient> {
        self.predictive_likelihood_by(query, y, None)
    }

    /// The same with the expectations as means over given standard normal numbers, `normals[chain]` of [Q, C] lists.
    pub fn predictive_likelihood_with(
        &self,
        query: &Query,
        y: &[usize],
        normals: &[Vec<Vec<Vec<f64>>>],
    ) -> Result<QueryGradient> {
        self.predictive_likelihood_by(query, y, Some(normals))
    }

    /// The score of each query and class by given standard normal numbers, [Q, C].
    pub fn scores_with(&self, query: &Query, normals: &[Vec<Vec<Vec<f64>>>]) -> Result<Mat<f64>> {
        Ok(self.score_with_slopes(&query.standardise(&self.task)?, Some(normals))?.0)
    }

    fn predictive_likelihood_by(
        &self,
        query: &Query,
        y: &[usize],
        normals: Option<&[Vec<Vec<Vec<f64>>>]>,
    ) -> Result<QueryGradient> {
        let query = query.standardise(&self.task)?;
        let (n, q, c) = (self.task.points(), query.points(), self.task.classes());
        let (scores, latents) = self.score_with_slopes(&query, normals)?;
        let (value, bar) = score::cross_entropy(&scores, y)?;
        let mut out = QueryGradient { value, ..QueryGradient::zeros(n, q, c) };
        for (chain, latent) in self.chains.iter().zip(&latents) {
            for j in 0..c {
                let Site { g, conditional, .. } = &chain[j];
                let mut gbar = vec![0.0; n];
                for i in 0..q {
                    let share = bar[(i, j)] / self.chains.len() as f64;
                    let (mbar, sbar) = (share * latent.dmean[(i, j)], share * latent.dvar[(i, j)]);
                    let (k, rk) = (query.ks[j].col_as_slice(i), latent.rk[j].col_as_slice(i));
                    for r in 0..n {
                        gbar[r] += mbar * k[r];
                        out.dks[j][(r, i)] += mbar * g[r] - 2.0 * sbar * rk[r];
                    }
                    for col in 0..n {
                        let factor = sbar * rk[col];
                        for (d, r) in out.dk[j].col_as_slice_mut(col).iter_mut().zip(rk) {
                            *d += factor * r;
                        }
                    }
                    out.dkss[(i, j)] += sbar;
                    out.dastar[(i, j)] += mbar;
                }
                // dg = -R (dK g + da).
                let back = conditional.r_times(&gbar);
                for col in 0..n {
                    for r in 0..n {
                        out.dk[j][(r, col)] -= 0.5 * (back[r] * g[col] + back[col] * g[r]);
                    }
                    out.da[(col, j)] -= back[col];
                }
            }
        }
        Ok(out.in_units_of_f(&self.task, &query))
    }

    fn score_with_slopes(
        &self,
        query: &Query,
        normals: Option<&[Vec<Vec<Vec<f64>>>]>,
    ) -> Result<(Mat<f64>, Vec<ChainLatent>)> {
        let (q, c) = (query.points(), self.task.classes());
        let mut scores = Mat::zeros(q, c);
        let mut latents = Vec::with_capacity(self.chains.len());
        for (index, chain) in self.chains.iter().enumerate() {
            let mut latent = ChainLatent::new(chain, query);
            for j in 0..c {
                for i in 0..q {
                    if let Some(normals) = normals {
                        let (mean, var) = (latent.mean[(i, j)], latent.var[(i, j)]);
                        let e = released::sampled_log_sigmoid(mean, var, &normals[index][i][j]);
                        scores[(i, j)] += e.value / self.chains.len() as f64;
                        (latent.dmean[(i, j)], latent.dvar[(i, j)]) = (e.dmean, e.dspread);
                        continue;
                    }
                    let e = e_log_sigmoid(latent.mean[(i, j)], latent.var[(i, j)], Resolution::Standard)?;
                    scores[(i, j)] += e.value / self.chains.len() as f64;
                    latent.dmean[(i, j)] = e.dmu;
                    latent.dvar[(i, j)] = e.dv;
                }
            }
            latents.push(latent);
        }
        Ok((scores, latents))
    }
}

/// The Gaussian prediction of one chain in units of x, [Q, C], and the slopes of the score.
struct ChainLatent {
    mean: Mat<f64>,
    var: Mat<f64>,
    dmean: Mat<f64>,
    dvar: Mat<f64>,
    /// `R k*`, C of [N, Q].
    rk: Vec<Mat<f64>>,
}

impl ChainLatent {
    fn new(chain: &[Site], query: &Query) -> Self {
        let (q, c) = (query.points(), chain.len());
        let n = chain[0].b.len();
        let (mut mean, mut var) = (Mat::zeros(q, c), Mat::zeros(q, c));
        let mut rk = vec![Mat::zeros(n, q); c];
        for (j, Site { g, conditional, .. }) in chain.iter().enumerate() {
            for i in 0..q {
                let k = query.ks[j].col_as_slice(i);
                let column = conditional.r_times(k);
                mean[(i, j)] = query.astar[(i, j)] + dot(k, g);
                var[(i, j)] = (query.kss[(i, j)] - dot(k, &column)).max(0.0);
                rk[j].col_as_slice_mut(i).copy_from_slice(&column);
            }
        }
        Self { mean, var, dmean: Mat::zeros(q, c), dvar: Mat::zeros(q, c), rk }
    }
}

/// `lambda_n ~ Exp(sum_c sigma(x_nc))`, `m_nc ~ Po(lambda_n sigma(-x_nc))`, `omega_nc ~ PG(m_nc + y_nc, x_nc)`:
/// an exact joint draw of the three given x. In log space, since `lambda` passes e^700 where all x are very negative.
fn auxiliaries<R: Rng + ?Sized>(y: &[usize], x: &Mat<f64>, rng: &mut R) -> Result<Auxiliaries> {
    let (n, c) = (x.nrows(), x.ncols());
    let (mut b, mut w) = (vec![vec![0.0; n]; c], vec![vec![0.0; n]; c]);
    for i in 0..n {
        let mut logs: Vec<f64> = (0..c).map(|j| log_sigmoid(x[(i, j)])).collect();
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logs.iter_mut().for_each(|l| *l = (*l - largest).exp());
        let log_z = largest + sum_any_order(&mut logs).ln();
        let e: f64 = rng.sample(Exp1);
        for j in 0..c {
            let x = x[(i, j)];
            let own = f64::from(y[i] == j);
            // Bounded so that w K stays finite; beyond e^300 the point pins x to the same value anyway.
            let m = poisson(e * (log_sigmoid(-x) - log_z).min(300.0).exp(), rng);
            b[j][i] = 0.5 * (own - m);
            w[j][i] = PolyaGamma::new(m + own, x)?.sample(rng);
        }
    }
    Ok(Auxiliaries { b, w })
}

pub(super) fn poisson<R: Rng + ?Sized>(rate: f64, rng: &mut R) -> f64 {
    if rate > NORMAL_ABOVE {
        let z: f64 = rng.sample(StandardNormal);
        return (rate + rate.sqrt() * z).round();
    }
    // A rate that underflows to 0 is refused by the constructor: the variable is 0.
    Poisson::new(rate).map_or(0.0, |p| p.sample(rng))
}

/// `x^c | M, Omega` for every class, [N, C].
fn draw_latent<R: Rng + ?Sized>(
    x: &Standard<'_>,
    prior: &Prior,
    sites: &Auxiliaries,
    rng: &mut R,
) -> Result<Mat<f64>> {
    let mut out = prior.draw(&x.a, rng);
    for j in 0..x.classes() {
        let conditional = Factor::new(&x.k[j], &sites.w[j])?;
        let draw = conditional.draw(&x.k[j], &sites.b[j], out.col_as_slice(j), rng);
        out.col_as_slice_mut(j).copy_from_slice(&draw);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_estimators, assert_fisher, ls_evidence, random_query};
    use super::*;
    use crate::testing::random_task;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn sites_of(task: &Task, seed: u64) -> Vec<Auxiliaries> {
        let x = task.standardise();
        let prior = Prior::new(&x.k).unwrap();
        (0..3)
            .map(|i| {
                let mut rng = stream(seed, "gibbs", i);
                let latent = prior.draw(&x.a, &mut rng);
                auxiliaries(x.y, &latent, &mut rng).unwrap()
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn gradients_against_differences(seed in 0u64..10_000, n in 3usize..6, c in 2usize..4, tau in 0.5f64..1.5) {
            let task = random_task(seed, n, c, tau);
            let sites = sites_of(&task, seed);
            let at = |task: &Task| LogisticSoftmaxGibbs::with_chains(task, sites.clone()).unwrap();
            let pl = |task: &Task, query: &Query, y: &[usize]| at(task).predictive_likelihood(query, y).unwrap();
            assert_estimators(&task, seed, |task| at(task).marginal_likelihood(), pl);
        }
    }

    /// Fisher's identity: the mean over converged chains is the gradient of the exact log evidence.
    #[test]
    fn marginal_gradient_is_that_of_the_evidence() {
        let task = random_task(11, 2, 2, 0.7);
        let settings = Chains { chains: 4000, sweeps: 12, seed: 3 };
        let estimate = LogisticSoftmaxGibbs::run(&task, &settings).unwrap().marginal_likelihood();
        assert_fisher(&task, &estimate, ls_evidence);
    }

    #[test]
    fn a_chain_does_not_depend_on_the_number_of_chains() {
        let task = random_task(4, 4, 3, 1.0);
        let run = |chains| LogisticSoftmaxGibbs::run(&task, &Chains { chains, sweeps: 3, seed: 9 }).unwrap();
        assert_eq!(run(2).chains[1][0].g, run(5).chains[1][0].g);
        let (two, again) = (run(2).marginal_likelihood(), run(2).marginal_likelihood());
        assert_eq!(two.value.to_bits(), again.value.to_bits());
    }

    #[test]
    fn very_negative_means_stay_finite() {
        let task = random_task(4, 4, 3, 1.0);
        let a = Mat::from_fn(4, 3, |_, _| -2000.0);
        let task = Task::new(task.k().to_vec(), task.y().to_vec(), a, 1.0).unwrap();
        let gibbs = LogisticSoftmaxGibbs::run(&task, &Chains { chains: 2, sweeps: 3, seed: 9 }).unwrap();
        let gradient = gibbs.marginal_likelihood();
        assert!(gradient.value.is_finite() && gradient.dk.iter().all(|d| d.norm_max().is_finite()));
    }

    #[test]
    fn sites_that_do_not_fit_are_named() {
        let task = random_task(4, 4, 3, 1.0);
        let with = |b: Vec<Vec<f64>>, w: Vec<Vec<f64>>| LogisticSoftmaxGibbs::given_sites(&task, b, w);
        let good = || vec![vec![0.5; 4]; 3];
        assert!(with(good(), good()).is_ok());
        let error = with(vec![vec![0.5; 4]; 2], good()).unwrap_err();
        assert!(matches!(error, crate::Error::Shape { what: "b", expected: 3, got: 2 }), "{error}");
        let error = with(good(), vec![vec![0.5; 5]; 3]).unwrap_err();
        assert!(matches!(error, crate::Error::Shape { what: "w", expected: 4, got: 5 }), "{error}");
        let error = with(vec![vec![f64::NAN; 4]; 3], good()).unwrap_err();
        assert!(matches!(error, crate::Error::OutOfRange { what: "b", .. }), "{error}");
        let error = with(good(), vec![vec![-1.0; 4]; 3]).unwrap_err();
        assert!(matches!(error, crate::Error::OutOfRange { what: "w", .. }), "{error}");
    }

    #[test]
    fn bad_settings_are_named() {
        let task = random_task(4, 4, 3, 1.0);
        let none = Chains { chains: 0, sweeps: 1, seed: 0 };
        assert!(matches!(
            LogisticSoftmaxGibbs::run(&task, &none),
            Err(crate::Error::OutOfRange { what: "chains", .. })
        ));
        let gibbs = LogisticSoftmaxGibbs::run(&task, &Chains { chains: 1, sweeps: 1, seed: 0 }).unwrap();
        let query = random_query(&mut ChaCha8Rng::seed_from_u64(0), 4, 2, 3);
        assert!(matches!(
            gibbs.predictive_likelihood(&query, &[0, 3]),
            Err(crate::Error::Label { row: 1, label: 3, .. })
        ));
        assert!(matches!(gibbs.predictive_likelihood(&query, &[0]), Err(crate::Error::Shape { .. })));
        let short = random_query(&mut ChaCha8Rng::seed_from_u64(0), 3, 2, 3);
        assert!(gibbs.scores(&short).is_err());
    }
}
