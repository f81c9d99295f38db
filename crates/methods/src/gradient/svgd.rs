//! Stein variational gradient descent on particles of a linear classifier, and its exact adjoint.
//!
//! A particle is (W, b) or (W, b, log lambda); M of them stand for the posterior of the last layer given a task's
//! support. One step (Liu & Wang 2016; Yoon et al. 2018, eq. 4), with U the negative log posterior:
//!
//! theta_i <- theta_i - rate / M sum_j [ k_ij grad U(theta_j) - (2 / h) k_ij (theta_i - theta_j) ]
//!
//! k_ij = exp(-|theta_i - theta_j|^2 / h), h = median_{i<j} |theta_i - theta_j|^2 / log M.
//!
//! Meta-training differentiates through the steps, the kernel and the median, with respect to the first particles and
//! to the features. All in double precision on the host: the last layer is small.

use siskin_nn::Features;

/// The prior of a particle's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prior {
    /// W, b ~ N(0, 1).
    StandardNormal,
    /// W, b ~ N(0, 1 / lambda), lambda ~ Gamma(1, 0.1). A particle then ends with log lambda.
    Hierarchical,
}

/// Rate of the Gamma prior of lambda.
const GAMMA_RATE: f64 = 0.1;

/// The geometry of the particles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// M.
    pub particles: usize,
    /// Features of a point.
    pub dim: usize,
    /// Classes.
    pub way: usize,
    /// The prior.
    pub prior: Prior,
}

impl Shape {
    /// Number of weights and biases of a particle.
    fn weights(&self) -> usize {
        (self.dim + 1) * self.way
    }

    /// Numbers of one particle: W `[dim, way]`, b `[way]`, and log lambda where the prior has it.
    pub fn size(&self) -> usize {
        self.weights() + usize::from(self.prior == Prior::Hierarchical)
    }

    /// W x + b of one particle, `[way]`.
    fn scores(&self, particle: &[f64], x: &[f64]) -> Vec<f64> {
        let mut scores = particle[self.dim * self.way..self.weights()].to_vec();
        for (x, row) in x.iter().zip(particle.chunks_exact(self.way)) {
            scores.iter_mut().zip(row).for_each(|(s, w)| *s += x * w);
        }
        scores
    }

    /// Adds `x r^T` to W and `r` to b.
    fn add_outer(&self, to: &mut [f64], x: &[f64], r: &[f64]) {
        let (weights, rest) = to.split_at_mut(self.dim * self.way);
        for (x, row) in x.iter().zip(weights.chunks_exact_mut(self.way)) {
            row.iter_mut().zip(r).for_each(|(w, r)| *w += x * r);
        }
        rest.iter_mut().zip(r).for_each(|(b, r)| *b += r);
    }

    /// Adds `W r` to a gradient with respect to x.
    fn add_back(&self, to: &mut [f64], particle: &[f64], r: &[f64]) {
        for (to, row) in to.iter_mut().zip(particle.chunks_exact(self.way)) {
            *to += row.iter().zip(r).map(|(w, r)| w * r).sum::<f64>();
        }
    }
}

/// Labelled points.
#[derive(Debug, Clone, Copy)]
pub struct Points<'a> {
    /// Their features.
    pub x: &'a Features,
    /// Their classes.
    pub labels: &'a [usize],
}

/// Class probabilities of the mean over particles, `[points, way]`.
pub fn mixture(shape: &Shape, particles: &[f64], x: &Features) -> Vec<f64> {
    let mut mean = vec![0.0; x.rows * shape.way];
    for particle in particles.chunks_exact(shape.size()) {
        for (row, mean) in mean.chunks_exact_mut(shape.way).enumerate() {
            let p = softmax(&shape.scores(particle, x.row(row)));
            mean.iter_mut().zip(p).for_each(|(m, p)| *m += p / shape.particles as f64);
        }
    }
    mean
}

/// -mean log of the mixture's probability of the truth, with its gradients: particles, features.
pub fn mixture_loss(shape: &Shape, particles: &[f64], points: Points<'_>) -> (f64, Vec<f64>, Vec<f64>) {
    let Points { x, labels } = points;
    let n = labels.len() as f64;
    // log p_m(y_n), [particles, points]: far from the truth a probability may underflow, its logarithm does not.
    let log_truth: Vec<f64> = particles
        .chunks_exact(shape.size())
        .flat_map(|particle| {
            (0..x.rows).map(move |row| log_softmax(&shape.scores(particle, x.row(row)), labels[row]))
        })
        .collect();
    let log_sum: Vec<f64> = (0..x.rows)
        .map(|row| log_sum_exp(&log_truth.iter().skip(row).step_by(x.rows).copied().collect::<Vec<_>>()))
        .collect();
    let loss = (shape.particles as f64).ln() - log_sum.iter().sum::<f64>() / n;
    let (mut dparticles, mut dx) = (vec![0.0; particles.len()], vec![0.0; x.values.len()]);
    for (m, particle) in particles.chunks_exact(shape.size()).enumerate() {
        let dparticle = &mut dparticles[m * shape.size()..(m + 1) * shape.size()];
        for (row, dx) in dx.chunks_exact_mut(shape.dim).enumerate() {
            let share = (log_truth[m * x.rows + row] - log_sum[row]).exp() / n;
            let mut r = residual(shape, particle, x.row(row), labels[row]);
            r.iter_mut().for_each(|r| *r *= share);
            shape.add_outer(dparticle, x.row(row), &r);
            shape.add_back(dx, particle, &r);
        }
    }
    (loss, dparticles, dx)
}

fn log_sum_exp(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + values.iter().map(|v| (v - largest).exp()).sum::<f64>().ln()
}

fn log_softmax(scores: &[f64], class: usize) -> f64 {
    scores[class] - log_sum_exp(scores)
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.into_iter().map(|e| e / sum).collect()
}

/// p - y of one point.
fn residual(shape: &Shape, particle: &[f64], x: &[f64], label: usize) -> Vec<f64> {
    let mut r = softmax(&shape.scores(particle, x));
    r[label] -= 1.0;
    r
}

/// grad U of one particle: sum of cross-entropies minus log prior.
fn energy_gradient(shape: &Shape, particle: &[f64], points: Points<'_>) -> Vec<f64> {
    let mut g = vec![0.0; shape.size()];
    for (row, &label) in points.labels.iter().enumerate() {
        let x = points.x.row(row);
        shape.add_outer(&mut g, x, &residual(shape, particle, x, label));
    }
    let count = shape.weights();
    let lambda = precision(shape, particle);
    g[..count].iter_mut().zip(particle).for_each(|(g, w)| *g += lambda * w);
    if shape.prior == Prior::Hierarchical {
        // -log p(w | lambda) - log p(log lambda), the density of log lambda with its Jacobian.
        let squares: f64 = particle[..count].iter().map(|w| w * w).sum();
        g[count] = 0.5 * lambda * squares - 0.5 * count as f64 + GAMMA_RATE * lambda - 1.0;
    }
    g
}

fn precision(shape: &Shape, particle: &[f64]) -> f64 {
    match shape.prior {
        Prior::StandardNormal => 1.0,
        Prior::Hierarchical => particle[shape.weights()].exp(),
    }
}

/// Adds the gradient of <grad U, v> with respect to particle and features.
fn energy_second(
    shape: &Shape,
    particle: &[f64],
    points: Points<'_>,
    v: &[f64],
    dparticle: &mut [f64],
    dx: &mut [f64],
) {
    for (row, &label) in points.labels.iter().enumerate() {
        let x = points.x.row(row);
        let r = residual(shape, particle, x, label);
        let p: Vec<f64> = r.iter().enumerate().map(|(c, r)| r + f64::from(u8::from(c == label))).collect();
        // <grad U, v> = sum_n r_n . u_n with u_n = v_W x_n + v_b, and dr/dscores = diag(p) - p p^T.
        let u = shape.scores(v, x);
        let mean: f64 = p.iter().zip(&u).map(|(p, u)| p * u).sum();
        let q: Vec<f64> = p.iter().zip(&u).map(|(p, u)| p * (u - mean)).collect();
        shape.add_outer(dparticle, x, &q);
        let dx = &mut dx[row * shape.dim..(row + 1) * shape.dim];
        shape.add_back(dx, particle, &q);
        shape.add_back(dx, v, &r);
    }
    let count = shape.weights();
    let lambda = precision(shape, particle);
    let (w, v_w) = (&particle[..count], &v[..count]);
    dparticle[..count].iter_mut().zip(v_w).for_each(|(d, v)| *d += lambda * v);
    if shape.prior == Prior::Hierarchical {
        let alpha = v[count];
        let squares: f64 = w.iter().map(|w| w * w).sum();
        let inner: f64 = w.iter().zip(v_w).map(|(w, v)| w * v).sum();
        dparticle[..count].iter_mut().zip(w).for_each(|(d, w)| *d += alpha * lambda * w);
        dparticle[count] += lambda * inner + alpha * lambda * (0.5 * squares + GAMMA_RATE);
    }
}

/// Squared distances, kernel and bandwidth of a set of particles.
struct Kernel {
    squared: Vec<f64>,
    k: Vec<f64>,
    h: f64,
    /// The pairs (i, j) whose squared distances the median averages: one, or two.
    middle: Vec<(usize, usize)>,
}

impl Kernel {
    fn of(shape: &Shape, particles: &[f64]) -> Kernel {
        let m = shape.particles;
        let particle = |i: usize| &particles[i * shape.size()..(i + 1) * shape.size()];
        let mut squared = vec![0.0; m * m];
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for i in 0..m {
            for j in i + 1..m {
                let d: f64 = particle(i).iter().zip(particle(j)).map(|(a, b)| (a - b) * (a - b)).sum();
                (squared[i * m + j], squared[j * m + i]) = (d, d);
                pairs.push((i, j));
            }
        }
        pairs.sort_by(|a, b| squared[a.0 * m + a.1].total_cmp(&squared[b.0 * m + b.1]));
        let middle: Vec<(usize, usize)> = match pairs.len() {
            0 => Vec::new(),
            odd if odd % 2 == 1 => vec![pairs[odd / 2]],
            even => vec![pairs[even / 2 - 1], pairs[even / 2]],
        };
        let median =
            middle.iter().map(|&(i, j)| squared[i * m + j]).sum::<f64>() / middle.len().max(1) as f64;
        // Particles in one place: every bandwidth gives k = 1 and no repulsion.
        let (h, middle) = if median > 0.0 { (median / (m as f64).ln(), middle) } else { (1.0, Vec::new()) };
        let k = squared.iter().map(|d| (-d / h).exp()).collect();
        Kernel { squared, k, h, middle }
    }
}

/// One step down.
pub fn step(shape: &Shape, particles: &[f64], points: Points<'_>, rate: f64) -> Vec<f64> {
    let (m, size) = (shape.particles, shape.size());
    let kernel = Kernel::of(shape, particles);
    let gradients: Vec<f64> =
        particles.chunks_exact(size).flat_map(|p| energy_gradient(shape, p, points)).collect();
    let mut next = particles.to_vec();
    let pull = rate / m as f64;
    for i in 0..m {
        for j in 0..m {
            let k = kernel.k[i * m + j];
            let push = 2.0 * pull * k / kernel.h;
            for c in 0..size {
                next[i * size + c] += push * (particles[i * size + c] - particles[j * size + c])
                    - pull * k * gradients[j * size + c];
            }
        }
    }
    next
}

/// From the gradient `v` with respect to the particles after [`step`] to that before it; adds to `dx` the gradient
/// with respect to the features.
pub fn step_adjoint(
    shape: &Shape,
    particles: &[f64],
    points: Points<'_>,
    rate: f64,
    v: &[f64],
    dx: &mut [f64],
) -> Vec<f64> {
    let (m, size) = (shape.particles, shape.size());
    let kernel = Kernel::of(shape, particles);
    let gradients: Vec<f64> =
        particles.chunks_exact(size).flat_map(|p| energy_gradient(shape, p, points)).collect();
    let (pull, push) = (rate / m as f64, 2.0 * rate / (m as f64 * kernel.h));
    let of = |values: &[f64], i: usize| values[i * size..(i + 1) * size].to_vec();
    let mut dparticles = v.to_vec();
    let mut dgradients = vec![0.0; particles.len()];
    let mut dsquared = vec![0.0; m * m];
    let mut dh = 0.0;
    for i in 0..m {
        let (v_i, p_i) = (of(v, i), of(particles, i));
        for j in 0..m {
            let k = kernel.k[i * m + j];
            let (p_j, g_j) = (of(particles, j), of(&gradients, j));
            let mut pulled = 0.0;
            let mut apart = 0.0;
            for c in 0..size {
                pulled += v_i[c] * g_j[c];
                apart += v_i[c] * (p_i[c] - p_j[c]);
                dgradients[j * size + c] -= pull * k * v_i[c];
                dparticles[i * size + c] += push * k * v_i[c];
                dparticles[j * size + c] -= push * k * v_i[c];
            }
            let dk = push * apart - pull * pulled;
            dsquared[i * m + j] -= dk * k / kernel.h;
            dh += dk * k * kernel.squared[i * m + j] / kernel.h.powi(2) - push * k * apart / kernel.h;
        }
    }
    // h = mean of the middle squared distances / log M.
    for &(i, j) in &kernel.middle {
        dsquared[i * m + j] += dh / ((m as f64).ln() * kernel.middle.len() as f64);
    }
    for i in 0..m {
        for j in 0..m {
            let d = 2.0 * dsquared[i * m + j];
            for c in 0..size {
                let towards = d * (particles[i * size + c] - particles[j * size + c]);
                dparticles[i * size + c] += towards;
                dparticles[j * size + c] -= towards;
            }
        }
    }
    for i in 0..m {
        let range = i * size..(i + 1) * size;
        energy_second(
            shape,
            &particles[range.clone()],
            points,
            &dgradients[range.clone()],
            &mut dparticles[range],
            dx,
        );
    }
    dparticles
}

/// Positions of the particles before, between and after `count` steps.
pub fn path(shape: &Shape, particles: &[f64], points: Points<'_>, rate: f64, count: usize) -> Vec<Vec<f64>> {
    let mut path = vec![particles.to_vec()];
    for k in 0..count {
        path.push(step(shape, &path[k], points, rate));
    }
    path
}

/// The adjoint of [`path`]: `v`, the gradient at its end, becomes that at its start, and the gradient of the rows of
/// `points` is added to `dx`.
pub fn path_adjoint(
    shape: &Shape,
    path: &[Vec<f64>],
    points: Points<'_>,
    rate: f64,
    v: Vec<f64>,
    dx: &mut [f64],
) -> Vec<f64> {
    let starts = &path[..path.len() - 1];
    starts.iter().rev().fold(v, |v, at| step_adjoint(shape, at, points, rate, &v, dx))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::{Golden, assert_close};

    fn golden(text: &str, prior: Prior) -> (Golden, Shape) {
        let golden = Golden::parse(text);
        let count = |name: &str| golden.f64(name) as usize;
        let shape = Shape { particles: count("count"), dim: count("dim"), way: count("way"), prior };
        (golden, shape)
    }

    #[test]
    fn adapted_particles_and_their_mixture_are_those_of_pytorch() {
        for (text, prior) in [
            (include_str!("../../tests/golden/bmaml.json"), Prior::Hierarchical),
            (include_str!("../../tests/golden/bmaml_chaser.json"), Prior::StandardNormal),
        ] {
            let (golden, shape) = golden(text, prior);
            let (x, labels) = (golden.table("x", shape.dim), golden.usizes("labels"));
            let support = crate::select(&x, &golden.usizes("support"));
            let support_labels: Vec<usize> = golden.usizes("support").iter().map(|&r| labels[r]).collect();
            let points = Points { x: &support, labels: &support_labels };
            let adapted = (0..golden.f64("steps") as usize)
                .fold(golden.f64s("particles"), |at, _| step(&shape, &at, points, golden.f64("rate")));
            assert_close("adapted", &adapted, &golden.f64s("adapted"), 1e-11);
            let query = crate::select(&x, &golden.usizes("query"));
            assert_close("mixture", &mixture(&shape, &adapted, &query), &golden.f64s("probabilities"), 1e-11);
        }
    }

    #[test]
    fn particles_in_one_place_stay_together_and_one_alone_descends() {
        let (_, shape) = golden(include_str!("../../tests/golden/bmaml_chaser.json"), Prior::StandardNormal);
        let x = Features { values: (0..8).map(|i| 0.1 * i as f64).collect(), rows: 2, dim: 4 };
        let points = Points { x: &x, labels: &[0, 2] };
        let one: Vec<f64> = (0..shape.size()).map(|i| 0.3 - 0.05 * i as f64).collect();
        let together = step(&shape, &one.repeat(shape.particles), points, 0.1);
        let alone = step(&Shape { particles: 1, ..shape }, &one, points, 0.1);
        let slope = energy_gradient(&shape, &one, points);
        let down: Vec<f64> = one.iter().zip(&slope).map(|(p, g)| p - 0.1 * g).collect();
        assert_close("alone", &alone, &down, 1e-14);
        assert_close("together", &together, &down.repeat(shape.particles), 1e-14);
        let v: Vec<f64> = (0..together.len()).map(|i| (i % 7) as f64 - 3.0).collect();
        let back = step_adjoint(&shape, &one.repeat(shape.particles), points, 0.1, &v, &mut [0.0; 8]);
        assert!(back.iter().all(|b| b.is_finite()));
    }

    #[test]
    fn a_truth_of_vanishing_probability_has_a_finite_loss() {
        let (_, shape) = golden(include_str!("../../tests/golden/bmaml_chaser.json"), Prior::StandardNormal);
        let x = Features { values: vec![1000.0; 4], rows: 1, dim: 4 };
        let mut particles = vec![0.0; shape.particles * shape.size()];
        particles.iter_mut().step_by(shape.size()).for_each(|w| *w = 1.0);
        let (loss, dparticles, dx) = mixture_loss(&shape, &particles, Points { x: &x, labels: &[1] });
        assert!((loss - 1000.0).abs() < 1e-9, "{loss}");
        assert!(dparticles.iter().chain(&dx).all(|d| d.is_finite()));
    }
}
