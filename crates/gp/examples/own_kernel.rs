//! A kernel of your own: `cargo run --release -p siskin-gp --example own_kernel`.
//!
//! A kernel is a [`Form`]: what it is a function of, its shape parameters, its value, its slopes. This one repeats itself,
//! `k = exp(-2 sin^2(pi d / p) / l^2)` with period p and lengthscale l, and learns to tell even stretches of a line from odd ones.

use siskin_gp::Result;
use siskin_gp::classifier::GpClassifier;
use siskin_gp::faer::Mat;
use siskin_gp::kernels::{Form, Kernel, Statistic};

#[derive(Debug)]
struct Periodic;

impl Form for Periodic {
    fn name(&self) -> String {
        "periodic".into()
    }

    fn statistic(&self) -> Statistic {
        Statistic::SquaredDistance
    }

    fn shapes(&self) -> &[&'static str] {
        &["lengthscale", "period"]
    }

    fn value(&self, s: f64, shape: &[f64]) -> f64 {
        let (l, p) = (shape[0], shape[1]);
        let sine = (std::f64::consts::PI * s.sqrt() / p).sin();
        (-2.0 * sine * sine / (l * l)).exp()
    }

    /// With `u = pi d / p`: `dk/du = -2 k sin(2u) / l^2`, `du/d(d^2) = u / (2 d^2)`, `du/dp = -u / p`, `dk/dl = 4 k sin^2(u) / l^3`.
    fn slopes(&self, s: f64, k: f64, shape: &[f64], by_shape: &mut [f64]) -> f64 {
        let (l, p) = (shape[0], shape[1]);
        let u = std::f64::consts::PI * s.sqrt() / p;
        let by_u = -2.0 * k * (2.0 * u).sin() / (l * l);
        by_shape[0] = 4.0 * k * u.sin().powi(2) / (l * l * l);
        by_shape[1] = -by_u * u / p;
        // At d = 0 the limit: sin(2u) ~ 2u.
        if s > 0.0 { by_u * u / (2.0 * s) } else { -2.0 * k * (std::f64::consts::PI / (p * l)).powi(2) }
    }
}

fn main() -> Result<()> {
    // 40 points on a line from 0 to 8; the class changes at every whole number.
    let at = |i: usize| 0.1 + 0.2 * i as f64;
    let x = Mat::from_fn(40, 1, |i, _| at(i));
    let y: Vec<usize> = (0..40).map(|i| at(i) as usize % 2).collect();
    let kernel = Kernel::new(Periodic).with_shapes(&[0.8, 2.0])?;
    let mut model = GpClassifier::default();
    (model.kernel, model.standardise) = (Some(kernel), false);
    model.fit(x.as_ref(), &y)?;
    println!("lengthscale and period: {:.2?}", model.fitted_kernel()?.shapes());
    let far = Mat::from_fn(4, 1, |i, _| 20.5 + i as f64);
    let p = model.predict_proba(far.as_ref())?;
    for i in 0..4 {
        println!("x = {:.1}: class 0 with probability {:.3}", far[(i, 0)], p[(i, 0)]);
    }
    Ok(())
}
