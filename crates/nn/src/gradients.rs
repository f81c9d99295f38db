//! Gradients of a module's trained parameters: collect, add, check.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// One flat gradient for each trained parameter, in the module's order.
#[derive(Clone, Debug)]
pub struct Gradients {
    pub(crate) values: Vec<Tensor<1>>,
}

impl Gradients {
    /// Takes the module's gradients out of Burn's container; a parameter the loss does not touch has gradient zero.
    pub fn of(module: &impl Module, mut raw: burn::tensor::Gradients) -> Self {
        let mut collector = Collector { raw: &mut raw, values: Vec::new() };
        module.visit(&mut collector);
        Self { values: collector.values }
    }

    /// self + other, for several episodes per step.
    pub fn plus(self, other: Self) -> Self {
        let values = self.values.into_iter().zip(other.values);
        Self { values: values.map(|(a, b)| a + b).collect() }
    }

    /// self times `factor`.
    pub fn scale(self, factor: f64) -> Self {
        Self { values: self.values.into_iter().map(|g| g.mul_scalar(factor)).collect() }
    }

    /// Number of NaN or infinite entries. A step with any of them should be dropped.
    pub fn non_finite(&self) -> usize {
        if self.values.is_empty() {
            return 0;
        }
        // One number comes back from the device, not one for each parameter.
        let finite = self.values.iter().map(|g| g.clone().is_finite().int().sum()).collect();
        let all: usize = self.values.iter().map(|g| g.dims()[0]).sum();
        all - Tensor::cat(finite, 0).sum().into_scalar::<i64>() as usize
    }

    /// Euclidean norm over all parameters.
    pub fn norm(&self) -> f64 {
        let squares = self.values.iter().map(|g| {
            let g = crate::state::host(g.clone());
            g.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>()
        });
        squares.sum::<f64>().sqrt()
    }
}

struct Collector<'a> {
    raw: &'a mut burn::tensor::Gradients,
    values: Vec<Tensor<1>>,
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let value = param.val();
        let gradient = value.grad_remove(self.raw).unwrap_or_else(|| value.inner().zeros_like());
        let len = gradient.shape().num_elements();
        self.values.push(gradient.reshape([len]));
    }
}
