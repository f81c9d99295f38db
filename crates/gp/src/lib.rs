//! Gaussian-process classification with the logistic-softmax likelihood, in f64, on the host.
//!
//! The likelihood is `p(y = k | f) = sigma(f_k/tau) / sum_c sigma(f_c/tau)` with a Gaussian process on each `f_c`. This crate infers
//! the latent functions of one task, predicts class probabilities that can be trusted, and gives bounds on the evidence with
//! their gradients, so that kernels can be learned. It knows no images and no neural network.
//!
//! ```
//! use siskin_gp::Task;
//! use siskin_gp::faer::{Mat, mat};
//! use siskin_gp::inference::{Order, Start, Stop, infer};
//! use siskin_gp::kernels::{Kernel, KernelKind};
//! use siskin_gp::predict::Posterior;
//! use siskin_gp::quadrature::Precision;
//!
//! # fn main() -> siskin_gp::Result<()> {
//! let kernel = Kernel::new(KernelKind::Rbf).with_scale(4.0)?;
//! let known = kernel.features(mat![[0.0, 0.1], [0.2, 0.0], [3.0, 3.1], [2.9, 3.0]].as_ref())?;
//! let task = Task::new(kernel.scaled(&kernel.within(&known), 2), vec![0, 0, 1, 1], Mat::zeros(4, 2), 0.5)?;
//! let fit = infer(&task, Order::Joint, &Start::Prior, Stop::Tolerance { tol: 1e-8, max_steps: 500 })?;
//! assert!(fit.converged);
//! let new = kernel.features(mat![[0.1, 0.1], [40.0, -40.0]].as_ref())?;
//! let (cross, own) = (kernel.scaled(&kernel.between(&known, &new)?, 2), Mat::from_fn(2, 2, |_, _| 4.0));
//! let latent = Posterior::new(fit.blocks().iter().cloned(), 0.5)?.latent(&cross, &own, &Mat::zeros(2, 2))?;
//! let p = latent.probs(Precision::Standard)?;
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
//! | What are the latent functions, given labels? | [`inference`], [`gibbs`] |
//! | What is a new point? | [`predict`], [`quadrature`] |
//! | How good are kernel, prior mean and temperature? | [`objective`] |
//! | What do other models say? | [`exact`], [`ove`], [`laplace`] |

pub mod classifier;
mod conditional;
pub mod episode;
mod error;
pub mod exact;
pub mod gauss;
pub mod gibbs;
pub mod inference;
pub mod kernels;
pub mod laplace;
pub mod likelihoods;
pub mod linalg;
pub mod objective;
pub mod ove;
mod parallel;
pub mod polya_gamma;
pub mod predict;
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

/// The matrices of this crate's interface.
pub use faer;

pub use error::{Error, Result};
pub use query::{Query, QueryGradient};
pub use task::{Gradient, Standard, Task};
