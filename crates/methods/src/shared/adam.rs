//! Adam on a few numbers in double precision: kernel parameters, temperature, prior mean.

use crate::error::{Error, Result};
use crate::shared::state::State;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The optimiser of a head's scalars.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScalarAdam {
    m: Vec<f64>,
    v: Vec<f64>,
    steps: u64,
}

impl ScalarAdam {
    /// Zero moments for `len` numbers.
    pub(crate) fn new(len: usize) -> ScalarAdam {
        ScalarAdam { m: vec![0.0; len], v: vec![0.0; len], steps: 0 }
    }

    /// Steps taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// `x <- x - rate m^ / (sqrt(v^) + eps)`, as PyTorch's Adam; `rate(i)` is that of number i.
    pub(crate) fn step(&mut self, x: &mut [f64], gradient: &[f64], rate: impl Fn(usize) -> f64) {
        self.steps += 1;
        let (c1, c2) = (1.0 - BETA1.powf(self.steps as f64), 1.0 - BETA2.powf(self.steps as f64));
        for i in 0..x.len() {
            self.m[i] = BETA1 * self.m[i] + (1.0 - BETA1) * gradient[i];
            self.v[i] = BETA2 * self.v[i] + (1.0 - BETA2) * gradient[i] * gradient[i];
            x[i] -= rate(i) * (self.m[i] / c1) / ((self.v[i] / c2).sqrt() + EPSILON);
        }
    }

    /// Adds the moments and the step count to a state.
    pub(crate) fn save(&self, state: &mut State, name: &str) {
        state.push_training(&format!("{name}.m"), &self.m);
        state.push_training(&format!("{name}.v"), &self.v);
        state.push_training(&format!("{name}.steps"), &[self.steps as f64]);
    }

    /// Takes them back.
    pub(crate) fn load(&mut self, state: &State, name: &str) -> Result<()> {
        let fits = |part: &str, len: usize| {
            let values = state.f64s(&format!("{name}.{part}"))?;
            match values.len() == len {
                true => Ok(values.to_vec()),
                false => {
                    Err(Error::State(format!("`{name}.{part}` has {} numbers, not {len}", values.len())))
                }
            }
        };
        let (m, v, steps) = (fits("m", self.m.len())?, fits("v", self.v.len())?, fits("steps", 1)?);
        *self = ScalarAdam { m, v, steps: steps[0] as u64 };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_has_the_length_of_the_rate_and_the_second_follows_the_formula() {
        let mut adam = ScalarAdam::new(2);
        let mut x = [1.0, 2.0];
        adam.step(&mut x, &[3.0, -0.01], |_| 0.1);
        assert!((x[0] - 0.9).abs() < 1e-9 && (x[1] - 2.1).abs() < 1e-6);
        adam.step(&mut x, &[1.0, 0.0], |_| 0.1);
        let (m, v): (f64, f64) = ((0.9 * 0.3 + 0.1) / 0.19, (0.999 * 0.009 + 0.001) / 0.001999);
        assert!((x[0] - (0.9 - 0.1 * m / v.sqrt())).abs() < 1e-8);
    }

    #[test]
    fn moments_come_back_exactly() {
        let mut adam = ScalarAdam::new(2);
        adam.step(&mut [0.0, 0.0], &[0.1, 0.7], |_| 0.1);
        let mut state = State::default();
        adam.save(&mut state, "a");
        let mut other = ScalarAdam::new(2);
        other.load(&state, "a").unwrap();
        assert_eq!(other, adam);
        assert!(ScalarAdam::new(3).load(&state, "a").is_err());
    }
}
