//! The kernel between particles, with its bandwidth, and the weights of a step.

use super::Shape;

/// Which kernel and step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Yoon et al. 2018: exp(-d^2 / h), h from the median of d^2 over pairs; the step has 1 / M and the kernel's gradient.
    Yoon,
    /// The released code: exp(-d / h) of the distance itself, h from the lower median of the whole distance matrix with its
    /// zero diagonal; no 1 / M, and the repulsion sum_j k_ij (theta_i - theta_j) / h, which is the gradient of another kernel.
    Released,
}

/// Distances (squared by [`Rule::Yoon`]), kernel and bandwidth of a set of particles.
pub(crate) struct Kernel {
    pub distance: Vec<f64>,
    pub k: Vec<f64>,
    pub h: f64,
    /// The pairs (i, j) whose distances the median averages: one, or two.
    pub middle: Vec<(usize, usize)>,
}

impl Kernel {
    pub(crate) fn of(shape: &Shape, particles: &[f64]) -> Kernel {
        let m = shape.particles;
        let particle = |i: usize| &particles[i * shape.size()..(i + 1) * shape.size()];
        let mut distance = vec![0.0; m * m];
        for i in 0..m {
            for j in i + 1..m {
                let squared: f64 = particle(i).iter().zip(particle(j)).map(|(a, b)| (a - b) * (a - b)).sum();
                let d = if shape.rule == Rule::Yoon { squared } else { squared.sqrt() };
                (distance[i * m + j], distance[j * m + i]) = (d, d);
            }
        }
        let middle = match shape.rule {
            Rule::Yoon => middle_of_pairs(&distance, m),
            Rule::Released => lower_middle_of_all(&distance, m),
        };
        let median =
            middle.iter().map(|&(i, j)| distance[i * m + j]).sum::<f64>() / middle.len().max(1) as f64;
        // Particles in one place: every bandwidth gives k = 1 and no repulsion.
        let (h, middle) = if median > 0.0 { (median / (m as f64).ln(), middle) } else { (1.0, Vec::new()) };
        let k = distance.iter().map(|d| (-d / h).exp()).collect();
        Kernel { distance, k, h, middle }
    }

    /// d distance_ij / d theta_i = factor (theta_i - theta_j).
    pub(crate) fn distance_slope(&self, rule: Rule, place: usize) -> f64 {
        match rule {
            Rule::Yoon => 2.0,
            Rule::Released if self.distance[place] > 0.0 => 1.0 / self.distance[place],
            Rule::Released => 0.0,
        }
    }

    /// The factors of a step of this rate: of `k_ij grad U(theta_j)`, and of `k_ij (theta_i - theta_j)`.
    pub(crate) fn pull_and_push(&self, shape: &Shape, rate: f64) -> (f64, f64) {
        match shape.rule {
            Rule::Yoon => (rate / shape.particles as f64, 2.0 * rate / (shape.particles as f64 * self.h)),
            Rule::Released => (rate, rate / self.h),
        }
    }
}

/// The pairs i < j in the middle of their order by distance.
fn middle_of_pairs(distance: &[f64], m: usize) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = (0..m).flat_map(|i| (i + 1..m).map(move |j| (i, j))).collect();
    pairs.sort_by(|a, b| distance[a.0 * m + a.1].total_cmp(&distance[b.0 * m + b.1]));
    match pairs.len() {
        0 => Vec::new(),
        odd if odd % 2 == 1 => vec![pairs[odd / 2]],
        even => vec![pairs[even / 2 - 1], pairs[even / 2]],
    }
}

/// The lower middle of all M^2 entries, diagonal and both triangles.
fn lower_middle_of_all(distance: &[f64], m: usize) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = (0..m).flat_map(|i| (0..m).map(move |j| (i, j))).collect();
    all.sort_by(|a, b| distance[a.0 * m + a.1].total_cmp(&distance[b.0 * m + b.1]));
    all.get((m * m - 1) / 2).copied().into_iter().collect()
}
