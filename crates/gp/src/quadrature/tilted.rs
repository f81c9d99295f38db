//! A bound of `E log sum_c e^x_c` that costs a few exponentials for each class: the tilted bound of Knowles and Minka (2011).
//!
//! For any a with sum 1, `E log sum_c e^x_c <= sum_c a_c mu_c + log sum_c E e^(x_c - sum_j a_j x_j)`, which for independent x_c ~ N(mu_c, v_c)
//! is `1/2 sum_c a_c^2 v_c + log sum_c e^(mu_c + (1/2 - a_c) v_c)`. It is convex in a, and least where a is the softmax of those exponents.

use super::exp::{LANES, Lanes, exp};

/// Steps to the best a, at most: any a gives a bound.
const STEPS: usize = 16;
/// It rests where no a moves by more than this.
const REST: f64 = 1e-4;
/// The mean of what fills up the last four classes: its exponential is nothing beside the others'.
const NO_CLASS: f64 = -1e300;

/// Working memory, four classes at a time; keep one for each thread.
#[derive(Debug, Default)]
pub(crate) struct Tilted {
    mu: Vec<Lanes>,
    v: Vec<Lanes>,
    a: Vec<Lanes>,
    s: Vec<Lanes>,
}

impl Tilted {
    /// The bound; its derivatives are written to `dmu` and `dv`. At the best a they are `a_c` and `1/2 a_c (1 - a_c)`.
    pub(crate) fn eval(&mut self, (mu, v): (&[f64], &[f64]), (dmu, dv): (&mut [f64], &mut [f64])) -> f64 {
        // What is no number makes none, as by the standard library's exponential; the one in fours would hide it.
        if !mu.iter().chain(v).all(|x| x.is_finite()) {
            dmu.fill(f64::NAN);
            dv.fill(f64::NAN);
            return f64::NAN;
        }
        fill(&mut self.mu, mu, NO_CLASS);
        fill(&mut self.v, v, 0.0);
        let value = pulp::Arch::new().dispatch(Climb(self));
        let (a, s) = (self.a.as_flattened(), self.s.as_flattened());
        for c in 0..mu.len() {
            dmu[c] = s[c];
            dv[c] = 0.5 * a[c] * a[c] + s[c] * (0.5 - a[c]);
        }
        value
    }

    /// The bound at the best a; `s` is the softmax of the exponents there.
    #[inline(always)]
    fn climb(&mut self) -> f64 {
        let Tilted { mu, v, a, s } = self;
        s.clone_from(mu);
        softmax(s);
        a.clone_from(s);
        let mut value = exponents(mu, v, a, s);
        for _ in 0..STEPS {
            if farthest(a, s) < REST {
                break;
            }
            // The curvature is at most v (1 + s v), and a slope is v (a - s).
            for ((a, s), v) in a.iter_mut().zip(&*s).zip(&*v) {
                for l in 0..LANES {
                    a[l] += (s[l] - a[l]) / (1.0 + s[l] * v[l]);
                }
            }
            value = exponents(mu, v, a, s);
        }
        let mut squares = [0.0; LANES];
        for (a, v) in a.iter().zip(&*v) {
            for l in 0..LANES {
                squares[l] += 0.5 * a[l] * a[l] * v[l];
            }
        }
        value + sum(squares)
    }
}

/// [`Tilted::climb`] compiled for the instructions of the machine.
struct Climb<'a>(&'a mut Tilted);

impl pulp::WithSimd for Climb<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> f64 {
        self.0.climb()
    }
}

/// `from` in fours, the last one filled up.
fn fill(into: &mut Vec<Lanes>, from: &[f64], with: f64) {
    into.clear();
    into.resize(from.len().div_ceil(LANES), [with; LANES]);
    into.as_flattened_mut()[..from.len()].copy_from_slice(from);
}

/// `log sum_c e^(mu_c + (1/2 - a_c) v_c)`; the softmax of the exponents is written to `s`.
#[inline(always)]
fn exponents(mu: &[Lanes], v: &[Lanes], a: &[Lanes], s: &mut [Lanes]) -> f64 {
    for (s, ((mu, v), a)) in s.iter_mut().zip(mu.iter().zip(v).zip(a)) {
        for l in 0..LANES {
            s[l] = mu[l] + (0.5 - a[l]) * v[l];
        }
    }
    softmax(s)
}

/// `log sum e^x`; x becomes its softmax.
#[inline(always)]
fn softmax(x: &mut [Lanes]) -> f64 {
    let mut largest = [f64::NEG_INFINITY; LANES];
    for x in &*x {
        for l in 0..LANES {
            largest[l] = if x[l] > largest[l] { x[l] } else { largest[l] };
        }
    }
    let largest = largest[0].max(largest[1]).max(largest[2].max(largest[3]));
    let mut total = [0.0; LANES];
    for x in x.iter_mut() {
        let mut below = [0.0; LANES];
        for l in 0..LANES {
            below[l] = x[l] - largest;
        }
        *x = exp(below);
        for l in 0..LANES {
            total[l] += x[l];
        }
    }
    let total = sum(total);
    let share = 1.0 / total;
    for x in x.iter_mut() {
        for x in x.iter_mut() {
            *x *= share;
        }
    }
    largest + total.ln()
}

/// The largest distance between two numbers of the same place.
#[inline(always)]
fn farthest(a: &[Lanes], b: &[Lanes]) -> f64 {
    let mut far = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            let apart = (a[l] - b[l]).abs();
            far[l] = if apart > far[l] { apart } else { far[l] };
        }
    }
    far[0].max(far[1]).max(far[2].max(far[3]))
}

#[inline(always)]
fn sum(x: Lanes) -> f64 {
    (x[0] + x[1]) + (x[2] + x[3])
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

    /// In plain numbers, by the standard library.
    fn plain(mu: &[f64], v: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
        let softmax = |x: &[f64]| {
            let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let e: Vec<f64> = x.iter().map(|x| (x - largest).exp()).collect();
            let sum: f64 = e.iter().sum();
            (largest + sum.ln(), e.iter().map(|e| e / sum).collect::<Vec<f64>>())
        };
        let at =
            |a: &[f64]| softmax(&(0..mu.len()).map(|c| mu[c] + (0.5 - a[c]) * v[c]).collect::<Vec<f64>>());
        let mut a = softmax(mu).1;
        for _ in 0..STEPS {
            let s = at(&a).1;
            if a.iter().zip(&s).all(|(a, s)| (a - s).abs() < REST) {
                break;
            }
            a = (0..mu.len()).map(|c| a[c] + (s[c] - a[c]) / (1.0 + s[c] * v[c])).collect();
        }
        let (value, s) = at(&a);
        let by_v = (0..mu.len()).map(|c| 0.5 * a[c] * a[c] + s[c] * (0.5 - a[c])).collect();
        (value + (0..mu.len()).map(|c| 0.5 * a[c] * a[c] * v[c]).sum::<f64>(), s, by_v)
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
            let (got, by_mu, by_v) = tilted(&mu, &v);
            prop_assert!(got > exact - 1e-7 && got < exact + 0.5 * wide, "{got} {exact}");
            // Four classes at a time or one by one, the same to rounding, also where both stop at the same step.
            let (want, want_mu, want_v) = plain(&mu, &v);
            prop_assert!((got - want).abs() < 1e-6, "{got} {want}");
            for c in 0..mu.len() {
                prop_assert!((by_mu[c] - want_mu[c]).abs() < 2.0 * REST, "{c}: {} {}", by_mu[c], want_mu[c]);
                prop_assert!((by_v[c] - want_v[c]).abs() < 2.0 * REST, "{c}: {} {}", by_v[c], want_v[c]);
            }
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
        assert!(tilted(&[0.3, f64::NAN, 1.2, 0.0, 1.0], &[1.0; 5]).0.is_nan());
        // Without variance it is the sum itself.
        let (value, ..) = tilted(&mu, &[0.0; 4]);
        assert!((value - mu.iter().map(|m| m.exp()).sum::<f64>().ln()).abs() < 1e-12);
    }
}
