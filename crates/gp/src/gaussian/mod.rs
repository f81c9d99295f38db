//! A Gaussian with sites: `q(x) ~ N(x | a, K) exp(b'x - x'Wx/2)`, one home for all inferences.
//!
//! | file | what |
//! | --- | --- |
//! | `sites` | precisions `w` and linear terms `b` of all points and classes |
//! | `factor` | `B = I + W^1/2 K W^1/2` factored: solves, weights, draws |
//! | `block` | moments and their adjoint, every digit, for `w >= 0` |
//! | `signed` | the block's twin for `w` of either sign |
//! | `low_rank` | marginals alone, from a factor of a kernel matrix of low rank |
//! | `extrapolate` | Anderson's extrapolation of sites |

mod block;
mod extrapolate;
mod factor;
pub(crate) mod linalg;
mod low_rank;
mod signed;
mod sites;

pub use block::{Block, BlockAdjoint, Digits};
pub(crate) use extrapolate::{History, squared_move};
pub(crate) use factor::Factor;
pub(crate) use low_rank::{Moments, Root};
pub use signed::SignedBlock;
pub use sites::Sites;
