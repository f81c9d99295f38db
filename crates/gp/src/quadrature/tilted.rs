//! A bound of `E log sum_c e^x_c` that costs a few exponentials for each class: the tilted bound of Knowles and Minka (2011).
//!
//! For any a with sum 1, `E log sum_c e^x_c <= sum_c a_c mu_c + log sum_c E e^(x_c - sum_j a_j x_j)`, which for independent x_c ~ N(mu_c, v_c)
//! is `1/2 sum_c a_c^2 v_c + log sum_c e^(mu_c + (1/2 - a_c) v_c)`. It is convex in a, and least where a is the softmax of those exponents.

/// Steps to the best a, at most: any a gives a bound.
const STEPS: usize = 16;
/// It rests where no a moves by more than this.
const REST: f64 = 1e-4;

/// Working memory; keep one for each thread.
#[derive(Debug, Default)]
pub(crate) struct Tilted {
    a: Vec<f64>,
    s: Vec<f64>,
}

impl Tilted {
    /// The bound; its derivatives are written to `dmu` and `dv`. At the best a they are `a_c` and `1/2 a_c (1 - a_c)`.
    pub(crate) fn eval(&mut self, (mu, v): (&[f64], &[f64]), (dmu, dv): (&mut [f64], &mut [f64])) -> f64 {
        let Tilted { a, s } = self;
        a.clear();
        a.resize(mu.len(), 0.0);
        s.clear();
        s.extend_from_slice(mu);
        softmax(s);
        a.copy_from_slice(s);
        for _ in 0..STEPS {
            for c in 0..mu.len() {
                s[c] = mu[c] + (0.5 - a[c]) * v[c];
            }
            softmax(s);
            let far = a.iter().zip(&*s).fold(0.0f64, |far, (a, s)| far.max((a - s).abs()));
            if far < REST {
                break;
            }
            // The curvature is at most v (1 + s v), and a slope is v (a - s).
            for c in 0..mu.len() {
                a[c] += (s[c] - a[c]) / (1.0 + s[c] * v[c]);
            }
        }
        for c in 0..mu.len() {
            s[c] = mu[c] + (0.5 - a[c]) * v[c];
        }
        let mut value = softmax(s);
        for c in 0..mu.len() {
            value += 0.5 * a[c] * a[c] * v[c];
            dmu[c] = s[c];
            dv[c] = 0.5 * a[c] * a[c] + s[c] * (0.5 - a[c]);
        }
        value
    }
}

/// `log sum e^x`; x becomes its softmax.
fn softmax(x: &mut [f64]) -> f64 {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for x in x.iter_mut() {
        *x = (*x - largest).exp();
        sum += *x;
    }
    x.iter_mut().for_each(|x| *x /= sum);
    largest + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quadrature::{Resolution, log_z::LogZ};
    use crate::testing::slope;
    use proptest::prelude::*;

    fn tilted(mu: &[f64], v: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
        let (mut dmu, mut dv) = (vec![0.0; mu.len()], vec![0.0; mu.len()]);
        (Tilted::default().eval((mu, v), (&mut dmu, &mut dv)), dmu, dv)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        /// Far below 0 the sum of sigmoids is that of exponentials: never below it, and above it by half of the largest variance at most, as
        /// Jensen's bound is (a = 0).
        #[test]
        fn it_bounds_e_log_z(raw in proptest::collection::vec((0.0..8.0f64, 0.0..1.0f64), 2..30), wide in 0.1..6.0f64) {
            let mu: Vec<f64> = raw.iter().map(|(m, _)| m - 60.0).collect();
            let v: Vec<f64> = raw.iter().map(|(_, v)| v * wide).collect();
            let (mut dmu, mut dv) = (vec![0.0; mu.len()], vec![0.0; mu.len()]);
            let exact = LogZ::new(Resolution::Standard).eval(&mu, &v, &mut dmu, &mut dv).unwrap();
            let (got, ..) = tilted(&mu, &v);
            prop_assert!(got > exact - 1e-7 && got < exact + 0.5 * wide, "{got} {exact}");
        }
    }

    #[test]
    fn derivatives_match_differences() {
        let (mu, v) = ([0.3, -1.0, 1.2, 0.0], [1.0, 4.0, 0.5, 2.0]);
        let (_, dmu, dv) = tilted(&mu, &v);
        let moved = |x: &[f64; 4], c: usize, h: f64| {
            let mut x = *x;
            x[c] += h;
            x
        };
        for c in 0..4 {
            let by_mu = slope(|h| tilted(&moved(&mu, c, h), &v).0, 1e-2);
            let by_v = slope(|h| tilted(&mu, &moved(&v, c, h)).0, 1e-2);
            assert!((dmu[c] - by_mu).abs() < 1e-3 && (dv[c] - by_v).abs() < 1e-3, "{c}");
        }
        // Without variance it is the sum itself.
        let (value, ..) = tilted(&mu, &[0.0; 4]);
        assert!((value - mu.iter().map(|m| m.exp()).sum::<f64>().ln()).abs() < 1e-12);
    }
}
