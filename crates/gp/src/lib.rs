//! Gaussian-process classification with the logistic-softmax likelihood, in f64, on the host.
//!
//! The likelihood is `p(y = k | f) = sigma(f_k/tau) / sum_c sigma(f_c/tau)` with a Gaussian process on each `f_c`. This crate infers
//! the latent functions of one task, predicts class probabilities that can be trusted, and gives bounds on the evidence with
//! their gradients, so that kernels can be learned. It knows no images and no neural network.
//!
//! ```
//! use siskin_gp::episode::{Hyper, adapt};
//! use siskin_gp::faer::mat;
//! use siskin_gp::inference::{Inference, natural::NaturalOptions};
//! use siskin_gp::kernels::{Kernel, Rbf};
//! use siskin_gp::quadrature::Precision;
//!
//! # fn main() -> siskin_gp::Result<()> {
//! let hyper = Hyper { kernel: Kernel::new(Rbf).with_scale(4.0)?, mean: 0.0, tau: 0.5 };
//! let known = mat![[0.0, 0.1], [0.2, 0.0], [3.0, 3.1], [2.9, 3.0]];
//! let inference = Inference::Natural(NaturalOptions::default());
//! let adapted = adapt(known.as_ref(), &[0, 0, 1, 1], 2, &hyper, &inference)?;
//! assert!(adapted.posterior().converged);
//! let p = adapted.probs(mat![[0.1, 0.1], [40.0, -40.0]].as_ref(), Precision::Standard)?;
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
//! | What does a task consist of? | [`Task`], [`kernels`], [`likelihoods`] |
//! | What are the latent functions, given labels? | [`inference`]: each a way from a task to a [`posterior::Posterior`] |
//! | What is a new point? | [`Query`], [`posterior`], [`quadrature`] |
//! | How good are kernel, prior mean and temperature? | [`objective`] |
//! | From features to a posterior or a gradient | [`episode`] |
//! | From vectors to a classifier, hyperparameters learned | [`classifier`] |

#![warn(clippy::too_many_arguments, clippy::too_many_lines)]

pub mod classifier;
pub mod episode;
mod error;
pub mod gaussian;
pub mod inference;
pub mod kernels;
pub mod likelihoods;
pub mod objective;
mod parallel;
pub mod polya_gamma;
pub mod posterior;
pub mod quadrature;
mod query;
#[cfg(test)]
mod renaming;
pub mod special;
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
pub use query::{Labelled, Query, QueryGradient};
pub use task::{Gradient, Standard, Task};
