//! The exact Gaussian process on labels as numbers: +1 for the own class, -1 for the others (deep kernel transfer).
//!
//! Each class is a regression of its own: `t^c = f^c + e`, `f^c ~ N(a^c, K^c)`, `e ~ N(0, noise I)`.
//! The temperature of the task plays no part.

use crate::likelihoods::gaussian::target;
use crate::linalg::{cholesky, dot, gram_of_lower, logdet_of_factor, lower_inverse, mul_vec, sum_any_order};
use crate::posterior::Latent;
use crate::{Error, Gradient, Query, Result, Task};
use faer::Mat;

/// One regression per class, conditioned on the labels of a task.
#[derive(Debug, Clone)]
pub struct LabelRegression {
    /// `log N(t^c | a^c, K^c + noise I)` of each class, `[C]`.
    pub lml: Vec<f64>,
    noise: f64,
    classes: Vec<Class>,
}

#[derive(Debug, Clone)]
struct Class {
    /// `alpha = (K + noise I)^-1 (t - a)`, [N].
    alpha: Vec<f64>,
    /// `L^-1` with `L L' = K + noise I`, [N, N].
    li: Mat<f64>,
}

/// [`LabelRegression::loss`] and its gradient.
#[derive(Debug, Clone)]
pub(crate) struct LossGradient {
    /// The loss.
    pub value: f64,
    /// With respect to the kernel matrix of each class, symmetric [N, N].
    pub dk: Vec<Mat<f64>>,
    /// With respect to the prior mean, [N, C].
    pub da: Mat<f64>,
    /// With respect to the noise variance.
    pub dnoise: f64,
}

/// The chance of each class that its target, latent value plus noise, is the largest, [Q, C]:
/// `p_k = int N(t | m_k, s_k^2) prod_{c != k} Phi((t - m_c) / s_c) dt`, `s^2 = var + noise`; rows sum to 1.
pub(crate) fn largest_target_probabilities(latent: &Latent, noise: f64) -> Mat<f64> {
    let (q, c) = (latent.mean.nrows(), latent.mean.ncols());
    let mut out = Mat::zeros(q, c);
    for i in 0..q {
        let m: Vec<f64> = (0..c).map(|j| latent.mean[(i, j)]).collect();
        let s: Vec<f64> = (0..c).map(|j| (latent.var[(i, j)] + noise).sqrt()).collect();
        let mut p: Vec<f64> = (0..c).map(|k| chance_of_largest(&m, &s, k)).collect();
        let total = sum_any_order(&mut p.clone());
        p.iter_mut().for_each(|p| *p /= total);
        for j in 0..c {
            out[(i, j)] = p[j];
        }
    }
    out
}

/// The trapezoid rule in `z = (t - m_k) / s_k`, fine enough for the narrowest of the other normals.
fn chance_of_largest(m: &[f64], s: &[f64], k: usize) -> f64 {
    let narrowest = s.iter().copied().fold(f64::INFINITY, f64::min);
    let h = (0.3 * narrowest / s[k]).clamp(1e-3, 0.3);
    let nodes = (8.5 / h).ceil() as i64;
    let terms = (-nodes..=nodes).map(|i| {
        let z = h * i as f64;
        let t = m[k] + s[k] * z;
        let mut others: Vec<f64> = (0..m.len())
            .filter(|&c| c != k)
            .map(|c| 0.5 * libm::erfc((m[c] - t) / (s[c] * std::f64::consts::SQRT_2)))
            .collect();
        // Sorted factors: the product does not depend on the names of the classes.
        others.sort_unstable_by(f64::total_cmp);
        (-0.5 * z * z).exp() * others.iter().product::<f64>()
    });
    h * terms.sum::<f64>() / (2.0 * std::f64::consts::PI).sqrt()
}

impl LabelRegression {
    /// Conditions on the labels. `noise > 0` is the variance of e.
    pub fn new(task: &Task, noise: f64) -> Result<Self> {
        if !(noise > 0.0 && noise.is_finite()) {
            return Err(Error::OutOfRange { what: "noise", value: noise, must: "> 0 and finite" });
        }
        let n = task.points();
        let constant = 0.5 * n as f64 * (2.0 * std::f64::consts::PI).ln();
        let (mut lml, mut classes) = (Vec::new(), Vec::new());
        for (c, k) in task.k().iter().enumerate() {
            let mut noisy = k.clone();
            for i in 0..n {
                noisy[(i, i)] += noise;
            }
            let l = cholesky(noisy, "K + noise I")?;
            let li = lower_inverse(&l);
            let residual: Vec<f64> = (0..n).map(|i| target(task.y()[i], c) - task.a()[(i, c)]).collect();
            let white = mul_vec(&li, &residual);
            let alpha = crate::linalg::tmul_vec(&li, &white);
            lml.push(-0.5 * dot(&white, &white) - 0.5 * logdet_of_factor(&l) - constant);
            classes.push(Class { alpha, li });
        }
        Ok(Self { lml, noise, classes })
    }

    /// `-1/C sum_c lml_c / N`: the training loss of deep kernel transfer.
    pub fn loss(&self) -> f64 {
        let points = self.classes[0].alpha.len() as f64;
        -sum_any_order(&mut self.lml.clone()) / (points * self.classes.len() as f64)
    }

    /// The loss and its gradient: `dlml/dK = (alpha alpha' - (K + noise I)^-1)/2`, `dlml/da = alpha`,
    /// `dlml/dnoise = (|alpha|^2 - tr (K + noise I)^-1)/2`.
    pub(crate) fn loss_gradient(&self) -> LossGradient {
        let (n, c) = (self.classes[0].alpha.len(), self.classes.len());
        let scale = -1.0 / (n as f64 * c as f64);
        let mut da = Mat::zeros(n, c);
        let mut dk = Vec::with_capacity(c);
        let mut dnoise = Vec::with_capacity(c);
        for (j, Class { alpha, li }) in self.classes.iter().enumerate() {
            let inverse = gram_of_lower(li);
            let slope = Mat::from_fn(n, n, |i, m| 0.5 * scale * (alpha[i] * alpha[m] - inverse[(i, m)]));
            dnoise.push((0..n).map(|i| slope[(i, i)]).sum());
            for i in 0..n {
                da[(i, j)] = scale * alpha[i];
            }
            dk.push(slope);
        }
        LossGradient { value: self.loss(), dk, da, dnoise: sum_any_order(&mut dnoise) }
    }

    /// `sum_c lml_c`, the log density of all targets, and its gradient at fixed noise.
    pub(crate) fn log_likelihood(&self) -> Gradient {
        let points = self.classes[0].alpha.len() as f64;
        let LossGradient { value, dk, da, .. } = self.loss_gradient();
        Gradient { value, dk, da, dtau: 0.0, residual: None }.times(-points * self.classes.len() as f64)
    }

    /// The slope of `sum_c lml_c` in the noise variance.
    pub(crate) fn slope_in_noise(&self) -> f64 {
        let points = self.classes[0].alpha.len() as f64;
        -points * self.classes.len() as f64 * self.loss_gradient().dnoise
    }

    /// Latent mean `m = a* + k*' alpha` and variance `k** - |L^-1 k*|^2` at Q new points; the target's variance is larger by the noise.
    pub fn latent(&self, query: &Query) -> Result<Latent> {
        let (n, c, q) = (self.classes[0].alpha.len(), self.classes.len(), query.points());
        query.check(n, c)?;
        let (mut mean, mut var) = (Mat::zeros(q, c), Mat::zeros(q, c));
        for (j, (class, ks)) in self.classes.iter().zip(&query.ks).enumerate() {
            for i in 0..q {
                let k = ks.col_as_slice(i);
                let white = mul_vec(&class.li, k);
                mean[(i, j)] = query.astar[(i, j)] + dot(k, &class.alpha);
                var[(i, j)] = (query.kss[(i, j)] - dot(&white, &white)).max(0.0);
            }
        }
        Ok(Latent::independent(mean, var, 1.0))
    }

    /// The noise variance it was built with.
    pub(crate) fn noise(&self) -> f64 {
        self.noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{inner, moved, normal, random_task, slope, symmetric};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn gradient_against_differences(seed in 0u64..10_000, n in 3usize..8, c in 2usize..4, noise in 0.05f64..1.0) {
            let task = random_task(seed, n, c, 1.0);
            let gradient = LabelRegression::new(&task, noise).unwrap().loss_gradient();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (dk, da) = (symmetric(&mut rng, n, c), normal(&mut rng, n, c));
            let analytic = inner(&gradient.dk, &dk) + crate::linalg::inner(&gradient.da, &da) + gradient.dnoise;
            let numeric = slope(
                |h| LabelRegression::new(&moved(&task, &dk, &da, 0.0, h), noise + h).unwrap().loss(),
                1e-3,
            );
            prop_assert!((analytic - numeric).abs() < 1e-7 * (1.0 + analytic.abs()), "{analytic} and {numeric}");
        }
    }

    #[test]
    fn a_point_seen_often_is_predicted() {
        // Three copies of one point, K = 1 everywhere: posterior mean 3 t / (3 + noise), variance noise / (3 + noise).
        let k = Mat::from_fn(3, 3, |_, _| 1.0);
        let task = Task::new(vec![k.clone(), k], vec![0; 3], Mat::zeros(3, 2), 1.0).unwrap();
        let gp = LabelRegression::new(&task, 0.5).unwrap();
        let ks = vec![Mat::from_fn(3, 1, |_, _| 1.0); 2];
        let at =
            gp.latent(&Query { ks, kss: Mat::from_fn(1, 2, |_, _| 1.0), astar: Mat::zeros(1, 2) }).unwrap();
        assert!((at.mean[(0, 0)] - 3.0 / 3.5).abs() < 1e-14 && (at.mean[(0, 1)] + 3.0 / 3.5).abs() < 1e-14);
        assert!((at.var[(0, 0)] - 0.5 / 3.5).abs() < 1e-14);
    }

    #[test]
    fn the_largest_target() {
        // Two classes: the chance is that of one normal variable above another.
        let mean = Mat::from_fn(2, 2, |i, j| if j == 0 { 0.4 * i as f64 } else { -0.3 });
        let var = Mat::from_fn(2, 2, |_, j| if j == 0 { 0.5 } else { 0.001 });
        let got = largest_target_probabilities(&Latent::independent(mean.clone(), var, 1.0), 0.1);
        for i in 0..2 {
            let z = (mean[(i, 0)] + 0.3) / (0.5f64 + 0.001 + 0.2).sqrt();
            let want = 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
            assert!((got[(i, 0)] - want).abs() < 1e-9, "{} and {want}", got[(i, 0)]);
        }
    }

    #[test]
    fn bad_noise_and_shapes_are_named() {
        let task = random_task(1, 4, 2, 1.0);
        assert!(matches!(LabelRegression::new(&task, 0.0), Err(Error::OutOfRange { what: "noise", .. })));
        let gp = LabelRegression::new(&task, 0.1).unwrap();
        let (kss, astar) = (Mat::from_fn(1, 2, |_, _| 1.0), Mat::zeros(1, 2));
        let at = |ks| gp.latent(&Query { ks, kss: kss.clone(), astar: astar.clone() });
        assert!(matches!(at(Vec::new()), Err(Error::Shape { .. })));
        assert!(matches!(at(vec![Mat::zeros(3, 1); 2]), Err(Error::ShapeOf { what: "ks", .. })));
    }
}
