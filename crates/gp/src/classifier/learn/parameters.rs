//! Hyperparameters as one vector of free numbers, and back.

use super::super::posterior::Objective;
use super::super::{GpClassifier, Likelihood};
use crate::Result;
use crate::kernels::{Kernel, KernelGradient, inverse_softplus, softplus, softplus_slope};

/// A parameter moves at most this far from its start (in log units, the mean in its own): `start + REACH tanh(u / REACH)`.
const REACH: f64 = 6.0;

/// Kernel, level (temperature or noise) and prior mean for free parameters u, all 0 at the start.
#[derive(Debug, Clone)]
pub(super) struct Parameters {
    pub(super) kernel: Kernel,
    pub(super) level: f64,
    pub(super) mean: f64,
    scales: bool,
}

/// The hyperparameters at one u.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub(super) kernel: Kernel,
    pub(super) level: f64,
    pub(super) mean: f64,
}

impl Parameters {
    pub(super) fn new(settings: &GpClassifier, kernel: Kernel) -> Self {
        let gaussian = settings.likelihood == Likelihood::Gaussian;
        let level = if gaussian { 0.1 * settings.tau * settings.tau } else { settings.tau };
        let scales = gaussian || kernel.raw_scale.len() > 1;
        Self { kernel, level, mean: settings.prior_mean, scales }
    }

    /// The same parameters, starting elsewhere.
    pub(super) fn moved(&self, at: &At) -> Self {
        Self { kernel: at.kernel.clone(), level: at.level, mean: at.mean, scales: self.scales }
    }

    /// Whether there is more to learn than level, mean and the shapes of the kernel.
    pub(super) fn has_more(&self) -> bool {
        self.scales || !self.kernel.raw_lengths.is_empty()
    }

    /// All that is learned, in the order mean, log level, log shapes, log lengths, log scales.
    pub(super) fn start(&self) -> Vec<f64> {
        let kernel = &self.kernel;
        let mut start = vec![self.mean, self.level.ln()];
        let scales = if self.scales { &kernel.raw_scale[..] } else { &[] };
        let raw = kernel.raw_shape.iter().chain(&kernel.raw_lengths).chain(scales);
        start.extend(raw.map(|&raw| softplus(raw).ln()));
        start
    }

    /// The hyperparameters at u = 0.
    pub(super) fn here(&self) -> At {
        At { kernel: self.kernel.clone(), level: self.level, mean: self.mean }
    }

    pub(super) fn at(&self, u: &[f64]) -> Result<At> {
        let log: Vec<f64> = self.start().iter().zip(u).map(|(s, u)| s + REACH * (u / REACH).tanh()).collect();
        let mut kernel = self.kernel.clone();
        let mut rest = log[2..].iter();
        for raw_shape in &mut kernel.raw_shape {
            put(raw_shape, "kernel shape", &mut rest)?;
        }
        for raw_length in &mut kernel.raw_lengths {
            put(raw_length, "length of an input", &mut rest)?;
        }
        for raw_scale in &mut kernel.raw_scale {
            put(raw_scale, "output scale", &mut rest)?;
        }
        Ok(At { kernel, level: log[1].exp(), mean: log[0] })
    }

    /// The slope in u from those in mean, level and raw kernel parameters.
    pub(super) fn slope(&self, u: &[f64], at: &At, got: &Objective, bar: &KernelGradient) -> Vec<f64> {
        let by_log = |(&raw, &bar): (&f64, &f64)| bar / softplus_slope(raw) * softplus(raw);
        let kernel = &at.kernel;
        let mut slope = vec![got.dmean, got.dlevel * at.level];
        slope.extend(kernel.raw_shape.iter().zip(&bar.raw_shape).map(by_log));
        slope.extend(kernel.raw_lengths.iter().zip(&bar.raw_lengths).map(by_log));
        if self.scales {
            slope.extend(kernel.raw_scale.iter().zip(&bar.raw_scale).map(by_log));
        }
        slope.iter().zip(u).map(|(s, u)| s * (1.0 - (u / REACH).tanh().powi(2))).collect()
    }
}

/// The next logarithm, if there is one, as a raw parameter.
fn put<'a>(raw: &mut f64, what: &'static str, logs: &mut impl Iterator<Item = &'a f64>) -> Result<()> {
    if let Some(log) = logs.next() {
        *raw = inverse_softplus(what, log.exp())?;
    }
    Ok(())
}
