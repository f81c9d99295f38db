//! One episode's part of an optimiser step: recorded here, or sent by another process.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};

use crate::head::Head;
use crate::network::{Network, Step};
use crate::state::host;
use crate::{BatchStatistics, Error, Gradients};

/// What an episode adds to a step of one network.
#[derive(Clone, Debug)]
pub enum StepPart {
    /// On the device where it was computed.
    Recorded(Step),
    /// On the host.
    Sent(SentPart),
}

/// A part as plain numbers: the same bits as on the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SentPart {
    /// The gradient of all trained parameters, in the module's order.
    pub gradient: Vec<f32>,
    /// Mean and unbiased variance of each batch-norm, in the order of the pass.
    pub statistics: Vec<[Vec<f32>; 2]>,
}

impl StepPart {
    /// Adds the part of a later episode where both were recorded here; else gives it back.
    pub fn join(&mut self, later: StepPart) -> Option<StepPart> {
        match (self, later) {
            (StepPart::Recorded(sum), StepPart::Recorded(step)) => {
                sum.join(step);
                None
            }
            (_, later) => Some(later),
        }
    }

    /// As plain numbers.
    pub fn into_sent(self) -> SentPart {
        match self {
            StepPart::Sent(part) => part,
            StepPart::Recorded(step) => SentPart {
                gradient: step
                    .gradients
                    .map_or_else(Vec::new, |g| g.values.into_iter().flat_map(host).collect()),
                statistics: step
                    .statistics
                    .into_iter()
                    .flatten()
                    .map(|batch| [host(batch.mean), host(batch.variance)])
                    .collect(),
            },
        }
    }
}

impl<H: Head> Network<H> {
    /// The step of these episodes, added in their order.
    pub fn step_of(&self, parts: impl IntoIterator<Item = StepPart>) -> Result<Step, Error> {
        let mut sum = Step::default();
        for part in parts {
            match part {
                StepPart::Recorded(step) => sum.join(step),
                StepPart::Sent(SentPart { gradient, statistics }) => {
                    let device = self.eval_device();
                    let tensor = |values: Vec<f32>| {
                        let length = values.len();
                        Tensor::from_data(TensorData::new(values, [length]), &device)
                    };
                    let statistics = statistics.into_iter().map(|[mean, variance]| BatchStatistics {
                        mean: tensor(mean),
                        variance: tensor(variance),
                    });
                    sum.add(self.gradients(&gradient)?, statistics.collect());
                }
            }
        }
        Ok(sum)
    }

    /// A gradient with respect to the parameters, made elsewhere, as the network's optimiser takes it.
    pub fn gradients(&self, gradient: &[f32]) -> Result<Gradients, Error> {
        Ok(Gradients { values: self.parts(gradient, &self.eval_device())? })
    }

    /// A flat vector cut into one tensor for each trained parameter.
    pub(crate) fn parts(&self, flat: &[f32], device: &Device) -> Result<Vec<Tensor<1>>, Error> {
        self.check_length(flat)?;
        let mut lengths = Lengths(Vec::new());
        self.body().visit(&mut lengths);
        let mut rest = flat;
        let mut parts = Vec::with_capacity(lengths.0.len());
        for length in lengths.0 {
            let (part, others) = rest.split_at(length);
            parts.push(Tensor::from_data(TensorData::new(part.to_vec(), [length]), device));
            rest = others;
        }
        Ok(parts)
    }

    pub(crate) fn check_length(&self, flat: &[f32]) -> Result<(), Error> {
        let mut lengths = Lengths(Vec::new());
        self.body().visit(&mut lengths);
        let expected = lengths.0.iter().sum();
        match flat.len() == expected {
            true => Ok(()),
            false => Err(Error::ParameterCount { expected, found: flat.len() }),
        }
    }
}

struct Lengths(Vec<usize>);

impl ModuleVisitor for Lengths {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.is_require_grad() {
            self.0.push(param.shape().num_elements());
        }
    }
}
