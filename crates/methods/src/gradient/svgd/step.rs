//! A step of all particles, its exact adjoint, and rows of steps.

use super::energy::{energy_gradient, energy_second};
use super::{Kernel, Points, Shape};

/// One step down.
pub(crate) fn step(shape: &Shape, particles: &[f64], points: Points<'_>, rate: f64) -> Vec<f64> {
    let (m, size) = (shape.particles, shape.size());
    let kernel = Kernel::of(shape, particles);
    let gradients: Vec<f64> =
        particles.chunks_exact(size).flat_map(|p| energy_gradient(shape, p, points)).collect();
    let mut next = particles.to_vec();
    let (pull, push) = kernel.pull_and_push(shape, rate);
    for i in 0..m {
        for j in 0..m {
            let k = kernel.k[i * m + j];
            for c in 0..size {
                next[i * size + c] += push * k * (particles[i * size + c] - particles[j * size + c])
                    - pull * k * gradients[j * size + c];
            }
        }
    }
    next
}

/// From the gradient `v` with respect to the particles after [`step`] to that before it; adds to `dx` the gradient
/// with respect to the features.
pub(super) fn step_adjoint(
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
    let (pull, push) = kernel.pull_and_push(shape, rate);
    let of = |values: &[f64], i: usize| values[i * size..(i + 1) * size].to_vec();
    let mut dparticles = v.to_vec();
    let mut dgradients = vec![0.0; particles.len()];
    let mut ddistance = vec![0.0; m * m];
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
            ddistance[i * m + j] -= dk * k / kernel.h;
            dh += dk * k * kernel.distance[i * m + j] / kernel.h.powi(2) - push * k * apart / kernel.h;
        }
    }
    // h = mean of the middle distances / log M.
    for &(i, j) in &kernel.middle {
        ddistance[i * m + j] += dh / ((m as f64).ln() * kernel.middle.len() as f64);
    }
    for i in 0..m {
        for j in 0..m {
            let d = ddistance[i * m + j] * kernel.distance_slope(shape.rule, i * m + j);
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
pub(crate) fn path(
    shape: &Shape,
    particles: &[f64],
    points: Points<'_>,
    rate: f64,
    count: usize,
) -> Vec<Vec<f64>> {
    let mut path = vec![particles.to_vec()];
    for k in 0..count {
        path.push(step(shape, &path[k], points, rate));
    }
    path
}

/// The adjoint of [`path`]: `v`, the gradient at its end, becomes that at its start, and the gradient of the rows of
/// `points` is added to `dx`.
pub(crate) fn path_adjoint(
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
