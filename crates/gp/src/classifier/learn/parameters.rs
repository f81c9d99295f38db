//! Hyperparameters as one vector of free numbers, and back.

use super::super::{GpClassifier, Likelihood};
use crate::Result;
use crate::hyper::{Hyper, HyperGradient};
use crate::kernels::{Kernel, inverse_softplus, softplus, softplus_slope};

/// A parameter moves at most this far from its start (in log units, the mean in its own): `start + REACH tanh(u / REACH)`.
const REACH: f64 = 6.0;

/// Hyperparameters of the latent functions, and the noise of [`Likelihood::Gaussian`] (0 for the others).
#[derive(Debug, Clone)]
pub(in super::super) struct At {
    pub(in super::super) hyper: Hyper,
    pub(super) noise: f64,
}

/// The hyperparameters for free numbers u, all 0 at the start.
#[derive(Debug, Clone)]
pub(in super::super) struct Parameters {
    pub(super) start: At,
    /// The noise is learned and not the temperature.
    noisy: bool,
    /// The output scales are learned.
    scales: bool,
}

impl Parameters {
    pub(in super::super) fn new(settings: &GpClassifier, kernel: Kernel) -> Self {
        let noisy = settings.likelihood == Likelihood::Gaussian;
        let (tau, noise) = if noisy { (1.0, 0.1 * settings.tau * settings.tau) } else { (settings.tau, 0.0) };
        let scales = noisy || kernel.raw_scale.len() > 1;
        let hyper = Hyper { kernel, mean: settings.prior_mean, tau };
        Self { start: At { hyper, noise }, noisy, scales }
    }

    /// The same parameters, starting elsewhere.
    pub(super) fn moved(&self, start: At) -> Self {
        Self { start, ..*self }
    }

    /// Whether every class has shapes of its own.
    pub(super) fn shapes_per_class(&self) -> bool {
        let kernel = &self.start.hyper.kernel;
        kernel.raw_shape.len() > kernel.form.shapes().len()
    }

    /// Whether there is more to learn than temperature, mean and the shapes of the kernel.
    pub(super) fn has_more(&self) -> bool {
        self.scales || !self.start.hyper.kernel.raw_lengths.is_empty() || self.shapes_per_class()
    }

    /// All that is learned, in the order mean, log temperature or log noise, log shapes, log lengths, log scales.
    pub(super) fn values(&self) -> Vec<f64> {
        let At { hyper, noise } = &self.start;
        let kernel = &hyper.kernel;
        let level = if self.noisy { *noise } else { hyper.tau };
        let mut values = vec![hyper.mean, level.ln()];
        let scales = if self.scales { &kernel.raw_scale[..] } else { &[] };
        values.extend(logs(&kernel.raw_shape).chain(logs(&kernel.raw_lengths)).chain(logs(scales)));
        values
    }

    pub(super) fn at(&self, u: &[f64]) -> Result<At> {
        let values: Vec<f64> =
            self.values().iter().zip(u).map(|(s, u)| s + REACH * (u / REACH).tanh()).collect();
        let mut at = self.start.clone();
        at.hyper.mean = values[0];
        *(if self.noisy { &mut at.noise } else { &mut at.hyper.tau }) = values[1].exp();
        let mut rest = &values[2..];
        let kernel = &mut at.hyper.kernel;
        rest = put_logs(&mut kernel.raw_shape, "kernel shape", rest)?;
        rest = put_logs(&mut kernel.raw_lengths, "length of an input", rest)?;
        put_logs(&mut kernel.raw_scale, "output scale", rest)?;
        Ok(at)
    }

    /// The slope in u from those in the hyperparameters and in the noise.
    pub(super) fn slope(&self, u: &[f64], at: &At, bar: &HyperGradient, dnoise: f64) -> Vec<f64> {
        let by_log = |(&raw, &bar): (&f64, &f64)| bar / softplus_slope(raw) * softplus(raw);
        let (kernel, in_kernel) = (&at.hyper.kernel, &bar.kernel);
        let mut slope = vec![bar.mean, if self.noisy { dnoise * at.noise } else { bar.log_tau }];
        slope.extend(kernel.raw_shape.iter().zip(&in_kernel.raw_shape).map(by_log));
        slope.extend(kernel.raw_lengths.iter().zip(&in_kernel.raw_lengths).map(by_log));
        if self.scales {
            slope.extend(kernel.raw_scale.iter().zip(&in_kernel.raw_scale).map(by_log));
        }
        slope.iter().zip(u).map(|(s, u)| s * (1.0 - (u / REACH).tanh().powi(2))).collect()
    }
}

/// The logarithms of positive parameters that are kept raw.
pub(super) fn logs(raw: &[f64]) -> impl Iterator<Item = f64> {
    raw.iter().map(|&raw| softplus(raw).ln())
}

/// Sets raw parameters by their logarithms, as far as these go; what is left of the logarithms.
pub(super) fn put_logs<'a>(raw: &mut [f64], what: &'static str, logs: &'a [f64]) -> Result<&'a [f64]> {
    let count = raw.len().min(logs.len());
    for (raw, log) in raw.iter_mut().zip(logs) {
        *raw = inverse_softplus(what, log.exp())?;
    }
    Ok(&logs[count..])
}
