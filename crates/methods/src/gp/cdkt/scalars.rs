//! The learned numbers of the head as one vector, and back.

use crate::gp::deep_kernel::named_scales;
use serde::{Deserialize, Serialize};
use siskin_gp::kernels::{Kernel, inverse_softplus, softplus_slope};
use siskin_gp::{Hyper, HyperGradient};

/// In which numbers the scalars are learned. It decides how far one step of the optimiser takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parametrisation {
    /// Output scale and kernel shape by softplus, the prior mean as it is, log tau: as the published codes.
    #[default]
    Softplus,
    /// Logarithms of output scale, kernel shape and tau; the prior mean in units of the prior deviation sqrt(s). A step moves
    /// large and small values by the same share.
    Log,
}

/// Which numbers beside the kernel's are learned, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Learned {
    /// The prior mean a.
    pub mean: bool,
    /// The temperature, as log tau.
    pub tau: bool,
    /// In which numbers.
    pub by: Parametrisation,
}

/// Limits that no scalar passes: (name, least, largest).
type Limits = (&'static str, f64, f64);
const SCALE: Limits = ("output_scale", 1e-3, 1e4);
/// Features have length 1, so that distances are at most 2: shorter lengths make the kernel matrix the identity.
const LENGTH: Limits = ("kernel_shape", 0.1, 20.0);
const SHAPE: Limits = ("kernel_shape", 1e-4, 1e4);
const MEAN: Limits = ("prior_mean", -1e3, 1e3);
/// The mean in prior deviations.
const RELATIVE_MEAN: Limits = ("prior_mean", -50.0, 50.0);
const TAU: Limits = ("tau", 1e-3, 1e2);

impl Learned {
    /// Output scales, the shapes of the kernel, then the mean and log tau where they are learned.
    pub(super) fn pack(self, hyper: &Hyper) -> Vec<f64> {
        let Hyper { kernel, mean, tau } = hyper;
        match self.by {
            Parametrisation::Softplus => self.list(&kernel.raw_scale, &kernel.raw_shape, *mean, tau.ln()),
            Parametrisation::Log => {
                let scales: Vec<f64> = scales(kernel).iter().map(|s| s.ln()).collect();
                let shapes: Vec<f64> = kernel.shapes().iter().map(|s| s.ln()).collect();
                self.list(&scales, &shapes, mean / kernel.scale(0).sqrt(), tau.ln())
            }
        }
    }

    /// The gradient in the same order. With s = e^u, a = m sqrt(s_0): d/du_c = s_c d/ds_c, to which the first scale adds
    /// a/2 d/da where the mean is learned; d/dm = sqrt(s_0) d/da.
    pub(super) fn pack_gradient(self, hyper: &Hyper, gradient: &HyperGradient) -> Vec<f64> {
        let (kernel, to) = (&hyper.kernel, &gradient.kernel);
        if self.by == Parametrisation::Softplus {
            return self.list(&to.raw_scale, &to.raw_shape, gradient.mean, gradient.log_tau);
        }
        // d/dlog v = v d/dv = v / softplus'(raw) d/draw.
        let log = |value: f64, raw: f64, draw: f64| value / softplus_slope(raw) * draw;
        let of_scale = |(c, raw): (usize, &f64)| log(kernel.scale(c), *raw, to.raw_scale[c]);
        let mut scales: Vec<f64> = kernel.raw_scale.iter().enumerate().map(of_scale).collect();
        if self.mean {
            scales[0] += 0.5 * hyper.mean * gradient.mean;
        }
        let raw = kernel.raw_shape.iter().zip(&to.raw_shape);
        let shapes: Vec<f64> =
            kernel.shapes().iter().zip(raw).map(|(&s, (&raw, &to))| log(s, raw, to)).collect();
        self.list(&scales, &shapes, kernel.scale(0).sqrt() * gradient.mean, gradient.log_tau)
    }

    fn list(self, scale: &[f64], shape: &[f64], mean: f64, log_tau: f64) -> Vec<f64> {
        let mut x = scale.to_vec();
        x.extend(shape);
        x.extend(self.mean.then_some(mean));
        x.extend(self.tau.then_some(log_tau));
        x
    }

    /// Puts a packed vector back into `hyper`.
    pub(super) fn unpack(self, hyper: &mut Hyper, x: &[f64]) {
        let scales = hyper.kernel.raw_scale.len();
        let raw = |x: f64| match self.by {
            Parametrisation::Softplus => x,
            Parametrisation::Log => raw_of(x.exp()),
        };
        hyper.kernel.raw_scale.iter_mut().zip(x).for_each(|(old, new)| *old = raw(*new));
        let mut rest = x[scales..].iter().copied();
        for shape in &mut hyper.kernel.raw_shape {
            *shape = rest.next().map_or(*shape, raw);
        }
        if self.mean {
            let unit = match self.by {
                Parametrisation::Softplus => 1.0,
                Parametrisation::Log => hyper.kernel.scale(0).sqrt(),
            };
            hyper.mean = rest.next().map_or(hyper.mean, |mean| mean * unit);
        }
        if self.tau {
            hyper.tau = rest.next().map_or(hyper.tau, f64::exp);
        }
    }

    /// Least and largest value of each packed number, with its name.
    pub(super) fn bounds(self, hyper: &Hyper) -> Vec<Limits> {
        let stationary = hyper.kernel.form.is_stationary();
        let positive = |(name, low, high): Limits| match self.by {
            Parametrisation::Softplus => (name, raw_of(low), raw_of(high)),
            Parametrisation::Log => (name, low.ln(), high.ln()),
        };
        let mean = match self.by {
            Parametrisation::Softplus => MEAN,
            Parametrisation::Log => RELATIVE_MEAN,
        };
        let mut all = vec![positive(SCALE); hyper.kernel.raw_scale.len()];
        let of_shape = |i: usize| positive(if stationary && i == 0 { LENGTH } else { SHAPE });
        all.extend((0..hyper.kernel.raw_shape.len()).map(of_shape));
        all.extend(self.mean.then_some(mean));
        all.extend(self.tau.then_some((TAU.0, TAU.1.ln(), TAU.2.ln())));
        all
    }

    /// The learned numbers by name, as people read them.
    pub(super) fn named(self, hyper: &Hyper) -> Vec<(String, f64)> {
        let mut all = named_scales(&hyper.kernel);
        match hyper.kernel.shapes()[..] {
            [one] => all.push(("kernel_shape".into(), one)),
            ref many => all.extend(many.iter().enumerate().map(|(i, x)| (format!("kernel_shape_{i}"), *x))),
        }
        all.extend(self.mean.then(|| ("prior_mean".into(), hyper.mean)));
        all.extend(self.tau.then(|| ("tau".into(), hyper.tau)));
        all
    }
}

fn scales(kernel: &Kernel) -> Vec<f64> {
    (0..kernel.raw_scale.len()).map(|c| kernel.scale(c)).collect()
}

/// The number before softplus; what softplus cannot reach (0, infinity) shows as a loss that is not finite.
fn raw_of(value: f64) -> f64 {
    inverse_softplus("scalar", value).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<(Learned, Hyper)> {
        let mut cases = Vec::new();
        for name in ["cosine", "rbf", "rational-quadratic"] {
            for (mean, tau) in [(false, false), (true, true), (false, true)] {
                for by in [Parametrisation::Softplus, Parametrisation::Log] {
                    let form = siskin_gp::kernels::AnyForm::named(name).unwrap();
                    let kernel = Kernel::new(form).scale_per_class(3);
                    cases.push((Learned { mean, tau, by }, Hyper { kernel, mean: -1.0, tau: 0.2 }));
                }
            }
        }
        cases
    }

    #[test]
    fn packed_and_unpacked_is_the_same() {
        for (learned, start) in cases() {
            let x: Vec<f64> = (0..learned.pack(&start).len()).map(|i| 0.1 * i as f64 - 0.3).collect();
            let mut hyper = start.clone();
            learned.unpack(&mut hyper, &x);
            let again = learned.pack(&hyper);
            assert!(again.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-14), "{again:?} {x:?}");
            assert_eq!(hyper.mean == start.mean, !learned.mean);
            assert_eq!(hyper.tau == start.tau, !learned.tau);
        }
    }

    /// A smooth function of all numbers, and its gradient as the objectives give it.
    fn value(hyper: &Hyper) -> (f64, HyperGradient) {
        let kernel = &hyper.kernel;
        let weights = [0.3, -0.7, 1.1];
        let scales = scales(kernel);
        let value = scales.iter().zip(weights).map(|(s, w)| w * s * s).sum::<f64>()
            + 0.4 * kernel.shapes().iter().map(|shape| shape.powi(3)).sum::<f64>()
            + (0.5 * hyper.mean).sin() * hyper.tau;
        let raw = |c: usize| 2.0 * weights[c] * scales[c] * softplus_slope(kernel.raw_scale[c]);
        let kernel_gradient = siskin_gp::kernels::KernelGradient {
            raw_scale: (0..scales.len()).map(raw).collect(),
            raw_shape: (kernel.shapes().iter().zip(&kernel.raw_shape))
                .map(|(shape, raw)| 1.2 * shape.powi(2) * softplus_slope(*raw))
                .collect(),
            raw_lengths: Vec::new(),
        };
        let mean = 0.5 * (0.5 * hyper.mean).cos() * hyper.tau;
        let log_tau = (0.5 * hyper.mean).sin() * hyper.tau;
        (value, HyperGradient { kernel: kernel_gradient, mean, means: vec![mean], log_tau })
    }

    #[test]
    fn the_gradient_is_that_of_the_packed_numbers() {
        for (learned, start) in cases() {
            let x = learned.pack(&start);
            let found = learned.pack_gradient(&start, &value(&start).1);
            for i in 0..x.len() {
                let at = |h: f64| {
                    let (mut moved, mut hyper) = (x.clone(), start.clone());
                    moved[i] += h;
                    learned.unpack(&mut hyper, &moved);
                    value(&hyper).0
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((slope - found[i]).abs() < 1e-8, "{learned:?} {i}: {slope} {}", found[i]);
            }
        }
    }

    #[test]
    fn bounds_hold_what_training_starts_from() {
        for (learned, start) in cases() {
            let bounds = learned.bounds(&start);
            let x = learned.pack(&start);
            assert_eq!(bounds.len(), x.len());
            assert!(x.iter().zip(&bounds).all(|(x, (_, low, high))| low < x && x < high), "{x:?} {bounds:?}");
        }
    }
}
