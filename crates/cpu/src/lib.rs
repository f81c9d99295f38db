//! Convolution blocks on plain `f32` slices: the hot path of training on a CPU.
//!
//! A [`Block`] is convolution 3x3 + batch-norm + ReLU + 2x2 max-pool in one piece, forward and backward; a [`Stack`] is a
//! row of them (Conv4, Conv6), and [`Conv`] a convolution alone. Results have the same bits at any number of threads of
//! the rayon pool they run in. Memory comes from a [`Workspace`] and returns to it, so a training loop allocates
//! nothing large after its first step.

mod batch;
mod bf16;
mod block;
mod buffer;
mod clock;
mod conv;
mod direct;
mod error;
mod filter;
mod frame;
mod gemm;
mod norm;
mod peak;
mod simd;
mod stack;
mod tangent;
mod winograd;

pub use batch::Batch;
pub use bf16::Precision;
pub use block::{Block, BlockGrads, BlockParams, BlockPass, BlockSaved, BlockSpec, EPSILON, RunningStats};
pub use buffer::{Buffer, Workspace};
pub use clock::{Seconds, time};
pub use conv::{Conv, ConvGrads, ConvSpec};
pub use error::Error;
pub use frame::Activations;
pub use peak::multiply_adds;
pub use simd::Isa;
pub use stack::{Stack, StackGrads, StackSaved};
pub use tangent::{TangentGrads, TangentNorm};
