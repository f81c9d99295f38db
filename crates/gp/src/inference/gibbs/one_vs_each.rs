//! The Gibbs sampler of the one-vs-each model (Snell and Zemel 2021): `omega_j ~ PG(1, psi_j)`, then x | omega.
//!
//! `psi = A x` has N (C - 1) entries; its Gaussian conditional has prior N(A a, A K A'), linear term 1/2 and precision omega.

use super::prior::Prior;
use super::released::hermite_log_sigmoid;
use super::{Chains, score};
use crate::gaussian::Factor;
use crate::inference::one_vs_each::{self as ove, Differences};
use crate::likelihoods::softmax;
use crate::linalg::{dot, mul_vec, product};
use crate::polya_gamma::PolyaGamma;
use crate::posterior::Latent;
use crate::quadrature::Resolution;
use crate::quadrature::log_sigmoid::e_log_sigmoid;
use crate::{Gradient, Query, QueryGradient, Result, Standard, Task};
use faer::Mat;
use rand::Rng;
use rand_distr::Distribution;
use siskin_random::stream;

/// The chains of one task after their last sweep.
#[derive(Debug, Clone)]
pub struct OneVsEachGibbs {
    task: Task,
    psi: Psi,
    chains: Vec<Site>,
    /// Whether the variance of a difference is used as its standard deviation.
    released: bool,
}

/// The task in the differences.
#[derive(Debug, Clone)]
struct Psi {
    differences: Differences,
    /// `A K A'`, [M, M].
    gram: Mat<f64>,
    /// `A a`, [M].
    mean: Vec<f64>,
    /// 1/2, [M].
    half: Vec<f64>,
}

#[derive(Debug, Clone)]
struct Site {
    omega: Vec<f64>,
    g: Vec<f64>,
    conditional: Factor,
}

impl OneVsEachGibbs {
    /// Runs the chains, each from a draw of the prior. A sweep draws, in units of x = f/tau and with `psi = A x`
    /// ([`Differences`]):
    ///
    /// `omega_j ~ PG(1, psi_j)`; then x, Gaussian with precision `K^{-1} + A' Omega A` and linear term `K^{-1} a + A' 1/2`.
    pub fn run(task: &Task, settings: &Chains) -> Result<Self> {
        settings.check()?;
        let Standard { k, a, .. } = task.standardise();
        let (psi, prior) = (Psi::new(task), Prior::new(&k)?);
        let mut chains = Vec::with_capacity(settings.chains);
        for index in 0..settings.chains {
            let mut rng = stream(settings.seed, "gibbs", index as u64);
            let mut draw = psi.differences.apply(&prior.draw(&a, &mut rng));
            let mut omega = draw_omega(&draw, &mut rng)?;
            for _ in 1..settings.sweeps {
                // Only psi enters the sweep, and a draw of x seen through A is a draw of psi.
                let start = psi.differences.apply(&prior.draw(&a, &mut rng));
                let conditional = Factor::new(&psi.gram, &omega)?;
                draw = conditional.draw(&psi.gram, &psi.half, &start, &mut rng);
                omega = draw_omega(&draw, &mut rng)?;
            }
            chains.push(psi.site(omega)?);
        }
        Ok(Self { task: task.clone(), psi, chains, released: false })
    }

    /// The same chains with the scores of the released code: it hands the variance of a difference to a routine that takes a
    /// standard deviation, and integrates by 20 points.
    pub fn as_released(self) -> Self {
        Self { released: true, ..self }
    }

    /// The chains of several calls of [`Self::given_omega`] for one task, together.
    pub fn joined(parts: Vec<Self>) -> Result<Self> {
        let mut parts = parts.into_iter();
        let mut all = parts.next().ok_or(crate::Error::Empty { what: "chains", needed: 1 })?;
        all.chains.extend(parts.flat_map(|part| part.chains));
        Ok(all)
    }

    /// Latent mean `[C]` and covariance [C, C] of a chain at a query, in units of f.
    pub fn latent_of_chain(&self, chain: usize, query: &Query, i: usize) -> Result<(Vec<f64>, Mat<f64>)> {
        let query = query.standardise(&self.task)?;
        let tau = self.task.tau();
        let ChainLatent { mean, cov, .. } = ChainLatent::new(&self.psi, &self.chains[chain], &query, i);
        Ok((mean.iter().map(|m| tau * m).collect(), cov * faer::Scale(tau * tau)))
    }

    /// One chain with given auxiliary variables, [N (C-1)], instead of sampled ones.
    pub fn given_omega(task: &Task, omega: Vec<f64>) -> Result<Self> {
        let psi = Psi::new(task);
        if omega.len() != psi.mean.len() {
            return Err(crate::Error::Shape { what: "omega", expected: psi.mean.len(), got: omega.len() });
        }
        if let Some(&value) = omega.iter().find(|w| !(**w >= 0.0 && w.is_finite())) {
            return Err(crate::Error::OutOfRange { what: "omega", value, must: ">= 0 and finite" });
        }
        let chains = vec![psi.site(omega)?];
        Ok(Self { task: task.clone(), psi, chains, released: false })
    }

    /// `-1/(S N) sum_chains log p(Y | omega)` with
    /// `log p(Y | omega) = log int N(psi | A a, A K A') exp(1'psi / 2 - psi' Omega psi / 2) dpsi - N (C - 1) log 2`,
    /// and its gradient with omega as constants: the Fisher-identity estimate of `-d log p(Y) / N`.
    pub fn marginal_likelihood(&self) -> Gradient {
        let Psi { differences, gram, mean, half } = &self.psi;
        let m = differences.len();
        let scale = -1.0 / (self.chains.len() as f64 * self.task.points() as f64);
        let (mut value, mut slope, mut gsum) = (0.0, Mat::zeros(m, m), vec![0.0; m]);
        for Site { g, conditional, .. } in &self.chains {
            value += scale * (conditional.log_z(gram, half, mean, g) - m as f64 * std::f64::consts::LN_2);
            conditional.add_slope(0.5 * scale, g, &mut slope);
            gsum.iter_mut().zip(g).for_each(|(s, g)| *s += scale * g);
        }
        // The map back to the classes is linear: once for all chains.
        self.task.gradient(value, differences.gram_pullback(&slope), differences.transpose_apply(&gsum))
    }

    /// The score of each query and class, `1/S sum_chains sum_{c != k} E log sigma(x_k - x_c)`, [Q, C].
    ///
    /// The variance of the difference is `V_kk + V_cc - 2 V_kc`. (The released code hands this variance to a routine
    /// that takes a standard deviation; the published formula is computed here.)
    pub fn scores(&self, query: &Query) -> Result<Mat<f64>> {
        let query = query.standardise(&self.task)?;
        let mut scores = Mat::zeros(query.points(), self.task.classes());
        for i in 0..query.points() {
            for site in &self.chains {
                let latent = ChainLatent::new(&self.psi, site, &query, i);
                let of_chain = match self.released {
                    false => ove::scores(&latent.mean, &latent.cov)?,
                    true => latent.released_scores(),
                };
                for (k, score) in of_chain.into_iter().enumerate() {
                    scores[(i, k)] += score / self.chains.len() as f64;
                }
            }
        }
        Ok(scores)
    }

    /// Mean and variance of the latent values in units of f, [Q, C] each: those of the mixture of the chains.
    pub(crate) fn latent(&self, query: &Query) -> Result<Latent> {
        let query = query.standardise(&self.task)?;
        let of_chain = |site: &Site| {
            let at: Vec<ChainLatent> =
                (0..query.points()).map(|i| ChainLatent::new(&self.psi, site, &query, i)).collect();
            let table = |f: &dyn Fn(&ChainLatent, usize) -> f64| {
                Mat::from_fn(at.len(), self.task.classes(), |i, c| f(&at[i], c))
            };
            (table(&|at, c| at.mean[c]), table(&|at, c| at.cov[(c, c)].max(0.0)))
        };
        Ok(Latent::mixture(self.chains.iter().map(of_chain), self.task.tau()))
    }

    /// `softmax` of [`Self::scores`], [Q, C]: the published prediction.
    pub fn published_probabilities(&self, query: &Query) -> Result<Mat<f64>> {
        Ok(softmax::rows(&self.scores(query)?))
    }

    /// Cross-entropy of the queries under the score, with its gradient through the Gaussian prediction; omega are constants.
    pub fn predictive_likelihood(&self, query: &Query, y: &[usize]) -> Result<QueryGradient> {
        let scores = self.scores(query)?;
        let (value, bar) = score::cross_entropy(&scores, y)?;
        let query = query.standardise(&self.task)?;
        let differences = &self.psi.differences;
        let (n, q, c, m) = (self.task.points(), query.points(), self.task.classes(), differences.len());
        let mut out = QueryGradient { value, ..QueryGradient::zeros(n, q, c) };
        let mut slope = Mat::zeros(m, m);
        let mut psi_mean_bar = vec![0.0; m];
        for site in &self.chains {
            let mut gbar = vec![0.0; m];
            for i in 0..q {
                let latent = ChainLatent::new(&self.psi, site, &query, i);
                let (mbar, vbar) =
                    latent.pull_back(&bar, 1.0 / self.chains.len() as f64, i, self.released)?;
                // cov = diag k** - U'RU: with T = R U, d/dU = -2 T vbar, d/d(AKA') = T vbar T'.
                let t_vbar = product(latent.ru.as_ref(), vbar.as_ref());
                let ubar = Mat::from_fn(m, c, |r, j| site.g[r] * mbar[j] - 2.0 * t_vbar[(r, j)]);
                differences.cross_pullback(&ubar, i, &mut out.dks);
                slope += &t_vbar * latent.ru.transpose();
                for (g, d) in gbar.iter_mut().zip(mul_vec(&latent.u, &mbar)) {
                    *g += d;
                }
                for j in 0..c {
                    out.dkss[(i, j)] += vbar[(j, j)];
                    out.dastar[(i, j)] += mbar[j];
                }
            }
            // dg = -R (d(AKA') g + d(Aa)).
            let back = site.conditional.r_times(&gbar);
            for j in 0..m {
                for r in 0..m {
                    slope[(r, j)] -= 0.5 * (back[r] * site.g[j] + back[j] * site.g[r]);
                }
                psi_mean_bar[j] -= back[j];
            }
        }
        out.dk = differences.gram_pullback(&slope);
        out.da = differences.transpose_apply(&psi_mean_bar);
        Ok(out.in_units_of_f(&self.task, &query))
    }

    /// The auxiliary variables of each chain, [N (C-1)] each.
    pub fn omega(&self) -> impl Iterator<Item = &[f64]> {
        self.chains.iter().map(|site| site.omega.as_slice())
    }
}

impl Psi {
    fn new(task: &Task) -> Self {
        let Standard { k, y, a, .. } = task.standardise();
        let differences = Differences::new(y, task.classes());
        let (gram, mean) = (differences.gram(&k), differences.apply(&a));
        let half = vec![0.5; differences.len()];
        Self { differences, gram, mean, half }
    }

    fn site(&self, omega: Vec<f64>) -> Result<Site> {
        let conditional = Factor::new(&self.gram, &omega)?;
        let g = conditional.weights(&self.gram, &self.half, &self.mean);
        Ok(Site { omega, g, conditional })
    }
}

fn draw_omega<R: Rng + ?Sized>(psi: &[f64], rng: &mut R) -> Result<Vec<f64>> {
    psi.iter().map(|&psi| Ok(PolyaGamma::new(1.0, psi)?.sample(rng))).collect()
}

/// The Gaussian prediction of one chain at one query, in units of x.
struct ChainLatent {
    mean: Vec<f64>,
    cov: Mat<f64>,
    /// `U = A k*`, [M, C], and `R U`.
    u: Mat<f64>,
    ru: Mat<f64>,
}

impl ChainLatent {
    fn new(psi: &Psi, site: &Site, query: &Query, i: usize) -> Self {
        let c = query.ks.len();
        let u = psi.differences.cross(&query.ks, i);
        let mut ru = Mat::zeros(u.nrows(), c);
        for j in 0..c {
            ru.col_as_slice_mut(j).copy_from_slice(&site.conditional.r_times(u.col_as_slice(j)));
        }
        let mean = (0..c).map(|j| query.astar[(i, j)] + dot(u.col_as_slice(j), &site.g)).collect();
        let cov = Mat::from_fn(c, c, |r, s| {
            let prior = if r == s { query.kss[(i, r)] } else { 0.0 };
            prior - dot(u.col_as_slice(r), ru.col_as_slice(s))
        });
        Self { mean, cov, u, ru }
    }

    /// `sum_{c != k} E log sigma(x_k - x_c)` of each class with the variance as standard deviation.
    fn released_scores(&self) -> Vec<f64> {
        let classes = 0..self.mean.len();
        let of = |k: usize| -> f64 {
            let others = classes.clone().filter(|&c| c != k);
            others
                .map(|c| {
                    let (m, v) = ove::difference(&self.mean, &self.cov, k, c);
                    hermite_log_sigmoid(m, v).value
                })
                .sum()
        };
        classes.clone().map(of).collect()
    }

    /// Cotangents of the mean [C] and the covariance [C, C] for those of the scores.
    fn pull_back(
        &self,
        bar: &Mat<f64>,
        weight: f64,
        i: usize,
        released: bool,
    ) -> Result<(Vec<f64>, Mat<f64>)> {
        let classes = self.mean.len();
        let (mut mbar, mut vbar) = (vec![0.0; classes], Mat::zeros(classes, classes));
        for k in 0..classes {
            for c in (0..classes).filter(|&c| c != k) {
                let (m, v) = ove::difference(&self.mean, &self.cov, k, c);
                let (dm, dv) = if released {
                    let e = hermite_log_sigmoid(m, v);
                    (e.dmean, e.dspread)
                } else {
                    let e = e_log_sigmoid(m, v, Resolution::Standard)?;
                    (e.dmu, e.dv)
                };
                let (dm, dv) = (weight * bar[(i, k)] * dm, weight * bar[(i, k)] * dv);
                mbar[k] += dm;
                mbar[c] -= dm;
                vbar[(k, k)] += dv;
                vbar[(c, c)] += dv;
                vbar[(k, c)] -= dv;
                vbar[(c, k)] -= dv;
            }
        }
        Ok((mbar, vbar))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_estimators, assert_fisher, ove_evidence};
    use super::*;
    use crate::testing::random_task;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn gradients_against_differences(seed in 0u64..10_000, n in 3usize..6, c in 2usize..4, tau in 0.5f64..1.5) {
            let task = random_task(seed, n, c, tau);
            let chains = Chains { chains: 1, sweeps: 1, seed };
            let omega = OneVsEachGibbs::run(&task, &chains).unwrap().omega().next().unwrap().to_vec();
            let at = |task: &Task| OneVsEachGibbs::given_omega(task, omega.clone()).unwrap();
            let pl = |task: &Task, query: &Query, y: &[usize]| at(task).predictive_likelihood(query, y).unwrap();
            assert_estimators(&task, seed, |task| at(task).marginal_likelihood(), pl);
        }
    }

    /// Fisher's identity: the mean over converged chains is the gradient of the exact log evidence.
    #[test]
    fn marginal_gradient_is_that_of_the_evidence() {
        let task = random_task(12, 2, 2, 0.7);
        let settings = Chains { chains: 4000, sweeps: 8, seed: 3 };
        let estimate = OneVsEachGibbs::run(&task, &settings).unwrap().marginal_likelihood();
        assert_fisher(&task, &estimate, ove_evidence);
    }

    /// The score uses the variance of the difference, not its square: for one far query the prediction is the prior and
    /// the score is the integral of `log sigma` against N(0, 2 k**).
    #[test]
    fn the_score_of_a_far_query_is_that_of_the_prior() {
        let task = random_task(2, 3, 2, 1.0);
        let task = Task::new(task.k().to_vec(), task.y().to_vec(), Mat::zeros(3, 2), 1.0).unwrap();
        let gibbs = OneVsEachGibbs::run(&task, &Chains { chains: 2, sweeps: 2, seed: 1 }).unwrap();
        let far = Query {
            ks: vec![Mat::zeros(3, 1); 2],
            kss: Mat::from_fn(1, 2, |_, _| 2.0),
            astar: Mat::zeros(1, 2),
        };
        let score = gibbs.scores(&far).unwrap()[(0, 0)];
        let (mut sum, mut weight) = (0.0, 0.0);
        for i in -4000..=4000 {
            let x = i as f64 / 250.0;
            let w = (-x * x / 8.0).exp();
            sum += w * crate::special::log_sigmoid(x);
            weight += w;
        }
        assert!((score - sum / weight).abs() < 1e-8, "{score} and {}", sum / weight);
    }
}
