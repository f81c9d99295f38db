//! One episode, the seam to whatever makes the features: features and labels in; an objective and its gradient, or a
//! classifier for new features, out.

use faer::{Mat, MatRef};

use crate::inference::{NaturalOptions, Order, Start, Stop, infer, natural};
use crate::kernels::{Features, Kernel, KernelGradient};
use crate::objective::{Bound, bound, bound_at_fixed_point, direct, natural_bound};
use crate::predict::{Latent, Posterior};
use crate::quadrature::Precision;
use crate::{Error, Gradient, Result, Task};

/// Everything an episode does not bring along: kernel, prior mean, temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct Hyper {
    /// The kernel with its raw parameters.
    pub kernel: Kernel,
    /// The prior mean a of every latent function.
    pub mean: f64,
    /// The temperature. To learn it, step in log tau with [`HyperGradient::log_tau`].
    pub tau: f64,
}

/// The gradient of an objective in the hyperparameters.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperGradient {
    /// In the raw parameters of the kernel.
    pub kernel: KernelGradient,
    /// In the prior mean.
    pub mean: f64,
    /// In log tau.
    pub log_tau: f64,
}

/// What to maximise.
#[derive(Debug, Clone, PartialEq)]
pub enum Objective {
    /// A bound of the mean-field family after a number of sweeps, differentiated through them.
    Elbo {
        /// Order of the updates.
        order: Order,
        /// Which bound.
        kind: Bound,
        /// Sweeps, at least 1.
        steps: usize,
    },
    /// The collapsed bound after some sweeps (differentiated through them) or at their fixed point (envelope rule).
    Collapsed(Stop),
    /// The direct bound at the q(F) of some collapsed sweeps.
    Direct {
        /// Sweeps, at least 1.
        steps: usize,
        /// Of the integrals.
        precision: Precision,
    },
    /// The direct bound maximised over q(F) by natural-gradient steps, with the envelope gradient. A tolerance of 0 takes
    /// exactly `max_steps` steps.
    Natural(NaturalOptions),
}

/// An objective of one episode with its gradient.
#[derive(Debug, Clone)]
pub struct EpisodeGradient {
    /// The objective; larger is better.
    pub value: f64,
    /// Its gradient in the features, [N, D].
    pub features: Mat<f64>,
    /// Its gradient in the hyperparameters.
    pub hyper: HyperGradient,
    /// False if an inference asked to converge did not: the value stands, the gradient is approximate.
    pub converged: bool,
}

/// The objective of the episode with features `x` [N, D] and labels `y` [N] in `0..classes`, and its gradient.
pub fn value_and_gradient(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    objective: &Objective,
) -> Result<EpisodeGradient> {
    let features = hyper.features(x, y, classes)?;
    let kernel = &hyper.kernel;
    let base = kernel.within(&features);
    let task = hyper.task(kernel.scaled(&base, classes), y, classes)?;
    let (gradient, converged) = evaluate(&task, objective)?;

    let mut in_kernel = KernelGradient::zeros(kernel);
    let bar = kernel.pull_scale(&base, &gradient.dk, &mut in_kernel);
    let mut zbar = Mat::zeros(features.dim(), features.points());
    kernel.pull_within(&features, &base, &bar, &mut zbar, &mut in_kernel);
    let mean = crate::linalg::sum_any_order(&mut entries(&gradient.da));
    let hyper = HyperGradient { kernel: in_kernel, mean, log_tau: hyper.tau * gradient.dtau };
    Ok(EpisodeGradient { value: gradient.value, features: features.pull_back(&zbar), hyper, converged })
}

/// The objective in terms of the kernel matrices; whether its inference converged, if it was to.
fn evaluate(task: &Task, objective: &Objective) -> Result<(Gradient, bool)> {
    let start = &Start::Prior;
    let gradient = match *objective {
        Objective::Elbo { order, kind, steps } => bound(task, kind, order, start, steps)?,
        Objective::Collapsed(Stop::Steps(steps)) => {
            bound(task, Bound::Collapsed, Order::Collapsed, start, steps)?
        }
        Objective::Collapsed(Stop::Tolerance { tol, max_steps }) => {
            bound_at_fixed_point(task, Bound::Collapsed, Order::Collapsed, start, tol, max_steps)?
        }
        Objective::Direct { steps, precision } => direct(task, steps, precision)?,
        Objective::Natural(options) => {
            let (gradient, fit) = natural_bound(task, options)?;
            return Ok((gradient, fit.converged || options.tolerance == 0.0));
        }
    };
    Ok((gradient, true))
}

fn entries(m: &Mat<f64>) -> Vec<f64> {
    (0..m.ncols()).flat_map(|c| m.col_as_slice(c).iter().copied()).collect()
}

impl Hyper {
    /// Checks labels and parameters, then the features.
    fn features(&self, x: MatRef<'_, f64>, y: &[usize], classes: usize) -> Result<Features> {
        self.kernel.check(classes)?;
        if !self.mean.is_finite() {
            return Err(Error::NotFinite { what: "prior mean", row: 0, col: 0, value: self.mean });
        }
        if y.len() != x.nrows() {
            return Err(Error::Shape { what: "labels", expected: x.nrows(), got: y.len() });
        }
        self.kernel.features(x)
    }

    fn task(&self, k: Vec<Mat<f64>>, y: &[usize], classes: usize) -> Result<Task> {
        Task::new(k, y.to_vec(), Mat::from_fn(y.len(), classes, |_, _| self.mean), self.tau)
    }
}

/// How to find q(F) from the labelled points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inference {
    /// Mean-field sweeps from the prior.
    MeanField {
        /// Order of the updates.
        order: Order,
        /// When to stop.
        stop: Stop,
    },
    /// Natural-gradient ascent on the direct bound: close to the exact posterior.
    Natural(NaturalOptions),
}

/// A classifier adapted to the labelled points of one episode.
#[derive(Debug, Clone)]
pub struct Adapted {
    hyper: Hyper,
    support: Features,
    posterior: Posterior,
    /// The bound on log p(Y) that inference reached.
    pub bound: f64,
    /// Sweeps or steps taken.
    pub steps: usize,
    /// Whether inference met its tolerance; true if it was given a number of steps instead.
    pub converged: bool,
}

/// Finds q(F) for the labelled points with features `x` [N, D] and labels `y` [N] in `0..classes`.
pub fn adapt(
    x: MatRef<'_, f64>,
    y: &[usize],
    classes: usize,
    hyper: &Hyper,
    inference: &Inference,
) -> Result<Adapted> {
    let support = hyper.features(x, y, classes)?;
    let task = hyper.task(hyper.kernel.scaled(&hyper.kernel.within(&support), classes), y, classes)?;
    let (posterior, bound, steps, converged) = match *inference {
        Inference::MeanField { order, stop } => {
            let fit = infer(&task, order, &Start::Prior, stop)?;
            let fixed = matches!(stop, Stop::Steps(_));
            let posterior = Posterior::new(fit.blocks().iter().cloned(), hyper.tau)?;
            (posterior, fit.trace[fit.trace.len() - 1], fit.steps, fit.converged || fixed)
        }
        Inference::Natural(options) => {
            let fit = natural(&task.standardise(), options)?;
            let (bound, steps) = (fit.bound(), fit.bounds.len() - 1);
            let converged = fit.converged || options.tolerance == 0.0;
            (Posterior::new(fit.blocks, hyper.tau)?, bound, steps, converged)
        }
    };
    Ok(Adapted { hyper: hyper.clone(), support, posterior, bound, steps, converged })
}

impl Adapted {
    /// q(F) on the labelled points.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Latent means and variances at new features `x` [M, D], in units of f.
    pub fn latent(&self, x: MatRef<'_, f64>) -> Result<Latent> {
        let (kernel, classes) = (&self.hyper.kernel, self.posterior.classes());
        let queries = kernel.features(x)?;
        let k_star = kernel.scaled(&kernel.between(&self.support, &queries)?, classes);
        let own = kernel.diag(&queries);
        let k_star_star = Mat::from_fn(queries.points(), classes, |q, c| kernel.scale(c) * own.value[(q, 0)]);
        let a_star = Mat::from_fn(queries.points(), classes, |_, _| self.hyper.mean);
        self.posterior.latent(&k_star, &k_star_star, &a_star)
    }

    /// Class probabilities at new features `x` [M, D]; each row sums to 1.
    pub fn probs(&self, x: MatRef<'_, f64>, precision: Precision) -> Result<Mat<f64>> {
        self.latent(x)?.probs(precision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::KernelKind;
    use proptest::prelude::*;

    fn hyper(kind: KernelKind, normalise: bool, per_class: bool, mean: f64, tau: f64) -> Hyper {
        let mut kernel = Kernel::new(kind);
        kernel.normalise = normalise;
        kernel.raw_shape = 0.4;
        kernel.raw_scale = if per_class { vec![0.1, -0.5, 0.8] } else { vec![0.3] };
        Hyper { kernel, mean, tau }
    }

    fn objectives() -> Vec<Objective> {
        let precision = Precision::Golden;
        vec![
            Objective::Elbo { order: Order::Joint, kind: Bound::Profiled, steps: 2 },
            Objective::Elbo { order: Order::Paper, kind: Bound::General, steps: 2 },
            Objective::Collapsed(Stop::Steps(3)),
            Objective::Collapsed(Stop::Tolerance { tol: 1e-13, max_steps: 20_000 }),
            Objective::Direct { steps: 2, precision },
            Objective::Natural(NaturalOptions { max_steps: 2000, tolerance: 1e-10, precision }),
        ]
    }

    const KINDS: [KernelKind; 5] = [
        KernelKind::Cosine,
        KernelKind::Linear,
        KernelKind::Rbf,
        KernelKind::Matern52,
        KernelKind::Polynomial { power: 2 },
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn gradients_match_differences(
            numbers in prop::collection::vec(0.2..1.5f64, 15), kind in 0usize..5, normalise: bool, per_class: bool,
            mean in -1.0..0.5f64, tau in 0.4..1.2f64,
        ) {
            let y = [0, 1, 2, 1, 0];
            let x = Mat::from_fn(5, 3, |i, j| numbers[3 * i + j] * if (i + j) % 3 == 0 { -1.0 } else { 1.0 });
            let hyper = hyper(KINDS[kind], normalise, per_class, mean, tau);
            for objective in objectives() {
                let at = |x: &Mat<f64>, hyper: &Hyper| value_and_gradient(x.as_ref(), &y, 3, hyper, &objective).unwrap();
                let gradient = at(&x, &hyper);
                prop_assert!(gradient.converged);
                let h = 1e-5;
                let check = |got: f64, up: f64, down: f64, what: &str| {
                    let want = (up - down) / (2.0 * h);
                    let close = (got - want).abs() < 2e-6 * (1.0 + got.abs());
                    prop_assert!(close, "{what}: {got} {want}, {objective:?}");
                    Ok(())
                };
                for (i, j) in [(0, 0), (3, 1), (4, 2)] {
                    let moved = |h: f64| { let mut x = x.clone(); x[(i, j)] += h; at(&x, &hyper).value };
                    check(gradient.features[(i, j)], moved(h), moved(-h), "features")?;
                }
                let moved = |change: &dyn Fn(&mut Hyper)| { let mut hyper = hyper.clone(); change(&mut hyper); at(&x, &hyper).value };
                check(gradient.hyper.mean, moved(&|p| p.mean += h), moved(&|p| p.mean -= h), "mean")?;
                let by_tau = (moved(&|p| p.tau *= h.exp()), moved(&|p| p.tau *= (-h).exp()));
                check(gradient.hyper.log_tau, by_tau.0, by_tau.1, "log tau")?;
                let by_shape = (moved(&|p| p.kernel.raw_shape += h), moved(&|p| p.kernel.raw_shape -= h));
                check(gradient.hyper.kernel.raw_shape, by_shape.0, by_shape.1, "shape")?;
                let last = hyper.kernel.raw_scale.len() - 1;
                let by_scale = (moved(&|p| p.kernel.raw_scale[last] += h), moved(&|p| p.kernel.raw_scale[last] -= h));
                check(gradient.hyper.kernel.raw_scale[last], by_scale.0, by_scale.1, "scale")?;
            }
        }
    }

    #[test]
    fn relabelling_the_classes_permutes_everything_to_the_bit() {
        let x =
            Mat::from_fn(6, 4, |i, j| ((i * 5 + j * 3) as f64).sin() + if i % 3 == j { 1.0 } else { 0.0 });
        let queries = Mat::from_fn(4, 4, |i, j| ((i * 2 + j * 7) as f64).cos());
        let y = [0, 1, 2, 0, 1, 1];
        let moved_y = y.map(|c| (c + 1) % 3);
        let one = hyper(KernelKind::Rbf, true, true, -0.7, 0.3);
        let mut other = one.clone();
        other.kernel.raw_scale.rotate_right(1);
        for objective in objectives() {
            let a = value_and_gradient(x.as_ref(), &y, 3, &one, &objective).unwrap();
            let b = value_and_gradient(x.as_ref(), &moved_y, 3, &other, &objective).unwrap();
            assert_eq!(a.value.to_bits(), b.value.to_bits(), "{objective:?}");
            assert_eq!(a.features, b.features);
            assert_eq!((a.hyper.mean, a.hyper.log_tau), (b.hyper.mean, b.hyper.log_tau));
            let mut scales = a.hyper.kernel.raw_scale.clone();
            scales.rotate_right(1);
            assert_eq!(scales, b.hyper.kernel.raw_scale);
        }
        for inference in [
            Inference::MeanField { order: Order::Joint, stop: Stop::Steps(10) },
            Inference::Natural(NaturalOptions::default()),
        ] {
            let p = adapt(x.as_ref(), &y, 3, &one, &inference)
                .unwrap()
                .probs(queries.as_ref(), Precision::Standard)
                .unwrap();
            let q = adapt(x.as_ref(), &moved_y, 3, &other, &inference)
                .unwrap()
                .probs(queries.as_ref(), Precision::Standard)
                .unwrap();
            for i in 0..4 {
                for c in 0..3 {
                    assert_eq!(p[(i, c)].to_bits(), q[(i, (c + 1) % 3)].to_bits());
                }
            }
        }
    }

    #[test]
    fn adapting_learns_the_labels_and_forgets_far_away() {
        let x = Mat::from_fn(6, 2, |i, j| if i % 2 == j { 2.0 + 0.1 * i as f64 } else { -1.0 });
        let y = [0, 1, 0, 1, 0, 1];
        let hyper =
            Hyper { kernel: Kernel::new(KernelKind::Rbf).with_scale(3.0).unwrap(), mean: -1.0, tau: 0.5 };
        let adapted =
            adapt(x.as_ref(), &y, 2, &hyper, &Inference::Natural(NaturalOptions::default())).unwrap();
        assert!(adapted.converged && adapted.bound < 0.0);
        let p = adapted.probs(x.as_ref(), Precision::Standard).unwrap();
        for (i, &label) in y.iter().enumerate() {
            assert!(p[(i, label)] > 0.8, "{}", p[(i, label)]);
        }
        let far = Mat::from_fn(1, 2, |_, _| 1e3);
        let latent = adapted.latent(far.as_ref()).unwrap();
        assert_eq!((latent.mean[(0, 0)], latent.mean[(0, 1)]), (-1.0, -1.0));
        assert!((latent.var[(0, 0)] - 3.0).abs() < 1e-12);
        assert!((adapted.probs(far.as_ref(), Precision::Fine).unwrap()[(0, 0)] - 0.5).abs() < 1e-11);
    }

    #[test]
    fn bad_input_is_named() {
        let good = hyper(KernelKind::Cosine, false, false, 0.0, 1.0);
        let objective = Objective::Direct { steps: 1, precision: Precision::Fast };
        let x = Mat::from_fn(3, 2, |i, j| 1.0 + (i + j) as f64);
        let run = |x: &Mat<f64>, y: &[usize], hyper: &Hyper| {
            value_and_gradient(x.as_ref(), y, 3, hyper, &objective).unwrap_err()
        };
        let mut bad = x.clone();
        bad[(2, 1)] = f64::NAN;
        assert!(matches!(
            run(&bad, &[0, 1, 2], &good),
            Error::NotFinite { what: "features", row: 2, col: 1, .. }
        ));
        assert!(matches!(run(&x, &[0, 1], &good), Error::Shape { what: "labels", expected: 3, got: 2 }));
        assert_eq!(run(&x, &[0, 7, 1], &good), Error::Label { row: 1, label: 7, classes: 3 });
        assert!(matches!(
            run(&x, &[0, 1, 2], &Hyper { tau: 0.0, ..good.clone() }),
            Error::OutOfRange { what: "tau", .. }
        ));
        let mean = f64::INFINITY;
        assert!(matches!(
            run(&x, &[0, 1, 2], &Hyper { mean, ..good.clone() }),
            Error::NotFinite { what: "prior mean", .. }
        ));
        let mut scales = good;
        scales.kernel.raw_scale = vec![0.0; 2];
        assert!(matches!(run(&x, &[0, 1, 2], &scales), Error::Shape { expected: 3, got: 2, .. }));
    }
}
