//! Gaussian-process classification with the logistic-softmax likelihood, in f64, on the host.
//!
//! The likelihood is `p(y = k | f) = sigma(f_k/tau) / sum_c sigma(f_c/tau)` with a Gaussian process on each `f_c`. This crate infers
//! the latent functions of one task, predicts class probabilities that can be trusted, and gives bounds on the evidence with
//! their gradients, so that kernels can be learned. It knows no images and no neural network.
//!
//! ```
//! use siskin_gp::faer::mat;
//! use siskin_gp::inference::{Inference, NaturalOptions};
//! use siskin_gp::kernels::{Kernel, Rbf};
//! use siskin_gp::{Hyper, Resolution, Support};
//!
//! # fn main() -> siskin_gp::Result<()> {
//! let hyper = Hyper { kernel: Kernel::new(Rbf).with_scale(4.0)?, mean: 0.0, tau: 0.5 };
//! let known = mat![[0.0, 0.1], [0.2, 0.0], [3.0, 3.1], [2.9, 3.0]];
//! let support = Support::new(known.as_ref(), &[0, 0, 1, 1], hyper.prior(2))?;
//! let posterior = Inference::Natural(NaturalOptions::default()).posterior(&support.task()?)?;
//! assert!(posterior.converged);
//! let query = support.query(mat![[0.1, 0.1], [40.0, -40.0]].as_ref())?;
//! let p = posterior.probs(&query, Resolution::Standard)?;
//! assert!(p[(0, 0)] > 0.7); // near the first class
//! assert!((p[(1, 0)] - 0.5).abs() < 1e-6); // far from everything: I don't know
//! # Ok(())
//! # }
//! ```
//!
//! Equation numbers are those the labels of the paper's source carry; `docs/equations.md` lists them all with their functions.
//!
//! | question | module |
//! | --- | --- |
//! | What does a task consist of? | [`Task`], from features [`Support`]; [`kernels`], [`likelihoods`] |
//! | What are the latent functions, given labels? | [`inference`]: each a way from a task to a [`posterior::Posterior`] |
//! | What is a new point? | [`Query`], [`posterior`] |
//! | How good are kernel, prior mean and temperature? | [`objective`] |
//! | What do the others say of a labelled point? | [`left_out`] |
//! | Which points to label next, and when to stop? | [`active`], [`stopping`] |
//! | From vectors to a classifier, hyperparameters learned | [`classifier`] |
//! | Does one equation have the right value? | [`equations`] |

pub mod active;
pub mod classifier;
pub mod equations;
mod error;
mod gaussian;
mod hyper;
pub mod inference;
pub mod kernels;
pub mod left_out;
pub mod likelihoods;
pub mod objective;
mod parallel;
mod polya_gamma;
pub mod posterior;
mod quadrature;
mod query;
#[cfg(test)]
mod renaming;
mod special;
pub mod stopping;
mod support;
mod task;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod twin;

pub(crate) use gaussian::linalg;

/// The matrices of this crate's interface.
pub use faer;

pub use error::{Error, Result};
pub use gaussian::linalg::keep_freed_memory;
pub use gaussian::{Digits, Sites};
pub use hyper::{Hyper, HyperGradient, Prior};
pub use quadrature::Resolution;
pub use query::{Labelled, Query, QueryGradient};
pub use support::Support;
pub use task::{Gradient, Standard, Task};
