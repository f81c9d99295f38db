//! Small few-shot tasks and their exact predictions by elliptical slice sampling.

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use siskin_gp::{Query, Task};

pub(crate) const QUERIES: usize = 40;
/// Numbers a point has; the cosine kernel has at most this rank.
const DIM: usize = 16;

/// A task of noisy clusters under the cosine kernel. Its latent functions are `f^c = a + Z u^c`, `u^c ~ N(0, I)`.
pub(crate) struct Problem {
    pub task: Task,
    pub query: Query,
    /// Support, then queries, [N + 40, 16]: `Z Z'` is the kernel.
    z: Vec<[f64; DIM]>,
    a: f64,
}

/// `way` classes with `shot` examples each, output scale `scale`, temperature `tau` and prior mean `a`.
pub(crate) fn problem(seed: u64, way: usize, shot: usize, scale: f64, tau: f64, a: f64) -> Problem {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n = way * shot;
    let mut normal = || rng.sample::<f64, _>(StandardNormal);
    let centre: Vec<[f64; DIM]> = (0..way).map(|_| std::array::from_fn(|_| normal())).collect();
    let z: Vec<[f64; DIM]> = (0..n + QUERIES)
        .map(|i| {
            let x: [f64; DIM] = std::array::from_fn(|j| centre[i % way][j] + normal());
            let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            x.map(|x| scale.sqrt() * x / norm)
        })
        .collect();
    let kernel = |i: usize, j: usize| z[i].iter().zip(z[j]).map(|(x, y)| x * y).sum::<f64>();
    let k = Mat::from_fn(n, n, |i, j| kernel(i.min(j), i.max(j)));
    let ks = Mat::from_fn(n, QUERIES, |i, q| kernel(i, n + q));
    let fill = |rows: usize, value: f64| Mat::from_fn(rows, way, |_, _| value);
    let y = (0..n).map(|i| i % way).collect();
    let task = Task::new(vec![k; way], y, fill(n, a), tau).unwrap();
    let kss = Mat::from_fn(QUERIES, way, |q, _| kernel(n + q, n + q));
    let query = Query { ks: vec![ks; way], kss, astar: fill(QUERIES, a) };
    Problem { task, query, z, a }
}

/// A likelihood as a chain needs it, in units of x = f/tau.
pub(crate) trait Likelihood {
    /// What is averaged at a query, in place of `x`.
    fn wanted(&self, x: &mut [f64]);

    /// `log p(y | x)`.
    fn log(&self, x: &[f64], y: usize) -> f64;
}

/// The mean over two chains, and how far it can be trusted.
pub(crate) struct Truth {
    pub mean: Mat<f64>,
    halves: [Mat<f64>; 2],
}

impl Truth {
    /// Two chains of `sweeps` sweeps each about the prior times `sites` (b, w).
    pub(crate) fn new(
        p: &Problem,
        sites: (&Mat<f64>, &Mat<f64>),
        sweeps: usize,
        likelihood: &impl Likelihood,
    ) -> Self {
        let halves = [1, 2].map(|seed| chain(p, sites, sweeps, seed, likelihood));
        Self { mean: (&halves[0] + &halves[1]) * faer::Scale(0.5), halves }
    }

    /// The largest difference of a value.
    pub(crate) fn largest_difference(&self, other: &Mat<f64>) -> f64 {
        (&self.mean - other).norm_max()
    }

    /// What a value of the two chains differs by at most.
    pub(crate) fn largest_error(&self) -> f64 {
        (&self.halves[0] - &self.halves[1]).norm_max()
    }

    /// Mean over the queries of `KL(truth || other)`.
    pub(crate) fn divergence(&self, other: &Mat<f64>) -> f64 {
        divergence(&self.mean, other)
    }

    /// What the two chains diverge by.
    pub(crate) fn divergence_error(&self) -> f64 {
        divergence(&self.halves[0], &self.halves[1])
    }
}

fn divergence(p: &Mat<f64>, q: &Mat<f64>) -> f64 {
    let term = |i: usize, c: usize| p[(i, c)] * (p[(i, c)] / q[(i, c)]).ln();
    (0..QUERIES).map(|i| (0..p.ncols()).map(|c| term(i, c)).sum::<f64>()).sum::<f64>() / QUERIES as f64
}

/// Mean over the queries of the largest probability.
pub(crate) fn confidence(p: &Mat<f64>) -> f64 {
    (0..QUERIES).map(|q| (0..p.ncols()).map(|c| p[(q, c)]).fold(0.0, f64::max)).sum::<f64>() / QUERIES as f64
}

/// A Gaussian of the weights, `u^c = m^c + R^c e^c` with `e ~ N(0, I)`, seen from all points: `x = at + Z R e / tau`.
struct Reference {
    /// [N + 40, C].
    at: Vec<f64>,
    /// `Z R / tau`, [N + 40, C].
    slope: Vec<[f64; DIM]>,
}

impl Reference {
    /// The prior times the sites `exp(b x - w x^2 / 2)` of the support, b and w [N, C].
    fn new(p: &Problem, b: &Mat<f64>, w: &Mat<f64>) -> Self {
        let (n, classes, tau) = (p.task.points(), p.task.classes(), p.task.tau());
        let (mut at, mut slope) = (vec![0.0; p.z.len() * classes], vec![[0.0; DIM]; p.z.len() * classes]);
        for c in 0..classes {
            let sum = |of: &dyn Fn(usize) -> f64| (0..n).map(of).sum::<f64>();
            let precision = Mat::from_fn(DIM, DIM, |i, j| {
                f64::from(i == j) + sum(&|k| w[(k, c)] * p.z[k][i] * p.z[k][j] / (tau * tau))
            });
            let eigen = precision.self_adjoint_eigen(faer::Side::Lower).unwrap();
            let root = Mat::from_fn(DIM, DIM, |i, j| eigen.U()[(i, j)] / eigen.S().column_vector()[j].sqrt());
            let linear =
                Mat::from_fn(DIM, 1, |i, _| sum(&|k| (b[(k, c)] - w[(k, c)] * p.a / tau) * p.z[k][i] / tau));
            let mean = &root * (root.transpose() * linear);
            for (k, z) in p.z.iter().enumerate() {
                let dot = |m: &Mat<f64>, j: usize| (0..DIM).map(|i| z[i] * m[(i, j)]).sum::<f64>() / tau;
                at[k * classes + c] = p.a / tau + dot(&mean, 0);
                slope[k * classes + c] = std::array::from_fn(|j| dot(&root, j));
            }
        }
        Self { at, slope }
    }
}

/// Elliptical slice sampling (Murray, Adams and MacKay 2010) of the weights about a Gaussian near the posterior: what a state is
/// judged by is the likelihood without that Gaussian's sites. Exact whatever they are. The first tenth is left out.
fn chain(
    p: &Problem,
    sites: (&Mat<f64>, &Mat<f64>),
    sweeps: usize,
    seed: u64,
    likelihood: &impl Likelihood,
) -> Mat<f64> {
    let (n, classes) = (p.task.points(), p.task.classes());
    let reference = Reference::new(p, sites.0, sites.1);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let draw = |rng: &mut ChaCha8Rng| -> Vec<[f64; DIM]> {
        (0..classes).map(|_| std::array::from_fn(|_| rng.sample(StandardNormal))).collect()
    };
    // Z R e / tau, of the support or of the queries
    let moved = |e: &[[f64; DIM]], points: std::ops::Range<usize>| -> Vec<f64> {
        let rows = &reference.slope[points.start * classes..points.end * classes];
        rows.iter().zip(e.iter().cycle()).map(|(z, e)| z.iter().zip(e).map(|(z, e)| z * e).sum()).collect()
    };
    let mut x = vec![0.0; n * classes];
    let mut judge = |cos: f64, from: &[f64], sin: f64, to: &[f64]| -> f64 {
        for (i, x) in x.iter_mut().enumerate() {
            *x = reference.at[i] + cos * from[i] + sin * to[i];
        }
        let mut total = 0.0;
        for (i, x) in x.chunks(classes).enumerate() {
            total += likelihood.log(x, p.task.y()[i]);
            for (c, x) in x.iter().enumerate() {
                total -= (sites.0[(i, c)] - 0.5 * sites.1[(i, c)] * x) * x;
            }
        }
        total
    };
    let mut e = draw(&mut rng);
    let mut from = moved(&e, 0..n);
    let mut current = judge(1.0, &from, 0.0, &from);
    let mut total = vec![0.0; QUERIES * classes];
    let warm = sweeps / 10;
    for sweep in 0..warm + sweeps {
        let nu = draw(&mut rng);
        let to = moved(&nu, 0..n);
        let level = current + rng.random::<f64>().ln();
        let mut angle = rng.random_range(0.0..std::f64::consts::TAU);
        let (mut low, mut high) = (angle - std::f64::consts::TAU, angle);
        let (sin, cos) = loop {
            let (sin, cos) = angle.sin_cos();
            current = judge(cos, &from, sin, &to);
            if current > level {
                break (sin, cos);
            }
            *(if angle < 0.0 { &mut low } else { &mut high }) = angle;
            angle = rng.random_range(low..high);
        };
        for (e, nu) in e.iter_mut().flatten().zip(nu.iter().flatten()) {
            *e = cos * *e + sin * nu;
        }
        from = moved(&e, 0..n);
        if sweep >= warm {
            let mut x = moved(&e, n..n + QUERIES);
            x.iter_mut().zip(&reference.at[n * classes..]).for_each(|(x, at)| *x += at);
            x.chunks_mut(classes).for_each(|x| likelihood.wanted(x));
            total.iter_mut().zip(x).for_each(|(sum, x)| *sum += x / sweeps as f64);
        }
    }
    Mat::from_fn(QUERIES, classes, |q, c| total[q * classes + c])
}
