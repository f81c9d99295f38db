//! Adam as PyTorch computes it, with its state in the open.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};

use crate::Error;
use crate::gradients::Gradients;
use crate::state::{NamedTensor, Slot, arrange, host, slots};

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// How far one step goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// Decoupled weight decay: every step takes `learning_rate * weight_decay` of each weight away (as AdamW does), but
    /// nothing of biases and of the factors of batch-norms.
    pub weight_decay: f64,
}

/// A learning rate without weight decay.
impl From<f64> for Pace {
    fn from(learning_rate: f64) -> Pace {
        Pace { learning_rate, weight_decay: 0.0 }
    }
}

/// The optimiser of one module: two moments for each trained parameter and the number of steps taken.
#[derive(Clone, Debug)]
pub struct Adam {
    slots: Vec<Slot>,
    moments: Vec<Moments>,
    step: u64,
}

#[derive(Clone, Debug)]
struct Moments {
    first: Tensor<1>,
    second: Tensor<1>,
}

impl Adam {
    /// Zero moments for every trained parameter of `module`.
    pub fn new(module: &impl Module, device: &Device) -> Self {
        let slots: Vec<Slot> = slots(module).into_iter().filter(|s| s.trained).collect();
        let zeros = |slot: &Slot| Tensor::zeros([slot.shape.iter().product::<usize>()], device);
        let moments = slots.iter().map(|slot| Moments { first: zeros(slot), second: zeros(slot) }).collect();
        Self { slots, moments, step: 0 }
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// One step down the gradient: m, v <- moments; p <- (1 - lr wd) p - lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + 1e-8).
    #[must_use]
    pub fn step<M: Module>(&mut self, module: M, gradients: Gradients, pace: impl Into<Pace>) -> M {
        let Pace { learning_rate, weight_decay } = pace.into();
        self.step += 1;
        // Beyond 2^31 steps both powers are 0 in any case.
        let t = self.step.min(i32::MAX as u64) as i32;
        let mut updater = Updater {
            moments: self.moments.iter_mut(),
            gradients: gradients.values.into_iter(),
            step_size: learning_rate / (1.0 - BETA_1.powi(t)),
            root_correction: (1.0 - BETA_2.powi(t)).sqrt(),
            decay: learning_rate * weight_decay,
        };
        module.map(&mut updater)
    }

    /// The moments by name: `adam.m.<parameter>` and `adam.v.<parameter>`.
    pub fn export(&self) -> Vec<NamedTensor> {
        let of = |prefix: &str, pick: fn(&Moments) -> &Tensor<1>| {
            let pairs = self.slots.iter().zip(&self.moments);
            let named = pairs.map(|(slot, moments)| NamedTensor {
                name: format!("{prefix}{}", slot.name),
                shape: slot.shape.clone(),
                values: host(pick(moments).clone()),
            });
            named.collect::<Vec<_>>()
        };
        let mut tensors = of(FIRST, |m| &m.first);
        tensors.extend(of(SECOND, |m| &m.second));
        tensors
    }

    /// Restores what [`Adam::export`] gave, after `steps` steps.
    pub fn import(&mut self, tensors: Vec<NamedTensor>, steps: u64) -> Result<(), Error> {
        let expected: Vec<Slot> = [FIRST, SECOND]
            .iter()
            .flat_map(|prefix| {
                self.slots
                    .iter()
                    .map(move |slot| Slot { name: format!("{prefix}{}", slot.name), ..slot.clone() })
            })
            .collect();
        let mut values = arrange(&expected, tensors)?;
        let second = values.split_off(self.slots.len());
        for (moments, (first, second)) in self.moments.iter_mut().zip(values.into_iter().zip(second)) {
            let device = moments.first.device();
            let tensor = |v: Vec<f32>| {
                let len = v.len();
                Tensor::from_data(TensorData::new(v, [len]), &device)
            };
            moments.first = tensor(first);
            moments.second = tensor(second);
        }
        self.step = steps;
        Ok(())
    }
}

/// Whether a tensor of this name is one of the moments that [`Adam::export`] gives.
pub fn is_moment(name: &str) -> bool {
    name.starts_with(FIRST) || name.starts_with(SECOND)
}

const FIRST: &str = "adam.m.";
const SECOND: &str = "adam.v.";

struct Updater<'a> {
    moments: std::slice::IterMut<'a, Moments>,
    gradients: std::vec::IntoIter<Tensor<1>>,
    step_size: f64,
    root_correction: f64,
    /// The share of a weight that goes away.
    decay: f64,
}

impl ModuleMapper for Updater<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !param.is_require_grad() {
            return param;
        }
        let (Some(state), Some(g)) = (self.moments.next(), self.gradients.next()) else {
            return param;
        };
        let m = state.first.clone().mul_scalar(BETA_1) + g.clone().mul_scalar(1.0 - BETA_1);
        let v = state.second.clone().mul_scalar(BETA_2) + g.clone().mul(g).mul_scalar(1.0 - BETA_2);
        let scale = v.clone().sqrt().div_scalar(self.root_correction).add_scalar(EPSILON);
        let change = m.clone().div(scale).mul_scalar(self.step_size);
        (state.first, state.second) = (m, v);
        let decay = self.decay;
        param.map(|value| {
            let shape = value.shape();
            let value = value.inner();
            // Vectors are biases and factors of batch-norms: no decay.
            let kept = if decay > 0.0 && D > 1 { value.mul_scalar(1.0 - decay) } else { value };
            let moved = kept - change.reshape(shape);
            moved.autodiff().require_grad()
        })
    }
}
