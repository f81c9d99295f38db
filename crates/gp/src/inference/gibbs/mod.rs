//! Gibbs sampling of the latent functions with Pólya-Gamma augmentation, and what is estimated from the samples.
//!
//! Given the auxiliary variables of a sweep the latent functions are Gaussian with sites `(b, w)`: a density
//! proportional to `N(x | a, K) exp(b'x - x' W x / 2)`. Two samplers produce such sites:
//! [`logistic_softmax`] (class by class) and [`one_vs_each`] (in the differences `psi = A x`).
//!
//! From the sites of each chain's last sweep:
//! * **marginal likelihood**, `marginal_likelihood`: by Fisher's identity
//!   `d log p(Y) / dK = E [ d log p(Y, sites) / dK ]` over the posterior of the auxiliary variables. The samples are constants
//!   for the gradient; it is unbiased for chains at their stationary law and carries the bias of the start otherwise
//!   (a single sweep from the prior, the usual training setting, is such a case).
//! * **predictive likelihood**, `predictive_likelihood`: cross-entropy of the queries under the samplers' score; the
//!   gradient goes through the Gaussian prediction only, again with the samples as constants.
//! * **prediction**: the score, and for logistic-softmax the class probabilities `E p(y | x)`.
//!
//! Chain i draws from its own stream `(seed, "gibbs", i)`: results do not depend on how many chains run or in what order.

mod logistic_softmax;
mod one_vs_each;
mod prior;
mod released;
mod samples;
mod score;
#[cfg(test)]
mod testing;

pub use logistic_softmax::LogisticSoftmaxGibbs;
pub use one_vs_each::OneVsEachGibbs;
pub(crate) use prior::root;
pub use released::hermite_rule;
pub(crate) use samples::Samples;
pub use samples::{GibbsSampler, SampledLikelihood};

use crate::{Error, Result};

/// How many chains, how long, from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chains {
    /// Independent chains, at least 1.
    pub chains: usize,
    /// Sweeps of each chain, at least 1; the sites of the last one are kept.
    pub sweeps: usize,
    /// Seed of the streams.
    pub seed: u64,
}

impl Chains {
    fn check(&self) -> Result<()> {
        for (what, value) in [("chains", self.chains), ("sweeps", self.sweeps)] {
            if value == 0 {
                return Err(Error::OutOfRange { what, value: 0.0, must: "at least 1" });
            }
        }
        Ok(())
    }
}
