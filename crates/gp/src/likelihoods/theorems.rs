//! The paper's theorems on the logistic-softmax likelihood, as statements about numbers.

use super::{logistic_softmax, softmax};
use crate::Error;
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

/// Largest difference between two vectors.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Theorem 1: as tau falls to 0, uniform over the positive logits, or the largest if all are negative.
/// With a logit of exactly 0, the limit has its weight 1/2 there, which the paper's statement leaves out.
#[test]
fn theorem_1_both_limits_and_zeros() {
    let third = 1.0 / 3.0;
    let cases: [(&[f64], &[f64]); 8] = [
        (&[-3.0, -1.0, -2.0], &[0.0, 1.0, 0.0]),
        (&[2.0, 1.0, -1.0], &[0.5, 0.5, 0.0]),
        (&[2.0, 1.0, 0.5], &[third, third, third]),
        (&[1.0, 0.0, -1.0], &[2.0 * third, third, 0.0]),
        (&[0.0, -1.0, -2.0], &[1.0, 0.0, 0.0]),
        (&[0.0, 0.0, -1.0], &[0.5, 0.5, 0.0]),
        (&[-1.0, -1.0, -2.0], &[0.5, 0.5, 0.0]),
        (&[-0.0, 1.0, 1.0, 0.0], &[1.0 / 6.0, third, third, 1.0 / 6.0]),
    ];
    for (f, want) in cases {
        assert!(gap(&logistic_softmax::probs_at_zero_temperature(f).unwrap(), want) < 1e-15, "{f:?}");
        let at = |tau| gap(&logistic_softmax::probs(f, tau).unwrap(), want);
        // Every logit is a multiple of 1/2, so the error is of the order e^{-1/(2 tau)}.
        for tau in [0.1, 0.05, 0.02] {
            assert!(at(tau) < 2.0 * (-0.5 / tau).exp(), "{f:?} tau {tau}: {}", at(tau));
        }
        assert!(at(1e-3) < 1e-15, "{f:?}");
    }
    // The other end: at a large temperature every class is equally likely.
    assert!(gap(&logistic_softmax::probs(&[3.0, -7.0, 1.0], 1e9).unwrap(), &[third; 3]) < 1e-8);
}

/// Theorem 2: LS(f - C', tau) tends to softmax(f, tau) as C' grows, for tau > 0 (the paper says tau != 0).
#[test]
fn theorem_2_a_shift_makes_it_softmax() {
    let f = [0.7, -0.4, 1.9, 0.0];
    for tau in [0.2, 1.0, 1.5] {
        let soft = softmax::probs(&f, tau).unwrap();
        let error = |shift: f64| gap(&logistic_softmax::probs(&f.map(|f| f - shift), tau).unwrap(), &soft);
        for shift in [5.0, 10.0, 20.0, 40.0, 1e4] {
            // 1 / (1 + e^x) is within e^x of 1; logits of size shift / tau are rounded.
            let rounding = f64::EPSILON * 2.0 * (shift + 2.0) / tau;
            assert!(error(shift) < ((1.9 - shift) / tau).exp() + rounding, "tau {tau}, shift {shift}");
        }
        // Softmax itself does not move.
        assert!(gap(&softmax::probs(&f.map(|f| f - 7.3), tau).unwrap(), &soft) < 1e-14);
    }
    assert!(matches!(logistic_softmax::probs(&f, -0.5), Err(Error::OutOfRange { what: "tau", .. })));
}

/// The size of the error at C' = 5, which the paper calls accurate near 0: it is at tau = 0.2, and not at tau = 1 for wide logits.
#[test]
fn theorem_2_the_error_at_a_shift_of_5() {
    let worst = |sd: f64, cut: f64, tau: f64| {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        let mut draw = || loop {
            let z: f64 = StandardNormal.sample(&mut rng);
            if (sd * z).abs() <= cut {
                return sd * z;
            }
        };
        let one = |_| {
            let f: [f64; 5] = std::array::from_fn(|_| draw());
            gap(
                &logistic_softmax::probs(&f.map(|f| f - 5.0), tau).unwrap(),
                &softmax::probs(&f, tau).unwrap(),
            )
        };
        (0..20_000).map(one).fold(0.0, f64::max)
    };
    let inf = f64::INFINITY;
    let errors = [worst(0.5, inf, 1.0), worst(1.0, inf, 1.0), worst(2.0, inf, 1.0), worst(0.5, 0.5, 0.2)];
    assert!((0.004..0.02).contains(&errors[0]), "{errors:?}");
    assert!((0.02..0.1).contains(&errors[1]), "{errors:?}");
    assert!((0.2..0.6).contains(&errors[2]), "{errors:?}");
    assert!((1e-12..1e-10).contains(&errors[3]), "{errors:?}");
}

/// p(y_1, y_2) for two points and two classes with f^c ~ N(mean, k^c), by a tensor rule; index 2 y_1 + y_2.
fn marginal(mean: [f64; 2], likelihood: impl Fn(&[f64]) -> Vec<f64>) -> [f64; 4] {
    // k^0 = [[1, .8], [.8, 1]], k^1 = [[.5, .1], [.1, 2]] through their Cholesky factors.
    let factors = [[1.0, 0.8, 0.6], [0.5f64.sqrt(), 0.1 / 0.5f64.sqrt(), (2.0f64 - 0.02).sqrt()]];
    let h = 0.4;
    let nodes: Vec<(f64, f64)> = (-18..=18)
        .map(|i| f64::from(i) * h)
        .map(|z| (z, h * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()))
        .collect();
    let mut p = [0.0; 4];
    let plane = |c: usize| {
        let [l00, l10, l11] = factors[c];
        let mut out = Vec::new();
        for &(z1, w1) in &nodes {
            for &(z2, w2) in &nodes {
                if w1 * w2 > 1e-13 {
                    out.push((mean[c] + l00 * z1, mean[c] + l10 * z1 + l11 * z2, w1 * w2));
                }
            }
        }
        out
    };
    let (first, second) = (plane(0), plane(1));
    for &(a1, a2, wa) in &first {
        for &(b1, b2, wb) in &second {
            let (p1, p2) = (likelihood(&[a1, b1]), likelihood(&[a2, b2]));
            for (i, slot) in p.iter_mut().enumerate() {
                *slot += wa * wb * p1[i / 2] * p2[i % 2];
            }
        }
    }
    p
}

/// Theorem 3: softmax marginals do not depend on a mean shared by all classes, logistic-softmax marginals do,
/// and softmax's are their limit as the mean falls. (With means that differ between classes, softmax moves too.)
#[test]
fn theorem_3_the_family_of_marginals() {
    let soft = |f: &[f64]| softmax::probs(f, 1.0).unwrap();
    let logistic = |f: &[f64]| logistic_softmax::probs(f, 1.0).unwrap();
    let at_zero = marginal([0.0; 2], soft);
    assert!((at_zero.iter().sum::<f64>() - 1.0).abs() < 1e-10);
    assert!(gap(&marginal([-3.0; 2], soft), &at_zero) < 1e-12);
    assert!(gap(&marginal([1.0, 0.0], soft), &at_zero) > 0.1);
    let by_mean = [0.0, -3.0, -8.0, -30.0].map(|a| marginal([a; 2], logistic));
    assert!(gap(&by_mean[0], &by_mean[1]) > 1e-2);
    let to_softmax = by_mean.map(|p| gap(&p, &at_zero));
    assert!(to_softmax.windows(2).all(|w| w[1] < w[0]), "{to_softmax:?}");
    assert!(to_softmax[3] < 1e-9, "{to_softmax:?}");
}
