//! The learned numbers of the head as one vector, and back.

use crate::gp::deep_kernel::named_scales;
use siskin_gp::episode::{Hyper, HyperGradient};

/// Which numbers beside the kernel's are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// The prior mean a.
    pub mean: bool,
    /// The temperature, as log tau.
    pub tau: bool,
}

impl Learned {
    /// Raw output scales, the raw shape of kernels that have one, then the mean and log tau where they are learned.
    pub fn pack(self, hyper: &Hyper) -> Vec<f64> {
        self.list(hyper, &hyper.kernel.raw_scale, hyper.kernel.raw_shape, hyper.mean, hyper.tau.ln())
    }

    /// The gradient in the same order.
    pub fn pack_gradient(self, hyper: &Hyper, gradient: &HyperGradient) -> Vec<f64> {
        let kernel = &gradient.kernel;
        self.list(hyper, &kernel.raw_scale, kernel.raw_shape, gradient.mean, gradient.log_tau)
    }

    fn list(self, hyper: &Hyper, raw_scale: &[f64], raw_shape: f64, mean: f64, log_tau: f64) -> Vec<f64> {
        let mut x = raw_scale.to_vec();
        x.extend(hyper.kernel.has_shape().then_some(raw_shape));
        x.extend(self.mean.then_some(mean));
        x.extend(self.tau.then_some(log_tau));
        x
    }

    /// Puts a packed vector back into `hyper`.
    pub fn unpack(self, hyper: &mut Hyper, x: &[f64]) {
        let scales = hyper.kernel.raw_scale.len();
        hyper.kernel.raw_scale.copy_from_slice(&x[..scales]);
        let mut rest = x[scales..].iter().copied();
        if hyper.kernel.has_shape() {
            hyper.kernel.raw_shape = rest.next().unwrap_or(hyper.kernel.raw_shape);
        }
        if self.mean {
            hyper.mean = rest.next().unwrap_or(hyper.mean);
        }
        if self.tau {
            hyper.tau = rest.next().map_or(hyper.tau, f64::exp);
        }
    }

    /// The learned numbers by name, as people read them.
    pub fn named(self, hyper: &Hyper) -> Vec<(String, f64)> {
        let mut all = named_scales(&hyper.kernel);
        all.extend(hyper.kernel.has_shape().then(|| ("kernel_shape".into(), hyper.kernel.shape())));
        all.extend(self.mean.then(|| ("prior_mean".into(), hyper.mean)));
        all.extend(self.tau.then(|| ("tau".into(), hyper.tau)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_gp::kernels::{Kernel, KernelKind};

    #[test]
    fn packed_and_unpacked_is_the_same() {
        for kind in [KernelKind::Cosine, KernelKind::Rbf] {
            for (mean, tau) in [(false, false), (true, true), (false, true)] {
                let learned = Learned { mean, tau };
                let start = Hyper { kernel: Kernel::new(kind).scale_per_class(3), mean: -1.0, tau: 0.2 };
                let x: Vec<f64> = (0..learned.pack(&start).len()).map(|i| 0.1 * i as f64 - 0.3).collect();
                let mut hyper = start.clone();
                learned.unpack(&mut hyper, &x);
                let again = learned.pack(&hyper);
                assert!(again.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-15), "{again:?} {x:?}");
                assert_eq!(hyper.mean == start.mean, !mean);
                assert_eq!(hyper.tau == start.tau, !tau);
            }
        }
    }
}
