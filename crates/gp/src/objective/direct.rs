//! The direct bound: the expected log-likelihood of the logistic-softmax itself, nothing augmented.
//!
//! `L_d(q) = sum_n ( E log sigma(x_{n,y}) - E log Z_n ) - KL(q(F) || p(F))`: never below the collapsed bound of the same q(F).

use crate::Result;
use crate::gaussian::SignedBlock;
use crate::inference::mean_field::{Start, Stop, Tape, Top, Updates};
use crate::inference::natural::{Natural, NaturalOptions, natural};
use crate::parallel::{MANY_POINTS, over_ranges};
use crate::quadrature::{Resolution, expected::expected_log_lik};
use crate::task::{Gradient, Task};
use faer::Mat;

/// The direct bound at the q(F) that collapsed sweeps reach from the prior, and its gradient: through all of them after a number of
/// sweeps, by the implicit rule at their fixed point (which is not where the direct bound is stationary, so the envelope rule would be
/// wrong; not reaching the tolerance is an error).
///
/// `L_d(q) = sum_n ( E log sigma(x_y) - E log sum_c sigma(x_c) ) - KL(q(F) || p(F))`, expectations under q(F), x = f/tau.
///
/// On top of the tape: `mubar = d ell/dmu - g`, `vbar = d ell/dv + w/2`, directly `Kbar = (g g' - R)/2`, `abar = g`.
pub fn direct(task: &Task, stop: Stop, resolution: Resolution) -> Result<Gradient> {
    let tape = Tape::new(task, Updates::Collapsed, &Start::Prior, stop)?;
    let (value, top) = value_and_top(&tape, resolution)?;
    let bar = tape.back(top, stop)?;
    Ok(tape.gradient(value, bar))
}

fn value_and_top(tape: &Tape<'_>, resolution: Resolution) -> Result<(f64, Top)> {
    let fit = expected_log_lik(tape.mu().as_ref(), tape.v().as_ref(), tape.x().y, resolution)?;
    let mut top = tape.minus_kl();
    top.mu += &fit.dmu;
    top.v += &fit.dv;
    Ok((fit.value - tape.kl(), top))
}

/// The direct bound ([`direct`]) maximised over q(F), with its gradient by the envelope rule: `Kbar = (g g' - R)/2`, `abar = g`.
///
/// Exact where the ascent has converged ([`Natural::converged`]). With a fixed number of steps (tolerance 0) the gradient is
/// that of the bound with q(F) held: it leaves out how q(F) itself moves.
pub fn natural_bound(task: &Task, options: NaturalOptions) -> Result<(Gradient, Natural)> {
    let fit = natural(&task.standardise(), options)?;
    Ok((envelope(task, &fit.blocks, fit.bound()), fit))
}

/// The `bound` that inference has reached with these blocks, and its gradient by the envelope rule.
pub(crate) fn envelope(task: &Task, blocks: &[SignedBlock], bound: f64) -> Gradient {
    let (points, classes) = (task.points(), task.classes());
    let mut abar = Mat::zeros(points, classes);
    for (c, block) in blocks.iter().enumerate() {
        abar.col_as_slice_mut(c).copy_from_slice(&block.g);
    }
    let kbar = |block: &SignedBlock| {
        let (r, g) = (block.r(), &block.g);
        Mat::from_fn(g.len(), g.len(), |i, j| 0.5 * (g[i] * g[j] - r[(i, j)]))
    };
    let least = if points < MANY_POINTS { classes } else { 1 };
    let kbar = over_ranges(classes, least, |range| blocks[range].iter().map(kbar).collect::<Vec<_>>());
    task.gradient(bound, kbar.into_iter().flatten().collect(), abar)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{cholesky, product};
    use crate::objective::bound;
    use crate::special::sigmoid;
    use proptest::prelude::*;

    /// A task from free numbers: K = scale (X X' + 0.1 I) per class.
    fn task(n: usize, classes: usize, tau: f64, a: f64, scale: f64, numbers: &[f64]) -> Task {
        let mut numbers = numbers.iter().copied().cycle();
        let k = (0..classes)
            .map(|_| {
                let x = Mat::from_fn(n, 2, |_, _| numbers.next().unwrap_or(0.0));
                (product(x.as_ref(), x.transpose()) + Mat::<f64>::identity(n, n) * faer::Scale(0.1))
                    * faer::Scale(scale)
            })
            .collect();
        let y = (0..n).map(|i| i % classes).collect();
        let a = Mat::from_fn(n, classes, |_, _| a + 0.3 * numbers.next().unwrap_or(0.0));
        Task::new(k, y, a, tau).unwrap()
    }

    /// log p(Y) for two points by a tensor rule over the 2 C latent values, C = 2 or 3.
    fn log_evidence(task: &Task) -> f64 {
        let h = if task.classes() == 2 { 0.25 } else { 0.9 };
        let side = (6.3f64 / h).ceil() as i32;
        let z: Vec<f64> = (-side..=side).map(|i| f64::from(i) * h).collect();
        let weight = |z: f64| h * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        // Per class: sigma(x_1), sigma(x_2) and the weight at every node.
        let planes: Vec<Vec<[f64; 3]>> = (0..task.classes())
            .map(|c| {
                let l = cholesky(task.k()[c].clone(), "k").unwrap();
                let (a, tau) = (task.a(), task.tau());
                let node = |z0: f64, z1: f64| {
                    let (f0, f1) = (a[(0, c)] + l[(0, 0)] * z0, a[(1, c)] + l[(1, 0)] * z0 + l[(1, 1)] * z1);
                    [sigmoid(f0 / tau), sigmoid(f1 / tau), weight(z0) * weight(z1)]
                };
                z.iter()
                    .flat_map(|&z0| z.iter().map(move |&z1| (z0, z1)))
                    .map(|(z0, z1)| node(z0, z1))
                    .collect()
            })
            .collect();
        let none = vec![[0.0, 0.0, 1.0]];
        let third = planes.get(2).unwrap_or(&none);
        let (y0, y1) = (task.y()[0], task.y()[1]);
        let mut total = 0.0;
        for a in &planes[0] {
            for b in &planes[1] {
                let mut row = 0.0;
                for c in third {
                    let of = [a, b, c];
                    row += c[2] * (of[y0][0] / (a[0] + b[0] + c[0])) * (of[y1][1] / (a[1] + b[1] + c[1]));
                }
                total += a[2] * b[2] * row;
            }
        }
        total.ln()
    }

    #[test]
    fn the_bounds_are_ordered_and_the_best_is_close() {
        let numbers = [0.8, -0.3, 0.5, 0.9, -0.7, 0.2, 0.4, -0.9, 0.1, 0.6, -0.5];
        for (classes, tau, a) in [(2, 1.0, 0.0), (2, 0.5, -1.0), (2, 0.5, -3.0), (3, 1.0, 0.0)] {
            let task = task(2, classes, tau, a, 0.7, &numbers);
            let steps = Stop::Steps(200);
            let paper = bound(&task, Updates::Joint, Updates::Joint, &Start::Prior, steps).unwrap().value;
            // The paper family at the collapsed q(F), which the ordering is about.
            let family =
                bound(&task, Updates::Joint, Updates::Collapsed, &Start::Prior, steps).unwrap().value;
            let collapsed =
                bound(&task, Updates::Collapsed, Updates::Collapsed, &Start::Prior, steps).unwrap().value;
            let at_collapsed = direct(&task, steps, Resolution::Fine).unwrap().value;
            let (best, fit) = natural_bound(&task, NaturalOptions::default()).unwrap();
            let truth = log_evidence(&task);
            assert!(fit.converged);
            assert!(family <= collapsed && paper <= collapsed && collapsed <= at_collapsed);
            assert!(
                at_collapsed <= best.value + 1e-7 && best.value <= truth + 1e-4,
                "{} {truth}",
                best.value
            );
            assert!(truth - best.value < 0.4, "classes {classes}, tau {tau}, a {a}: {} {truth}", best.value);
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let numbers: Vec<f64> = (0..97).map(|i| (f64::from(i) * 1.3).sin()).collect();
        let task = task(40, 3, 0.5, -0.5, 1.0, &numbers);
        let options = NaturalOptions {
            max_steps: 8,
            tolerance: 0.0,
            resolution: Resolution::Fast,
            ..NaturalOptions::default()
        };
        let found = || natural_bound(&task, options).unwrap().0;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let (alone, together) = (found(), pool.install(found));
        assert_eq!(alone.value.to_bits(), together.value.to_bits());
        assert_eq!((alone.dk, alone.da, alone.dtau), (together.dk, together.da, together.dtau));
    }

    /// Changes one number of a task and gives back the task.
    fn nudged(task: &Task, what: usize, h: f64) -> Task {
        let (mut k, mut a, mut tau) = (task.k().to_vec(), task.a().clone(), task.tau());
        match what {
            0 => tau += h,
            1 => a[(1, 0)] += h,
            2 => k[0][(1, 1)] += h,
            _ => {
                k[1][(0, 1)] += h;
                k[1][(1, 0)] += h;
            }
        }
        Task::new(k, task.y().to_vec(), a, tau).unwrap()
    }

    fn entry(gradient: &Gradient, what: usize) -> f64 {
        match what {
            0 => gradient.dtau,
            1 => gradient.da[(1, 0)],
            2 => gradient.dk[0][(1, 1)],
            _ => 2.0 * gradient.dk[1][(0, 1)],
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn gradients_match_differences(
            numbers in prop::collection::vec(-1.0..1.0f64, 23), n in 2usize..5, classes in 2usize..4,
            tau in 0.3..1.5f64, a in -2.0..0.5f64, steps in 1usize..4,
        ) {
            let task = task(n, classes, tau, a, 1.0, &numbers);
            let options = NaturalOptions { tolerance: 1e-10, max_steps: 2000, resolution: Resolution::Golden, ..NaturalOptions::default() };
            type Objective<'a> = &'a dyn Fn(&Task) -> Gradient;
            let unrolled = |t: &Task| direct(t, Stop::Steps(steps), Resolution::Golden).unwrap();
            let fixed = |t: &Task| direct(t, Stop::Tolerance { tol: 1e-13, max_steps: 20_000 }, Resolution::Golden).unwrap();
            let best = |t: &Task| natural_bound(t, options).unwrap().0;
            let objectives: [(&str, Objective<'_>, f64); 3] =
                [("unrolled", &unrolled, 1e-7), ("implicit", &fixed, 1e-6), ("envelope", &best, 1e-6)];
            for (name, objective, tolerance) in objectives {
                let gradient = objective(&task);
                for what in 0..4 {
                    let h = 1e-5;
                    let by_difference = (objective(&nudged(&task, what, h)).value - objective(&nudged(&task, what, -h)).value) / (2.0 * h);
                    let got = entry(&gradient, what);
                    prop_assert!((got - by_difference).abs() < tolerance * (1.0 + got.abs()), "{name} {what}: {got} {by_difference}");
                }
            }
        }
    }
}
