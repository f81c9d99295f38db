//! What the authors' released code optimises as predictive likelihood. **It is not Eq. (15a)**; it is here to reproduce the rows
//! trained with it.
//!
//! It departs from the paper as follows. The "support" is given by rows of the batch, and the released code gives its first
//! `way * shot` rows, which in its class-major batch are rows of the first class or two. *All* rows are scored, the support too.
//! The sweeps are those of [`super::released`], carry-over included. The class-wise joint Gaussian `N(k*' K^{-1} mu, V)` has no
//! prior mean at the query. A score is `E log sigma(f_c / tau)` by Monte Carlo, and the loss is the cross-entropy of its softmax.

use faer::Mat;

use super::released::{Carry, Draw};
use crate::inference::mean_field::{Start, Tape, Top, Updates};
use crate::inference::released::jittered_cholesky;
use crate::likelihoods::softmax;
use crate::linalg::{cholesky, dot, lower_inverse, mul_vec, product, tmul_vec};
use crate::special::log_sigmoid;
use crate::task::{Gradient, Task};
use crate::{Error, Result};

/// What the released predictive likelihood gives beside its value.
#[derive(Debug, Clone)]
pub struct ReleasedPredictive {
    /// `sum_n log softmax(score_n)` of the labels of all rows, to be maximised, and its gradient.
    pub gradient: Gradient,
    /// The state of the support for the next episode.
    pub carry: Carry,
    /// Predictive means in units of f, [N, C].
    pub mean: Mat<f64>,
    /// Cholesky factors of the predictive covariances in units of f, C of [N, N].
    pub lower: Vec<Mat<f64>>,
}

/// The rows that serve as support, and the random numbers of one episode.
#[derive(Debug, Clone, Copy)]
pub struct ReleasedEpisode<'a> {
    /// Rows of the support.
    pub support: &'a [usize],
    /// Marginals of the support of the episode before.
    pub carry: &'a Carry,
    /// The random local variables of this one.
    pub draw: &'a Draw,
    /// Standard normal numbers, for each class one column per sample: C of [N, S].
    pub normals: &'a [Mat<f64>],
    /// Sweeps, at least 1.
    pub steps: usize,
}

/// The predictive likelihood of the released code over all rows of `task`.
///
/// With `x = f/tau`, R and g of the support's Gaussian block, `k*` its kernel with all rows:
/// `m = k*' (g + K^{-1} a)`, `V = K - k*' R k* = L L'`, `score_nc = 1/S sum_s log sigma(m + L z_s)_n`,
/// and the value is `sum_n log softmax(score_n)_{y_n}`. The normals are constants for the gradient.
pub fn released_predictive(task: &Task, episode: ReleasedEpisode<'_>) -> Result<ReleasedPredictive> {
    let ReleasedEpisode { support, carry, draw, normals, steps } = episode;
    let (n, classes, tau) = (task.points(), task.classes(), task.tau());
    if let Some(&row) = support.iter().find(|&&row| row >= n) {
        return Err(Error::OutOfRange { what: "support row", value: row as f64, must: "a row of the task" });
    }
    if normals.len() != classes {
        return Err(Error::Shape { what: "normals", expected: classes, got: normals.len() });
    }
    let sub = part_of(task, support)?;
    let start = Start::Given {
        mu0: carry.mu.clone(),
        v0: carry.v.clone(),
        alpha0: draw.alpha.clone(),
        omega0: draw.omega.clone(),
    };
    let tape = Tape::record(&sub, Updates::Released, &start, steps)?;
    let x = task.standardise();
    let parts: Vec<Prediction> =
        (0..classes).map(|c| Prediction::new(&tape, &x.k[c], c, support)).collect::<Result<_>>()?;

    let scores = Mat::from_fn(n, classes, |i, c| parts[c].score(&normals[c], i));
    let log_p = softmax::log_rows(&scores);
    let value = (0..n).map(|i| log_p[(i, task.y()[i])]).sum();
    let mut top = Top::zeros(support.len(), classes);
    let mut kbar = Vec::with_capacity(classes);
    for (c, part) in parts.iter().enumerate() {
        let slope: Vec<f64> = (0..n).map(|i| f64::from(task.y()[i] == c) - log_p[(i, c)].exp()).collect();
        kbar.push(part.pull_back(&tape, &normals[c], &slope, &mut top));
    }
    let next = Carry { mu: tape.mu() * faer::Scale(tau), v: tape.v() * faer::Scale(tau * tau) };
    let of_support = tape.gradient(value, tape.unroll(top)?);
    // What does not go through the sweeps: the kernel of all rows.
    let mut gradient = task.gradient(value, kbar, Mat::zeros(n, classes));
    gradient.dtau += of_support.dtau;
    gradient.residual = of_support.residual;
    for c in 0..classes {
        for (i, &row) in support.iter().enumerate() {
            gradient.da[(row, c)] += of_support.da[(i, c)];
            for (j, &col) in support.iter().enumerate() {
                gradient.dk[c][(row, col)] += of_support.dk[c][(i, j)];
            }
        }
    }
    Ok(ReleasedPredictive {
        gradient,
        carry: next,
        mean: Mat::from_fn(n, classes, |i, c| tau * parts[c].mean[i]),
        lower: parts.into_iter().map(|part| part.lower * faer::Scale(tau)).collect(),
    })
}

/// The task of some of the rows.
fn part_of(task: &Task, rows: &[usize]) -> Result<Task> {
    let k = task.k().iter().map(|k| Mat::from_fn(rows.len(), rows.len(), |i, j| k[(rows[i], rows[j])]));
    let y = rows.iter().map(|&row| task.y()[row]).collect();
    let a = Mat::from_fn(rows.len(), task.classes(), |i, c| task.a()[(rows[i], c)]);
    Task::new(k.collect(), y, a, task.tau())
}

/// The Gaussian prediction of one class at all rows, in units of x.
struct Prediction {
    class: usize,
    support: Vec<usize>,
    /// `k*`, [S, N].
    ks: Mat<f64>,
    /// `R k*`, [S, N].
    rk: Mat<f64>,
    /// `K^{-1} a` of the support and `K^{-1}`, where there is a prior mean.
    prior: Option<(Vec<f64>, Mat<f64>)>,
    mean: Vec<f64>,
    lower: Mat<f64>,
}

impl Prediction {
    fn new(tape: &Tape<'_>, k: &Mat<f64>, class: usize, support: &[usize]) -> Result<Self> {
        let (s, n) = (support.len(), k.nrows());
        let block = &tape.blocks()[class];
        let ks = Mat::from_fn(s, n, |i, j| k[(support[i], j)]);
        let rk = product(block.r().as_ref(), ks.as_ref());
        let a = tape.x().a.col_as_slice(class);
        let prior = match a.iter().all(|&a| a == 0.0) {
            true => None,
            false => {
                let li = lower_inverse(&cholesky(tape.x().k[class].clone(), "K of the support")?);
                let inverse = product(li.transpose(), li.as_ref());
                Some((mul_vec(&inverse, a), inverse))
            }
        };
        let weights: Vec<f64> =
            (0..s).map(|i| block.g[i] + prior.as_ref().map_or(0.0, |(ka, _)| ka[i])).collect();
        let mean = tmul_vec(&ks, &weights);
        let taken = product(ks.transpose(), rk.as_ref());
        let covariance = Mat::from_fn(n, n, |i, j| k[(i, j)] - 0.5 * (taken[(i, j)] + taken[(j, i)]));
        // The released jitter is in units of f.
        let lower = jittered_cholesky(covariance, tape.tau())?;
        Ok(Self { class, support: support.to_vec(), ks, rk, prior, mean, lower })
    }

    /// `m + L z` of one row.
    fn sample(&self, normals: &Mat<f64>, row: usize, s: usize) -> f64 {
        let z = normals.col_as_slice(s);
        self.mean[row] + (0..=row).map(|j| self.lower[(row, j)] * z[j]).sum::<f64>()
    }

    fn score(&self, normals: &Mat<f64>, row: usize) -> f64 {
        let samples = normals.ncols();
        (0..samples).map(|s| log_sigmoid(self.sample(normals, row, s))).sum::<f64>() / samples as f64
    }

    /// From the slope of the value in the scores of this class, [N]: what goes into `top`, and the cotangent of the kernel of all
    /// rows, [N, N] in units of x.
    fn pull_back(&self, tape: &Tape<'_>, normals: &Mat<f64>, slope: &[f64], top: &mut Top) -> Mat<f64> {
        let (s, n, samples) = (self.ks.nrows(), self.ks.ncols(), normals.ncols());
        let (mut mbar, mut lbar) = (vec![0.0; n], Mat::<f64>::zeros(n, n));
        for i in 0..n {
            for sample in 0..samples {
                // d log sigma(x) / dx = sigma(-x)
                let x = self.sample(normals, i, sample);
                let bar = slope[i] * log_sigmoid(-x).exp() / samples as f64;
                mbar[i] += bar;
                (0..=i).for_each(|j| lbar[(i, j)] += bar * normals[(j, sample)]);
            }
        }
        let vbar = cholesky_adjoint(&self.lower, &lbar);
        let block = &tape.blocks()[self.class];
        let (c, r) = (self.class, block.r());
        let p = block.adjoint(&tape.x().k[c]).p;
        let pk = product(p.as_ref(), self.ks.as_ref());
        // m = k*' (g + K^{-1} a): gbar = k* mbar; g = R (W^{-1} b - a) gives bbar = P gbar, abar = -R gbar.
        let gbar = mul_vec(&self.ks, &mbar);
        let (p_gbar, r_gbar) = (mul_vec(&p, &gbar), mul_vec(&r, &gbar));
        let rk_vbar = product(self.rk.as_ref(), vbar.as_ref());
        let pk_vbar = product(pk.as_ref(), vbar.as_ref());
        for i in 0..s {
            let row = |m: &Mat<f64>| (0..n).map(|q| m[(i, q)]).collect::<Vec<f64>>();
            top.b[(i, c)] += p_gbar[i];
            top.w[(i, c)] -= block.mu[i] * p_gbar[i] + dot(&row(&pk_vbar), &row(&pk));
            top.a[(i, c)] -= r_gbar[i];
            for j in 0..s {
                let through_mean = -0.5 * (r_gbar[i] * block.g[j] + r_gbar[j] * block.g[i]);
                let through_v: f64 = (0..n).map(|q| rk_vbar[(i, q)] * self.rk[(j, q)]).sum();
                top.k[c][(i, j)] += through_mean + through_v;
            }
        }
        let mut weights = block.g.clone();
        if let Some((ka, inverse)) = &self.prior {
            let back = mul_vec(inverse, &gbar);
            for i in 0..s {
                weights[i] += ka[i];
                top.a[(i, c)] += back[i];
                for j in 0..s {
                    top.k[c][(i, j)] -= 0.5 * (back[i] * ka[j] + back[j] * ka[i]);
                }
            }
        }
        // V = K - k*' R k* and m = k*' weights, with k* rows of K.
        let mut kbar = vbar;
        for (i, &row) in self.support.iter().enumerate() {
            for q in 0..n {
                let bar = 0.5 * (weights[i] * mbar[q] - 2.0 * rk_vbar[(i, q)]);
                kbar[(row, q)] += bar;
                kbar[(q, row)] += bar;
            }
        }
        kbar
    }
}

/// From the cotangent of L (its lower half counts) to that of `V = L L'`, symmetric:
/// `L^{-T} phi(L' Lbar) L^{-1}`, phi taking the lower half with half the diagonal.
fn cholesky_adjoint(l: &Mat<f64>, lbar: &Mat<f64>) -> Mat<f64> {
    let n = l.nrows();
    let inner = product(l.transpose(), lbar.as_ref());
    let phi = Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Greater => inner[(i, j)],
        std::cmp::Ordering::Equal => 0.5 * inner[(i, i)],
        std::cmp::Ordering::Less => 0.0,
    });
    let li = lower_inverse(l);
    let bar = product(product(li.transpose(), phi.as_ref()).as_ref(), li.as_ref());
    Mat::from_fn(n, n, |i, j| 0.5 * (bar[(i, j)] + bar[(j, i)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradient, random_task};
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn the_cholesky_adjoint_is_the_slope() {
        let l = faer::mat![[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.4, 0.5, 0.9]];
        let lbar = faer::mat![[0.7, 0.0, 0.0], [-0.2, 1.1, 0.0], [0.4, 0.3, -0.6]];
        let v = product(l.as_ref(), l.transpose());
        let bar = cholesky_adjoint(&l, &lbar);
        let value = |v: &Mat<f64>| crate::linalg::inner(&cholesky(v.clone(), "v").unwrap(), &lbar);
        for (i, j) in [(0, 0), (1, 0), (2, 1), (2, 2)] {
            let at = |h: f64| {
                let mut moved = v.clone();
                moved[(i, j)] += h;
                if i != j {
                    moved[(j, i)] += h;
                }
                value(&moved)
            };
            let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
            let wanted = if i == j { bar[(i, i)] } else { 2.0 * bar[(i, j)] };
            assert!((slope - wanted).abs() < 1e-7, "{i} {j}: {slope} {wanted}");
        }
    }

    #[test]
    fn after_one_sweep_the_gradient_agrees_with_differences() {
        // With one sweep nothing is held constant that the kernel moves: tilts and carry belong to the start.
        for seed in 0..3 {
            let task = random_task(seed, 5, 3, 0.7);
            let support = [0, 2, 3];
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (carry, draw) = (Carry::first(3, 3, &mut rng), Draw::new(3, 3, &mut rng));
            let normals: Vec<Mat<f64>> = (0..3).map(|_| crate::testing::normal(&mut rng, 5, 4)).collect();
            let at = |task: &Task| {
                let episode = ReleasedEpisode {
                    support: &support,
                    carry: &carry,
                    draw: &draw,
                    normals: &normals,
                    steps: 1,
                };
                released_predictive(task, episode).unwrap()
            };
            let mut gradient = at(&task).gradient;
            // The start is given in units of f, so it moves with tau while the tilts are held: no difference shows that.
            gradient.dtau = {
                let h = 1e-5;
                let moved = |h: f64| {
                    let task =
                        Task::new(task.k().to_vec(), task.y().to_vec(), task.a().clone(), task.tau() + h);
                    at(&task.unwrap()).gradient.value
                };
                (moved(h) - moved(-h)) / (2.0 * h)
            };
            assert_gradient(&task, &gradient, |task| at(task).gradient.value, 1e-5);
        }
    }
}
