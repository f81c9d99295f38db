//! The predictive likelihood: q(F) from the support, `sum_q log p(y_q)` at the queries, deterministic, with its gradient.
//!
//! Unlike a bound it is not stationary at a fixed point of the sweeps, so its gradient always passes through them: unrolled,
//! or by the implicit rule.

use faer::Mat;

use crate::inference::mean_field::{Start, Stop, Tape, Top, Updates};
use crate::linalg::{mul_vec, product};
use crate::posterior::{Blocks, Latent};
use crate::quadrature::Resolution;
use crate::quadrature::probabilities::{Predictive, Slope};
use crate::query::{Labelled, QueryGradient};
use crate::task::Task;
use crate::{Error, Result};

/// The predictive likelihood of labelled queries at the q(F) that sweeps on the support reach, with its gradient: through all of them
/// after a number of sweeps, by the implicit rule at their fixed point (an error if they do not reach the tolerance).
///
/// `sum_q log p(y_q)` with `p` of Eq. (15a): `E sigma(x_y) / sum_c sigma(x_c)`, `x_c ~ N(m, s2)`, `m = a* + k*' g`,
/// `s2 = k** - k*' R k*` in units of x = f/tau.
///
/// Use [`Resolution::Learning`] for learning: an absolute error of 4e-8 in p is 4e-8/p in log p. Below the error of the rule
/// log p goes on as its tangent, so that noise is not divided by noise.
pub fn predictive(
    task: &Task,
    Labelled { query, y }: Labelled<'_>,
    order: Updates,
    start: &Start,
    stop: Stop,
    resolution: Resolution,
) -> Result<QueryGradient> {
    let tape = Tape::new(task, order, start, stop)?;
    let (n, classes, m) = (task.points(), task.classes(), query.points());
    let x = query.standardise(task)?;
    check_labels(y, m, classes)?;
    let latent = Blocks::new(tape.blocks().iter().cloned(), 1.0)?.latent(&x)?;
    let (value, mbar, sbar) = log_likelihood(&latent, y, resolution)?;

    let mut top = Top::zeros(n, classes);
    let mut ks_bar = Vec::with_capacity(classes);
    for c in 0..classes {
        let block = &tape.blocks()[c];
        let (mbar, sbar) = (mbar.col_as_slice(c), sbar.col_as_slice(c));
        let p = block.adjoint(&tape.x().k[c]).p;
        let r = block.r();
        let (pk, rk) = (product(p.as_ref(), x.ks[c].as_ref()), product(r.as_ref(), x.ks[c].as_ref()));

        // m = a* + k*'g: gbar = K* mbar, and g = R (W^{-1} b - a) gives bbar = P gbar, abar = -R gbar.
        let gbar = mul_vec(&x.ks[c], mbar);
        let (p_gbar, r_gbar) = (mul_vec(&p, &gbar), mul_vec(&r, &gbar));
        for i in 0..n {
            let through_s2: f64 = (0..m).map(|q| sbar[q] * pk[(i, q)] * pk[(i, q)]).sum();
            top.b[(i, c)] = p_gbar[i];
            top.w[(i, c)] = -block.mu[i] * p_gbar[i] - through_s2;
            top.a[(i, c)] = -r_gbar[i];
            for j in 0..n {
                let through_m = -0.5 * (r_gbar[i] * block.g[j] + r_gbar[j] * block.g[i]);
                let through_s2: f64 = (0..m).map(|q| sbar[q] * rk[(i, q)] * rk[(j, q)]).sum();
                top.k[c][(i, j)] = through_m + through_s2;
            }
        }
        ks_bar.push(Mat::from_fn(n, m, |i, q| mbar[q] * block.g[i] - 2.0 * sbar[q] * rk[(i, q)]));
    }
    let support = tape.gradient(value, tape.back(top, stop)?);
    Ok(QueryGradient::new(support, ks_bar, sbar, mbar, &x, task.tau()))
}

fn check_labels(y: &[usize], points: usize, classes: usize) -> Result<()> {
    if points == 0 {
        return Err(Error::Empty { what: "query", needed: 1 });
    }
    if y.len() != points {
        return Err(Error::Shape { what: "labels of the queries", expected: points, got: y.len() });
    }
    match y.iter().enumerate().find(|&(_, &label)| label >= classes) {
        Some((row, &label)) => Err(Error::Label { row, label, classes }),
        None => Ok(()),
    }
}

/// `sum_q log p(y_q)` and its derivatives in the latent means and variances (x-units, tau = 1), [M, C].
///
/// A probability below the error e of the rule is noise, and so is its logarithm: there the tangent at e stands for it,
/// `log e + (p - e)/e`. Value and slope are continuous, they belong together, and no slope is larger than `1/e` times that of p.
fn log_likelihood(latent: &Latent, y: &[usize], resolution: Resolution) -> Result<(f64, Mat<f64>, Mat<f64>)> {
    let (m, classes) = (latent.points(), latent.classes());
    let mut rule = Predictive::new(resolution);
    let mut slope = Slope::default();
    let (mut mean, mut var) = (vec![0.0; classes], vec![0.0; classes]);
    let (mut mbar, mut sbar) = (Mat::zeros(m, classes), Mat::zeros(m, classes));
    let least = resolution.probability_error();
    let mut value = 0.0;
    for q in 0..m {
        for c in 0..classes {
            (mean[c], var[c]) = (latent.mean[(q, c)], latent.var[(q, c)]);
        }
        let p = rule.prob_and_slope(&mean, &var, y[q], &mut slope).map_err(|error| error.in_row(q))?;
        let of_label = p.max(least);
        value += of_label.ln() + (p - of_label) / of_label;
        for c in 0..classes {
            mbar[(q, c)] = slope.dm[c] / of_label;
            sbar[(q, c)] = slope.ds2[c] / of_label;
        }
    }
    Ok((value, mbar, sbar))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::inner;
    use crate::testing::{assert_gradient, gram, normal};
    use crate::{Gradient, Query};
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// Support and queries share one Gram matrix for each class, so that every latent variance is positive.
    fn episode(n: usize, m: usize, c: usize, tau: f64, a: f64, seed: u64) -> (Task, Query, Vec<usize>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let full: Vec<Mat<f64>> =
            (0..c).map(|_| gram(&(normal(&mut rng, n + m, n + m) * faer::Scale(0.4)))).collect();
        let k = full.iter().map(|f| f.submatrix(0, 0, n, n).to_owned()).collect();
        let ks = full.iter().map(|f| f.submatrix(0, n, n, m).to_owned()).collect();
        let kss = Mat::from_fn(m, c, |q, j| full[j][(n + q, n + q)]);
        let mean = |rows| Mat::from_fn(rows, c, |i, j| a + 0.1 * (i as f64 - j as f64));
        let task = Task::new(k, (0..n).map(|i| i % c).collect(), mean(n), tau).unwrap();
        (task, Query { ks, kss, astar: mean(m) }, (0..m).map(|q| (q + 1) % c).collect())
    }

    fn support(got: &QueryGradient) -> Gradient {
        let residual = got.residual;
        Gradient { value: got.value, dk: got.dk.clone(), da: got.da.clone(), dtau: got.dtau, residual }
    }

    const FINE: Resolution = Resolution::Fine;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6))]
        #[test]
        fn gradients_agree_with_differences(
            seed in 0u64..1000, n in 2usize..6, c in 2usize..4, steps in 1usize..4, tau in 0.4..1.2f64, a in -1.5..0.5f64,
        ) {
            let (task, query, y) = episode(n, 3, c, tau, a, seed);
            for order in [Updates::Joint, Updates::Collapsed, Updates::Exact, Updates::Paper] {
                let run = |task: &Task, query: &Query| {
                    predictive(task, Labelled { query, y: &y }, order, &Start::Prior, Stop::Steps(steps), FINE).unwrap()
                };
                let got = run(&task, &query);
                assert_gradient(&task, &support(&got), |task| run(task, &query).value, 1e-5);
                // the query's own arrays, along one random direction each
                let mut rng = ChaCha8Rng::seed_from_u64(seed + 7);
                let h = 1e-6;
                let mut compare = |what: &str, bar: &[Mat<f64>], set: &dyn Fn(&mut Query, usize, &Mat<f64>)| {
                    let d: Vec<Mat<f64>> = bar.iter().map(|b| normal(&mut rng, b.nrows(), b.ncols())).collect();
                    let value = |e: f64| {
                        let mut moved = query.clone();
                        d.iter().enumerate().for_each(|(j, d)| set(&mut moved, j, &(d * faer::Scale(e))));
                        run(&task, &moved).value
                    };
                    let fd = (value(h) - value(-h)) / (2.0 * h);
                    let want: f64 = bar.iter().zip(&d).map(|(b, d)| inner(b, d)).sum();
                    let scale: f64 = bar.iter().zip(&d).map(|(b, d)| b.norm_l2() * d.norm_l2()).sum();
                    assert!((fd - want).abs() < 1e-5 * scale, "{what} {order:?}: {fd} {want}");
                };
                compare("dks", &got.dks, &|q, j, d| q.ks[j] += d);
                compare("dkss", std::slice::from_ref(&got.dkss), &|q, _, d| q.kss += d);
                compare("dastar", std::slice::from_ref(&got.dastar), &|q, _, d| q.astar += d);
            }
        }
    }

    /// Labels the model holds for impossible: the value stays finite, and the gradient is its slope.
    #[test]
    fn rare_labels_have_a_bounded_slope() {
        for (resolution, m) in
            [(Resolution::Fine, 45.0), (Resolution::Standard, 20.0), (Resolution::Fine, 900.0)]
        {
            let latent = |m: f64| {
                Latent::independent(
                    Mat::from_fn(1, 2, |_, c| [m, -m][c]),
                    Mat::from_fn(1, 2, |_, _| 0.3),
                    1.0,
                )
            };
            let e = resolution.probability_error();
            let (value, mbar, sbar) = log_likelihood(&latent(m), &[1], resolution).unwrap();
            assert!((value - (e.ln() - 1.0)).abs() < 0.5, "{value}");
            assert!(mbar.norm_max() <= 1.0 && sbar.norm_max() <= 1.0, "{mbar:?} {sbar:?}");
        }
        // Where p passes the error of the rule, nothing jumps.
        let at = |m: f64| {
            let latent = Latent::independent(
                Mat::from_fn(1, 2, |_, c| [0.0, m][c]),
                Mat::from_fn(1, 2, |_, _| 0.01),
                1.0,
            );
            let (value, mbar, _) = log_likelihood(&latent, &[1], FINE).unwrap();
            (value, mbar[(0, 1)])
        };
        for i in 0..60 {
            let (m, h) = (-20.0 - 0.2 * f64::from(i), 1e-3);
            let want = (at(m + h).0 - at(m - h).0) / (2.0 * h);
            assert!((at(m).1 - want).abs() < 1e-3, "{m}: {} {want}", at(m).1);
        }
    }

    #[test]
    fn the_implicit_rule_equals_long_unrolling() {
        let (task, query, y) = episode(6, 4, 3, 0.6, -0.2, 3);
        for order in [Updates::Joint, Updates::Collapsed] {
            let long = predictive(
                &task,
                Labelled { query: &query, y: &y },
                order,
                &Start::Prior,
                Stop::Steps(300),
                FINE,
            )
            .unwrap();
            let fixed = predictive(
                &task,
                Labelled { query: &query, y: &y },
                order,
                &Start::Prior,
                Stop::Tolerance { tol: 1e-14, max_steps: 3000 },
                FINE,
            )
            .unwrap();
            assert!((long.value - fixed.value).abs() < 1e-10);
            for c in 0..3 {
                let error = (&long.dk[c] - &fixed.dk[c]).norm_max() / long.dk[c].norm_max();
                assert!(error < 1e-8, "{order:?} {error:e}");
            }
            assert!((&long.da - &fixed.da).norm_max() < 1e-8 * long.da.norm_max());
            assert!((long.dtau - fixed.dtau).abs() < 1e-8 * long.dtau.abs().max(1.0));
        }
    }

    #[test]
    fn wrong_queries_are_named() {
        let (task, query, y) = episode(3, 2, 2, 1.0, 0.0, 1);
        let run = |query: &Query, y: &[usize]| {
            predictive(&task, Labelled { query, y }, Updates::Joint, &Start::Prior, Stop::Steps(1), FINE)
                .map(|_| ())
        };
        assert!(run(&query, &y).is_ok());
        assert_eq!(run(&query, &[0, 2]).unwrap_err(), Error::Label { row: 1, label: 2, classes: 2 });
        assert!(matches!(run(&query, &[0]).unwrap_err(), Error::Shape { expected: 2, got: 1, .. }));
        let wrong = |change: &dyn Fn(&mut Query)| {
            let mut q = query.clone();
            change(&mut q);
            run(&q, &y).unwrap_err()
        };
        assert!(matches!(wrong(&|q| q.ks.truncate(1)), Error::Shape { .. }));
        assert!(matches!(wrong(&|q| q.astar[(0, 1)] = f64::NAN), Error::NotFinite { what: "astar", .. }));
        assert!(matches!(wrong(&|q| q.ks[0] = Mat::zeros(3, 1)), Error::ShapeOf { what: "ks", .. }));
    }
}
