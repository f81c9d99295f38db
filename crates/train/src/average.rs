//! The running average of a model's weights (EMA): validated, tested and saved in place of the newest weights.

use crate::error::{Error, Result};
use siskin_methods::{Role, State, Tensor, Values};

/// Marks an average in a checkpoint.
const PREFIX: &str = "average.";

/// `average <- d average + (1 - d) weights` after every step, of all learned arrays (running statistics too). In the first
/// steps, when the weights still change fast, d is smaller: `min(decay, (1 + t) / (10 + t))`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Average {
    decay: f64,
    steps: u64,
    tensors: Vec<Tensor>,
}

impl Average {
    /// Begins with the weights of `state`.
    pub(crate) fn new(decay: f64, state: &State) -> Average {
        let learned = state.0.iter().filter(|t| t.role == Role::Model);
        Average { decay, steps: 0, tensors: learned.cloned().collect() }
    }

    /// Takes over the weights after a step.
    pub(crate) fn add(&mut self, state: &State) {
        let t = self.steps as f64;
        let keep = self.decay.min((1.0 + t) / (10.0 + t));
        self.steps += 1;
        let learned = state.0.iter().filter(|t| t.role == Role::Model);
        for (mean, new) in self.tensors.iter_mut().zip(learned) {
            match (&mut mean.values, &new.values) {
                (Values::F32(mean), Values::F32(new)) => {
                    let keep = keep as f32;
                    mean.iter_mut().zip(new).for_each(|(m, x)| *m = keep * *m + (1.0 - keep) * x);
                }
                (Values::F64(mean), Values::F64(new)) => {
                    mean.iter_mut().zip(new).for_each(|(m, x)| *m = keep * *m + (1.0 - keep) * x);
                }
                _ => unreachable!("an array of a method keeps its precision"),
            }
        }
    }

    /// `state` with the averages in the place of its weights.
    pub(crate) fn model(&self, state: &State) -> State {
        let mut model = state.clone();
        for tensor in &mut model.0 {
            if let Some(mean) = self.tensors.iter().find(|mean| mean.name == tensor.name) {
                tensor.values.clone_from(&mean.values);
            }
        }
        model
    }

    /// Adds itself to the state of a checkpoint.
    pub(crate) fn save(&self, state: &mut State) {
        state.push_training("average.steps", &[self.steps as f64]);
        let named = self.tensors.iter().map(|t| Tensor {
            name: format!("{PREFIX}{}", t.name),
            role: Role::Training,
            ..t.clone()
        });
        state.0.extend(named);
    }

    /// Takes itself out of the state of a checkpoint, whose other arrays are those of `fresh`.
    pub(crate) fn take(decay: f64, state: &mut State, fresh: &State) -> Result<Average> {
        let missing = |name: &str| {
            Error::Run(format!("the checkpoint has no averaged `{name}`; was train.ema changed by hand?"))
        };
        let steps = state.f64s("average.steps").map_err(|_| missing("steps"))?[0] as u64;
        let mut average = Average::new(decay, fresh);
        average.steps = steps;
        for tensor in &mut average.tensors {
            let name = format!("{PREFIX}{}", tensor.name);
            let saved = state.get(&name).filter(|saved| saved.shape == tensor.shape);
            tensor.values.clone_from(&saved.ok_or_else(|| missing(&tensor.name))?.values);
        }
        *state = without_average(std::mem::take(state));
        Ok(average)
    }
}

/// The newest weights of a checkpoint that may hold an average too.
pub(crate) fn without_average(mut state: State) -> State {
    state.0.retain(|t| !t.name.starts_with(PREFIX));
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(x: f64) -> State {
        let mut state = State::default();
        state.push_f64("w", &[x]);
        state.push_training("m", &[10.0 * x]);
        state
    }

    #[test]
    fn weights_are_averaged_and_moments_are_not() {
        let mut average = Average::new(0.5, &state(1.0));
        average.add(&state(2.0));
        // The first step keeps a tenth.
        assert_eq!(average.model(&state(7.0)).f64s("w").unwrap(), [0.1 + 0.9 * 2.0]);
        assert_eq!(average.model(&state(7.0)).f64s("m").unwrap(), [70.0]);
        (0..20).for_each(|_| average.add(&state(2.0)));
        let before = average.model(&state(0.0)).f64s("w").unwrap()[0];
        average.add(&state(4.0));
        assert_eq!(average.model(&state(0.0)).f64s("w").unwrap(), [0.5 * before + 0.5 * 4.0]);
    }

    #[test]
    fn comes_back_from_a_checkpoint_exactly_and_leaves_the_rest() {
        let mut average = Average::new(0.9, &state(1.0));
        average.add(&state(0.3));
        let mut saved = state(0.3);
        average.save(&mut saved);
        let again = Average::take(0.9, &mut saved, &state(0.0)).unwrap();
        assert_eq!((again, saved), (average, state(0.3)));
        let error = Average::take(0.9, &mut state(0.3), &state(0.0)).unwrap_err().to_string();
        assert!(error.contains("train.ema"), "{error}");
    }
}
